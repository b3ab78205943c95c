"""`ci/peer`: upstream's specs and our suites on the kept cluster, healthy and broken; docs/peer.json and its page."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ci.hermetic.store import Store
from ci.peer_tests import page
from ci.peer_tests.build import Upstream, upstream
from ci.peer_tests.damage import DAMAGES, Damage
from ci.peer_tests.data import KEPT, Broken, Comparison, Noticing, Ours, Theirs
from ci.peer_tests.report import Outcome
from ci.peer_tests.running import PROCESSES, Watch, cluster_version, remove_left_overs, run_theirs
from ci.peer_tests.specs import SPECS
from ci.places import CONTEXT, cores, places
from ci.step import Journal, SetupError
from ci.surroundings import Surroundings
from esipp.catalog import all_rows
from esipp.report.ledger import read_ledger
from tests.broken.breakage import Asked, hold
from tests.broken.nodes import Nodes, Result

HEALTHY = "healthy"
AFTER = "after"
LASTING = "lasting"
SUITES = ("source_ip", "health_checks", "interoperability")
"""Ours that ask what those specs ask; how load balancers follow, the API and continuity are suites of their own."""

MOVES = 3
"""Random moves of pods; `esipp run` has more, which take minutes."""

HEALTHY_LIMIT = 900.0
BROKEN_LIMIT = 300.0


class Peer:
    """One session: what is built, where the cluster is, and what is kept."""

    def __init__(self, built: Upstream, nodes: Nodes, folder: Path, kept: Path) -> None:
        self.built, self.nodes, self.folder, self.kept = built, nodes, folder, kept
        self.data = Comparison.load(kept)

    def healthy(self, limit: float) -> None:
        """Run both on the cluster as it is, at the same time."""
        names = [spec.name for spec in SPECS if not spec.lasting]
        with ThreadPoolExecutor() as pool:
            running, watch = pool.submit(self._theirs, names, HEALTHY, limit), Watch()
            result = self._qualify(Asked(SUITES, moves=MOVES), HEALTHY)
            effort = watch.effort()
            theirs = running.result()
        counts = dict(sorted(Counter(result.statuses.values()).items()))
        ours = Ours(effort, result.exit_code, list(SUITES), counts, result.worse())
        say(f"ours on the healthy cluster: {effort.seconds:.0f} s, exit code {ours.exit_code}, {counts}")
        self.data.ours, self.data.theirs = ours, theirs
        self.data.limits[HEALTHY] = limit
        self.data.save(self.kept)

    def lasting(self, limit: float) -> None:
        """Run upstream's specs that take long by design, on the cluster as it is."""
        assert self.data.theirs is not None, "ci/peer healthy comes first"
        names = [spec.name for spec in SPECS if spec.lasting]
        more = self._theirs(names, LASTING, limit)
        kept = [each for each in self.data.theirs.results if each.name not in names]
        self.data.theirs = Theirs(self.data.theirs.effort, [*kept, *more.results])
        self.data.limits[LASTING] = limit
        self.data.save(self.kept)

    def broken(self, damage: Damage, limit: float) -> None:
        """Break the cluster in one way, for both, and run both at the same time."""
        before, asked = self.data.healthy(), damage.ours.asked
        names = [name for name, said in before.items() if said in (Outcome.PASSED, Outcome.FAILED)]
        watch, found = Watch(), dict.fromkeys([spec.name for spec in SPECS if not spec.lasting])
        with damage.theirs(self.nodes), damage.ours.apply(self.nodes), ThreadPoolExecutor() as pool:
            running = pool.submit(self._theirs, [name for name in names if name in found], damage.name, limit)
            result = self._qualify(asked, damage.name)
            effort = watch.effort()
            theirs = running.result()
        score = hold(damage.ours, all_rows(), self._green(asked), result)
        wrong = {row: list(change) for row, change in score.wrong.items()}
        ours = Noticing(effort, list(asked.suites), score.must, score.right, wrong, score.said)
        say(f"{damage.name}, ours: {score.right} of {score.must} rows, {len(wrong)} others, {score.seconds:.0f} s")
        self.data.broken[damage.name] = Broken(damage.name, damage.ours.what, ours, theirs)
        self.data.limits["broken"] = limit
        self.data.save(self.kept)

    def after(self, limit: float) -> None:
        """Run upstream's specs on the healed cluster: those that are red there were not red for the break alone."""
        names = [name for name, said in self.data.healthy().items() if said in (Outcome.PASSED, Outcome.FAILED)]
        lasting = {spec.name for spec in SPECS if spec.lasting}
        self.data.after = self._theirs([name for name in names if name not in lasting], AFTER, limit)
        self.data.limits[AFTER] = limit
        self.data.save(self.kept)

    def _theirs(self, names: list[str], what: str, limit: float) -> Theirs:
        theirs = run_theirs(self.built, names, self.folder / what, limit)
        counts = Counter(each.outcome.value for each in theirs.results)
        say(f"{what}, upstream's: {theirs.effort.seconds:.0f} s, {dict(counts)}, load {theirs.effort.load}")
        for each in theirs.results:
            if each.outcome is not Outcome.PASSED:
                say(f"    {each.outcome.value:9} {each.seconds:6.1f} s  {each.name}: {each.why}")
        return theirs

    def _green(self, asked: Asked) -> dict[str, str]:
        """What our rows said on the healthy cluster, in this session or an earlier one with the same folder."""
        for name in (HEALTHY, f"{HEALTHY}-{'-'.join(asked.suites)}"):
            ledger = self.folder / f"ours-{name}" / "ledger.jsonl"
            records = list(read_ledger(ledger)) if ledger.is_file() else []
            statuses = {each["id"]: each["status"] for each in records if each["record"] == "verdict"}
            if statuses and (name != HEALTHY or set(asked.suites) <= set(SUITES)):
                return statuses
        return self._qualify(asked, name).statuses

    def _qualify(self, asked: Asked, name: str) -> Result:
        out = self.folder / f"ours-{name}"
        return self.nodes.qualify(
            out, asked.samples, suites=asked.suites, rows=asked.rows, moves=asked.moves, disruptive=asked.disruptive
        )


