"""The agents' DaemonSet: on the sampled nodes and no others, waited for by node, refused at once where it would be."""

from typing import cast

import pytest

from esipp.base.json import Json
from esipp.cluster.client import NOT_THERE, ApiError, Cluster
from esipp.cluster.dialect import dialect_of
from esipp.testbed import agents
from esipp.testbed.manifests import agent_pod, echo_pod

RUN, IMAGE, NODES = "r1", "image", ("a", "b.example.internal")


def made() -> Json:
    return agents.daemon_set(RUN, IMAGE, NODES, raw=True)


def placed(node: str, *, bound: bool) -> Json:
    """A pod as the DaemonSet's controller makes it: its node is in its affinity, and then the scheduler binds it."""
    template = made()["spec"]["template"]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    spec = {**template["spec"], "affinity": {"nodeAffinity": required}, **({"nodeName": node} if bound else {})}
    return {"metadata": {**template["metadata"], "name": "agent-x7k2p"}, "spec": spec}


def test_each_node_is_an_alternative_of_its_own() -> None:
    """Several values in one requirement, or several requirements in one term, are refused or match no node."""
    spec = made()["spec"]["template"]["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = [term["matchFields"] for term in required["nodeSelectorTerms"]]
    assert fields == [[{"key": "metadata.name", "operator": "In", "values": [node]}] for node in NODES]
    assert "nodeName" not in spec


def test_its_pods_are_agents_as_they_were_but_for_their_place() -> None:
    spec = made()["spec"]["template"]["spec"]
    pinned = agent_pod("agent", RUN, "a", IMAGE, raw=True)["spec"]
    assert {key: value for key, value in spec.items() if key != "affinity"} == {
        key: value for key, value in pinned.items() if key != "nodeName"
    }
    assert {"operator": "Exists"} in spec["tolerations"], "a cordoned node, and a control plane, have one too"


def test_its_selector_is_its_own_pods_and_no_others() -> None:
    selector = made()["spec"]["selector"]["matchLabels"]
    assert made()["spec"]["template"]["metadata"]["labels"].items() >= selector.items()
    backend = echo_pod("backend", RUN, "a", IMAGE, raw=False)
    assert not backend["metadata"]["labels"].items() >= selector.items()
    other = agents.daemon_set("r2", IMAGE, NODES, raw=True)["spec"]["template"]["metadata"]["labels"]
    assert not other.items() >= selector.items()


@pytest.mark.parametrize("bound", [False, True])
def test_an_agent_is_waited_for_by_its_node(bound: bool) -> None:
    assert agents.node_of(placed("b.example.internal", bound=bound)) == "b.example.internal"
    assert agents.key_of(placed("a", bound=bound)) == agents.waited_for("a")


def test_other_pods_are_waited_for_by_their_name() -> None:
    backend = echo_pod("backend", RUN, "a", IMAGE, raw=False)
    assert (agents.node_of(backend), agents.key_of(backend)) == ("", "backend")
    assert agents.key_of({"metadata": {"name": ""}}) == "", "an empty list's"


class Server:
    """An API server that may refuse a dry run."""

    def __init__(self, refusal: ApiError | None = None) -> None:
        self.refusal = refusal
        self.tried: list[tuple[str, dict[str, str], Json]] = []
        self.created: list[str] = []

    def request(self, _method: str, path: str, *, query: dict[str, str], body: Json) -> Json:
        self.tried.append((path, query, body))
        if self.refusal:
            raise self.refusal
        return body

    def create(self, path: str, body: Json) -> Json:
        self.created.append(path)
        return body


def create(server: Server) -> Json:
    return agents.create(cast(Cluster, server), "esipp-r1", made())


def test_a_pod_is_tried_before_the_daemon_set_is_made() -> None:
    server = Server()
    create(server)
    ((path, query, pod),) = server.tried
    assert (path, query) == ("/api/v1/namespaces/esipp-r1/pods", {"dryRun": "All"})
    assert (pod["kind"], pod["spec"]) == ("Pod", made()["spec"]["template"]["spec"])
    assert server.created == ["/apis/apps/v1/namespaces/esipp-r1/daemonsets"]


def test_a_refused_pod_is_a_refusal_and_no_wait() -> None:
    server = Server(ApiError(403, "Forbidden", 'pods "agent" is forbidden: violates PodSecurity', "POST"))
    with pytest.raises(ApiError, match="violates PodSecurity"):
        create(server)
    assert server.created == []


@pytest.mark.parametrize(
    "refusal",
    [
        ApiError(501, NOT_THERE, "knows no dry run", "POST"),
        ApiError(400, "", "webhook does not support dry run", "POST"),
    ],
)
def test_where_nothing_can_be_tried_it_is_made(refusal: ApiError) -> None:
    server = Server(refusal)
    create(server)
    assert len(server.created) == 1


def test_an_old_server_gets_no_field_that_it_refuses() -> None:
    out = dialect_of("v1.18.0").out("POST", "/apis/apps/v1/namespaces/x/daemonsets", made())
    (container,) = out["spec"]["template"]["spec"]["containers"]
    asked = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"] if "valueFrom" in each
    }
    assert asked["POD_IPS"] == "status.podIP"
    assert dialect_of("v1.36.0").out("POST", "/apis/apps/v1/namespaces/x/daemonsets", made()) == made()
