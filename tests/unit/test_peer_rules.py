"""Which rules break the cluster for upstream's Services: read from made objects, no cluster."""

from types import SimpleNamespace
from typing import Any

import pytest

from ci.peer_tests import everywhere
from ci.peer_tests.everywhere import Backend, UpstreamServices
from esipp.checks.model import Family
from tests.broken.nodes import Rule

NODES: Any = SimpleNamespace(
    containers=("one", "two"), pod_cidrs={Family.IPV4: "10.244.0.0/16", Family.IPV6: "fd00:10:244::/56"}
)
READY = Backend("10.244.1.5", 8080, "one", "", ready=True, terminating=False)
LEAVING = Backend("10.244.2.6", 8080, "two", "", ready=False, terminating=True)


def service(**spec: Any) -> Any:
    port = {"port": 80, "protocol": "TCP", "nodePort": 30123}
    made = {"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ports": [port], **spec}
    given = {"loadBalancer": {"ingress": [{"ip": "172.18.255.200"}]}}
    return {"metadata": {"name": "s", "namespace": "n"}, "spec": made, "status": given}


def upstream(*backends: Backend, **spec: Any) -> UpstreamServices:
    return UpstreamServices([(service(**spec), list(backends))])


def text(rule: Rule) -> str:
    return " ".join((rule.table, rule.chain, *rule.words))


def test_a_local_node_port_is_handed_on_by_the_node_without_a_backend() -> None:
    there, back = everywhere.handed_on(NODES, upstream(READY, externalTrafficPolicy="Local"))
    assert text(there).startswith("nat PREROUTING --protocol tcp --dport 30123 ")
    assert text(there).endswith("--jump DNAT --to-destination 10.244.1.5:8080")
    assert text(back).endswith("--ctorigdstport 30123 --jump MASQUERADE")
    assert there.nodes == back.nodes == ("two",)


@pytest.mark.parametrize(
    "given",
    [
        upstream(READY, externalTrafficPolicy="Cluster"),
        upstream(externalTrafficPolicy="Local"),
        upstream(LEAVING, externalTrafficPolicy="Local"),
    ],
)
def test_nothing_is_handed_on(given: UpstreamServices) -> None:
    assert everywhere.handed_on(NODES, given) == []


def test_rules_name_nodes_even_where_every_node_has_a_backend() -> None:
    both = upstream(READY, Backend("10.244.2.7", 8080, "two", "", ready=True, terminating=False))
    both.pairs[0][0]["spec"]["externalTrafficPolicy"] = "Local"
    assert everywhere.handed_on(NODES, both) == []  # a rule for no node would be one for all


def test_internal_policy_leaks_from_pods_and_from_the_node() -> None:
    rules = everywhere.leaked(NODES, upstream(READY, internalTrafficPolicy="Local"))
    assert [rule.chain for rule in rules] == ["PREROUTING", "OUTPUT"]
    assert all("--destination 10.96.0.9" in text(rule) and rule.nodes == ("two",) for rule in rules)
    assert everywhere.leaked(NODES, upstream(READY, internalTrafficPolicy="Local", clusterIP="None")) == []


def test_a_vip_is_dropped_where_no_backend_is() -> None:
    pods, host = everywhere.black_holed(NODES, upstream(READY, externalTrafficPolicy="Local"))
    assert text(pods).startswith("mangle PREROUTING --source 10.244.0.0/16 --destination 172.18.255.200 ")
    assert text(host).startswith("mangle OUTPUT --destination 172.18.255.200 --protocol tcp --dport 80 ")


def test_affinity_is_forgotten_by_every_way_in() -> None:
    other = Backend("10.244.2.7", 8080, "two", "", ready=True, terminating=False)
    rules = everywhere.forgotten(NODES, upstream(READY, other, sessionAffinity="ClientIP"))
    assert len(rules) == 3 * 2 * 2  # ClusterIP, VIP and nodePort; two backends; two chains
    assert everywhere.forgotten(NODES, upstream(READY, sessionAffinity="ClientIP")) == []
    assert everywhere.forgotten(NODES, upstream(READY, other, sessionAffinity="None")) == []


def test_a_terminating_pod_is_cut_off_on_its_own_node() -> None:
    (rule,) = everywhere.dropped_once_terminating(NODES, upstream(READY, LEAVING))
    assert (rule.nodes, rule.table) == (("two",), "mangle")
    assert "--destination 10.244.2.6 " in text(rule)


def test_what_a_node_sends_to_its_own_pods_is_masqueraded() -> None:
    (rule,) = everywhere.rewritten_at_home(NODES, upstream(READY))
    assert (rule.nodes, rule.words[:2]) == (("one",), ("--destination", "10.244.1.5"))


def test_hairpins_pass_by_address() -> None:
    (rule,) = everywhere.hairpins_left(NODES, upstream(READY))
    assert rule.words == ("--source", "10.244.1.5", "--destination", "10.244.1.5", "--jump", "ACCEPT")


def test_health_ports_are_those_of_services_that_have_one() -> None:
    assert everywhere.health_ports(upstream(READY)) == []
    assert everywhere.health_ports(upstream(READY, healthCheckNodePort=31999)) == ["31999"]


class Api:
    """Answers as the API server does."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def list(self, collection: str, **query: str) -> list[Any]:
        self.asked.append(collection)
        piece = {
            "metadata": {"namespace": "n", "labels": {"kubernetes.io/service-name": "s"}},
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": ["10.244.1.5"], "nodeName": "one", "conditions": {"ready": None}}],
        }
        answers: dict[str, list[Any]] = {
            "/api/v1/namespaces": [{"metadata": {"name": "n"}}],
            "/apis/discovery.k8s.io/v1/endpointslices": [piece],
            "/api/v1/services": [service(), {**service(), "metadata": {"name": "s", "namespace": "another"}}],
        }
        assert query == ({"labelSelector": "e2e-framework"} if collection.endswith("namespaces") else {})
        return answers[collection]


def test_only_upstreams_namespaces_are_looked_at() -> None:
    api: Any = Api()
    ((found, backends),) = everywhere.look(api).pairs
    assert found["metadata"]["namespace"] == "n"
    assert backends == [Backend("10.244.1.5", 8080, "one", "http", ready=True, terminating=False)]
