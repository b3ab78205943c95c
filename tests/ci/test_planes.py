"""Data planes by what was found, what they are held against, and what they show otherwise."""

from dataclasses import replace

import pytest

from ci.planes import What, differing, plane_of, reference_for
from esipp.checks.check import Level, Status
from esipp.checks.known_differences import Connections, KnownDifference, Nature
from esipp.checks.model import AddressClass
from esipp.checks.reference import Reference
from esipp.ledger.reading import RecordedRun
from tests.unit.comparing_world import recorded_check, run_of, said

FACTS = {
    "kubernetes": "v1.36.3",
    "service-proxy": "kube-proxy",
    "proxy-mode": "iptables",
    "network-add-on": "esipp-network",
    "families.services": "IPv4, IPv6",
    "load-balancer.profile": "metallb-l2",
}
IPTABLES = plane_of(FACTS)
NFTABLES = plane_of({**FACTS, "proxy-mode": "nftables"})
OLD = plane_of({**FACTS, "kubernetes": "v1.32.13"})
OLD_NFTABLES = plane_of({**FACTS, "proxy-mode": "nftables", "kubernetes": "v1.32.13"})
ONLY_V6 = plane_of({**FACTS, "families.services": "IPv6"})
CILIUM = plane_of({**FACTS, "service-proxy": "cilium", "proxy-mode": "unknown", "network-add-on": "cilium"})


def test_a_data_plane_is_called_by_what_was_found() -> None:
    assert IPTABLES.name == "kube-proxy iptables, esipp-network, dual-stack, metallb-l2, Kubernetes 1.36"
    assert CILIUM.name == "cilium, dual-stack, metallb-l2, Kubernetes 1.36"
    found = {
        "service-proxy": "cilium",
        "network-add-on": "cilium",
        "cilium.version": "1.18.6",
        "proxy-mode": "eBPF dsr",
    }
    assert plane_of({**FACTS, **found}).proxy == "cilium 1.18 eBPF dsr"
    assert "unknown" in plane_of({}).name
    assert plane_of({**FACTS, "families.first": "IPv6"}).families == "dual-stack with IPv6 first"
    assert plane_of({**FACTS, "families.first": "IPv4"}) == IPTABLES
    assert plane_of({**FACTS, "families.services": "IPv6", "families.first": "IPv6"}).families == "IPv6"


def test_what_a_lane_is_called_tells_nothing() -> None:
    one, other = (run_of(facts=FACTS, lane=lane) for lane in ("kind-nftables", "mine"))
    planes = {plane_of({name: fact.value for name, fact in run.facts.items()}) for run in (one, other)}
    assert planes == {IPTABLES}


@pytest.mark.parametrize(
    ("plane", "held_against"),
    [
        (IPTABLES, None),
        (NFTABLES, IPTABLES),
        (OLD, IPTABLES),
        (OLD_NFTABLES, OLD),
        (ONLY_V6, IPTABLES),
        (CILIUM, IPTABLES),
    ],
)
def test_a_data_plane_is_held_against_iptables_of_its_kubernetes(plane: object, held_against: object) -> None:
    every = [CILIUM, ONLY_V6, OLD_NFTABLES, OLD, NFTABLES, IPTABLES]
    assert reference_for(plane, every) == held_against


@pytest.mark.parametrize(
    ("version", "proxy"),
    [
        ("1.36.1", "kube-proxy iptables"),
        ("unknown", "kube-proxy iptables"),
        ("1.33.13", "kube-proxy 1.33 iptables"),
        ("v1.35.4", "kube-proxy 1.35 iptables"),
        ("1.33.13, 1.36.3", "kube-proxy 1.33 and 1.36 iptables"),
    ],
)
def test_a_kube_proxy_of_another_minor_version_is_another_data_plane(version: str, proxy: str) -> None:
    skewed = plane_of({**FACTS, "kube-proxy-version": version})
    assert skewed.proxy == proxy
    assert skewed.is_reference is (skewed == IPTABLES)
    assert reference_for(skewed, [IPTABLES, OLD, skewed]) == (None if skewed == IPTABLES else IPTABLES)


def test_without_iptables_there_is_nothing_to_hold_it_against() -> None:
    assert reference_for(NFTABLES, [NFTABLES, CILIUM]) is None


CLAIM = KnownDifference(
    (("service-proxy", "cilium"),), Connections(), "no rewrite", (Reference("an issue"),), nature=Nature.DEFECT
)


def pair(
    old: Status, new: Status, before: str = "one", after: str = "one", **fields: str
) -> tuple[RecordedRun, RecordedRun]:
    level = Level.CORE
    return (
        run_of([said("a.row", old, level, before)]),
        run_of([said("a.row", new, level, after, **fields)], name="other"),
    )


