"""How a Job stands, in a sentence: from the Job and its pods as the API server tells them. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Json = Mapping[str, Any]

RUNNER, KEEPER = "esipp", "report"
"""The Job's containers: the first runs, the second, which is ready, keeps the report."""


class JobStage(StrEnum):
    """``waiting``: not there yet, and it may come. ``ready``: to be fetched. ``over``: there will be none."""

    WAITING = "waiting"
    READY = "ready"
    OVER = "over"


@dataclass(frozen=True)
class State:
    """A Job's stage; what is to be said of it, as a sentence; its pod; the exit code, if that has ended."""

    stage: JobStage
    sentence: str
    pod: str = ""
    exit_code: int | None = None


def state_of(name: str, job: Json | None, pods: Sequence[Json]) -> State:
    """How the Job stands.

    Args:
        name: of the Job.
        job: as the API server has it, None where it has none of that name.
        pods: those that belong to it.
    """
    if job is None:
        return State(JobStage.OVER, f"There is no Job '{name}'.")
    if not pods:
        for condition in (job.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Failed" and condition.get("status") == "True":
                why = str(condition.get("message") or condition.get("reason") or "without a reason").rstrip(".")
                return State(JobStage.OVER, f"The Job '{name}' has failed and has no pod any more: {why}.")
        if (job.get("spec") or {}).get("suspend"):
            return State(JobStage.WAITING, f"The Job '{name}' is suspended.")
        return State(JobStage.WAITING, f"The Job '{name}' has no pod yet.")
    newest = max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
    return _of_pod(name, newest)


def _of_pod(name: str, pod: Json) -> State:
    """How the Job stands, by its pod."""
    status, own = pod.get("status") or {}, str(pod["metadata"]["name"])
    runner, keeper = (
        _container(status, "initContainerStatuses", RUNNER),
        _container(status, "containerStatuses", KEEPER),
    )
    state = runner.get("state") or {}
    ran, kept = state.get("terminated"), (keeper.get("state") or {}).get("terminated")
    if kept:
        return _ended(own, kept, "and its report is gone with it")
    if ran and ran.get("exitCode") != 0:
        return _ended(own, ran, "and there is no report")
    if status.get("phase") in ("Failed", "Succeeded"):  # evicted, say
        why = str(status.get("message") or status.get("reason") or status["phase"]).rstrip(".")
        return State(JobStage.OVER, f"The pod {own} has ended without a report: {why}.", own)
    if pod["metadata"].get("deletionTimestamp"):
        return State(JobStage.OVER, f"The pod {own} is being deleted.", own)
    if keeper.get("ready"):
        return State(JobStage.READY, f"The report of the Job '{name}' is ready.", own)
    if running := state.get("running"):
        return State(
            JobStage.WAITING, f"The Job '{name}' is still running, since {running.get('startedAt', 'unknown')}.", own
        )
    if ran:
        why = _why_not(status, keeper.get("state") or {})
        return State(
            JobStage.WAITING, f"The run of the Job '{name}' is over, and its report is not ready yet: {why}.", own
        )
    return State(JobStage.WAITING, f"The pod {own} has not started: {_why_not(status, state)}.", own)


def _container(status: Json, kind: str, name: str) -> Json:
    """The status of a container; an empty one where there is none yet."""
    found: Json = next((each for each in status.get(kind) or () if each.get("name") == name), {})
    return found


def _ended(pod: str, terminated: Json, left: str) -> State:
    """A container of the pod has ended, and nothing more will come."""
    code = int(terminated.get("exitCode", -1))
    reason = str(terminated.get("reason") or "")
    why = f" ({reason})" if reason not in ("", "Completed", "Error") else ""
    return State(JobStage.OVER, f"The pod {pod} has ended with exit code {code}{why}, {left}.", pod, code)


def _why_not(status: Json, state: Json) -> str:
    """Why a container waits, in the kubelet's or the scheduler's words."""
    if waiting := state.get("waiting"):
        told = [str(waiting[key]) for key in ("reason", "message") if waiting.get(key)]
        return ": ".join(told).rstrip(".") or "nobody says why"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return str(condition.get("message") or condition.get("reason") or "no node for it yet").rstrip(".")
    return str(status.get("phase") or "nobody says why")
