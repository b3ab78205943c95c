"""``esipp plan``: what it says of each load balancer, held against the checks and against what a run deploys."""

import json
import re
from dataclasses import replace

import pytest

from esipp.app.cli import main
from esipp.app.plan.assumed_cluster import Asked, imagine
from esipp.app.plan.document import as_json, document
from esipp.app.plan.plan import Plan, limited, plan, work_of
from esipp.base.errors import PreflightError
from esipp.checks.catalog import all_checks
from esipp.checks.check import CARRIES, Check, Feature, Level, Status, is_about, missing_features
from esipp.checks.covering import PAIRS
from esipp.checks.endpoint_change import EndpointChange
from esipp.checks.model import Family
from esipp.checks.profile import Limit, LoadBalancer, Outcome
from esipp.judging.frame import Known, give_verdict, undecided
from esipp.ledger.run import DEFAULT_NODES
from esipp.loadbalancers.capabilities import features_of, node_ports_feature
from esipp.loadbalancers.profiles.loading import all_profiles, named
from esipp.report.rendering.terminal import as_text
from esipp.testbed.objects import Ground
from tests.unit import objects_world as world

CHECKS = all_checks()
BOTH = (Family.IPV4, Family.IPV6)


def of(name: str, checks: list[Check] | None = None, **more: object) -> Plan:
    return plan(replace(Asked(named(name), CHECKS if checks is None else checks), **more))


def suite(*names: str) -> list[Check]:
    return [check for check in CHECKS if check.suite in names]


def predicted(made: Plan, outcome: Outcome) -> dict[str, list[Check]]:
    return {limit.why: list(checks) for limit, checks in made.limited if limit.outcome is outcome}


def text(made: Plan) -> str:
    return " ".join(as_text(document(made)).split())


@pytest.mark.parametrize("profile", all_profiles(), ids=lambda profile: profile.name)
def test_every_check_is_asked_or_unsupported_once(profile: LoadBalancer) -> None:
    made = plan(Asked(profile, CHECKS))
    left_out = [check.id for checks in made.unsupported.values() for check in checks]
    assert sorted([*left_out, *(check.id for check in made.asked)]) == sorted(check.id for check in CHECKS)
    limited = [check.id for _, checks in made.limited for check in checks]
    assert len(set(limited)) == len(limited)
    assert set(limited) <= {check.id for check in made.asked}
    assert made.asked
    assert json.loads(json.dumps(as_json(made)))["provider"] == profile.name


OF_HEADERS = 3
"""Services of load balancers that report clients in a header, which few profiles do."""

OF_A_VIEW = 1
"""The Cluster service whose view only a cloud's balancer has: on kind nobody can be asked for it."""


OF_METALLB = 3
"""The Services, with one port each, of events whose controller or speaker a run can stop: MetalLB's alone."""

OF_ZONES, VIPS_OF_ZONES = 4, 2
"""The ports on nodes, and the VIPs, of Services that prefer close endpoints: they need nodes in several zones."""

OF_LONG, VIPS_OF_LONG = 5, 1
"""The ports on nodes, and the VIPs, of events that only ``--long`` asks."""


def test_as_many_load_balancers_as_a_run_makes() -> None:
    made = of("reference-forward", disruptive=True, families=BOTH)
    services = world.services().values()
    balanced = [each["spec"] for each in services if each["spec"]["type"] == "LoadBalancer"]
    classes = [spec.get("loadBalancerClass", "") for spec in balanced]
    elsewhere = OF_A_VIEW + OF_HEADERS + OF_METALLB
    assert made.made.balancers == classes.count("") - elsewhere - VIPS_OF_ZONES - VIPS_OF_LONG > 20
    assert made.made.unserved == classes.count("esipp.dev/nobody") > 5
    assert made.made.reference == sum(name.startswith("esipp.dev/reference") for name in classes) > 5
    assert made.made.clients == 4
    on_nodes = (each["spec"] for each in services if each["spec"]["type"] != "ClusterIP")
    ports = sum(len(spec["ports"]) for spec in on_nodes if spec.get("allocateLoadBalancerNodePorts", True))
    assert made.made.node_ports == ports - elsewhere - OF_ZONES - OF_LONG > 100


