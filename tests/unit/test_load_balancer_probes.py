"""Load balancers compared with their profiles: what packets show, and what binds."""

from dataclasses import replace

import pytest

from esipp.checks.catalog import all_checks
from esipp.checks.check import Status, checks_about
from esipp.checks.model import Balancer, Family, Outcome, TrafficPolicy
from esipp.checks.profile import Destination, Target
from esipp.judging.frame import Decision
from esipp.judging.observation import Observation
from esipp.ledger.codec import judged, read_judged
from esipp.packets.capture import ASKED, IN, NAMED, OUT, REQUEST, Capture, Sighting
from esipp.scenarios.load_balancer_probes.evidence import Figures, Observed, Probe, ProbeEvidence, networks
from esipp.scenarios.load_balancer_probes.judge import decide
from esipp.scenarios.load_balancer_probes.run import _Dialled, _read
from esipp.scenarios.load_balancer_probes.subject import ProfileFigure, What

KEY = (Balancer.DEFAULT, TrafficPolicy.LOCAL)
CHECKS = {
    each.subject.what: each
    for each in checks_about(ProfileFigure, all_checks())
    if (each.subject.balancer, each.subject.policy) == KEY
}
OWN = "172.18.0.6"
PORT = Target.HEALTH_CHECK_NODE_PORT
FIGURES = Figures("cloud", PORT, "/healthz", 1.0, ("172.18.0.6/32",), Destination.VIP, frozenset(What))
PROBES = tuple(
    Probe(100 + phase + second, node, OWN, PORT, "/healthz")
    for phase, node in ((0.1, "a"), (0.7, "b"))
    for second in range(6)
)
SEEN = Observed(6.0, ("a", "b"), PROBES, 20, {Destination.VIP: 20})


def decided(
    what: What, seen: Observed = SEEN, *figures: Figures, certain: bool = True, incomplete: str = ""
) -> Decision:
    sure = frozenset({Balancer.DEFAULT}) if certain else frozenset[Balancer]()
    evidence = ProbeEvidence(
        figures={KEY: figures or (FIGURES,)}, certain=sure, observed={KEY: seen}, incomplete=incomplete
    )
    assert read_judged("load_balancer_probes", judged("load_balancer_probes", evidence)["seen"]) == evidence
    return decide(CHECKS[what], evidence)


def probes(**changes: object) -> Observed:
    return replace(SEEN, probes=tuple(replace(each, **changes) for each in PROBES))


@pytest.mark.parametrize("what", What)
def test_a_load_balancer_that_is_as_its_profile_says_passes(what: What) -> None:
    assert decided(what).status is Status.PASS


@pytest.mark.parametrize(
    ("what", "seen", "reason"),
    [
        (
            What.PORT,
            probes(target=Target.NODE_PORT),
            "cloud probes the health-check node port; packets show the nodePort",
        ),
        (What.PORT, replace(SEEN, probes=()), "packets show no health checks"),
        (What.PATH, probes(path="/livez"), "cloud asks for /healthz; packets show /livez"),
        (What.SOURCE, probes(source="172.18.0.250"), "cloud probes from 172.18.0.6/32; packets show 172.18.0.250"),
        (What.PERIOD, replace(SEEN, probes=PROBES[:1]), "cloud probes every 1 s; packets show at most 1 health check"),
        (What.PERIOD, replace(SEEN, probes=PROBES[0:6:2]), "cloud probes every 1 s; packets show one every 2.00 s"),
        (What.DESTINATION, replace(SEEN, arrived={Destination.NODE: 20}), "packets show node"),
    ],
)
def test_what_differs_from_the_profile_fails(what: What, seen: Observed, reason: str) -> None:
    found = decided(what, seen)
    assert (found.status, reason in found.reason) == (Status.FAIL, True), found


def test_some_that_differ_are_flaky() -> None:
    some = replace(SEEN, probes=(replace(PROBES[0], path="/livez"), *PROBES[1:]))
    assert decided(What.PATH, some).status is Status.FLAKY


def test_a_period_may_differ_by_a_little_and_probers_may_share_the_work() -> None:
    slower = replace(SEEN, probes=tuple(replace(each, at=100 + 1.3 * (each.at - 100)) for each in PROBES))
    assert decided(What.PERIOD, slower).status is Status.PASS
    sources = (f"172.18.0.{6 + number % 2}" for number in range(len(PROBES)))
    shared = replace(SEEN, probes=tuple(replace(each, source=own) for each, own in zip(PROBES, sources, strict=True)))
    assert decided(What.PERIOD, shared).status is Status.PASS


def test_too_few_health_checks_for_a_period_are_undecided() -> None:
    assert decided(What.PERIOD, replace(SEEN, probes=PROBES[:5:4])).status is Status.FAIL
    slow = replace(FIGURES, period=4.0)
    assert decided(What.PERIOD, replace(SEEN, probes=PROBES[:1]), slow).status is Status.INCONCLUSIVE
    assert decided(What.PERIOD, replace(SEEN, probes=())).status is Status.INCONCLUSIVE


