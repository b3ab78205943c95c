"""Each break turns the right checks red, and no others."""

from pathlib import Path

import pytest

from esipp.checks.catalog import all_checks
from tests.broken import score
from tests.broken.balancing import own_balancer
from tests.broken.baselines import Baselines, qualify, union
from tests.broken.breakage import Break, hold, not_counted
from tests.broken.breaks import BREAKS
from tests.broken.nodes import Nodes
from tests.broken.turns import turn

pytestmark = pytest.mark.timeout(3000)  # whole runs of the suite, and waiting for one's turn


def _param(broken: Break) -> object:
    return pytest.param(broken, id=broken.name, marks=[] if broken.fixed else [pytest.mark.by_hand])


# Those that can run beside each other first: then nobody waits for the others' end.
TABLE = [_param(each) for each in sorted(BREAKS, key=lambda each: not each.scoped)]


@pytest.fixture(scope="session")
def healthy(request: pytest.FixtureRequest, nodes: Nodes, scores: Path) -> Baselines:
    """The cluster as it is, wherever any of the breaks that are tried now will look."""
    params = [item.callspec.params.get("broken") for item in request.session.items if hasattr(item, "callspec")]
    return Baselines(nodes, scores, union([each.run for each in params if isinstance(each, Break)]))


@pytest.mark.parametrize("broken", TABLE)
def test_the_right_checks_notice(broken: Break, healthy: Baselines, nodes: Nodes, scores: Path) -> None:
    before = healthy.of(broken.run)
    alone = not broken.scoped or bool(broken.run.own)
    repeated = ""
    for name in (broken.name, f"{broken.name}-again"):
        turns = turn(nodes.lock, alone=alone or bool(repeated))
        with turns, own_balancer(nodes, broken.run.own), broken.apply(nodes) as placed:
            result = qualify(nodes, broken.run, scores / name)
        held = hold(broken, all_checks(), before.statuses, result)
        why = not_counted(result, held, alone=alone)
        if repeated or not why:
            break
        repeated = why
    assert placed.at > 0, f"the cluster was never broken\n{result.text}"
    assert not broken.at_once or placed.at < result.settled, "the cluster was not broken before it was observed"
    held.repeated, held.healthy = repeated, before.seconds
    score.keep(held, scores)
    if not held.good:
        amiss = "; ".join(held.amiss())
        pytest.fail(f"{amiss}\n\n{result.text}\n{amiss}", pytrace=False)