def test_the_many_services_are_counted_where_their_checks_are_asked() -> None:
    made = of("metallb-l2", families=BOTH).made
    assert (made.passing, made.passing_unserved, made.passing_ports) == (200, 50, 200)
    assert "temporarily 200 more Services, 50 of a class without a controller (200 node ports)" in text(
        of("metallb-l2")
    )
    for less in (
        of("metallb-l2", suite("source_ip")),
        of("metallb-l2", without=("vantage.outside",)),
        of("metallb-l2", [check for check in suite("interoperability") if ".many." not in check.id]),
    ):
        assert (less.made.passing, less.made.passing_unserved, less.made.passing_ports) == (0, 0, 0)
        assert "more Services" not in text(less)


def test_what_a_covering_design_saves_is_reported() -> None:
    made = of("metallb-l2", suite("vantages"))
    (each,) = made.designs.values()
    assert 0 < 10 * each.asked.connections < each.product.connections
    assert each.asked.seconds < each.product.seconds
    asked = each.asked
    words = f"it adds {asked.connections:,} connections on {asked.paths} paths, in about {asked.seconds:.0f} s"
    assert words in " ".join(text(made).split())


def test_a_design_adds_only_what_other_checks_do_not_make_anyway() -> None:
    alone, beside = (of("metallb-l2", suite(*names)).designs["vantages"] for names in
                     (("vantages",), ("source_ip", "interoperability", "vantages")))  # fmt: skip
    assert beside.asked.connections == beside.asked.paths * 200 < alone.asked.connections
    assert 0 < beside.asked.seconds < alone.asked.seconds
    assert beside.product.paths < alone.product.paths
    assert beside.design.without.rows != ()
    assert alone.design.without.rows == ()


def test_what_a_covering_design_does_not_ask_is_named() -> None:
    made = of("metallb-l2", suite("vantages"), families=BOTH)
    (each,) = made.designs.values()
    said = "vantages: no path has client outside-nat; needs vantage.outside.nat: esipp puts a client behind a router"
    assert said in " ".join(text(made).split())
    seconds = "vantages: no path has entry second-address; nodes usually have one address per family"
    assert seconds in " ".join(text(made).split())
    assert as_json(made)["designs"]["vantages"]["not_asked"] == list(each.not_asked)
    assert len(as_json(made)["designs"]["vantages"]["left_out_of_the_product"]) == 8
    assert as_json(made)["designs"]["vantages"]["without"] == each.design.missing
    assert {"client": "outside-nat", "entry": "vip"} in each.design.missing
    held, all_of = each.design.share(PAIRS)
    assert len(each.design.missing) == all_of - held


def test_fewer_checks_need_fewer_load_balancers() -> None:
    some = [check for check in CHECKS if check.id == "loadbalancer.local.tcp.ipv4.outside-1-to-vip"]
    made = of("gke-legacy", some).made
    assert (made.balancers, made.reference, made.unserved) == (1, 0, 0)
    none = [check for check in CHECKS if check.id == "clusterip.tcp.ipv4.pod-on-other-node-to-clusterip"]
    assert of("gke-legacy", none).made.balancers == 0


# -------------------------------------------------------------------------------------------------- what is predicted
def test_what_is_not_carried_is_unsupported() -> None:
    made = of("gce", families=BOTH)
    carries = "needs load-balancer.carries"
    sctp = made.unsupported[f"{carries}.sctp: gce does not support SCTP"]
    six = made.unsupported[f"{carries}.ipv6: gce does not support IPv6"]
    assert all(".sctp." in check.id for check in sctp)
    assert len(sctp) > 10
    assert all("ipv6" in check.id for check in six)
    assert {check.suite for check in six} >= {"source_ip", "convergence", "continuity"}
    assert any(check.id.startswith("nodeport.local.tcp.ipv6") for check in made.asked), "only VIPs are not carried"


def test_what_was_only_found_does_not_limit_what_it_carries() -> None:
    made = imagine(Asked(named("gce"), CHECKS))
    found = {name: each for name, each in made.features.items() if not name.startswith(CARRIES)}
    stated, unsaid = (Ground("RUN", "image", made.nodes, made.roles, each) for each in (made.features, found))
    sure, guess = (
        work_of(CHECKS, ground, [named("gce")], 200, 30, sure=sure)
        for ground, sure in ((stated, True), (unsaid, False))
    )
    assert any("gce does not support SCTP" in why for why in sure.unsupported)
    assert not any("gce does not support SCTP" in why for why in guess.unsupported)
    assert any(limit.why == "gce does not support SCTP" and checks for limit, checks in guess.limited), (
        "reported all the same"
    )
    assert len(guess.asked) > len(sure.asked)


