"""Runs to be compared, made of nothing but checks, verdicts and evidence."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from esipp.checks.check import Binding, Fact, Level, Status, Verdict
from esipp.checks.model import Vantage
from esipp.ledger.conclusion import conclude
from esipp.ledger.reading import Probe, RecordedRun
from esipp.ledger.recorded_checks import Place, RecordedCheck

NODES = {"bare-node": "worker-2", "endpoint-node": "worker"}
OTHER_NODES = {"bare-node": "n7", "endpoint-node": "n8"}


def recorded_check(
    name: str, level: Level = Level.CORE, requirement: str = "It must hold.", **fields: Any
) -> RecordedCheck:
    return RecordedCheck(name, fields.pop("suite", "source_ip"), level, requirement, ("a text",), "NodePort", "client",
                   data={}, **fields)  # fmt: skip


def path_check(name: str, service: str = "nodeport.local", family: str = "IPv4") -> RecordedCheck:
    place = Place(service, "endpoint-node", "", (), "outside-1", (), Vantage.OUTSIDE, family, "TCP")
    return recorded_check(name, path=name, place=place)


def said(name: str, status: Status, level: Level = Level.CORE, observed: str = "as it was", **fields: Any) -> Verdict:
    usual = {"nature": "allowed"} if status is Status.KNOWN else {}
    return Verdict(name, level, status, "the client", observed, **usual | fields)


def run_of(
    verdicts: Iterable[Verdict] = (),
    checks: Iterable[RecordedCheck] | None = None,
    left_out: int = 0,
    name: str = "0102-030405-abcd",
    facts: Mapping[str, str] | None = None,
    nodes: Mapping[str, str] | None = None,
    **header: Any,
) -> RecordedRun:
    """A whole run; its checks are those of the verdicts, if none are given."""
    verdicts = list(verdicts)
    own = list(checks) if checks is not None else [recorded_check(each.check_id, each.level) for each in verdicts]
    nodes = nodes or NODES
    first_record = {"run": name, "lane": "lane", "suite": "1", "at": 1795262871.8, "left_out_core_rows": left_out,
            "fail_on": "core", "accept_known_defects": False, **header}  # fmt: skip
    run = RecordedRun(Path("run"), first_record, own, {each.check_id: each for each in verdicts})
    run.facts = {key: Fact(value, "asked") for key, value in (facts or {"kubernetes": "v1.36.3"}).items()}
    run.topology = {"roles": dict(nodes), "nodes": {node: {} for node in nodes.values()}, "clients": {}}
    run.sha256 = name
    concluded = conclude(verdicts, left_out, Binding(first_record["fail_on"]))
    run.end = {"result": concluded.result, "why": concluded.why, "exit_code": int(concluded.exit_code)}
    return run


def one(status: Status, observed: str = "as it was", level: Level = Level.CORE, **fields: Any) -> RecordedRun:
    """A run of one check."""
    return run_of([said("a.row", status, level, observed, **fields)])


def probe(seconds: float, times: int = 1, outcome: str = "answered") -> Probe:
    return Probe(0, times, outcome, None, None, None, "", "", 10.0, 10.0 + seconds, "")
