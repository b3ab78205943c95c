"""A verdict as pytest's outcome."""

import pytest
from _pytest.outcomes import Failed, Skipped, XFailed

from esipp.base.errors import HarnessError
from esipp.checks.check import Level, Status, Verdict
from esipp.report.outcome import enforce

ENDS = {
    Status.FAIL: Failed,
    Status.FLAKY: Failed,
    Status.KNOWN: XFailed,
    Status.UNSUPPORTED: Skipped,
    Status.INCONCLUSIVE: HarnessError,
    Status.ERROR: HarnessError,
}


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("status", Status)
def test_a_test_ends_as_its_verdict_says(status: Status, level: Level) -> None:
    verdict = Verdict("a.row", level, status, "this", "that", "a reason")
    if status not in ENDS:
        assert status in (Status.PASS, Status.RECORDED)
        enforce(verdict)
        return
    with pytest.raises(ENDS[status]):
        enforce(verdict)
