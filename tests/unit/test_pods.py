"""What the status of one of our own pods tells of what became of it."""

from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.cluster.pods import changed, harm, identity, is_ready


def pod(*, uid: str = "1", restarts: int = 0, ready: bool = True, since: str = "t0", **status: Any) -> Json:
    conditions = [{"type": name, "status": str(ready), "lastTransitionTime": since, "reason": "" if ready else "Why"}
                  for name in ("Ready", "ContainersReady")]  # fmt: skip
    conditions += status.pop("also", [])
    container = {"restartCount": restarts, **status.pop("container", {})}
    return {
        "metadata": {"uid": uid, "name": "backend", **status.pop("metadata", {})},
        "spec": {},
        "status": {"conditions": conditions, "containerStatuses": [container], **status},
    }


KNOWN = identity(pod())
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "by API"}
KILLED = {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (pod(), ""),
        (pod(metadata={"deletionTimestamp": "t1"}), "is being deleted"),
        (pod(metadata={"deletionTimestamp": "t1"}, also=[EVICTED]), "is being evicted (by API)"),
        (pod(phase="Failed", reason="Evicted", message="low on memory"), "failed (Evicted; low on memory)"),
        (pod(uid="2"), "was replaced"),
        (pod(restarts=1, container=KILLED), "restarted (OOMKilled, exit code 137)"),
        (pod(restarts=1), "restarted"),
        (pod(ready=False), "is no longer ready (Ready: Why; ContainersReady: Why)"),
        (
            pod(since="t1"),
            "was temporarily not ready (now ContainersReady since t1, Ready since t1; "
            "at set-up ContainersReady since t0, Ready since t0)",
        ),
    ],
)
def test_what_became_of_a_pod(now: Json, expected: str) -> None:
    assert changed(now, KNOWN) == expected


@pytest.mark.parametrize(("lost", "expected"), [("Ready", "was temporarily not ready"), ("PodScheduled", "")])
def test_a_pod_whose_node_was_lost_for_a_while_is_reported_although_its_containers_ran_on(
    lost: str, expected: str
) -> None:
    now = pod(also=[{"type": "PodScheduled", "status": "True", "lastTransitionTime": "t0"}])
    known = identity(now)
    for condition in now["status"]["conditions"]:
        if condition["type"] == lost:
            condition["lastTransitionTime"] = "t1"
    assert changed(now, known).partition(" (")[0] == expected


def test_a_program_that_ends_at_once_is_reported_as_it_ended() -> None:
    looping = {"image": "a/b:c", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}}
    with pytest.raises(HarnessError) as raised:
        is_ready(pod(ready=False, container=looping | KILLED))
    assert raised.value.sentence == "Pod backend cannot start (CrashLoopBackOff): OOMKilled, exit code 137."
    assert "a/b:c" in raised.value.hint
    with pytest.raises(HarnessError, match="back-off 10s"):
        is_ready(pod(ready=False, container=looping))


def test_pods_that_come_and_go_are_not_harmed_by_that_but_by_others() -> None:
    ends = pod(metadata={"deletionTimestamp": "t1"}, phase="Failed", ready=False)
    assert harm(ends) == harm(pod(uid="2", since="t1")) == ""
    evicted = pod(also=[EVICTED])
    assert harm(evicted) == "is being evicted (by API)"
    assert harm(evicted, evictable=True) == ""
    assert harm(pod(restarts=2), restarts=2) == ""