@pytest.mark.parametrize(
    ("old", "new", "fields", "what"),
    [
        (Status.PASS, Status.FAIL, {}, What.FINDING),
        (Status.PASS, Status.FLAKY, {}, What.FINDING),
        (
            Status.PASS,
            Status.KNOWN,
            {"reason": "no rewrite", "references": (Reference("an issue"),), "nature": ""},
            What.DEFECT,
        ),
        (
            Status.PASS,
            Status.KNOWN,
            {"reason": "of another release", "nature": "allowed"},
            What.ALLOWED,
        ),
        (Status.PASS, Status.KNOWN, {"reason": "of another release", "nature": ""}, What.DEFECT),
        (Status.PASS, Status.UNSUPPORTED, {"reason": "needs it"}, What.MISSING),
        (Status.PASS, Status.INCONCLUSIVE, {"reason": "no control"}, What.OPEN),
        (Status.PASS, Status.ERROR, {"reason": "ours"}, What.OPEN),
        (Status.KNOWN, Status.PASS, {}, What.HOLDS),
    ],
)
def test_what_a_difference_is_follows_from_the_verdict(
    old: Status, new: Status, fields: dict[str, str], what: What
) -> None:
    found = differing(*pair(old, new, **fields), [CLAIM])
    assert [each.what for each in found] == [what]
    assert found[0].levels == ("core",)
    if new in (Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.ERROR):
        assert found[0].reason == fields["reason"]


def test_the_same_verdict_on_something_else_is_recorded() -> None:
    old, new = pair(Status.PASS, Status.PASS, "no answer", "refused")
    assert differing(old, new, []) == [], "of a check that is no path's, by chance"
    for run, shown in ((old, AddressClass.DROPPED), (new, AddressClass.REFUSED)):
        run.verdicts["a.row"] = replace(run.verdicts["a.row"], shown=(shown,))
    (found,) = differing(old, new, [])
    assert (found.what, found.before, found.after) == (What.RECORDED, "dropped", "refused")
    assert differing(*pair(Status.PASS, Status.PASS), []) == []


def test_checks_of_one_reason_are_one_difference_whatever_they_showed() -> None:
    names = [f"row.{number}" for number in range(5)]
    old = run_of([said(name, Status.PASS, Level.CORE, f"seen {name[-1]}") for name in names])
    new = run_of([said(name, Status.UNSUPPORTED, Level.CORE, "", reason="needs it") for name in names], name="other")
    (found,) = differing(old, new, [])
    assert (found.what, found.reason, found.after, len(found.ids)) == (What.MISSING, "needs it", "unsupported", 5)
    assert found.before.count("pass: seen") == 3
    assert found.before.endswith("; and 2 more")


def test_checks_of_one_reason_are_joined_and_the_gravest_first() -> None:
    names = ["nodeport.local.tcp.ipv4", "nodeport.local.tcp.ipv6"]
    old = run_of([said(name, Status.PASS) for name in (*names, "z.row")])
    new = run_of(
        [said(name, Status.KNOWN, reason="no rewrite", references=(Reference("an issue"),)) for name in names]
        + [said("z.row", Status.FAIL)],
        name="other",
    )
    finding, defect = differing(old, new, [CLAIM])
    assert finding.what is What.FINDING
    assert defect.checks == ["nodeport.local.tcp.{ipv4,ipv6}"]


def test_what_one_of_them_was_not_asked_is_no_difference() -> None:
    old = run_of([said("a.row", Status.PASS)], checks=[recorded_check("a.row"), recorded_check("b.row")])
    new = run_of([said("b.row", Status.FAIL)], checks=[recorded_check("b.row")], name="other")
    assert differing(old, new, []) == []


def test_what_takes_luck_to_see_or_was_left_out_on_purpose_is_no_difference() -> None:
    chance = KnownDifference((), Connections(), "open ones break", (Reference("an RFC"),), by_chance=True)
    fields = {"reason": "open ones break", "references": (Reference("an RFC"),)}
    assert differing(*pair(Status.PASS, Status.KNOWN, **fields), [chance]) == []
    assert len(differing(*pair(Status.PASS, Status.KNOWN, **fields), [replace(chance, by_chance=False)])) == 1
    assert len(differing(*pair(Status.PASS, Status.KNOWN, **fields), [replace(chance, nature=Nature.DEFECT)])) == 1
    assert len(differing(*pair(Status.FAIL, Status.KNOWN, **fields), [chance])) == 1
    old, new = pair(Status.UNSUPPORTED, Status.PASS)
    assert len(differing(old, new, [])) == 1
    old.verdicts["a.row"] = replace(old.verdicts["a.row"], left_out=True)
    assert differing(old, new, []) == []
