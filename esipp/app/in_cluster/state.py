"""The state of a Job, from the Job object and its pods. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Json = Mapping[str, Any]

RUNNER, KEEPER = "esipp", "report"
"""The Job's containers: the first runs esipp, the second keeps the report."""


class JobState(StrEnum):
    """The stage of the report: ``waiting`` (it may come), ``ready`` (to fetch), ``over`` (there will be none)."""

    WAITING = "waiting"
    READY = "ready"
    OVER = "over"


@dataclass(frozen=True)
class State:
    """A Job's stage, a sentence about it, its pod, and the exit code if the pod has ended."""

    state: JobState
    sentence: str
    pod: str = ""
    exit_code: int | None = None


def state_of(name: str, job: Json | None, pods: Sequence[Json]) -> State:
    """The state of a Job.

    Args:
        name: name of the Job.
        job: the Job object; None if there is none of that name.
        pods: pods of the Job.
    """
    if job is None:
        return State(JobState.OVER, f"There is no Job '{name}'.")
    if not pods:
        for condition in (job.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Failed" and condition.get("status") == "True":
                why = str(condition.get("message") or condition.get("reason") or "without a reason").rstrip(".")
                return State(JobState.OVER, f"The Job '{name}' has failed and no longer has a pod: {why}.")
        if (job.get("spec") or {}).get("suspend"):
            return State(JobState.WAITING, f"The Job '{name}' is suspended.")
        return State(JobState.WAITING, f"The Job '{name}' has no pod yet.")
    newest = max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
    return _of_pod(name, newest)


def _of_pod(name: str, pod: Json) -> State:
    """The state of a Job according to its pod."""
    status, own = pod.get("status") or {}, str(pod["metadata"]["name"])
    runner, keeper = (
        _container(status, "initContainerStatuses", RUNNER),
        _container(status, "containerStatuses", KEEPER),
    )
    state = runner.get("state") or {}
    ran, ended = state.get("terminated"), (keeper.get("state") or {}).get("terminated")
    if ended:
        return _ended(own, ended, "and its report is gone")
    if ran and ran.get("exitCode") != 0:
        return _ended(own, ran, "and there is no report")
    if status.get("phase") in ("Failed", "Succeeded"):  # evicted, say
        why = str(status.get("message") or status.get("reason") or status["phase"]).rstrip(".")
        return State(JobState.OVER, f"The pod {own} has ended without a report: {why}.", own)
    if pod["metadata"].get("deletionTimestamp"):
        return State(JobState.OVER, f"The pod {own} is being deleted.", own)
    if keeper.get("ready"):
        return State(JobState.READY, f"The report of the Job '{name}' is ready.", own)
    if running := state.get("running"):
        return State(
            JobState.WAITING, f"The Job '{name}' is still running, since {running.get('startedAt', 'unknown')}.", own
        )
    if ran:
        why = _why_not(status, keeper.get("state") or {})
        return State(
            JobState.WAITING, f"The run of the Job '{name}' has ended, but its report is not ready yet: {why}.", own
        )
    return State(JobState.WAITING, f"The pod {own} has not started: {_why_not(status, state)}.", own)


def _container(status: Json, kind: str, name: str) -> Json:
    """The status of a container; empty if there is none yet."""
    found: Json = next((each for each in status.get(kind) or () if each.get("name") == name), {})
    return found


def _ended(pod: str, terminated: Json, left: str) -> State:
    """The state of a Job when a container of its pod has ended."""
    code = int(terminated.get("exitCode", -1))
    reason = str(terminated.get("reason") or "")
    why = f" ({reason})" if reason not in ("", "Completed", "Error") else ""
    return State(JobState.OVER, f"The pod {pod} has ended with exit code {code}{why}, {left}.", pod, code)


def _why_not(status: Json, state: Json) -> str:
    """Why a container waits, as the kubelet or the scheduler reports it."""
    if waiting := state.get("waiting"):
        reported = [str(waiting[key]) for key in ("reason", "message") if waiting.get(key)]
        return ": ".join(reported).rstrip(".") or "no reason reported"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return str(condition.get("message") or condition.get("reason") or "no node for it yet").rstrip(".")
    return str(status.get("phase") or "no reason reported")
