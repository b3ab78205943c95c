"""From verdicts to one word and one exit code."""

from collections.abc import Iterator

import pytest

from esipp.errors import ExitCode
from esipp.observation import Verdict
from esipp.report.conclusion import conclude
from esipp.rows import Binding, Level, Status


def verdicts(*kinds: tuple[Status, Level]) -> Iterator[Verdict]:
    yield Verdict("always-there", Level.CORE, Status.PASS, "", "")
    for number, (status, level) in enumerate(kinds):
        yield Verdict(f"row-{number}", level, status, "", "")


CASES = [
    ((), "conformant", ExitCode.CONFORMANT),
    (((Status.FAIL, Level.CORE),), "nonconformant", ExitCode.NOT_CONFORMANT),
    (((Status.FAIL, Level.EXTENDED),), "conformant", ExitCode.CONFORMANT),
    (((Status.FLAKY, Level.EXTENDED),), "nonconformant", ExitCode.NOT_CONFORMANT),
    (((Status.FLAKY, Level.RECORD),), "conformant", ExitCode.CONFORMANT),
    (((Status.INCONCLUSIVE, Level.CORE),), "inconclusive", ExitCode.HARNESS),
    (((Status.INCONCLUSIVE, Level.EXTENDED),), "conformant", ExitCode.CONFORMANT),
    (((Status.ERROR, Level.RECORD),), "error", ExitCode.HARNESS),
    (((Status.UNSUPPORTED, Level.CORE),), "conformant", ExitCode.CONFORMANT),
    (((Status.KNOWN, Level.CORE),), "conformant", ExitCode.CONFORMANT),
    (((Status.FAIL, Level.CORE), (Status.ERROR, Level.CORE)), "nonconformant", ExitCode.NOT_CONFORMANT),
]


@pytest.mark.parametrize(("kinds", "result", "code"), CASES)
def test_result_and_exit_code(kinds: tuple[tuple[Status, Level], ...], result: str, code: ExitCode) -> None:
    end = conclude(verdicts(*kinds), left_out=0)
    assert (end.result, end.exit_code) == (result, code)


def test_leaving_out_core_rows_is_partial_never_conformant() -> None:
    assert conclude(verdicts(), left_out=1).result == "partial"


def test_a_failure_is_not_hidden_by_being_partial() -> None:
    assert conclude(verdicts((Status.FAIL, Level.CORE)), left_out=1).result == "nonconformant"


def test_nothing_but_unsupported_core_rows_is_not_conformance() -> None:
    only = [Verdict("row", Level.CORE, Status.UNSUPPORTED, "", "")]
    assert conclude(only, left_out=0).exit_code is ExitCode.HARNESS


def test_core_rows_that_we_left_out_make_it_partial() -> None:
    ours = Verdict("row", Level.CORE, Status.UNSUPPORTED, "", "", left_out=True)
    assert conclude([*verdicts(), ours], left_out=0).result == "partial"


def test_a_lane_may_demand_the_extended_rows() -> None:
    failed = conclude(verdicts((Status.FAIL, Level.EXTENDED)), left_out=0, fail_on=Binding.EXTENDED)
    assert failed.exit_code is ExitCode.NOT_CONFORMANT
    doubtful = conclude(verdicts((Status.INCONCLUSIVE, Level.EXTENDED)), left_out=0, fail_on=Binding.EXTENDED)
    assert doubtful.exit_code is ExitCode.HARNESS


def test_extended_differences_are_told_beside_a_good_result() -> None:
    assert "1 extended row differs" in conclude(verdicts((Status.FAIL, Level.EXTENDED)), left_out=0).sentence


def timed(status: Status) -> list[Verdict]:
    return [*verdicts((Status.PASS, Level.CORE)), Verdict("late", Level.EXTENDED, status, "", "", timed=True)]


def test_rows_that_a_busy_machine_can_spoil_bind_only_where_it_is_asked() -> None:
    for status, code in ((Status.FAIL, 1), (Status.FLAKY, 1), (Status.INCONCLUSIVE, 3)):
        assert conclude(timed(status), 0, Binding.CORE).exit_code == ExitCode.CONFORMANT
        assert conclude(timed(status), 0, Binding.EXTENDED).exit_code == ExitCode.CONFORMANT
        assert conclude(timed(status), 0, Binding.TIMED).exit_code == code
    assert "1 extended row differs" in conclude(timed(Status.FAIL), 0, Binding.EXTENDED).why
