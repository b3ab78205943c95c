"""Our own pods, held against what they were when the stage was set."""

from typing import Any, cast

import pytest

from esipp.cluster import Cluster
from esipp.errors import HarnessError
from esipp.intact import compare
from esipp.pods import identity
from tests.unit.test_pods import EVICTED, Json, pod


class Nodes:
    """An API server that shows one node."""

    def __init__(self, ready: str = "True") -> None:
        self.ready = ready

    def list(self, collection: str, **query: str) -> list[Json]:
        assert (collection, query) == ("/api/v1/nodes", {"fieldSelector": "metadata.name=node-a"})
        status = {"type": "Ready", "status": self.ready, "message": "Kubelet stopped posting node status."}
        status["lastTransitionTime"] = "t1"
        return [{"status": {"conditions": [status]}}]


def there(name: str, **what: Any) -> Json:
    made = pod(**what)
    made["metadata"]["name"], made["spec"]["nodeName"] = name, "node-a"
    return made


def test_of_an_agent_the_node_is_told_whose_name_it_has_not() -> None:
    known = {"agent-x7k2p": identity(there("agent-x7k2p"))}
    with pytest.raises(HarnessError) as raised:
        compare(cast(Cluster, Nodes()), [], known, {"agent-x7k2p": "node-a"})
    assert raised.value.sentence == "Our own pod agent-x7k2p (on node node-a) is gone: the window cannot be judged."


KNOWN = {"backend": identity(there("backend"))}


def told(*pods: Json, ready: str = "True") -> str:
    with pytest.raises(HarnessError) as raised:
        compare(cast(Cluster, Nodes(ready)), pods, KNOWN)
    return raised.value.sentence


def test_pods_that_are_what_they_were_say_nothing() -> None:
    compare(cast(Cluster, Nodes()), [there("backend"), there("moves-1", uid="2", ready=False)], KNOWN)


def test_what_became_of_one_is_told() -> None:
    assert told() == "Our own pod backend is gone: the window cannot be judged."
    assert told(there("backend", since="t1")) == (
        "Our own pod backend was not ready for a while (now ContainersReady since t1, Ready since t1; arranged "
        "ContainersReady since t0, Ready since t0); its node node-a is ready since t1: the window cannot be judged."
    )
    other = there("moves-1", also=[EVICTED])
    assert (
        told(there("backend"), other)
        == "Our own pod moves-1 is being evicted (by API): what was seen cannot be judged."
    )


def test_a_lost_node_is_named() -> None:
    said = told(there("backend", ready=False), ready="Unknown")
    assert "and its node node-a is lost (Kubelet stopped posting node status.)" in said
