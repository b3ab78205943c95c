"""Checks that are no paths, as people read them: patterns, pages, failures; and the frame in which they are judged."""

import json
from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from esipp.base.document import WIDTH
from esipp.checks.catalog import all_checks
from esipp.checks.check import Check, Feature, Level, Status, Subject, Verdict, is_about
from esipp.checks.explain import explain_check
from esipp.checks.known_differences import KnownDifference
from esipp.checks.path import OnPath
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference
from esipp.judging.frame import Decision, Known, give_verdict
from esipp.report.rendering.terminal import as_lines
from esipp.report.terminal import failures, summary
from tests.unit.recorded_world import recorded, recorded_checks

OTHERS = [check for check in all_checks() if not is_about(check, OnPath)]


@dataclass(frozen=True, kw_only=True)
class Plain(Check):
    """The least that a check can be."""

    suite: str = "plain"
    requirement: str = "It holds"
    level: Level = Level.CORE
    references: tuple[Reference, ...] = (Reference("the API", "https://example.org/api"),)
    subject: Subject = field(default_factory=Subject)
    expected: str = "200"
    fails_if: str = "it is broken"


def decided(status: Status, seen: str = "503") -> Decision:
    return Decision(status, "200", f"{seen} x20", "a reason", seen)


# ------------------------------------------------------------------------------------------------------ the frame
def test_what_is_missing_is_not_looked_at() -> None:
    check = Plain(id="a.b", features=frozenset({"family.ipv6"}))

    def never() -> Decision:
        raise AssertionError("looked at")

    lacking = give_verdict(check, Known({}, {"family.ipv6": Feature(False, "no node has it")}), never)
    assert (lacking.status, lacking.left_out) == (Status.UNSUPPORTED, False)
    assert lacking.reason == "needs family.ipv6: no node has it"
    left_out = give_verdict(check, Known({}, {"family.ipv6": Feature(False, "left out", ours=True)}), never)
    assert left_out.left_out


@pytest.mark.parametrize("status", [Status.PASS, Status.FAIL, Status.FLAKY])
def test_what_is_informational_is_recorded_and_never_passes(status: Status) -> None:
    verdict = give_verdict(Plain(id="a", level=Level.RECORD), Known({}, {}), lambda: decided(status))
    assert (verdict.status, verdict.reason) == (Status.RECORDED, "a reason")


@pytest.mark.parametrize(
    ("facts", "seen", "status"),
    [
        ({"proxy": "x", "kubernetes": "v1.33.1"}, "503", Status.KNOWN),
        ({"proxy": "x", "kubernetes": "v1.34.0"}, "503", Status.FAIL),  # it is mended there
        ({"proxy": "y", "kubernetes": "v1.33.1"}, "503", Status.FAIL),  # another data plane
        ({"proxy": "x", "kubernetes": "v1.33.1"}, "404", Status.FAIL),  # something else was seen
        ({"kubernetes": "v1.33.1"}, "503", Status.FAIL),  # nobody knows
    ],
)
def test_a_difference_is_known_where_its_facts_hold_and_it_is_what_was_seen(
    facts: dict[str, str], seen: str, status: Status
) -> None:
    known = KnownDifference((("proxy", "x"),), "503", "x does not", (Reference("an issue"),), before="1.34")
    verdict = give_verdict(Plain(id="a", differences=(known,)), Known(facts, {}), lambda: decided(Status.FAIL, seen))
    assert verdict.status is status
    assert (verdict.references == (Reference("an issue"),)) is (status is Status.KNOWN)


def test_a_difference_excuses_no_mixture() -> None:
    known = KnownDifference((), "503", "x does not", (Reference("an issue"),))
    check = Plain(id="a", differences=(known,))
    assert give_verdict(check, Known(), lambda: decided(Status.FLAKY)).status is Status.FLAKY


# ----------------------------------------------------------------------------------------------------- the page
def expanded(pattern: str) -> set[str]:
    parts = [part.strip("{}").split(",") for part in pattern.replace("{", "\0{").replace("}", "}\0").split("\0")]
    return {"".join(chosen) for chosen in product(*parts)}


def test_ids_fold_only_where_braces_stand_for_exactly_them() -> None:
    assert patterns(["a.x.1", "a.y.1", "a.x.2", "a.y.2"]) == ["a.{x,y}.{1,2}"]
    assert patterns(["a.x.1", "a.y.2"]) == ["a.x.1", "a.y.2"]
    assert patterns(["a.x.1", "a.y.1", "a.x.2"]) == ["a.{x,y}.1", "a.x.2"]
    assert patterns(["a.1.c-to-n", "a.1.d-to-n", "a.1.d-to-m", "a.1.c-to-m"]) == ["a.1.{c,d}-to-{n,m}"]
    assert patterns(["a.b", "a.b.c"]) == ["a.b", "a.b.c"]
    assert patterns(["a.x"]) == ["a.x"]
    assert expanded("a.{x,y}.{1,2}") == {"a.x.1", "a.x.2", "a.y.1", "a.y.2"}


# --------------------------------------------------------------------------------------------- every check there is
def test_every_check_says_what_it_requires_what_must_be_seen_and_what_trips_it() -> None:
    for check in OTHERS:
        found = explain_check(check)
        assert check.requirement.split()[0] in found
        assert check.expected, check.id
        assert check.fails_if or check.level is Level.RECORD, check.id
        assert check.references, check.id
        assert all(len(line) <= max(WIDTH, len(check.id)) or "://" in line for line in found.splitlines()), check.id
        assert json.loads(json.dumps(check.as_json()))["expect"] == check.expected


def test_requirements_name_neither_family_nor_client() -> None:
    """Checks that differ only there become one line."""
    for check in OTHERS:
        for word in ("IPv4", "IPv6", "outside-1", "pod-on-other-node", "host-on-other-node"):
            assert word not in check.requirement, check.id


# ----------------------------------------------------------------------------------------------------- failures
def verdict(check: Check, status: Status) -> Verdict:
    return give_verdict(check, Known({}, {}), lambda: decided(status))


def test_failures_of_one_requirement_are_joined() -> None:
    checks = [Plain(id=f"a.{number}") for number in range(9)] + [Plain(id="b", requirement="Something else holds")]
    verdicts = {check.id: replace(verdict(check, Status.FAIL), likely=check.fails_if) for check in checks}
    lines = as_lines(failures(recorded_checks(checks), verdicts, "esipp run --context x"))
    text = "\n".join(lines)
    assert text.count("FAIL (core)") == 2
    assert "8 more checks with this requirement" in text
    assert "and 3 more (see the ledger)" in text
    assert "likely    it is broken" in text
    assert "repeat    esipp run --context x a.0" in text


def test_a_check_that_could_not_be_decided_names_no_likely_break() -> None:
    check = Plain(id="a")
    text = "\n".join(
        as_lines(failures(recorded_checks([check]), {"a": verdict(check, Status.INCONCLUSIVE)}, "esipp run"))
    )
    assert text.strip().startswith("INCONCLUSIVE (core) a")
    assert "likely" not in text


def test_the_summary_of_checks_without_paths_has_no_matrix_and_counts_them() -> None:
    check = Plain(id="a")
    run = recorded([check], {"a": verdict(check, Status.PASS)})
    lines = summary(run)
    assert "  core  1 check: 1 pass" in lines
    assert lines[-3:] == [
        "CONFORMANT: the one core check that could run is as required",
        "  core: all 1 as required",
        "  coverage: 1 of the catalogue's 1 core check (100 %)",
    ]
