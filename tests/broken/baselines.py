"""Verdicts on the healthy cluster, the baseline of breaks."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from esipp.base.errors import ExitCode
from esipp.ledger.file import read_ledger
from tests.broken.balancing import own_balancer
from tests.broken.breakage import RunOptions
from tests.broken.nodes import Nodes, Result
from tests.broken.turns import once, turn

HEALTHY = "ESIPP_HEALTHY"
"""The folder of a run of all suites on the healthy cluster."""


def union(run: list[RunOptions]) -> list[RunOptions]:
    """The smallest set of runs that covers all of these."""
    found: dict[object, RunOptions] = {}
    for each in run:
        seen = found.get(each.kind, each)
        checks = {*seen.checks, *each.checks} if seen.checks and each.checks else set()
        found[each.kind] = replace(
            each,
            checks=tuple(sorted(checks)),
            samples=max(seen.samples, each.samples),
            moves=max(seen.moves, each.moves),
            disruptive=seen.disruptive or each.disruptive,
        )
    return list(found.values())


@dataclass(frozen=True)
class Baseline:
    """The statuses on the healthy cluster, and the duration of a run of exactly these checks; 0 without one."""

    statuses: Mapping[str, str]
    seconds: float = 0.0


@dataclass(frozen=True)
class Baselines:
    """Verdicts on the healthy cluster, measured for the first break that needs them and cached for others.

    ``wanted`` covers all breaks of this session.
    """

    nodes: Nodes
    scores: Path
    wanted: list[RunOptions]

    def of(self, run: RunOptions) -> Baseline:
        """The statuses of a break's checks. A failed run affects only the breaks that need it.

        Raises:
            AssertionError: the run on the healthy cluster failed.
        """
        known = {} if run.own or run.options else recorded(run)
        if known:
            return Baseline(known)
        whole = next(each for each in self.wanted if each.kind == run.kind)
        name = f"healthy-{hashlib.sha256(repr(whole).encode()).hexdigest()[:8]}"
        with once(self.scores, f"{name}.json") as missing:
            if missing is not None:
                missing.write_text(json.dumps(self._ask(whole, self.scores / name)), encoding="utf-8")
        kept = json.loads((self.scores / f"{name}.json").read_text(encoding="utf-8"))
        assert not kept["amiss"], f"the healthy cluster is not as it must be: {kept['amiss']}"
        return Baseline(kept["statuses"], kept["seconds"] if [whole] == union([run]) else 0.0)

    def _ask(self, run: RunOptions, out: Path) -> dict[str, object]:
        """Run it; cache errors too, so that it does not run again for each break."""
        try:
            # Alone: a break beside it would take of the time that it measures.
            with turn(self.nodes.lock, alone=True), own_balancer(self.nodes, run.own):
                result = qualify(self.nodes, run, out)
        except Exception as error:
            return {"statuses": {}, "seconds": 0.0, "amiss": f"{type(error).__name__}: {error}"}
        # What it leaves undecided is held against no break.
        wrong = {name: said for name, said in result.worse().items() if said != "inconclusive"}
        well = not wrong and result.exit_code in (ExitCode.CONFORMANT, ExitCode.HARNESS)
        return {"statuses": result.statuses, "seconds": result.seconds, "amiss": "" if well else result.text}


def recorded(run: RunOptions) -> dict[str, str]:
    """Verdicts of a run of all suites on this cluster, if the environment names its folder; none if this run asks more.

    That run may have left out features, such as a shell on nodes, which a disruptive break needs.
    """
    if HEALTHY not in os.environ:
        return {}
    records = list(read_ledger(Path(os.environ[HEALTHY]) / "ledger.jsonl"))
    verdicts = {record["id"]: record for record in records if record["record"] == "verdict"}
    suites = {check["id"]: check["suite"] for check in records[0]["rows"]}
    asked = [
        name
        for name in verdicts
        if suites[name] in run.suites and (not run.checks or any(part in name for part in run.checks))
    ]
    if run.disruptive and any(verdicts[name]["left_out"] for name in asked):
        return {}
    return {name: verdict["status"] for name, verdict in verdicts.items()}


def qualify(nodes: Nodes, run: RunOptions, out: Path) -> Result:
    return nodes.qualify(
        out,
        run.samples,
        suites=run.suites,
        checks=run.checks,
        moves=run.moves,
        disruptive=run.disruptive,
        options=run.options,
    )


def forget_the_cluster(scores: Path) -> None:
    """Clear cached repair state and verdicts: an earlier session may have been killed since."""
    for name in ("healed", "healthy-*.json"):
        for path in scores.glob(name):
            path.unlink()
