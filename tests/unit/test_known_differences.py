"""Known differences expire: each must be seen where it is claimed."""

import json
import lzma
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from esipp.checks.catalog import all_checks, all_path_checks
from esipp.checks.check import Status, Verdict, checks_about
from esipp.checks.expiry import all_claims, binds, by_claim, claims_of, sights
from esipp.checks.ingress import AT_ANNOUNCER, AT_SERVICE, OF_SERVICE
from esipp.checks.known_differences import Connections, KnownDifference, Nature
from esipp.checks.policy_change import Isolated
from esipp.checks.reference import Reference
from esipp.judging.observation import Witness, say_witnesses
from esipp.preflight.facts import KUBE_PROXY
from suites.known_differences.paths import DIFFERENCES
from tests.unit.comparing_world import said

DEFECT = KnownDifference(
    (("proxy-mode", "nftables"),), "", "no short circuit", (Reference("an issue"),), before="1.34", nature=Nature.DEFECT
)
CILIUM = KnownDifference((("service-proxy", "cilium"),), "", "no rewrite", (Reference("another issue"),))
ANYWHERE = KnownDifference((), "", "some do", (Reference("API text"),))
BY_CHANCE = KnownDifference((("load-balancer.steered", "yes"),), "", "routes moved", (Reference("RFC 2992"),))
CLAIMS: Mapping[KnownDifference, frozenset[str]] = {
    DEFECT: frozenset({"a", "b"}),
    CILIUM: frozenset({"a"}),
    ANYWHERE: frozenset({"a", "c"}),
    BY_CHANCE: frozenset({"a"}),
}
OLD = {"proxy-mode": "nftables", "kubernetes": "v1.32.13", "service-proxy": "kube-proxy"}


def known(name: str, claim: KnownDifference) -> Verdict:
    return said(name, Status.KNOWN, reason=claim.reason, references=claim.references)


def sightings(facts: Mapping[str, str], *verdicts: Verdict) -> dict[KnownDifference, tuple[int, int]]:
    found = sights(CLAIMS, facts, {each.check_id: each for each in verdicts})
    return {each.claim: (each.asked, each.seen) for each in found}


def test_a_claim_is_held_against_the_checks_that_have_it_on_clusters_of_its_facts() -> None:
    counted = sightings(OLD, known("a", DEFECT), said("b", Status.PASS), known("c", ANYWHERE))
    assert counted == {DEFECT: (2, 1), ANYWHERE: (2, 1)}
    assert sightings({**OLD, "kubernetes": "v1.34.4"}, said("a", Status.PASS)) == {ANYWHERE: (1, 0)}


def test_what_is_known_for_another_reason_is_not_this_one() -> None:
    assert sightings(OLD, known("a", ANYWHERE))[DEFECT] == (1, 0)
    completed = replace(known("a", DEFECT), references=(Reference("elsewhere, too"),))
    assert sightings(OLD, completed)[DEFECT] == (1, 1), "a reference may grow"


def test_a_claim_expires_where_its_checks_were_asked_and_none_shows_it() -> None:
    def expired(facts: Mapping[str, str], *verdicts: Verdict) -> list[KnownDifference]:
        found = sights(CLAIMS, facts, {each.check_id: each for each in verdicts})
        return [each.claim for each in found if each.expired]

    assert expired(OLD, said("a", Status.PASS), said("b", Status.FAIL)) == [DEFECT]
    assert expired(OLD, known("a", DEFECT), said("b", Status.PASS)) == []
    assert expired(OLD, said("a", Status.UNSUPPORTED), said("b", Status.INCONCLUSIVE)) == [], "nobody asked"
    assert expired({**OLD, "load-balancer.steered": "yes"}, known("a", DEFECT)) == [], "chance need not come again"


def test_what_only_packets_show_is_not_asked_without_them() -> None:
    in_packets = replace(DEFECT, covers=Connections(forwarded=True))
    claims = {in_packets: frozenset({"a"})}

    def expired(packets: int, doubtful: int = 0) -> list[bool]:
        seen = [Witness("a", number, seen=number < packets, doubt="two") for number in range(packets + doubtful)]
        passed = replace(said("a", Status.PASS), witnesses=say_witnesses(seen, "", 9))
        return [each.expired for each in sights(claims, OLD, {"a": passed})]

    assert expired(packets=2) == [True]
    assert expired(packets=0) == expired(packets=0, doubtful=3) == [False], "nothing could show it"


