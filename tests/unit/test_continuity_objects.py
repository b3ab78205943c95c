"""What stands on the testbed for continuity, what the load balancer reports of it, and what the ledger keeps."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from esipp.base.document import WIDTH
from esipp.base.labels import UNSERVED_CLASS
from esipp.checks.check import Level
from esipp.checks.continuity import MOVED, NODEPORT, Phase, What
from esipp.checks.model import Family, TrafficPolicy
from esipp.checks.timing import Checking
from esipp.scenarios.changing_pods import LEAST_BOUND, serves_on
from esipp.scenarios.continuity import objects
from esipp.scenarios.continuity.actions import Gates
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.continuity.run import lacks
from esipp.scenarios.continuity.sections import summary
from esipp.scenarios.reference_reports import ReferenceReports
from esipp.testbed.manifests import GATE
from esipp.testbed.objects import Ground
from suites.continuity.checks import CHECKS as ALL_CHECKS
from suites.continuity.checks import WAYS
from tests.unit.continuity_world import CHECKS, changed, lost, moment, statuses, world
from tests.unit.recorded_world import summary_lines

GROUND = Ground("r1", "image", {}, {}, {})


# ---------------------------------------------------------------------------------------------------------- the checks
def test_checks_have_ids_of_their_own_and_say_what_trips_them() -> None:
    assert len({check.id for check in ALL_CHECKS}) == len(ALL_CHECKS)
    assert len({(check.requirement, check.subject.family) for check in ALL_CHECKS}) == len(ALL_CHECKS)
    assert all(check.fails_if for check in ALL_CHECKS if check.subject.what is not What.LOSSES)
    assert all(check.references and check.requirement.endswith(".") for check in ALL_CHECKS)


def test_every_way_has_one_check_about_losses_in_every_phase() -> None:
    about = (What.NO_LOSS, What.GAP, What.LOSSES)
    for phase in Phase:
        for way in WAYS:
            found = [
                check
                for check in ALL_CHECKS
                if (check.subject.phase, check.subject.way) == (phase, way) and check.subject.what in about
            ]
            assert len(found) == len(Family), (phase, way)


def test_where_nothing_may_be_lost_nothing_may_be_late_either() -> None:
    def of(what: What) -> set[tuple[str, ...]]:
        those = (check.subject for check in ALL_CHECKS if check.subject.what is what)
        return {(each.phase.value, each.way.slug, each.family.value) for each in those}

    assert of(What.NO_DELAY) == of(What.NO_LOSS)
    assert {check.level for check in ALL_CHECKS if check.subject.what is What.NO_DELAY} == {Level.EXTENDED}


def test_what_disturbs_others_needs_leave_and_is_no_core_check() -> None:
    for check in ALL_CHECKS:
        assert (check.subject.event.disruption is not None) == ("disruptive" in check.features), check.id
        assert check.level is not Level.CORE or check.subject.event.disruption is None, check.id


def test_where_nobody_has_a_reason_to_lose_anything_nothing_may_be_lost() -> None:
    for phase in (Phase.QUIET, Phase.CORDON, Phase.KUBE_PROXY, Phase.API_SERVER):
        found = {check.subject.what for check in ALL_CHECKS if check.subject.phase is phase} - {What.ONE_NODE}
        assert found == {
            What.NO_LOSS, What.NO_DELAY, What.SOURCE, What.PLACE, What.LASTING, What.STREAM,
        }  # fmt: skip


def test_an_upgrade_of_kube_proxy_may_cost_load_balancers_of_local_services_requests_and_nodes_none() -> None:
    upgraded = [check.subject for check in ALL_CHECKS if check.subject.phase is Phase.PROXY_UPGRADED]
    lossy = {each.way for each in upgraded if each.what in (What.GAP, What.LOSSES)}
    assert lossy == {each.way for each in upgraded if each.way.local and each.way.by != NODEPORT}
    assert {each.way for each in upgraded if each.what is What.NO_LOSS} == {each.way for each in upgraded} - lossy


def test_an_upgrade_of_cilium_breaks_nothing_that_is_open_and_only_load_balancers_of_local_services_may_wait() -> None:
    """By Cilium's guide. Its agents answer health checks of Local Services; nothing limits how long they take."""
    found = losses(Phase.NETWORK_AGENT_UPGRADED)
    by_balancers = {"default.local", "reference-ecmp.local", "reference-proxy.local"}
    assert found == {slug: RECORDED if slug in by_balancers else GAP for slug in found}
    upgraded = [check for check in ALL_CHECKS if check.subject.phase is Phase.NETWORK_AGENT_UPGRADED]
    assert {check.level for check in upgraded if check.subject.what is What.LASTING} == {Level.EXTENDED}
    assert {check.expected for check in upgraded if check.subject.what is What.GAP} == {"no gap longer than 30 s"}
    assert not any("kube-proxy" in check.requirement + check.fails_if for check in upgraded)
    assert all("network-agent.other-image" in check.features for check in upgraded)