@pytest.mark.parametrize(
    ("names", "present", "why"),
    [
        (("metallb-l2",), True, "the address of the vip as destination"),
        (("metallb-l2", "aws-clb"), False, "metallb-l2 or aws-clb: "),
        (("eks-nlb-ip",), True, "the address of the pod"),
        (("haproxy",), False, "the address of the node"),
        ((), False, "no profile fits"),
    ],
)
def test_services_without_node_ports_are_served_where_packets_do_not_go_to_them(
    names: tuple[str, ...], present: bool, why: str
) -> None:
    found = node_ports_feature([named(name) for name in names])
    assert found.present is present
    assert why in found.why


@pytest.mark.parametrize(
    "profile", [each for each in all_profiles() if features_of(each)], ids=lambda profile: profile.name
)
def test_a_run_and_a_plan_take_the_same_checks_for_unsupported(profile: LoadBalancer) -> None:
    planned = plan(Asked(profile, CHECKS, families=BOTH))
    by_plan = {check.id for why, checks in planned.unsupported.items() if CARRIES in why for check in checks}
    features = features_of(profile)  # all else that a run's checks need is there
    everything = {name: Feature(True, "there") for check in CHECKS for name in check.features} | features
    by_run = {check.id for check in CHECKS if missing_features(check, everything)}
    predicted_of_a_guess = {
        check.id
        for limit, checks in limited(profile, CHECKS)
        if limit.outcome is Outcome.UNSUPPORTED
        for check in checks
    }
    assert by_run == predicted_of_a_guess
    assert by_plan <= by_run
    assert {check.id for check in planned.asked}.isdisjoint(by_run)
    if by_run:
        check = next(check for check in CHECKS if check.id in by_run)
        verdict = give_verdict(check, Known({}, everything), lambda: undecided(check, "it was asked"))
        assert (verdict.status, verdict.left_out) == (Status.UNSUPPORTED, False), "the load balancer lacks it, not we"
        assert f"{profile.name} does not support" in verdict.reason


def test_what_was_found_silences_no_check_and_what_was_named_does() -> None:
    assert features_of(None) == {}
    assert set(features_of(named("gce"))) == {"load-balancer.carries.sctp", "load-balancer.carries.ipv6"}


def test_a_limit_of_ones_own_with_several_conditions_needs_them_all() -> None:
    limit = Limit(
        Outcome.UNSUPPORTED, "no UDP under Local", (), protocols=frozenset({"UDP"}), policies=frozenset({"Local"})
    )
    own = replace(named("metallb-l2"), limits=(limit,))
    assert "load-balancer.carries.udp.local" in features_of(own)
    hit = [
        check
        for check in CHECKS
        if missing_features(check, {n: Feature(True, "") for n in check.features} | features_of(own))
    ]
    hit = [check for check in hit if "sctp" not in check.features and not check.subject.summed]
    assert hit
    parts = [set(re.split(r"[.-]", check.id)) for check in hit]
    assert all({"udp", "local"} <= each and each & {"vip", "service"} for each in parts), "at a VIP, or at its port"


def test_where_several_may_be_meant_nothing_is_predicted_and_the_slowest_counts() -> None:
    made = imagine(Asked(named("eks-nlb-instance"), CHECKS))
    ground = Ground("RUN", "image", made.nodes, made.roles, made.features)
    both = work_of(CHECKS, ground, [named("metallb-l2"), named("eks-nlb-instance")], 200, 30, sure=False)
    one = work_of(CHECKS, ground, [named("eks-nlb-instance")], 200, 30, sure=False)
    assert (both.limited, bool(one.limited)) == ((), True)
    assert both.seconds == pytest.approx(one.seconds)
    nobody = work_of(CHECKS, ground, [], 200, 30)
    assert nobody.seconds < both.seconds
    assert nobody.patience.assigned == 60.0


def test_udp_at_azure_under_cluster_has_no_probe() -> None:
    found = predicted(of("aks"), Outcome.DIFFERS)
    (checks,) = [checks for why, checks in found.items() if why.startswith("UDP ports have no")]
    assert checks
    assert all(".udp." in check.id and ".cluster." in check.id for check in checks)