@pytest.mark.parametrize(("version", "still"), [("1.18.6", True), ("1.19.0", False), ("unknown", False)])
def test_a_claim_can_end_with_a_version_of_something_else(version: str, still: bool) -> None:
    claim = replace(CILIUM, before="cilium.version 1.19")
    assert claim.holds({"service-proxy": "cilium", "kubernetes": "v1.36.3", "cilium.version": version}) is still


@pytest.mark.parametrize(
    ("version", "yet"), [("1.16.19", False), ("1.18.0", True), ("1.20.2", True), ("unknown", True)]
)
def test_a_claim_can_begin_with_a_version(version: str, yet: bool) -> None:
    claim = replace(CILIUM, since="cilium.version 1.18")
    facts = {"service-proxy": "cilium", "kubernetes": "v1.36.3", "cilium.version": version}
    assert claim.holds(facts) is yet
    asked = sights({claim: frozenset({"a"})}, facts, {"a": said("a", Status.PASS)})
    assert [each.expired for each in asked] == ([True] if yet else []), "it need not show where it is not claimed"


def test_what_cilium_mended_is_no_excuse_from_that_version_on() -> None:
    """By its lanes: one of each minor version below, and one above, must show or not show it."""
    limited = {claim.limit for claim in all_claims() if "cilium.version" in claim.limit}
    before, since = ("1.19", "1.20.2"), ("1.18", "1.19")
    assert limited == {f"cilium.version {word} {each}" for word, those in (("before", before), ("from", since))
                       for each in those}  # fmt: skip
    for claim in all_claims():
        facts = {**dict(claim.when), "kubernetes": "v1.36.3"}
        lanes = ("1.15.19", "1.18.6", "1.19.1", "1.20.2")
        there = {version for version in lanes if claim.holds(facts | {"cilium.version": version})}
        if claim.before == "cilium.version 1.19":
            assert there == {"1.15.19", "1.18.6"}, claim.reason
        elif claim.before == "cilium.version 1.20.2":
            assert there == {"1.15.19", "1.18.6", "1.19.1"}, claim.reason
        elif claim.since == "cilium.version 1.19":
            assert there == {"1.19.1", "1.20.2"}, claim.reason
        elif claim.since == "cilium.version 1.18":
            assert there == {"1.18.6", "1.19.1", "1.20.2"}, claim.reason


def test_each_defect_of_cilium_ends_with_a_version_or_is_still_there() -> None:
    of_cilium = [claim for claim in all_claims() if any("cilium" in f"{name} {value}" for name, value in claim.when)]
    faults = [claim for claim in of_cilium if claim.nature is not Nature.ALLOWED]
    assert len(faults) > 10
    for claim in faults:
        assert bool(claim.before) is not bool(claim.still), claim.reason
        assert not claim.still or claim.still.url, claim.reason


def test_claims_of_all_suites_are_found() -> None:
    found = all_claims()
    suites = {name.split(".")[0] for ids in found.values() for name in ids}
    assert len(suites) > 3
    assert all(claim.reason and claim.references for claim in found)
    defects = {each.url for claim in found if claim.nature is Nature.DEFECT for each in claim.references}
    assert "https://github.com/kubernetes/kubernetes/issues/74383" in defects
    assert any(claim.before == "kube-proxy-version 1.33.6" for claim in found)


def test_every_entry_about_paths_covers_a_check() -> None:
    subjects = {(check.subject.path, check.subject.accept) for check in all_path_checks()}
    assert DIFFERENCES
    for each in DIFFERENCES:
        covered = any(accept == each.instead_of and each.on(path) for path, accept in subjects)
        assert covered, f"no path check accepts {sorted(each.instead_of)} where: {each.known.reason}"