def test_what_the_clusters_own_balancer_loses_binds_but_for_a_restart_of_its_own_agent() -> None:
    own = [
        check
        for check in ALL_CHECKS
        if check.subject.way.by == "default" and check.subject.what in (What.LOSSES, What.LASTING)
    ]
    recorded = {(check.subject.phase, check.subject.what) for check in own if check.level is Level.RECORD}
    forgotten = {(Phase.CONNTRACK_DELETED, What.LOSSES), (Phase.CONNTRACK_DELETED, What.LASTING)}
    gone = (Phase.CUT_OFF, Phase.IDLE_LEFT, Phase.CONNTRACK_FULL, Phase.JOINED)
    silent = {(phase, What.LOSSES) for phase in gone}
    restarted = {(phase, What.LOSSES) for phase in (Phase.SPEAKER, Phase.SPEAKER_MOVES, Phase.NETWORK_AGENT_UPGRADED)}
    assert recorded == restarted | silent | forgotten


def losses(phase: Phase) -> dict[str, tuple[What, Level]]:
    """Which claim about losses an event has on each way."""
    about = (What.NO_LOSS, What.GAP, What.LOSSES)
    found = [check for check in ALL_CHECKS if check.subject.phase is phase and check.subject.what in about]
    return {check.subject.way.slug: (check.subject.what, check.level) for check in found}


NO_LOSS, GAP = (What.NO_LOSS, Level.EXTENDED), (What.GAP, Level.EXTENDED)
RECORDED = (What.LOSSES, Level.RECORD)


def test_a_node_without_endpoints_that_fails_concerns_cluster_services_alone() -> None:
    assert set(losses(Phase.IDLE_KUBELET).values()) == {NO_LOSS}
    found = losses(Phase.IDLE_EXCLUDE)
    bounded = (What.LOSSES, Level.EXTENDED)
    assert {way: said for way, said in found.items() if said != NO_LOSS} == {"default.cluster": bounded}
    for phase in (Phase.CONNTRACK_FULL, Phase.IDLE_LEFT):
        local = ("default.local", "reference-ecmp.local", "reference-proxy.local", "nodeport.local")
        assert losses(phase) == {
            **dict.fromkeys(local, NO_LOSS),
            "default.cluster": RECORDED,
            "reference-ecmp.cluster": GAP,
            "nodeport.cluster": RECORDED,
        }


def test_a_node_that_joins_costs_nobody_but_who_moves_its_vip_there_anything() -> None:
    found = losses(Phase.JOINED)
    assert {way: said for way, said in found.items() if said != NO_LOSS} == {"default.cluster": RECORDED}
    asked = [check for check in ALL_CHECKS if check.subject.what is What.JOINED_NODE]
    assert {(each.subject.phase, each.subject.way.slug) for each in asked} == {
        (Phase.JOINED, "nodeport.local"), (Phase.JOINED, "nodeport.cluster"),
    }  # fmt: skip
    assert all("rights.node-deletion" in each.features and "nodes.shell" in each.features for each in asked)


def test_only_a_vip_that_may_be_at_the_lost_node_fails_over() -> None:
    found = [check.subject for check in ALL_CHECKS if check.subject.what is What.FAIL_OVER]
    assert {(each.phase, each.way.slug) for each in found} == {
        (Phase.CUT_OFF, "default.local"), (Phase.CUT_OFF, "default.cluster"), (Phase.IDLE_LEFT, "default.cluster"),
        (Phase.JOINED, "default.cluster"),
    }  # fmt: skip


def test_a_node_that_is_cut_off_has_endpoints_that_cluster_services_go_on_to_use() -> None:
    clusters = ("default.cluster", "reference-ecmp.cluster", "nodeport.cluster")
    assert losses(Phase.CUT_OFF) == {
        **dict.fromkeys(("reference-ecmp.local", "reference-proxy.local"), GAP),
        **dict.fromkeys(("default.local", "nodeport.local", *clusters), RECORDED),
    }


