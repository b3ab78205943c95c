"""Merging runs: a column for each run, or a single column for the parts (shards) of one run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from esipp.base.errors import ExitCode, PreflightError
from esipp.base.plural import form
from esipp.checks.check import PROXY_VERSION, Binding, Level, Status, Verdict
from esipp.checks.waivers import merged, recorded
from esipp.ledger.conclusion import (
    CONFORMANT,
    KNOWN_DEFECTS,
    PARTIAL,
    WAIVED,
    WITH_DIFFERENCES,
    Conclusion,
    conclude,
)
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.comparing.checks import FAILING
from esipp.report.comparing.environment import versions_of
from esipp.report.profiles import faults

WORST_CODE_FIRST = (
    ExitCode.NOT_CONFORMANT,
    ExitCode.HARNESS,
    ExitCode.INTERRUPTED,
    ExitCode.USAGE,
    ExitCode.NOTHING_SELECTED,
    ExitCode.CONFORMANT,
)
"""Exit codes, the worst first; the worst one is the exit code of the merge."""

GOOD = (KNOWN_DEFECTS, WAIVED, PARTIAL, WITH_DIFFERENCES, CONFORMANT)
"""Results that can end with exit code 0, the one with the most reservations first."""

ONE_CLUSTER = (
    "kubernetes", "nodes", "kubelet", "kernel", "runtime", "service-proxy", "network-add-on", "proxy-mode",
    "detect-local", "node-port-addresses", "masquerade-all", PROXY_VERSION,
)  # fmt: skip
"""Facts on which the parts of one run must agree; facts from probing may exist in one part only."""

UNDECIDED = (Status.INCONCLUSIVE, Status.ERROR)


@dataclass(frozen=True)
class Column:
    """A column of the matrix: one run, or the parts of one.

    Args:
        name: lane, Kubernetes version and proxy mode; with the run's id if several columns have the same name.
        runs: its runs.
        checks, verdicts: by id.
        conclusion: its conclusion.
        faults: why it is incomplete, if it is.
        disagreements: checks on which its parts disagree, with the verdict of each part.
    """

    name: str
    runs: tuple[RecordedRun, ...]
    checks: Mapping[str, RecordedCheck]
    verdicts: Mapping[str, Verdict]
    conclusion: Conclusion
    faults: tuple[str, ...] = ()
    disagreements: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Merged:
    """The columns, and the conclusion over all of them."""

    columns: tuple[Column, ...]

    @property
    def worst(self) -> Column:
        """The column with the worst conclusion: the worst exit code, then the most reservations."""
        return min(
            self.columns,
            key=lambda each: (
                WORST_CODE_FIRST.index(each.conclusion.exit_code),
                not each.faults,
                GOOD.index(each.conclusion.result) if each.conclusion.result in GOOD else 0,
                -sum(each.conclusion.counts.get(status.value, 0) for status in FAILING),
            ),
        )

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the worst column; a harness error instead of conformant if a column is incomplete."""
        code = self.worst.conclusion.exit_code
        faulty = any(each.faults for each in self.columns)
        return ExitCode.HARNESS if faulty and code is ExitCode.CONFORMANT else code

    @property
    def sentence(self) -> str:
        """The conclusion over all columns, in one sentence."""
        worst = self.worst
        if len(self.columns) == 1:
            return worst.conclusion.sentence
        good = (CONFORMANT, WITH_DIFFERENCES)
        fine = sum(1 for each in self.columns if each.conclusion.result in good and not each.faults)
        said = f"{fine} of {len(self.columns)} runs conform"
        result = worst.conclusion.result.upper()
        if fine == len(self.columns):
            differ = sum(1 for each in self.columns if each.conclusion.result == WITH_DIFFERENCES)
            return f"{result}: {said}" + (f", {differ} of them with known differences" if differ else "")
        return f"{result}: {said}; the worst is {worst.name}: {worst.conclusion.why}"

    @property
    def faults(self) -> list[str]:
        """The faults of incomplete columns."""
        return [f"{each.name}: {fault}" for each in self.columns for fault in each.faults]


def merge(runs: Sequence[RecordedRun]) -> Merged:
    """A column for each run; a ledger named twice counts once."""
    apart: list[RecordedRun] = []
    for run in runs:
        if not any((run.header["run"], run.sha256) == (other.header["run"], other.sha256) for other in apart):
            apart.append(run)
    names = _distinguish([_name(run) for run in apart], [str(run.header.get("run", "?")) for run in apart])
    names = _distinguish(names, [f"({number})" for number in range(1, len(apart) + 1)])
    return Merged(tuple(_column(run, name) for run, name in zip(apart, names, strict=True)))


def _distinguish(names: Sequence[str], by: Sequence[str]) -> list[str]:
    """The names; equal names get a distinguishing suffix."""
    many = Counter(names)
    return [f"{name} {more}" if many[name] > 1 else name for name, more in zip(names, by, strict=True)]