def test_octavia_without_its_monitor_does_not_steer() -> None:
    without, with_it = of("octavia-amphora"), of("octavia-amphora-monitor")
    why = "without a health monitor, nodes without a local endpoint are never removed"
    steers = predicted(without, Outcome.FAILS)[why]
    assert {check.id for check in steers} == {"convergence.default.ipv4.steers", "convergence.default.ipv6.steers"}
    assert why not in predicted(with_it, Outcome.FAILS)
    assert "unbounded (none; with a monitor 20 s)" in text(without)
    assert "at most 20 s after a node's 503: (N+1) x period" in text(with_it)


def test_ovn_never_asks_the_health_check_node_port() -> None:
    made = of("octavia-ovn", suite("convergence"))
    (checks,) = predicted(made, Outcome.DIFFERS).values()
    assert {check.subject.what.value for check in checks if is_about(check, EndpointChange)} == {"black-hole"}
    assert "with Local TCP at the nodePort (off by default)" in text(made)


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("octavia-amphora", Outcome.FAILS), ("aws-clb", Outcome.DIFFERS), ("cloud-provider-kind", Outcome.DIFFERS)],
)
def test_a_proxy_hides_the_client_and_should_say_so(name: str, outcome: Outcome) -> None:
    found = predicted(of(name), outcome)
    (checks,) = [checks for why, checks in found.items() if why.startswith(f"{name} is a proxy")]
    ids = {check.id for check in checks}
    assert "loadbalancer.local.tcp.ipv4.outside-1-to-vip" in ids
    assert "convergence.default.ipv4.source" in ids
    assert not any(each.startswith(("nodeport", "loadbalancer.cluster")) for each in ids)
    assert outcome is Outcome.DIFFERS or all(check.level is not Level.RECORD for check in checks)


def test_no_client_that_keeps_an_address_of_a_node_is_led_elsewhere_on_k3s() -> None:
    (checks,) = predicted(of("k3s-servicelb"), Outcome.FAILS).values()
    ids = {check.id for check in checks}
    assert "convergence.default.ipv4.steers" in ids
    assert all(each.startswith("convergence.default") for each in ids)


# --------------------------------------------------------------------------------------------- time, and what is left
def test_the_time_follows_from_what_is_reported() -> None:
    made = of("eks-nlb-instance", suite("convergence"), moves=10)
    parts = {part.name: part.seconds for part in made.parts}
    assert parts["endpoint changes"] == pytest.approx(75 + 10 * 50), "10 moves, each 30 s down and 20 s up"
    assert parts["load balancers"] == 300
    assert made.seconds == pytest.approx(sum(parts.values()))
    quick = {part.name: part.seconds for part in of("metallb-l2", suite("convergence"), moves=10).parts}
    assert quick["endpoint changes"] == pytest.approx(75 + 10 * 6.8), "as measured on kind"
    assert "load balancers" not in quick


def test_what_stays_if_it_is_killed_and_what_removes_it() -> None:
    said = text(of("gke-legacy"))
    assert "if killed namespace esipp-RUN and everything in it remain, so that" in said
    assert "may continue to cost money: 'esipp clean --context NAME' removes them" in said
    assert "watchdog" not in said
    assert "watchdog" in text(of("gke-legacy", disruptive=True))
    assert "up to 5 minutes; at most 15 min for VIPs, 2 min for first answers; 15 min for removal" in said


# ------------------------------------------------------------------------------------------------------- what is asked
def test_what_only_a_cluster_can_tell_is_assumed_and_said() -> None:
    seen = imagine(Asked(named("gke-legacy"), CHECKS))
    assert {"dns", "external-ips", "vantage.outside"} <= set(seen.assumed)
    assert all(seen.features[name].present for name in seen.assumed)
    assert not seen.features["nodes.control-plane"].present
    assert imagine(Asked(named("metallb-l2"), CHECKS)).features["nodes.control-plane"].present


def test_one_node_is_too_few_in_the_words_of_a_run() -> None:
    with pytest.raises(PreflightError, match=r"Only 1 of 1 node can run pods; a run needs two\.") as refused:
        of("metallb-l2", nodes=1)
    assert "add a worker" in refused.value.hint


@pytest.mark.parametrize(
    ("more", "gone"),
    [
        ({"nodes": 2}, "nodes.three"),
        ({"without": ("dns",)}, "dns"),
        ({"version": "1.20"}, "Kubernetes 1.22"),
        ({"families": (Family.IPV4,)}, "family.ipv6"),
    ],
    ids=str,
)
def test_what_is_said_of_the_cluster_counts(more: dict[str, object], gone: str) -> None:
    less, whole = of("metallb-l2", **more), of("metallb-l2")
    assert any(gone in why for why in less.unsupported)
    assert len(less.asked) < len(whole.asked)