def test_another_mode_may_lose_connections_but_no_way_for_long() -> None:
    assert set(losses(Phase.PROXY_MODE).values()) == {GAP}
    gaps = [check for check in ALL_CHECKS if check.subject.phase is Phase.PROXY_MODE and check.subject.what is What.GAP]
    assert {check.expected for check in gaps} == {"no gap longer than 30 s"}
    assert all("no gap longer than 30 s" in check.requirement for check in gaps)
    lasting = [
        check
        for check in ALL_CHECKS
        if check.subject.phase is Phase.PROXY_MODE and check.subject.what in (What.LASTING, What.SOURCE)
    ]
    assert {check.level for check in lasting} == {Level.EXTENDED}


def test_a_vip_may_move_only_where_something_is_done_that_makes_it() -> None:
    moved = {check.subject.phase for check in ALL_CHECKS if any(known.covers == MOVED for known in check.differences)}
    still = {Phase.QUIET, Phase.CORDON, Phase.KUBE_PROXY, Phase.API_SERVER, Phase.PROXY_MODE, Phase.PROXY_UPGRADED}
    still.add(Phase.NETWORK_AGENT_UPGRADED)
    assert not moved & still


def test_a_prompt_return_to_local_is_asked_of_local_services_while_policies_change() -> None:
    prompt = [check for check in ALL_CHECKS if check.subject.what is What.PROMPT]
    assert {(check.subject.phase, check.subject.way.local, check.level) for check in prompt} == {
        (Phase.POLICY_CHANGES, True, Level.EXTENDED)
    }
    assert len(prompt) == 4 * len(Family)


# --------------------------------------------------------------------------------------------------------- the testbed
def test_a_service_a_way_over_the_same_pods() -> None:
    scenario_objects = objects.objects(list(ALL_CHECKS), GROUND)
    services = {each["metadata"]["name"]: each["spec"] for each in scenario_objects.services}
    assert len(services) == len(WAYS) + 4
    assert services["continuity-nodeport-local-sctp"]["ports"] == [
        {"name": "sctp", "protocol": "SCTP", "port": 80, "targetPort": 8083}
    ]
    assert {str(spec["selector"]) for spec in services.values()} == {
        str(services["continuity-default-local"]["selector"])
    }
    assert services["continuity-reference-proxy-local"]["loadBalancerClass"] == "esipp.dev/reference-proxy"
    assert "loadBalancerClass" not in services["continuity-default-cluster"]
    assert services["continuity-nodeport-local"]["type"] == "NodePort"
    assert scenario_objects.announced == {objects.service_name(way) for way in WAYS if way.by != NODEPORT}


def test_only_ways_that_are_asked_stand_on_the_testbed() -> None:
    checks = [
        check
        for check in ALL_CHECKS
        if check.subject.way.policy is TrafficPolicy.CLUSTER and check.subject.way.by == NODEPORT
    ]
    assert [each["metadata"]["name"] for each in objects.objects(list(checks), GROUND).services] == [
        "continuity-nodeport-cluster",
        "continuity-nodeport-cluster-udp",
        "continuity-nodeport-cluster-sctp",
        "continuity-health",
    ]


def test_health_checks_are_probed_where_no_way_has_a_load_balancer() -> None:
    """Else what a node says of a terminating pod is not known, and checks of that are undecided."""
    nodeports = [check for check in ALL_CHECKS if check.subject.way.by == NODEPORT]
    made = {each["metadata"]["name"]: each["spec"] for each in objects.objects(list(nodeports), GROUND).services}
    spec = made[objects.HEALTH]
    assert (spec["type"], spec["externalTrafficPolicy"]) == ("LoadBalancer", "Local")
    assert spec["loadBalancerClass"] == UNSERVED_CLASS, "no load balancer serves it"
    assert spec["selector"] == made["continuity-nodeport-local"]["selector"]
    assert objects.HEALTH not in objects.objects(list(nodeports), GROUND).announced
    assert objects.HEALTH not in {each["metadata"]["name"] for each in objects.objects(ALL_CHECKS, GROUND).services}


def test_pods_serve_on_for_longer_than_a_balancer_needs() -> None:
    for bound in (None, 0.5, 3.0, 7.5):
        assert serves_on(bound) > max(bound or 0, LEAST_BOUND) + 2.0
    made = objects.deployment("r1", "image", ("a", "c"), 11)
    pod = made["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"][:2] == ["--on-sigterm", "serve:11"]
    assert pod["terminationGracePeriodSeconds"] > 11


