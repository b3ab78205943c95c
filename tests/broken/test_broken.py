"""Each way in which a cluster is broken turns the rows red that must notice it, and no other."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from esipp.base.errors import ExitCode
from esipp.checks.catalog import all_rows
from esipp.ledger.file import read_ledger
from tests.broken import score
from tests.broken.balancing import own_balancer
from tests.broken.breakage import Asked, Break, hold
from tests.broken.breaks import BREAKS
from tests.broken.nodes import Nodes, Result
from tests.broken.turns import once, turn

pytestmark = pytest.mark.timeout(3000)  # whole runs of the suite, and waiting for one's turn


HEALTHY = "ESIPP_HEALTHY"
"""The folder of a run of all suites on this cluster as it is."""


def _param(broken: Break) -> object:
    return pytest.param(broken, id=broken.name, marks=[] if broken.fixed else [pytest.mark.by_hand])


# Those that can run beside each other first: then nobody waits for the others' end.
TABLE = [_param(each) for each in sorted(BREAKS, key=lambda each: not each.scoped)]


def union(asked: list[Asked]) -> list[Asked]:
    """What all of these ask, with as few runs: one for each kind, with as much of each as any asks for."""
    found: dict[object, Asked] = {}
    for each in asked:
        seen = found.get(each.kind, each)
        rows = {*seen.rows, *each.rows} if seen.rows and each.rows else set()
        found[each.kind] = replace(
            each,
            rows=tuple(sorted(rows)),
            samples=max(seen.samples, each.samples),
            moves=max(seen.moves, each.moves),
            disruptive=seen.disruptive or each.disruptive,
        )
    return list(found.values())


Healthy = dict[str, dict[str, str]]
"""What each check says on the healthy cluster: for each way in which the reference load balancer is its own."""


@pytest.fixture(scope="session")
def healthy(request: pytest.FixtureRequest, nodes: Nodes, scores: Path) -> Healthy:
    """The cluster as it is, wherever any of the breaks that are tried now will look: nothing goes wrong."""
    params = [item.callspec.params.get("broken") for item in request.session.items if hasattr(item, "callspec")]
    statuses: Healthy = {"": recorded()}
    for asked in union([each.asked for each in params if isinstance(each, Break)]):
        if not asked.own and statuses[""] and HEALTHY in os.environ:
            continue
        name = f"healthy-{hashlib.sha256(repr(asked).encode()).hexdigest()[:8]}"
        with once(scores, f"{name}.json") as missing:
            if missing is not None:
                # What is scoped touches no other run's Services; another load balancer is everybody's.
                with turn(nodes.lock, alone=bool(asked.own)), own_balancer(nodes, asked.own):
                    result = qualify(nodes, asked, scores / name)
                wrong = {name: said for name, said in result.worse().items() if said != "inconclusive"}
                assert wrong == {}, result.text  # what it leaves undecided is held against no break
                assert result.exit_code in (ExitCode.CONFORMANT, ExitCode.HARNESS), result.text
                missing.write_text(json.dumps(result.statuses), encoding="utf-8")
        said = json.loads((scores / f"{name}.json").read_text(encoding="utf-8"))
        statuses.setdefault(asked.cluster, {}).update(said)
    return statuses


def recorded() -> dict[str, str]:
    """What a run of everything on this cluster said, if the environment names its folder."""
    if HEALTHY not in os.environ:
        return {}
    records = list(read_ledger(Path(os.environ[HEALTHY]) / "ledger.jsonl"))
    return {record["id"]: record["status"] for record in records if record["record"] == "verdict"}


def qualify(nodes: Nodes, asked: Asked, out: Path) -> Result:
    return nodes.qualify(
        out,
        asked.samples,
        suites=asked.suites,
        rows=asked.rows,
        moves=asked.moves,
        disruptive=asked.disruptive,
        options=asked.options,
    )


@pytest.mark.parametrize("broken", TABLE)
def test_the_right_rows_notice(broken: Break, healthy: Healthy, nodes: Nodes, scores: Path) -> None:
    unjudged = ""
    alone = not broken.scoped or bool(broken.asked.own)
    with turn(nodes.lock, alone=alone), own_balancer(nodes, broken.asked.own):
        for name in (broken.name, f"{broken.name}-again"):
            with broken.apply(nodes) as placed:
                result = qualify(nodes, broken.asked, scores / name)
            if result.statuses or unjudged:
                break
            # It judged no row, for something befell the run itself, and says to run again: once, and told.
            unjudged = next((line for line in result.text.splitlines() if line.startswith("esipp: ")), "no reason told")
    assert placed.at > 0, f"the cluster was never broken\n{result.text}"
    assert not broken.at_once or placed.at < result.settled, "the cluster was not broken before it was observed"
    held = hold(broken, all_rows(), healthy[broken.asked.cluster], result)
    held.unjudged = unjudged
    score.keep(held, scores)
    assert held.good, f"{result.text}\n{held}"