def merge_shards(runs: Sequence[RecordedRun]) -> Merged:
    """The parts of one run as one column, with the conclusion of a single run.

    Raises:
        PreflightError: the parts belong to different clusters or versions of the suite.
    """
    _check_one_cluster(runs)
    checks = {check.id: check for run in runs for check in run.checks}
    said: dict[str, list[tuple[str, Verdict]]] = {}
    for run in runs:
        for verdict in run.verdicts.values():
            said.setdefault(verdict.check_id, []).append((str(run.header.get("run", "?")), verdict))
    verdicts, disagreements = {}, {}
    for name in checks:
        if name in said:
            verdicts[name] = agreed(said[name])
            if len({each.status for _, each in _asked(said[name])}) > 1:
                words = ", ".join(f"{each.status.value} in run {run}" for run, each in said[name])
                disagreements[name] = words
    faults = [fault for run in runs for fault in _faults_of_part(run)]
    missing = len(checks) - len(verdicts)
    if missing:
        faults.append(f"{missing:,} {form(missing, 'check has', 'checks have')} no verdict in any part")
    conclusion = _conclusion(runs, checks, verdicts, faults)
    name = _name(runs[0]) + (f" ({len(runs)} parts)" if len(runs) > 1 else "")
    return Merged((Column(name, tuple(runs), checks, verdicts, conclusion, tuple(faults), disagreements),))


def agreed(said: Sequence[tuple[str, Verdict]]) -> Verdict:
    """One verdict from the verdicts of several parts, each with its run's id.

    Contradicting verdicts are flaky. An undecided part leaves the check undecided unless another part failed: repeating
    a check until it passes proves nothing. A part that excluded the check does not count.
    """
    asked = _asked(said)
    verdicts = [verdict for _, verdict in asked]
    clear = [verdict for verdict in verdicts if verdict.status not in UNDECIDED]
    if len({verdict.status for verdict in clear}) > 1:
        what = "; ".join(f"{verdict.status.value} in run {run}: {verdict.observed}" for run, verdict in asked)
        return replace(clear[0], status=Status.FLAKY, observed=what, reason="the parts of the run disagree")
    if len(clear) == len(verdicts) or (clear and clear[0].status in FAILING):
        return clear[0]
    return next(verdict for verdict in verdicts if verdict.status in UNDECIDED)


def _asked(said: Sequence[tuple[str, Verdict]]) -> Sequence[tuple[str, Verdict]]:
    """The verdicts without those of parts that excluded the check, unless all did."""
    return [(run, verdict) for run, verdict in said if not verdict.left_out] or said


def _conclusion(
    runs: Sequence[RecordedRun],
    checks: Mapping[str, RecordedCheck],
    verdicts: Mapping[str, Verdict],
    faults: Sequence[str],
) -> Conclusion:
    # each part left out what it did not select; together they leave out only what no part selected
    whole = max(_core(run.checks) + int(run.header["left_out_core_rows"]) for run in runs)
    left_out = max(0, whole - _core(checks.values()))
    strictest = max((Binding(run.header["fail_on"]) for run in runs), key=list(Binding).index)
    accepted = all(run.header["accept_known_defects"] for run in runs)
    waivers = merged(recorded(run.header) for run in runs)
    said = conclude(verdicts.values(), left_out, strictest, accept_known_defects=accepted, waivers=waivers)
    if not faults:
        return said
    if said.exit_code is ExitCode.NOT_CONFORMANT:
        return replace(said, result="incomplete", why=f"{faults[0]}; in the recorded part, {said.why}")
    return replace(said, result="incomplete", exit_code=ExitCode.HARNESS, why=faults[0])


def _core(checks: Iterable[RecordedCheck]) -> int:
    return sum(1 for check in checks if check.level is Level.CORE and not check.instrument)


def _column(run: RecordedRun, name: str) -> Column:
    checks = {check.id: check for check in run.checks}
    return Column(name, (run,), checks, run.verdicts, run.conclusion, tuple(lacks(run)))


def lacks(run: RecordedRun) -> list[str]:
    """What a run lacks: the first fault of its ledger, or the verdicts of some checks; none if it is complete."""
    if not run.whole:
        return faults(run)[:1]
    missing = sum(1 for check in run.checks if check.id not in run.verdicts)
    said = f"{missing:,} of its checks {form(missing, 'has', 'have')} no verdict ({run.conclusion.why})"
    return [said] if missing else []


def _faults_of_part(run: RecordedRun) -> list[str]:
    """The faults of a part, whatever its verdicts: other parts cannot compensate for them."""
    about = f"run {run.header.get('run', '?')}"
    if not run.whole:
        return [f"{about}: {fault}" for fault in lacks(run)]
    said = run.conclusion
    return [f"{about}: {said.why}"] if said.result != run.by_verdicts.result else []


def _check_one_cluster(runs: Sequence[RecordedRun]) -> None:
    first = runs[0]
    for other in runs[1:]:
        pairs = [("suite version", first.header.get("suite"), other.header.get("suite"))]
        pairs += [
            (name, first.facts[name].value, other.facts[name].value)
            for name in ONE_CLUSTER
            if name in first.facts and name in other.facts
        ]
        for name, one, two in pairs:
            if one != two:
                ids = f"{first.header.get('run', '?')} and {other.header.get('run', '?')}"
                raise PreflightError(
                    f"Runs {ids} are not parts of one run: {name} is {one} in the first and {two} in the second.",
                    "without --shards, each run gets a column of its own.",
                )


def _name(run: RecordedRun) -> str:
    return " ".join([str(run.header.get("lane", "?")), *versions_of(run)])
