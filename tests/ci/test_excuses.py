"""docs/excuses.md: what is tolerated has a reason, says what it can hide, and names breaks that must be noticed."""

import pytest

from ci.excuses import page
from ci.tolerances import PASSES, UNDECIDED, Tolerance
from esipp.checks.expiry import all_claims
from tests.broken.breakage import Group
from tests.broken.breaks import BREAKS

NOTICED = {each.name for each in BREAKS if each.group is not Group.HARMLESS}


@pytest.mark.parametrize("each", [*PASSES, *UNDECIDED], ids=lambda each: each.what[:40])
def test_a_tolerance_names_breaks_that_must_be_noticed(each: Tolerance) -> None:
    assert each.why.endswith(".")
    assert each.hides.endswith(".")
    assert set(each.seen) <= NOTICED


def test_the_page_has_every_known_difference_and_every_tolerance() -> None:
    text = page()
    for each in (*PASSES, *UNDECIDED):
        assert f"| {each.what} | {each.why} | {each.hides} |" in text
    for claim in all_claims():
        assert claim.hides.replace("|", "\\|") in text
        assert claim.evidence.replace("|", "\\|") in text