@pytest.mark.parametrize(
    "more", [{"nodes": 1}, {"without": ("nonsense",)}, {"without": ("kubernetes.1.22",)}, {"version": "new"}], ids=str
)
def test_what_makes_no_sense_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(PreflightError) as refused:
        of("metallb-l2", **more)
    assert refused.value.hint


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--provider", "aks", "--suite", "convergence", "--moves", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("plan for       aks: AKS")
    assert all(len(line) <= 100 for line in lines)
    assert main(["plan", "--provider", "aws-clb", "--format", "json", "loadbalancer.local.tcp"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["bound"], data["waiting"]) == (70.0, {"vip": 900.0, "answers": 600.0, "removal": 900.0})


@pytest.mark.parametrize(
    "words",
    [["--provider", "none-such"], ["--provider", "aks", "--moves", "0"], ["--provider", "aks", "--sample-nodes", "2"],
     ["--provider", "aks", "--suite", "convergence", "nodeport.local.tcp"]],
    ids=str,
)  # fmt: skip
def test_the_command_refuses(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == 4
    assert "hint:" in capsys.readouterr().err


def test_of_a_large_cluster_the_agents_are_reported_and_bounded() -> None:
    small, large = of("metallb-l2", nodes=3), of("metallb-l2", nodes=300)
    assert (small.made.agents, small.made.nodes) == (4, 4), "with the control plane's"
    assert (large.made.agents, large.made.nodes) == (DEFAULT_NODES, 301)
    endpoints = 6  # of every node: eleven instead of five
    assert large.made.pods - small.made.pods == DEFAULT_NODES - 4 + endpoints
    assert "of them agents" not in text(small)
    assert "agents 4; each needs one kubectl process here" in text(small)
    assert "on every node that can run pods" in text(small)
    assert f"{large.made.pods} pods (10 of them agents, for 301 nodes)" in text(large)
    random = "selected by a random --seed, which the report states (--sample-nodes 10)"
    assert f"6 of the 297 others, {random}" in text(large)


def test_the_sample_that_is_asked_for_is_the_plans(capsys: pytest.CaptureFixture[str]) -> None:
    usual, more = of("metallb-l2", nodes=300), of("metallb-l2", nodes=300, sample_nodes=40, seed=7)
    assert (more.made.agents, more.made.pods - usual.made.pods) == (40, 40 - DEFAULT_NODES)
    assert more.sample.nodes != of("metallb-l2", nodes=300, sample_nodes=40, seed=8).sample.nodes
    assert "others, selected by --seed 7 (--sample-nodes 40)" in text(more)
    assert "estimated for 10 agents; the effect of more agents was not measured" in text(more)
    assert "was not measured" not in text(usual)
    words = ["plan", "--provider", "metallb-l2", "--nodes", "300", "--sample-nodes", "40", "--seed", "7"]
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "(40 of them agents, for 301 nodes)" in said
    assert said.endswith("--provider metallb-l2 --sample-nodes 40 --seed 7")
    assert main([*words, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["made"]["agents"], data["sample_nodes"], data["seed"]) == (40, 40, 7)


def test_agents_that_nobody_admits_are_not_reported() -> None:
    assert "each of which takes a kubectl" not in text(of("metallb-l2", nodes=300, without=("host-network",)))


def test_a_bound_of_the_users_is_planned_with() -> None:
    profile = named("metallb-l2")
    made = plan(Asked(profile, [check for check in all_checks() if check.suite == "convergence"], bound=20.0))
    usual = plan(Asked(profile, [check for check in all_checks() if check.suite == "convergence"]))
    assert "at most 20 s after a node's 503 (--bound)" in " ".join(as_text(document(made)).split())
    assert made.patience.answering > usual.patience.answering
    assert made.seconds > usual.seconds


def test_a_feature_that_no_chosen_check_needs_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    check = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
    assert main(["plan", check, "--provider", "aks", "--without", "sctp"]) == 0
    assert main(["plan", check, "--provider", "aks", "--without", "stcp"]) == 4
    assert "--without stcp: there is no such feature" in capsys.readouterr().err
