"""A load balancer that does wrong turns the rows red that are about it, and no row of its neighbour's."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci import loadbalancer
from ci.places import places
from ci.surroundings import Surroundings
from esipp.errors import ExitCode
from tests.broken.nodes import Nodes, Result

pytestmark = pytest.mark.timeout(600)

BROKEN, NEIGHBOUR = "convergence.reference-ecmp", "convergence.default"
FEW = 3
"""Moves up, and as many down: each that is not followed takes its whole budget."""


@dataclass(frozen=True)
class Fault:
    """A fault of the reference load balancer (images/loadbalancer/README.md).

    Args:
        name: as the balancer takes it.
        notices: which of its rows must fail, by the last part of their ids.
        also: which may: they follow from the same fault, but not in every sequence of moves.
        by_hand: not in every run of these tests.
    """

    name: str
    notices: frozenset[str]
    also: frozenset[str] = frozenset()
    by_hand: bool = False

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Start the balancer with the fault, and again without it."""
        there = Surroundings.load(places())
        assert there is not None, "these tests need a cluster that ci/conformance keeps"
        try:
            loadbalancer.restart(there, ["--fault", self.name])
            yield
        finally:
            loadbalancer.restart(there)


_LATE = frozenset({"no-loss-on-graceful-deletion", "balance", "black-hole"})
FAULTS = (
    Fault("ignore-health", frozenset({"steers", "black-hole"}), _LATE, by_hand=True),
    Fault("keep-one", frozenset({"steers", "black-hole"}), _LATE, by_hand=True),
    Fault("slow", frozenset({"black-hole"}), _LATE | {"steers"}, by_hand=True),
    Fault("one-in-fifty-stale", frozenset({"steers"}), _LATE, by_hand=True),
)
TABLE = [pytest.param(each, id=each.name, marks=[pytest.mark.by_hand] if each.by_hand else []) for each in FAULTS]


@pytest.fixture(scope="module")
def healthy(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Both balancers as they are: nothing goes wrong."""
    result = asked(nodes, tmp_path_factory.mktemp("healthy") / "run")
    assert result.worse() == {}, result.text
    return result


def asked(nodes: Nodes, out: Path) -> Result:
    return nodes.qualify(out, suites=["convergence"], rows=(BROKEN, NEIGHBOUR), binding="timed", moves=FEW)


@pytest.mark.parametrize("fault", TABLE)
def test_the_right_rows_notice(fault: Fault, healthy: Result, nodes: Nodes, tmp_path: Path) -> None:
    with fault.apply():
        result = asked(nodes, tmp_path / "run")
    changed = {row: status for row, status in result.statuses.items() if status != healthy.statuses[row]}
    ours = {row for row in result.statuses if row.startswith(BROKEN)}
    must = {row for row in ours if row.rpartition(".")[2] in fault.notices}
    may = {row for row in ours if row.rpartition(".")[2] in fault.also} | must
    assert {row: status for row, status in changed.items() if row not in may} == {}, result.text
    assert must <= changed.keys(), result.text
    assert {changed[row] for row in must} <= {"fail", "flaky"}, result.text
    assert result.exit_code == ExitCode.NOT_CONFORMANT
