"""`ci/peer`: upstream's specs and our suites on the kept cluster, healthy and broken; kept in records/peer.jsonl."""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ci.access import ClusterAccess
from ci.hermetic.store import Store
from ci.peer_tests import page
from ci.peer_tests.build import Upstream, upstream
from ci.peer_tests.damage import DAMAGES, PLAN, TOGETHER, Damage
from ci.peer_tests.data import KEPT, Broken, Comparison, Noticing, Ours, Theirs
from ci.peer_tests.report import BAD, Outcome
from ci.peer_tests.running import PROCESSES, Watch, cluster_version, remove_leftovers, run_theirs
from ci.peer_tests.specs import SPECS
from ci.places import CONTEXT, cores, places
from ci.step import Journal, SetupError, exit_code_of
from esipp.checks.catalog import all_checks
from esipp.ledger.file import read_ledger
from tests.broken.breakage import RunOptions, hold
from tests.broken.nodes import Nodes, Result

HEALTHY = "healthy"
AFTER = "after"
LASTING = "lasting"
SUITES = ("source_ip", "health_checks", "interoperability")
"""The suites that correspond to those specs; convergence, API and continuity have their own."""

TEXTS = (Outcome.PASSED, Outcome.FAILED)
"""Results on the healthy cluster of specs that also run with breaks."""

MOVES = 3
"""Number of random endpoint changes; `esipp run` has more, which take minutes."""

HEALTHY_LIMIT = 720.0
BROKEN_LIMIT = 360.0


class Peer:
    """One session: what is built, where the cluster is, and what is kept."""

    def __init__(self, built: Upstream, nodes: Nodes, folder: Path, records: Path) -> None:
        self.built, self.nodes, self.folder, self.records = built, nodes, folder, records
        self.data = Comparison.load(records)

    def healthy(self, limit: float) -> None:
        """Run both on the cluster as it is."""
        names = [spec.name for spec in SPECS if not spec.lasting]
        watch = Watch()
        result = self._qualify(RunOptions(SUITES, moves=MOVES), HEALTHY)
        effort = watch.effort()
        theirs = self._theirs(names, HEALTHY, limit)
        counts = dict(sorted(Counter(result.statuses.values()).items()))
        ours = Ours(effort, result.exit_code, list(SUITES), counts, result.worse())
        say(f"ours on the healthy cluster: {effort.seconds:.0f} s, exit code {ours.exit_code}, {counts}")
        self.data.ours, self.data.theirs = ours, theirs
        self.data.limits[HEALTHY] = limit
        self.data.save(self.records)

    def lasting(self, limit: float) -> None:
        """Run upstream's specs that take long by design, on the cluster as it is."""
        assert self.data.theirs is not None, "ci/peer healthy comes first"
        names = [spec.name for spec in SPECS if spec.lasting]
        more = self._theirs(names, LASTING, limit)
        steady = [each for each in self.data.theirs.results if each.name not in names]
        self.data.theirs = Theirs(self.data.theirs.effort, [*steady, *more.results])
        self.data.limits[LASTING] = limit
        self.data.save(self.records)

    def broken(self, damages: Sequence[Damage], limit: float) -> None:
        """Break the cluster and run both: this suite once per break, upstream's specs with all breaks at once.

        If a spec turns red with several breaks in place, it runs again with each of them alone.
        """
        noticing = {damage.name: self._noticing(damage) for damage in damages}
        theirs = self._broken_for_theirs(damages, limit)
        said = self.data.healthy()
        red = any(each.bad and said.get(each.name) is Outcome.PASSED for each in theirs.results)
        for damage in damages:
            others = [] if red else [each.name for each in damages if each is not damage]
            alone = self._broken_for_theirs([damage], limit) if red and len(damages) > 1 else theirs
            made = Broken(damage.name, damage.ours.what, noticing[damage.name], alone, others)
            self.data.broken[damage.name] = made
        self.data.limits["broken"] = limit
        self.data.save(self.records)

    def _broken_for_theirs(self, damages: Sequence[Damage], limit: float) -> Theirs:
        said = self.data.healthy()
        names = [spec.name for spec in SPECS if not spec.once and not spec.lasting]
        with ExitStack() as stack:
            for damage in damages:
                stack.enter_context(damage.theirs(self.nodes))
            chosen = [name for name in names if said.get(name) in TEXTS]
            return self._theirs(chosen, TOGETHER.join(each.name for each in damages), limit)

    def _noticing(self, damage: Damage) -> Noticing:
        run = damage.ours.run
        green, watch = self._green(run), Watch()
        with damage.ours.apply(self.nodes):
            result = self._qualify(run, damage.name)
        score = hold(damage.ours, all_checks(), green, result)
        wrong = {check: list(change) for check, change in score.wrong.items()}
        say(f"{damage.name}, ours: {score.right} of {score.must} checks, {len(wrong)} others, {score.seconds:.0f} s")
        return Noticing(watch.effort(), list(run.suites), score.must, score.right, wrong, score.said)

    def after(self, limit: float) -> None:
        """After repair, run the specs again that changed their result with a break.

        Specs that are still red did not fail because of the break alone.
        """
        before = self.data.healthy()
        results = [each for broken in self.data.broken.values() for each in broken.theirs.results]
        changed = {each.name for each in results if each.bad is not (before.get(each.name) in BAD)}
        names = [spec.name for spec in SPECS if spec.name in changed]
        self.data.after = self._theirs(names, AFTER, limit) if names else None
        self.data.limits[AFTER] = limit
        self.data.save(self.records)

    def _theirs(self, names: list[str], what: str, limit: float) -> Theirs:
        theirs = run_theirs(self.built, names, self.folder / what, limit)
        counts = Counter(each.outcome.value for each in theirs.results)
        say(f"{what}, upstream's: {theirs.effort.seconds:.0f} s, {dict(counts)}, load {theirs.effort.load}")
        for each in theirs.results:
            if each.outcome is not Outcome.PASSED:
                say(f"    {each.outcome.value:9} {each.seconds:6.1f} s  {each.name}: {each.why}")
        return theirs

    def _green(self, run: RunOptions) -> dict[str, str]:
        """Verdicts of the checks on the healthy cluster, from this session or an earlier one with the same folder."""
        for name in (HEALTHY, f"{HEALTHY}-{'-'.join(run.suites)}"):
            ledger = self.folder / f"ours-{name}" / "ledger.jsonl"
            records = list(read_ledger(ledger)) if ledger.is_file() else []
            statuses = {each["id"]: each["status"] for each in records if each["record"] == "verdict"}
            if statuses and (name != HEALTHY or set(run.suites) <= set(SUITES)):
                return statuses
        return self._qualify(run, name).statuses

    def _qualify(self, run: RunOptions, name: str) -> Result:
        out = self.folder / f"ours-{name}"
        shutil.rmtree(out, ignore_errors=True)  # of an earlier session
        options: dict[str, Any] = {"suites": run.suites, "checks": run.checks, "moves": run.moves}
        try:
            result = self.nodes.qualify(out, run.samples, **options, disruptive=run.disruptive)
        except subprocess.TimeoutExpired as error:
            raise SetupError(
                f"The suite's own run did not end within {error.timeout:.0f} s.", "check the load of the machine."
            ) from error
        if not result.statuses:
            raise SetupError("The suite's own run has no verdicts.", "see its summary.", out / "summary.txt")
        return result


