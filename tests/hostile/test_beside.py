"""Concurrent runs in one cluster do not affect each other."""

import pytest

from tests.hostile.running import Ended, Place
from tests.hostile.tried import Tried

pytestmark = pytest.mark.timeout(4800)


def verdicts(ended: Ended) -> dict[str, str]:
    """What a run says of each check; a check with a known difference was asked, and holds, as one that passes."""
    assert ended.statuses, ended.text
    return ended.statuses


def test_another_run_is_at_work(place: Place, tried: Tried) -> None:
    """All checks of source_ip, alone, and then twice side by side: the same verdicts, check by check."""
    alone = place.start(checks=(), name="alone").end()
    one, other = (place.start(checks=(), name=name) for name in ("one", "other"))
    ended = [one.end(), other.end()]
    tried.keep(
        ended[0],
        what="another run is at work in the same cluster",
        how="all checks of source_ip, alone and twice at once",
        left=[*place.left(ended[0]), *place.left(ended[1])],
        then="every check has the same verdict as alone",
    )
    for each in ended:
        assert verdicts(each) == verdicts(alone)
        assert each.code == alone.code
        assert place.left(each) == []
    assert alone.code == 0
