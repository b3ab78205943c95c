"""From verdicts to one of a few results, one exit code, and the counts behind it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from esipp.base.errors import ExitCode
from esipp.checks.check import Binding, Level, Status, Verdict
from esipp.checks.known_differences import Nature
from esipp.checks.reference import Reference
from esipp.ledger.conclusion import Conclusion, Tally, conclude, scale_of, tally

CORE, EXTENDED, RECORD = Level.CORE, Level.EXTENDED, Level.RECORD
GOOD, BAD, OURS = ExitCode.CONFORMANT, ExitCode.NOT_CONFORMANT, ExitCode.HARNESS
ALLOWED, DEFECT, FINDING = (
    {"status": Status.KNOWN, "nature": each.value, "reason": "so it is", "references": (Reference(f"issue {number}"),)}
    for number, each in enumerate((Nature.ALLOWED, Nature.DEFECT, Nature.FINDING), 1)
)


def verdict(status: Status = Status.PASS, level: Level = CORE, name: str = "row", **fields: Any) -> Verdict:
    return Verdict(name, level, status, "", "", **fields)


def many(number: int, *given: Any, **fields: Any) -> list[Verdict]:
    return [replace(verdict(*given, **fields), check_id=f"row-{at}") for at in range(number)]


def end(*verdicts: Verdict, left_out: int = 0, **options: Any) -> Conclusion:
    """The conclusion on these, and on a core check that is as required."""
    return conclude([verdict(name="always there"), *verdicts], left_out, **options)


# ------------------------------------------------------------------------------------------- results and exit codes
CASES: list[tuple[dict[str, Any], str, ExitCode]] = [
    ({}, "conformant", GOOD),
    ({"status": Status.FAIL}, "nonconformant", BAD),
    ({"status": Status.FLAKY}, "nonconformant", BAD),
    ({"status": Status.INCONCLUSIVE}, "inconclusive", OURS),
    ({"status": Status.ERROR}, "error", OURS),
    ({"status": Status.UNSUPPORTED}, "conformant", GOOD),
    ({"status": Status.UNSUPPORTED, "left_out": True}, "partial", GOOD),
    (ALLOWED, "conformant with known differences", GOOD),
    (DEFECT, "known defects", BAD),
    (FINDING, "known defects", BAD),
    ({"status": Status.KNOWN}, "known defects", BAD),  # one that does not say what it is
    ({"level": EXTENDED, "status": Status.FAIL}, "nonconformant", BAD),
    ({"level": EXTENDED, "status": Status.FLAKY}, "nonconformant", BAD),
    ({"level": EXTENDED, "status": Status.ERROR}, "error", OURS),
    ({"level": EXTENDED, "status": Status.UNSUPPORTED, "left_out": True}, "conformant", GOOD),
    ({"level": EXTENDED, **ALLOWED}, "conformant", GOOD),
    ({"level": EXTENDED, **DEFECT}, "conformant", GOOD),
    ({"level": RECORD, "status": Status.RECORDED}, "conformant", GOOD),
    ({"level": RECORD, "status": Status.INCONCLUSIVE}, "conformant", GOOD),
    ({"level": RECORD, "status": Status.ERROR}, "error", OURS),
]


@pytest.mark.parametrize(("fields", "result", "code"), CASES)
def test_one_verdict_beside_a_good_one(fields: dict[str, Any], result: str, code: ExitCode) -> None:
    said = end(verdict(**fields))
    assert (said.result, said.exit_code) == (result, code)


@pytest.mark.parametrize(("fields", "result", "code"), CASES)
def test_a_verdict_spoils_a_run_exactly_where_its_exit_code_says_so(
    fields: dict[str, Any], result: str, code: ExitCode
) -> None:
    one = verdict(**fields)
    assert scale_of([one]).spoils(one) is (code is not GOOD), result


@pytest.mark.parametrize("fields", [case[0] for case in CASES])
def test_our_own_instrument_is_outside_of_the_verdict(fields: dict[str, Any]) -> None:
    one = verdict(**fields, instrument=True)
    said = end(one)
    assert (said.result, said.exit_code) == ("conformant", GOOD)
    assert dict(said.counts) == {"pass": 1}
    assert not scale_of([verdict(), one]).spoils(one)


def test_where_only_our_instrument_was_selected_the_run_is_about_it() -> None:
    wrong = verdict(Status.FAIL, instrument=True)
    said = conclude([wrong, verdict(instrument=True)], 0)
    assert (said.result, said.exit_code, dict(said.counts)) == ("nonconformant", BAD, {"fail": 1, "pass": 1})
    assert said.instrument == Tally()
    assert scale_of([wrong]).spoils(wrong)


ORDER: list[tuple[Sequence[dict[str, Any]], str]] = [
    (({"status": Status.FAIL}, {"status": Status.ERROR}), "nonconformant"),
    (({"status": Status.FAIL}, DEFECT), "nonconformant"),
    (({"status": Status.FAIL}, {"status": Status.UNSUPPORTED, "left_out": True}), "nonconformant"),
    ((DEFECT, {"status": Status.ERROR}), "known defects"),
    ((DEFECT, {"status": Status.INCONCLUSIVE}), "known defects"),
    ((DEFECT, ALLOWED), "known defects"),
    (({"status": Status.ERROR}, {"status": Status.INCONCLUSIVE}), "error"),
    (({"status": Status.INCONCLUSIVE}, {"status": Status.UNSUPPORTED, "left_out": True}), "inconclusive"),
    ((ALLOWED, {"status": Status.UNSUPPORTED, "left_out": True}), "partial"),
]


@pytest.mark.parametrize(("given", "result"), ORDER)
def test_the_gravest_one_decides(given: Sequence[dict[str, Any]], result: str) -> None:
    for order in (given, given[::-1]):
        assert end(*(verdict(**fields) for fields in order)).result == result


# ------------------------------------------------------------------------------------------------------ known defects
def test_known_defects_are_named_with_their_references() -> None:
    said = end(verdict(**DEFECT), verdict(**DEFECT), verdict(**FINDING))
    assert said.why == "3 core checks differ by a known defect or finding: issue 2 (2), issue 3 (1)"
    several = [verdict(**DEFECT | {"references": (Reference(f"issue {number}"),)}) for number in range(9)]
    assert end(*several).why.endswith("issue 3 (1) and others")


def test_accepted_defects_are_reported_and_end_with_0() -> None:
    said = end(verdict(**DEFECT), accept_known_defects=True)
    assert (said.result, said.exit_code) == ("known defects", GOOD)
    assert said.why == "accepted: 1 core check differs by a known defect or finding: issue 2 (1)"


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({"status": Status.FAIL}, "nonconformant"),
        ({"status": Status.FLAKY}, "nonconformant"),
        ({"status": Status.ERROR}, "error"),
        ({"status": Status.INCONCLUSIVE}, "inconclusive"),
        ({"status": Status.UNSUPPORTED, "left_out": True}, "known defects"),
    ],
)
def test_accepting_defects_accepts_nothing_else(fields: dict[str, Any], result: str) -> None:
    assert end(verdict(**DEFECT), verdict(**fields), accept_known_defects=True).result == result


def test_what_holds_is_never_said_of_a_known_difference() -> None:
    """The lie of old: 3 as required and 1,670 excused were reported as 'all 1673 core checks hold'."""
    for fields, result in ((ALLOWED, "conformant with known differences"), (DEFECT, "known defects")):
        said = conclude([*many(3), *many(1670, **fields)], 0)
        assert said.result == result
        assert said.lines[0].startswith("core: 3 of 1,673 as required, 1,670 known (1,670 ")
        assert "all 1" not in said.sentence


# ------------------------------------------------------------------------------------------------------------ fail-on
@pytest.mark.parametrize("status", [Status.FAIL, Status.FLAKY])
def test_a_failing_extended_check_binds_as_much_as_a_flaky_one(status: Status) -> None:
    one = verdict(status, EXTENDED)
    assert end(one).exit_code is BAD
    assert end(one, fail_on=Binding.CORE).exit_code is GOOD
    assert f"extended: 0 of 1 as required, 1 {'failed' if status is Status.FAIL else 'flaky'}" in (
        end(one, fail_on=Binding.CORE).lines
    )


@pytest.mark.parametrize(("undecided", "code"), [(0, GOOD), (5, GOOD), (6, OURS), (100, OURS)])
def test_extended_checks_may_stay_undecided_up_to_a_share(undecided: int, code: ExitCode) -> None:
    """The lie of old: 600 undecided ones were CONFORMANT, and unmentioned."""
    checks = [*many(undecided, Status.INCONCLUSIVE, EXTENDED), *many(100 - undecided, Status.PASS, EXTENDED)]
    said = end(*checks)
    assert said.exit_code is code
    if undecided:
        assert any(line.startswith("extended: ") and f"{undecided} undecided" in line for line in said.lines)
    if code is OURS:
        assert said.why == f"{undecided} of 100 extended checks could not be decided, more than 5%"
        assert end(*checks, fail_on=Binding.CORE).exit_code is GOOD


def test_an_extended_check_that_was_not_asked_is_no_undecided_one() -> None:
    checks = [*many(19, Status.UNSUPPORTED, EXTENDED), verdict(Status.INCONCLUSIVE, EXTENDED)]
    assert end(*checks).exit_code is OURS


# ----------------------------------------------------------------------------------------------------- what was asked
def test_leaving_out_core_checks_is_partial_never_conformant() -> None:
    said = end(left_out=1)
    assert (said.result, said.why) == ("partial", "no binding check fails, but 1 core check was left out")


def test_nothing_but_unsupported_core_checks_is_not_conformance() -> None:
    said = conclude([verdict(Status.UNSUPPORTED), verdict(Status.PASS, EXTENDED)], 0)
    assert (said.result, said.exit_code) == ("inconclusive", OURS)


def test_nothing_selected_is_empty() -> None:
    assert (conclude([], 7).result, conclude([], 7).exit_code) == ("empty", ExitCode.NOTHING_SELECTED)


def test_the_share_of_the_catalogue_and_why_the_rest_was_not_asked() -> None:
    asked, missing = many(199), many(600, Status.UNSUPPORTED, missing=("family.ipv6", "sctp"))
    more = many(3, Status.UNSUPPORTED, missing=("nodes.three",))
    said = conclude([*asked, *missing, *more], 198)
    assert said.catalogue == 1000
    assert said.lines[1:] == [
        "coverage: 199 of the catalogue's 1,000 core checks (19 %)",
        "not judged: 600 without family.ipv6, 3 without nodes.three, 198 not selected",
    ]


def test_the_share_is_never_rounded_up_to_all() -> None:
    said = conclude([*many(999), verdict(Status.UNSUPPORTED, missing=("sctp",))], 0)
    assert "coverage: 999 of the catalogue's 1,000 core checks (99 %)" in said.lines


def test_missing_features_beyond_a_few_are_counted() -> None:
    lacking = [verdict(Status.UNSUPPORTED, missing=(f"f{number}",)) for number in range(6)]
    assert end(*lacking).lines[-1].endswith("1 without f3, 2 without other features")


def test_instruments_and_other_levels_are_not_in_the_catalogue() -> None:
    said = end(verdict(instrument=True), verdict(level=EXTENDED), verdict(Status.RECORDED, RECORD))
    assert said.catalogue == 1


# ---------------------------------------------------------------------------------------------------------- the words
def test_all_counts_are_reported_in_a_fixed_order() -> None:
    given = [*many(5), verdict(**ALLOWED), verdict(**DEFECT), verdict(**FINDING), verdict(Status.FAIL)]
    given += [verdict(Status.FLAKY), verdict(Status.INCONCLUSIVE), verdict(Status.ERROR), verdict(Status.UNSUPPORTED)]
    given += [*many(2, level=EXTENDED), verdict(Status.RECORDED, RECORD), verdict(Status.FAIL, instrument=True)]
    said = conclude(given, 0)
    assert said.lines == [
        "core: 5 of 12 as required, 3 known (1 allowed, 1 defect, 1 finding), 1 failed, 1 flaky, 1 undecided, "
        "1 not judged due to an error of esipp",
        "extended: all 2 as required",
        "informational: 1 recorded",
        "coverage: 12 of the catalogue's 13 core checks (92 %)",
        "not judged: 1 without a feature",
        "reference load balancer, not part of the result: 0 of 1 as required, 1 failed",
    ]
    assert said.headline == "NONCONFORMANT: 1 check fails and 1 check is flaky"
    assert said.sentence == "; ".join([said.headline, *said.lines])


def test_informational_checks_are_never_reported_as_as_required() -> None:
    said = end(*many(112, Status.RECORDED, RECORD))
    assert "informational: 112 recorded" in said.lines
    assert said.counts["recorded"] == 112
    assert said.counts["pass"] == 1


def test_every_verdict_is_counted_once() -> None:
    given = [verdict(status) for status in Status]
    found = tally(given)
    assert found.asked + found.not_asked == len(given)
    assert found.as_json()["asked"] == found.asked


def test_a_core_check_that_is_only_recorded_counts_neither_as_asked_nor_as_required() -> None:
    said = end(*many(2, Status.PASS, CORE), verdict(Status.RECORDED, CORE))
    assert (said.result, said.exit_code) == ("conformant", ExitCode.CONFORMANT)
    assert said.why.startswith("all 3 core checks")
    assert "core: all 3 as required, 1 recorded" in said.lines
    assert "coverage: 3 of the catalogue's 4 core checks (75 %)" in said.lines
    assert "not judged: 1 only recorded, as no bound is promised" in said.lines


def test_where_every_core_check_is_only_recorded_nothing_is_concluded() -> None:
    assert conclude([verdict(Status.RECORDED, CORE)], 0).exit_code is ExitCode.HARNESS
