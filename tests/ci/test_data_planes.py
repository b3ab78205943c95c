"""docs/data-planes: what is kept of runs, what the page says of it, and which known differences have expired."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci import data_planes, expiry, samples
from ci.data_planes_page import render
from esipp.base.errors import PreflightError
from esipp.checks.catalog import all_checks
from esipp.checks.check import Status, Verdict
from esipp.checks.expiry import all_claims, binds
from esipp.checks.known_differences import Connections, KnownDifference
from esipp.checks.reference import Reference
from esipp.ledger.reading import RecordedRun
from tests.unit.comparing_world import run_of, said

FACTS = {
    "kubernetes": "v1.32.13",
    "kube-proxy-version": "v1.32.13",
    "service-proxy": "kube-proxy",
    "proxy-mode": "iptables",
    "network-add-on": "esipp-network",
    "families.services": "IPv4, IPv6",
}
NFTABLES = {**FACTS, "proxy-mode": "nftables"}
SHORT_CIRCUIT = next(claim for claim in all_claims() if claim.before == "kube-proxy-version 1.33.6")
CHECK = sorted(all_claims()[SHORT_CIRCUIT])[0]
WHERE = {"at": "2026-11-22 12:00", "commit": "abc1234", "cores": 2, "seconds": 900.0}


def verdict_of(status: Status, **fields: Any) -> Verdict:
    level = next(check.level for check in all_checks() if check.id == CHECK)
    return said(CHECK, status, level, "no answer" if status is not Status.PASS else "client", **fields)


def known() -> Verdict:
    nature = SHORT_CIRCUIT.nature.value
    return verdict_of(Status.KNOWN, reason=SHORT_CIRCUIT.reason, references=SHORT_CIRCUIT.references, nature=nature)


def run(facts: Mapping[str, str], verdict: Verdict, name: str = "kind-iptables") -> RecordedRun:
    return run_of([verdict], name=f"run-{name}", lane=name, facts=facts)


IPTABLES_RUN = run(FACTS, verdict_of(Status.PASS))


def kept(tmp_path: Path, *runs: RecordedRun) -> list[Mapping[str, Any]]:
    file, page = tmp_path / "kept.jsonl", tmp_path / "page.md"
    lanes = {str(each.header["lane"]): WHERE for each in runs}
    data_planes.add(runs, lanes, file, page)
    records = data_planes.load(file)
    assert page.read_text(encoding="utf-8") == render(records)
    return records


def test_no_known_difference_that_is_claimed_for_a_recorded_data_plane_has_expired() -> None:
    assert expiry.expired_records(data_planes.load()) == []


def test_no_known_difference_that_is_claimed_for_the_healthy_sample_has_expired() -> None:
    run = samples.run(samples.HEALTHY)
    assert any(each.asked and binds(each.claim) for each in expiry.sights_of(run, all_claims()))
    assert expiry.expired([run]) == []


def test_a_page_without_runs_says_so() -> None:
    page = render([])
    assert "No runs are recorded yet." in page
    assert "`kind-nftables`" in page.split("No recorded run yet")[1].splitlines()[0]


def test_what_changes_from_iptables_is_reported_with_its_reason(tmp_path: Path) -> None:
    records = kept(tmp_path, IPTABLES_RUN, run(NFTABLES, known(), "kind-nftables-1.32"))
    assert [each["against"] for each in records] == [None, records[0]["plane"]]
    (difference,) = records[1]["differences"]
    assert (difference["what"], difference["rows"], difference["after"]) == (
        "known defect",
        [CHECK],
        "known: no answer",
    )
    page = render(records)
    title = (
        "## From kube-proxy iptables, dual-stack, Kubernetes 1.32 to kube-proxy nftables, dual-stack, Kubernetes 1.32"
    )
    assert title in page
    assert "Checks that differ: 1 known defect." in page
    assert f"| known defect | `{CHECK}` | 1 |" in page
    assert SHORT_CIRCUIT.reason in page
    assert "| 2 | 15 |" in page, "cores and minutes"
    assert "run 2: 1 of 1 checks" in page.split("## Known differences")[1]
    assert "`kind-nftables-1.32`" not in page.split("No recorded run yet")[1].splitlines()[0]


def test_a_new_run_takes_the_place_of_that_of_the_same_lane_and_data_plane(tmp_path: Path) -> None:
    kept(tmp_path, IPTABLES_RUN, run(NFTABLES, known(), "kind-nftables-1.32"), run(NFTABLES, known(), "mine"))
    records = kept(tmp_path, IPTABLES_RUN, run(NFTABLES, verdict_of(Status.FAIL), "mine"))
    assert [each["lane"] for each in records] == ["kind-iptables", "kind-nftables-1.32", "mine"]
    assert [each["what"] for each in records[2]["differences"]] == ["finding"]


def test_an_add_on_that_masquerades_makes_another_data_plane(tmp_path: Path) -> None:
    masquerades = {**FACTS, "pod-to-node.ipv4": "masqueraded"}
    records = kept(tmp_path, IPTABLES_RUN, run(masquerades, verdict_of(Status.PASS), "kind-masquerading"))
    assert [each["plane"].count("with masquerading") for each in records] == [0, 1]
    assert records[1]["against"] == records[0]["plane"]


def test_what_cannot_be_held_against_iptables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="iptables mode"):
        kept(tmp_path, run(NFTABLES, known()))
    broken = replace(IPTABLES_RUN, end=None)
    with pytest.raises(PreflightError, match="No complete run"):
        kept(tmp_path, broken, run(NFTABLES, known()))
    assert not (tmp_path / "kept.jsonl").exists()


def test_lanes_of_one_data_plane_are_all_recorded_and_what_is_not_whole_is_reported(tmp_path: Path) -> None:
    same = run(FACTS, verdict_of(Status.PASS), "kind-1.32")
    broken = replace(run(NFTABLES, known(), "kind-nftables-1.32"), end=None)
    runs = [IPTABLES_RUN, same, broken]
    said = data_planes.add(runs, {}, tmp_path / "kept.jsonl", tmp_path / "page.md").splitlines()
    assert said[1:] == ["incomplete, not recorded: the run in run"]
    records = data_planes.load(tmp_path / "kept.jsonl")
    assert [(each["lane"], each["against"]) for each in records] == [("kind-1.32", None), ("kind-iptables", None)]
    missing = render(records).split("No recorded run yet")[1].splitlines()[0]
    assert "`kind-nftables-1.32`" in missing
    assert "`kind-1.32`" not in missing


def test_a_known_difference_that_a_run_does_not_show_is_named() -> None:
    (line,) = expiry.expired([run(NFTABLES, verdict_of(Status.PASS))])
    assert SHORT_CIRCUIT.reason in line
    assert line.startswith("kube-proxy nftables, esipp-network, dual-stack, Kubernetes 1.32: ")
    assert "showed in none of 1 check." in line
    assert expiry.expired([run(NFTABLES, known())]) == []
    assert expiry.expired([run({**NFTABLES, "kube-proxy-version": "v1.36.3"}, verdict_of(Status.PASS))]) == []
    assert expiry.expired([run(NFTABLES, verdict_of(Status.UNSUPPORTED))]) == [], "the check was not asked"


def test_what_expired_is_named_from_what_is_kept_as_well(tmp_path: Path) -> None:
    records = kept(tmp_path, IPTABLES_RUN, run(NFTABLES, verdict_of(Status.PASS), "kind-nftables-1.32"))
    (line,) = expiry.expired_records(records)
    assert SHORT_CIRCUIT.reason in line
    assert "Expired: no longer observed" in render(records)
    others = [claim for claim in all_claims() if claim != SHORT_CIRCUIT]
    assert expiry.expired_records(records, others) == [], "what is claimed no more has not expired"


def test_what_only_packets_show_expires_only_where_they_were_captured() -> None:
    covers = Connections(forwarded=True)
    claim = KnownDifference((("proxy-mode", "nftables"),), covers, "passed on", (Reference("an issue"),))
    passed = verdict_of(Status.PASS)
    assert expiry.expired([run(NFTABLES, passed)], {claim: frozenset({CHECK})}) == []
    seeing = replace(passed, witnesses="echo server, and packets of 2 of 20 connections")
    assert len(expiry.expired([run(NFTABLES, seeing)], {claim: frozenset({CHECK})})) == 1


def test_what_is_kept_of_many_checks_is_short(tmp_path: Path) -> None:
    names = [check.id for check in all_checks()][:600:3]
    old = run_of([said(name, Status.PASS) for name in names], lane="kind-iptables", facts=FACTS)
    new = run_of([said(name, Status.FAIL) for name in names], lane="other", facts=NFTABLES, name="other")
    records = kept(tmp_path, old, new)
    (found,) = records[1]["differences"]
    assert found["number"] == len(names)
    assert len(found["rows"]) <= data_planes.MOST_PATTERNS
    assert len(json.dumps(records)) < 20_000
