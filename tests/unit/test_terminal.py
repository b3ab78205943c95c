"""What people read at the end: the matrix, and each failure cause by cause."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from esipp.base.document import WIDTH, plain
from esipp.checks.catalog import all_path_checks
from esipp.checks.check import Feature, Level, Status, Verdict
from esipp.checks.model import AddressClass, EntryKind, Family, Outcome, Path, Protocol, Vantage
from esipp.checks.path import PathCheck
from esipp.checks.reference import Reference
from esipp.judging.observation import Observation, Witness
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.matrix import CLIENTS, tables
from esipp.report.rendering import terminal
from esipp.report.rendering.terminal import as_lines
from esipp.report.terminal import failures, summary
from tests.unit.recorded_world import recorded, recorded_checks, with_looks
from tests.unit.verdicts import judge
from tests.unit.world import FEATURES, SAMPLES, by_id, changed_evidence, numbered, show
from tests.unit.world import SOURCE_IP as CHECKS

LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"
NO_REFERENCE = {name: Feature(False, "not there yet") for name in FEATURES if "reference" in name}

Changes = Mapping[Path, AddressClass]


def source_ip() -> list[RecordedCheck]:
    """The checks as a ledger has them."""
    return recorded_checks(CHECKS)


def judged(
    changes: Changes | None = None, path_checks: Sequence[PathCheck] = CHECKS, **fields: Any
) -> dict[str, Verdict]:
    seen = {path.key: [show(path, what, seq) for seq in range(SAMPLES)] for path, what in (changes or {}).items()}
    seen |= {key: numbered(made) for key, made in fields.pop("seen", {}).items()}
    fields.setdefault("features", {**FEATURES, **NO_REFERENCE})
    made = changed_evidence(seen, **fields)
    return with_looks(path_checks, {path_check.id: judge(path_check, made) for path_check in path_checks})


def printed(verdicts: Mapping[str, Verdict], path_checks: Sequence[PathCheck] = CHECKS) -> list[str]:
    return summary(recorded(path_checks, verdicts))


def rewritten(test: Callable[[Path], bool], what: AddressClass = AddressClass.NODE) -> dict[Path, AddressClass]:
    """Every path of a Local service from outside on which the client was seen, as far as the test says."""
    wanted = frozenset({AddressClass.CLIENT})
    paths = {
        path_check.subject.path
        for path_check in CHECKS
        if path_check.subject.accept == wanted and path_check.subject.path.client.name.startswith("outside")
    }
    return {path: what for path in paths if test(path)}


def matrix_of(
    verdicts: Mapping[str, Verdict], path_checks: Sequence[PathCheck] = CHECKS, kind: Vantage = Vantage.OUTSIDE
) -> list[str]:
    """The rows of the matrix of one kind of client, each on one line; none if the kind has no matrix."""
    found = {table.caption: table for table in tables(recorded_checks(path_checks), verdicts)}
    if table := found.get(CLIENTS[kind]):
        return ["  ".join(map(plain, row)) for row in (table.head, *table.rows)]
    return []


def line_of(lines: Sequence[str], title: str) -> str:
    """The fields of a row of the matrix."""
    return next(line for line in lines if line.startswith(title)).removeprefix(title)


# -------------------------------------------------------------------------------------------------------- the matrix
def test_a_healthy_run_fits_the_width_and_says_conformant() -> None:
    lines = printed(judged())
    assert max(len(line) for line in lines) <= WIDTH
    core = sum(1 for c in CHECKS if c.level is Level.CORE and not c.features & set(NO_REFERENCE))
    last = next(number for number, line in enumerate(lines) if line.startswith("CONFORMANT"))
    assert lines[last] == f"CONFORMANT: all {core:,} core checks that could run are as required"
    assert lines[last + 1] == f"  core: all {core:,} as required"
    assert any(line.startswith("  extended: all ") for line in lines[last:])
    assert any(line.startswith("  informational: ") and line.endswith(" recorded") for line in lines[last:])


def test_a_healthy_matrix_is_short_and_shows_every_client_in_both_families() -> None:
    verdicts = judged()
    outside, pods, hosts = (matrix_of(verdicts, kind=kind) for kind in Vantage)
    assert max(map(len, (outside, pods, hosts))) < 40
    assert (outside[0], outside[1]) == ("  outside 1  outside 2", "  v4 v6  v4 v6")
    assert pods[0] == "  pod on endpoint node  pod on other node  backend"
    assert hosts[0] == "  host on endpoint node  host on other node"
    assert line_of(pods, "clusterip (+").split()[1:] == [*"CCCCHH"]
    assert line_of(hosts, "clusterip (+").split()[1:] == [*"CCCC"]
    assert line_of(outside, "nodeport.local  bare-node (+").split()[1:] == [*"----"]


def test_each_kind_of_client_has_a_table_and_in_it_only_lines_with_checks() -> None:
    made = tables(source_ip(), judged())
    assert [table.caption for table in made] == ["clients outside", "pods", "host processes"]
    assert not any("clusterip" in line for line in matrix_of(judged())), "no client outside dials a ClusterIP"
    for table in made:
        assert not [row for row in table.rows[1:] if not {*"".join(map(plain, row[1:]))} - {*". "}]


def test_lines_that_differ_for_one_kind_of_client_stay_merged_for_the_others() -> None:
    verdicts = judged(rewritten(lambda path: path.protocol is Protocol.UDP))
    assert any("UDP" in line for line in matrix_of(verdicts))
    assert matrix_of(verdicts, kind=Vantage.POD) == matrix_of(judged(), kind=Vantage.POD)


@pytest.mark.parametrize("width", [WIDTH, 80])
def test_no_word_of_any_matrix_is_broken(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "WIDTH", width)
    path_checks = all_path_checks()
    verdicts = judged(path_checks=path_checks, features=FEATURES)
    for suite in {path_check.suite for path_check in path_checks}:
        for table in tables(recorded_checks([each for each in path_checks if each.suite == suite]), verdicts):
            words = {word for row in (table.head, *table.rows) for cell in row for word in plain(cell).split()}
            caption, *lines = as_lines(table)
            assert caption == table.caption
            assert max(map(len, lines)) <= width
            assert {word for line in lines if {*line} != {"-"} for word in line.split()} == words, (suite, caption)


def test_one_family_alone_is_readable() -> None:
    only = {**FEATURES, **NO_REFERENCE, "family.ipv6": Feature(False, "single-stack")}
    path_checks = [path_check for path_check in CHECKS if path_check.subject.path.family is Family.IPV4]
    lines = matrix_of(judged(path_checks=path_checks, features=only))
    assert not any("v6" in line for line in lines)
    assert line_of(lines, "nodeport.local  endpoint-node (+").split()[1:] == [*"CC"]


def test_what_could_not_be_asked_takes_no_line_and_no_column() -> None:
    left = {**FEATURES, **NO_REFERENCE, "vantage.outside": Feature(False, "none", ours=True)}
    assert [table.caption for table in tables(source_ip(), judged(features=left))] == ["pods", "host processes"]
    lines = matrix_of(judged(features=left), kind=Vantage.POD)
    assert not any("reference" in line for line in lines)
    assert line_of(lines, "clusterip (+").split()[1:] == [*"CCCCHH"]


def test_an_unsupported_protocol_hides_no_other() -> None:
    without = {**FEATURES, **NO_REFERENCE, "sctp": Feature(False, "left out", ours=True)}
    lines = matrix_of(judged(features=without))
    assert lines == matrix_of(judged())


def test_a_protocol_that_differs_stands_in_its_own_line() -> None:
    lines = matrix_of(judged(rewritten(lambda path: path.protocol is Protocol.UDP)))
    assert line_of(lines, "nodeport.local  endpoint-node  TCP SCTP (+").split()[1:5] == ["C"] * 4
    assert line_of(lines, "nodeport.local  endpoint-node  UDP (+").split()[1:5] == ["N!"] * 4
    assert any(line.startswith("nodeport.local  bare-node (+") for line in lines), (
        "what holds for all protocols names none"
    )


def test_a_family_or_a_client_that_differs_is_seen_in_its_column() -> None:
    family = matrix_of(judged(rewritten(lambda path: path.family is Family.IPV6)))
    assert line_of(family, "nodeport.local  endpoint-node (+").split()[1:5] == ["C", "N!", "C", "N!"]
    client = matrix_of(judged(rewritten(lambda path: path.client.name == "outside-2")))
    assert line_of(client, "nodeport.local  endpoint-node (+").split()[1:5] == ["C", "C", "N!", "N!"]


def test_a_service_that_differs_from_its_kind_stands_in_its_own_line() -> None:
    port = rewritten(lambda path: path.service is not None and path.service.slug == "nodeport.local.several-ports")
    lines = matrix_of(judged(port))
    assert line_of(lines, "nodeport.local  endpoint-node (+").split()[1] == "C"
    assert any("nodeport.local.several-ports  endpoint-node" in line for line in lines)


def test_a_bare_node_that_answers_is_marked() -> None:
    lines = matrix_of(judged({by_id(BARE).subject.path: AddressClass.NODE}))
    assert line_of(lines, "nodeport.local  bare-node  TCP").split()[0] == "N!"


def test_mixed_answers_show_both() -> None:
    path_check = by_id(LOCAL)
    mixed = [
        show(path_check.subject.path, AddressClass.CLIENT),
        show(path_check.subject.path, AddressClass.NODE),
        show(path_check.subject.path, AddressClass.NODE),
    ]
    lines = matrix_of(judged(seen={path_check.subject.path.key: mixed}))
    assert line_of(lines, "nodeport.local  endpoint-node  TCP").split()[0] == "CN~"


def test_what_is_only_recorded_says_so() -> None:
    lines = matrix_of(judged())
    assert line_of(lines, "loadbalancer.local.source-ranges  endpoint-node").split()[:4] == ["Cr"] * 4


# ------------------------------------------------------------------------------------------------------- each failure
def test_a_failure_says_all_a_reader_needs() -> None:
    path_check = by_id(LOCAL)
    change = "node worker-a, between eth0 and veth1: 172.18.0.101:{} became 10.244.3.1:7"
    seen = {
        path_check.subject.path.key: [
            Witness(path_check.subject.path.key, seq, True, change=change.format(seq)) for seq in range(2)
        ]
    }
    lines = printed(judged({path_check.subject.path: AddressClass.NODE}, witnesses=seen, blind=""))
    text = " ".join(" ".join(lines).split())
    assert max(len(line) for line in lines if "repeat" not in line) <= WIDTH
    assert f"FAIL (core) {path_check.id}" in text
    assert path_check.requirement in text
    assert "172.18.0.101" in text, "expected, resolved to this cluster"
    assert "worker-b" in text, "observed, with the owner of the address"
    assert f"packets the source changed: {change.format(0)} (and 1 more in the ledger)" in text
    assert "ports source ports kept 3 of 3" in text
    assert "based on echo server, and packets of 2 of 3 connections" in text
    assert f"esipp run --context x {path_check.id}" in text
    assert "that node masquerades" in text, "where to look first"
    assert "over TCP, not SCTP or UDP; over IPv4, not IPv6" in text, "what its siblings tell"


def test_one_cause_in_many_checks_is_reported_once_with_a_few_others_and_the_number_of_the_rest() -> None:
    changes = rewritten(lambda path: path.protocol is Protocol.UDP, AddressClass.OTHER)
    lines = printed(judged(changes))
    text = " ".join(" ".join(lines).split())
    failing = sum(1 for verdict in judged(changes).values() if verdict.status is Status.FAIL)
    assert failing > 40
    assert text.count("FAIL (core)") == 1
    assert text.count("the address is unknown to this run") == 1
    assert "only affects over UDP, not SCTP or TCP" in text
    assert f"{failing - 1} more checks have this cause" in text
    assert f"and {failing - 6} more (see the ledger)" in text
    causes = text.partition("INCONCLUSIVE")[0]  # checks whose control is gone come after
    assert causes.count("unknown address x3") == 6
    lines = as_lines(failures(source_ip(), judged(changes), "esipp run"))
    first = next(number for number, line in enumerate(lines) if line.startswith("INCONCLUSIVE"))
    assert first < 35


def test_the_plainest_of_the_most_binding_checks_is_reported_whole() -> None:
    changes = rewritten(lambda path: path.protocol is not Protocol.TCP)
    lines = printed(judged(changes))
    assert [line for line in lines if line.startswith("FAIL")] == [
        "FAIL (core) loadbalancer.local.udp.ipv4.outside-1-to-vip"
    ]


def test_two_causes_are_two_failures() -> None:
    changes = {by_id(BARE).subject.path: AddressClass.NODE, **rewritten(lambda path: path.protocol is Protocol.UDP)}
    assert sum(1 for line in printed(judged(changes)) if line.startswith("FAIL")) == 2


def test_failures_come_before_doubts() -> None:
    listener = by_id(LOCAL).subject.controls[0].path
    lines = as_lines(
        failures(
            source_ip(), judged({listener: AddressClass.DROPPED, by_id(BARE).subject.path: AddressClass.NODE}), "x"
        )
    )
    kinds = [line.split()[0] for line in lines if line.startswith(("FAIL", "INCONCLUSIVE"))]
    assert kinds == sorted(kinds)


def test_the_same_doubt_is_reported_once_with_its_count() -> None:
    listener = by_id(LOCAL).subject.controls[0].path
    text = "\n".join(printed(judged({listener: AddressClass.DROPPED})))
    assert text.count("INCONCLUSIVE (core)") == 1
    assert "more checks have this cause" in text


def test_our_own_errors_are_reported_once_each_kind() -> None:
    path_checks = [path_check for path_check in CHECKS if path_check.subject.path.entry.kind is EntryKind.POD_IP]
    few = {
        path_check.subject.path.key: [show(path_check.subject.path, AddressClass.CLIENT)] * (n % 2 + 1)
        for n, path_check in enumerate(path_checks)
    }
    text = "\n".join(printed(judged(seen=few)))
    assert text.count("ERROR (") == 1


def test_what_was_not_tested_is_said_with_its_reason_once() -> None:
    gone = {**FEATURES, **NO_REFERENCE, "family.ipv6": Feature(False, "node worker-a has no IPv6 InternalIP")}
    lines = printed(judged(features=gone))
    text = " ".join(" ".join(lines).split())
    reference = sum(1 for c in CHECKS if c.features & set(NO_REFERENCE) and "family.ipv4" in c.features)
    instrument = text.partition("reference load balancer (an instrument")[2]
    assert f"not tested, {reference} checks (" in instrument
    assert "): needs load-balancer.reference-" in instrument
    assert text.count("not there yet") == 1
    assert (
        text.partition("reference load balancer (an")[0].count("needs family.ipv6: node worker-a has no IPv6 Int") == 1
    )


def test_silence_and_refusal_differ_in_words() -> None:
    path_check = by_id("loadbalancer.local.tcp.ipv4.outside-1-to-vip")
    refused = [replace(Observation(path_check.subject.path.key, 0, Outcome.REFUSED), count=SAMPLES)]
    assert f"refused x{SAMPLES}" in "\n".join(printed(judged(seen={path_check.subject.path.key: refused})))


def test_known_differences_are_known_by_nature_and_level_and_undecided_checks_by_reason() -> None:
    verdicts = judged()
    asked = [path_check for path_check in CHECKS if verdicts[path_check.id].status is Status.PASS]
    core = [path_check for path_check in asked if path_check.level is Level.CORE][:3]
    extended = [path_check for path_check in asked if path_check.level is Level.EXTENDED][:2]
    known = {"reason": "so it is", "references": (Reference("issue 1"),), "nature": "finding"}
    for path_check in (core[0], extended[0]):
        verdicts[path_check.id] = replace(verdicts[path_check.id], status=Status.KNOWN, **known)
    for path_check, why in (
        (core[1], "no answer, but one"),
        (core[2], "no answer, but two"),
        (extended[1], "no answer"),
    ):
        verdicts[path_check.id] = replace(verdicts[path_check.id], status=Status.INCONCLUSIVE, reason=why)
    lines = printed(verdicts)
    assert "known difference (finding), 2 checks (1 core, 1 extended): so it is [issue 1]" in [*map(str.strip, lines)]
    assert "inconclusive, 3 checks (2 core, 1 extended): no answer" in [*map(str.strip, lines)]
    assert any(line.startswith("KNOWN DEFECTS: 1 core check differs") for line in lines)


def test_our_own_instrument_stands_in_a_section_of_its_own() -> None:
    path_check = next(path_check for path_check in CHECKS if path_check.instrument and path_check.level is Level.CORE)
    verdicts = judged(features=FEATURES)
    assert verdicts[path_check.id].instrument
    verdicts[path_check.id] = replace(verdicts[path_check.id], status=Status.FAIL, observed="of our own", sees="0 of 3")
    lines = printed(verdicts)
    begins = next(number for number, line in enumerate(lines) if line.startswith("reference load balancer (an"))
    failed = lines.index(f"FAIL (core) {path_check.id}")
    last = next(number for number, line in enumerate(lines) if line.startswith("CONFORMANT"))
    assert begins < failed < last
    assert any(line.split() == ["precision", "0", "of", "3"] for line in lines)
    assert any(line.startswith("  reference load balancer, not part of the result: ") for line in lines[last:])
    assert not any("reference-" in line for line in lines[:begins])