def test_the_deployment_goes_through_the_scheduler_and_keeps_to_its_nodes() -> None:
    made = objects.deployment("r1", "image", ("a", "c"), 7)
    pod, spec = made["spec"]["template"]["spec"], made["spec"]
    assert "nodeName" not in pod
    assert "tolerations" not in pod, "a cordon must keep it away"
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["a"], ["c"]]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert spec["minReadySeconds"] > 2, "a load balancer that checks every second must find the new pod's node first"
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert pod["readinessGates"] == [{"conditionType": GATE}]
    assert pod["containers"][0]["readinessProbe"]["failureThreshold"] > 11, "it must count as serving while it ends"


# --------------------------------------------------------------------------------------------------------- the gates
class FakeCluster:
    def __init__(self, gates: list[Gates]) -> None:
        self.gates, self.patched = gates, list[str]()

    def patch(self, path: str, body: Any) -> None:
        assert body["status"]["conditions"][0]["status"] == "True"
        self.patched.append(path.split("/")[-2])
        if len(self.patched) == 2:
            self.gates[0].stop()


def test_gates_of_all_pods_are_opened_but_for_those_that_flap_and_those_that_end() -> None:
    is_open = {"status": {"conditions": [{"type": GATE, "status": "True"}]}}
    pods = {
        "new": {"metadata": {}},
        "open": {"metadata": {}, **is_open},
        "ending": {"metadata": {"deletionTimestamp": "now"}},
        "flapping": {"metadata": {}},
    }
    kept: list[Gates] = []
    cluster = FakeCluster(kept)
    gates = Gates(cluster, "ns", SimpleNamespace(pods=pods), {"flapping"})
    kept.append(gates)
    gates._open_all()  # ends with the second look, as nothing of it has come about
    assert cluster.patched == ["new", "new"]


# ---------------------------------------------------------------------------------------------- the balancer's word
def test_only_changes_of_routes_of_this_namespace_are_taken_down() -> None:
    state = ReferenceReports(None, "ours")
    steer = {"kind": "steer", "namespace": "ours", "service": "s", "monotonic": 5, "family": "IPv4", "nodes": ["a"]}
    for each in (steer, {**steer, "namespace": "theirs"}, {**steer, "kind": "health", "node": "a", "healthy": True}):
        state._take(each)
    assert [(each.at, each.nodes) for each in state.steers["s"]] == [(5.0, ("a",))]
    assert state.checking == Checking()
    assert lacks(state.steers["s"], Family.IPV4, ("a", "c")) == ["c"]
    assert lacks(state.steers["s"], Family.IPV6, ("a", "c")) == [], "it tells nothing of that"


# ------------------------------------------------------------------------------------------- the reported state
def test_the_table_has_a_line_a_way_and_phase_and_the_proofs() -> None:
    seen = changed(world(), "reference-ecmp.local", moment(Phase.ROLLING_UPDATE, 4.0), lost)
    lines = summary_lines(summary, seen)
    line = next(each for each in lines[lines.index(next(x for x in lines if x.startswith("  rolling-update:"))) :]
                if "reference-ecmp.local" in each)  # fmt: skip
    assert line.split()[1:] == ["220", "1", "0", "0.00", "0"]
    assert any("done" in each for each in lines)
    assert sum("nodeport.cluster" in each for each in lines) == len(Phase)
    assert all(len(each) <= WIDTH for each in lines)


def test_the_table_says_what_was_not_done_and_what_did_not_settle() -> None:
    seen = world()
    windows = [
        replace(w, trouble="the node said no") if w.phase is Phase.DRAIN else
        replace(w, unsettled="default.local IPv4") if w.phase is Phase.SPEAKER else w
        for w in seen.windows
    ]  # fmt: skip
    text = "\n".join(summary_lines(summary, replace(seen, windows=windows)))
    assert "drain: the node said no" in text
    assert "NOT STABLE AGAIN: default.local IPv4" in text


def test_where_nothing_came_about_that_is_all_that_is_reported() -> None:
    seen = ContinuityEvidence(trouble="no way could be asked")
    assert [line.strip() for line in summary_lines(summary, seen)[1:]] == ["no way could be asked"]
    assert set(statuses(seen)) == {check.id for check in CHECKS}
    assert {each.value for each in statuses(seen).values()} == {"inconclusive"}