def test_no_claim_misspells_a_fact() -> None:
    """Facts are those of the frozen ledgers, and those of none: no kube-proxy, a Service's ingress and announcer."""
    recorded = {AT_SERVICE, OF_SERVICE, AT_ANNOUNCER, KUBE_PROXY}
    for path in (Path(__file__).parents[1] / "frozen" / "ledgers").iterdir():
        lines = map(json.loads, lzma.decompress(path.read_bytes()).splitlines())
        recorded |= {line["name"] for line in lines if line["record"] == "fact"}
    assert {name for claim in all_claims() for name, _ in claim.when} <= recorded


def test_every_claim_says_what_must_be_seen_and_what_it_can_still_hide() -> None:
    for claim in all_claims():
        assert claim.evidence, claim.reason
        assert claim.hides, claim.reason
        for text in (claim.evidence, claim.hides):
            assert text[0].isupper()
            assert text.endswith(".")


def test_checks_that_did_not_show_what_their_siblings_did_are_named() -> None:
    def notes(*verdicts: Verdict) -> list[str]:
        found = sights(CLAIMS, OLD, {each.check_id: each for each in verdicts})
        return [each.of_checks for each in found if each.of_checks]

    (note,) = notes(known("a", DEFECT), said("b", Status.PASS))
    assert "showed in 1 of 2 checks; passed without it: b" in note
    assert notes(known("a", DEFECT), known("b", DEFECT)) == []
    assert notes(known("a", DEFECT), said("b", Status.FAIL)) == [], "a failure speaks for itself"
    assert notes(said("a", Status.PASS), said("b", Status.PASS)) == [], "it has expired"
    assert notes(known("a", ANYWHERE), said("c", Status.PASS)) == [], "it need not be seen"


def test_what_is_claimed_of_one_service_is_held_against_its_checks_alone() -> None:
    service = "loadbalancer.local.tcp.ipv4.outside-1-to-vip"
    other = service.replace("tcp", "udp")
    claim = next(each for each in all_claims() if ("service.load-balancer", "proxy") in each.when)
    facts = {"load-balancer.ingress.loadbalancer-local-tcp": "Proxy"}
    verdicts = {name: known(name, claim) for name in (service, other)}
    (found,) = sights({claim: frozenset(verdicts)}, facts, verdicts)
    assert (found.asked, found.seen) == (1, 1)
    assert sights({claim: frozenset(verdicts)}, {}, verdicts) == []
    assert not binds(claim), "a Service that announces a hostname may be behind a forwarder"


def test_checks_that_repeat_a_path_in_another_window_have_its_claims() -> None:
    known = {(check.subject.path, check.subject.accept): claims_of(check) for check in all_path_checks()}
    repeated = [check for check in checks_about(Isolated, all_checks()) if claims_of(check)]
    ways = {(check.subject.on_path.path, check.subject.on_path.accept): claims_of(check) for check in repeated}
    assert ways.keys() & known.keys()
    assert all(claims == known[way] for way, claims in ways.items() if way in known)


def test_claims_that_differ_in_facts_are_apart() -> None:
    check = next(check for check in all_path_checks() if check.differences)
    one = KnownDifference((("pod-to-node.ipv4", "masqueraded"),), Connections(), "why", (Reference("where"),))
    other = replace(one, when=(("pod-to-node.ipv6", "masqueraded"),))
    found = by_claim([replace(check, differences=(one, other, one))])
    assert [claim.when for claim in found] == [one.when, other.when]


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (DEFECT, "proxy-mode nftables, Kubernetes before 1.34"),
        (CILIUM, "service-proxy cilium"),
        (replace(CILIUM, before="cilium.version 1.19"), "service-proxy cilium, cilium.version before 1.19"),
        (replace(CILIUM, since="cilium.version 1.18"), "service-proxy cilium, cilium.version from 1.18"),
        (
            replace(CILIUM, since="cilium.version 1.18", before="cilium.version 1.20"),
            "service-proxy cilium, cilium.version from 1.18, cilium.version before 1.20",
        ),
        (ANYWHERE, "any"),
    ],
)
def test_where_a_claim_is_made_is_reported(claim: KnownDifference, words: str) -> None:
    assert claim.where == words