def say(line: str) -> None:
    """Print it at once: a run takes long."""
    print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named steps, or all."""
    names = [HEALTHY, *(each.name for each in DAMAGES), AFTER, LASTING]
    parser = argparse.ArgumentParser(
        prog="ci/peer", description="Compare upstream's tests with this suite on the kept cluster, healthy and broken."
    )
    parser.add_argument(
        "what",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(names)} (all but {LASTING}); A{TOGETHER}B: both at once for upstream's specs",
    )
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="time limit of each of upstream's runs")
    parser.add_argument("--kept", type=Path, default=KEPT, metavar="FILE", help="the records of the page (%(default)s)")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder for reports and ledgers (a new one below /tmp)"
    )
    options = parser.parse_args(arguments)
    if unknown := {part for name in options.what for part in name.split(TOGETHER)} - set(names):
        parser.error(f"{', '.join(sorted(unknown))}: there is {', '.join(names)}")
    wanted = options.what or [HEALTHY, *PLAN, AFTER]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the cluster is healed on the way out
    try:
        return exit_code_of(lambda: run(options, wanted))
    except KeyboardInterrupt:
        return 2


def run(options: argparse.Namespace, wanted: Sequence[str]) -> int:
    """Run it on the kept cluster."""
    where = places()
    there = ClusterAccess.kept(where)
    journal = Journal(where.logs)
    built = upstream(there.kubernetes, Store(where), journal)
    folder = options.out or Path(tempfile.mkdtemp(prefix="esipp-peer-"))
    say(f"reports and ledgers: {folder}")
    nodes = Nodes.of(CONTEXT, None)
    nodes.heal()
    remove_leftovers()
    peer = Peer(built, nodes, folder, options.kept)
    peer.data.versions |= {"kubernetes": cluster_version(), "e2e.test": built.kubernetes, "lane": there.lane}
    peer.data.versions |= {"ginkgo": built.ginkgo_version, "agnhost": built.agnhost_version}
    peer.data.machine |= {"cores": cores(), "processes": PROCESSES}
    codes = [exit_code_of(partial(step, peer, name, options.limit)) for name in wanted]
    if options.kept == KEPT:
        page.write(Comparison.load())
    return max(codes)


def step(peer: Peer, name: str, limit: float | None) -> int:
    """Run one step."""
    if name == HEALTHY:
        peer.healthy(limit or HEALTHY_LIMIT)
    elif name == AFTER:
        peer.after(limit or HEALTHY_LIMIT)
    elif name == LASTING:
        peer.lasting(limit or 3 * HEALTHY_LIMIT)
    else:
        together = [each for part in name.split(TOGETHER) for each in DAMAGES if each.name == part]
        peer.broken(together, limit or BROKEN_LIMIT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
