"""What became of our own pods while a window was open."""

from typing import Any

import pytest

from esipp.pods import changed, identity


def a_pod(**since: str) -> dict[str, Any]:
    conditions = [{"type": name, "status": "True", "lastTransitionTime": at} for name, at in since.items()]
    return {
        "metadata": {"name": "echo", "uid": "1"},
        "spec": {},
        "status": {"phase": "Running", "conditions": conditions, "containerStatuses": [{"restartCount": 0}]},
    }


@pytest.mark.parametrize("lost", ["ContainersReady", "Ready"])
def test_a_pod_that_was_not_ready_for_a_while_is_told_also_where_only_its_node_was_lost(lost: str) -> None:
    before = {"ContainersReady": "10:00", "Ready": "10:00", "PodScheduled": "10:00"}
    known = identity(a_pod(**before))
    assert changed(a_pod(**before), known) == ""
    assert changed(a_pod(**{**before, "PodScheduled": "10:05"}), known) == ""
    assert changed(a_pod(**{**before, lost: "10:05"}), known) == "was not ready for a while"