def test_only_a_certain_profile_and_a_documented_figure_bind() -> None:
    wrong = probes(path="/livez")
    found = decided(What.PATH, wrong, certain=False)
    assert (found.status, "was only detected" in found.reason, "/livez" in found.reason) == (
        Status.RECORDED,
        True,
        True,
    )
    found = decided(What.PATH, wrong, replace(FIGURES, documented=frozenset()))
    assert (found.status, "is reported by others" in found.reason) == (Status.RECORDED, True)


def test_what_a_profile_does_not_say_is_recorded() -> None:
    for what, less in (
        (What.SOURCE, replace(FIGURES, sources=())),
        (What.PATH, replace(FIGURES, path="")),
        (What.PORT, replace(FIGURES, target=None)),
    ):
        found = decided(what, SEEN, less)
        assert (found.status, "cloud does not say it" in found.reason) == (Status.RECORDED, True)
    assert networks(["the amphorae's addresses"]) == ()
    assert networks(["35.191.0.0/16", "fe80::/10"]) == ("35.191.0.0/16", "fe80::/10")


def test_no_health_checks_are_right_where_the_profile_has_none() -> None:
    none = replace(FIGURES, target=Target.NONE, path="", period=None)
    assert decided(What.PORT, replace(SEEN, probes=()), none).status is Status.PASS
    assert decided(What.PORT, SEEN, none).status is Status.FAIL


def test_others_may_ask_kube_proxy_too() -> None:
    shared = replace(FIGURES, target=Target.KUBE_PROXY)
    own = tuple(replace(each, target=Target.KUBE_PROXY) for each in PROBES)
    others = tuple(replace(each, source="172.18.0.250", path="/livez") for each in own)
    for what in (What.PORT, What.PATH, What.SOURCE):
        assert decided(what, replace(SEEN, probes=own + others), shared).status is Status.PASS
    assert decided(What.PORT, replace(SEEN, probes=others), shared).status is Status.FAIL
    assert decided(What.SOURCE, replace(SEEN, probes=others), shared).status is Status.FAIL
    none = replace(FIGURES, target=Target.NONE, path="", period=None)
    assert decided(What.PORT, replace(SEEN, probes=others), none).status is Status.PASS


def test_one_of_several_fitting_profiles_is_enough() -> None:
    other = replace(FIGURES, profile="other", path="/livez")
    assert decided(What.PATH, SEEN, other, FIGURES).status is Status.PASS
    assert decided(What.PATH, probes(path="/x"), other, FIGURES).status is Status.FAIL


@pytest.mark.parametrize("what", What)
def test_without_packets_of_our_own_connections_nothing_is_decided(what: What) -> None:
    assert decided(what, replace(SEEN, arrived={Destination.VIP: 15})).status is Status.INCONCLUSIVE
    assert decided(what, replace(SEEN, answered=0, arrived={})).status is Status.INCONCLUSIVE
    assert decided(what, incomplete="the kernel of a lost 3 packets").status is Status.INCONCLUSIVE
    assert decided(what, Observed(obstacle="its Service has no VIP")).status is Status.INCONCLUSIVE


def test_what_captures_show_of_a_service() -> None:
    service = _Dialled(
        {30100: Target.NODE_PORT, 31000: PORT}, {Family.IPV4: "172.18.255.1"}, frozenset({("10.0.0.9", 8081)})
    )
    client, vip, node = ("172.18.0.9", 5000), ("172.18.255.1", 80), "172.18.0.3"

    def sighting(kind: str, source: tuple[str, int], to: tuple[str, int], at: float = 1.0, **more: str) -> Sighting:
        return Sighting(
            "a", "eth0", more.get("way", IN), at, "TCP", kind, int(at * 10), source, to, 0, more.get("nonce", "")
        )

    captured = Capture("a", b"", (
        sighting(REQUEST, client, vip),
        sighting(NAMED, client, vip, nonce="n1"),
        sighting(NAMED, client, ("10.0.0.9", 8081), way=OUT, nonce="n1"),
        sighting(REQUEST, (OWN, 700), (node, 31000), 1.0),
        sighting(REQUEST, (OWN, 700), (node, 31000), 1.0),
        sighting(ASKED, (OWN, 700), (node, 31000), 1.1, nonce="/healthz"),
        sighting(REQUEST, (OWN, 701), (node, 31000), 2.0),
        sighting(REQUEST, (node, 702), (node, 31000), 2.0),
        sighting(REQUEST, (OWN, 703), (node, 30100), 2.0),
        sighting(NAMED, (OWN, 703), (node, 30100), 2.1, nonce="of another"),
    ))  # fmt: skip
    made = [Observation("key", 0, Outcome.ANSWERED, nonce="n1"), Observation("key", 1, Outcome.TIMEOUT, nonce="n2")]
    found = _read(service, [captured], made, {client[0], node}, 6.0)
    assert found == Observed(
        6.0, ("a",), (Probe(1.0, "a", OWN, PORT, "/healthz"), Probe(2.0, "a", OWN, PORT)), 1, {Destination.VIP: 1}
    )