def say(line: str) -> None:
    """Print it at once: a run takes long."""
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for, or all."""
    names = [HEALTHY, *(each.name for each in DAMAGES), AFTER, LASTING]
    parser = argparse.ArgumentParser(
        prog="ci/peer", description="Upstream's own tests on the kept cluster, beside ours, healthy and broken."
    )
    parser.add_argument("what", nargs="*", metavar="NAME", help=f"of {', '.join(names)} (all but {LASTING})")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="of each of upstream's runs")
    parser.add_argument(
        "--kept", type=Path, default=KEPT, metavar="FILE", help="what the page is made from (%(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where reports and ledgers go (a new one below /tmp)"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.what) - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: there is {', '.join(names)}")
    wanted = options.what or [name for name in names if name != LASTING]
    try:
        return run(options, wanted)
    except SetupError as error:
        error.show()
        return 4


def run(options: argparse.Namespace, wanted: Sequence[str]) -> int:
    """Run it on the kept cluster."""
    where = places()
    there = Surroundings.load(where)
    if there is None:
        raise SetupError("There is no kept cluster.", "ci/conformance --up starts one")
    journal = Journal(where.logs)
    built = upstream(there.kubernetes, Store(where), journal)
    folder = options.out or Path(tempfile.mkdtemp(prefix="esipp-peer-"))
    say(f"reports and ledgers: {folder}")
    nodes = Nodes.of(CONTEXT, None)
    nodes.heal()
    remove_left_overs()
    peer = Peer(built, nodes, folder, options.kept)
    peer.data.versions |= {
        "kubernetes": cluster_version(),
        "e2e.test": built.kubernetes,
        "ginkgo": built.ginkgo_version,
        "agnhost": built.agnhost_version,
        "lane": there.lane,
    }
    peer.data.machine |= {"cores": cores(), "processes": PROCESSES}
    for name in wanted:
        if name == HEALTHY:
            peer.healthy(options.limit or HEALTHY_LIMIT)
        elif name == AFTER:
            peer.after(options.limit or HEALTHY_LIMIT)
        elif name == LASTING:
            peer.lasting(options.limit or 2 * HEALTHY_LIMIT)
        else:
            peer.broken(next(each for each in DAMAGES if each.name == name), options.limit or BROKEN_LIMIT)
    page.write(peer.data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
