"""The conclusion of a run: from all verdicts to a result, an exit code and a summary sentence. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from esipp.base.errors import ExitCode
from esipp.base.plural import counted, form
from esipp.checks.check import Binding, Level, Status, Verdict
from esipp.checks.known_differences import Nature
from esipp.checks.waivers import NONE, Waivers

WORST_FIRST = (
    Status.ERROR,
    Status.FAIL,
    Status.FLAKY,
    Status.INCONCLUSIVE,
    Status.KNOWN,
    Status.UNSUPPORTED,
    Status.PASS,
    Status.RECORDED,
)

CONFORMANT = "conformant"
WITH_DIFFERENCES = "conformant with known differences"
KNOWN_DEFECTS = "known defects"
NONCONFORMANT = "nonconformant"
WAIVED = "waived"
STALE_WAIVERS = "stale waivers"
PARTIAL = "partial"
INCONCLUSIVE, ERROR, EMPTY, INCOMPLETE = "inconclusive", "error", "empty", "incomplete"
Result = Literal[
    "conformant", "conformant with known differences", "waived", "partial", "known defects", "nonconformant",
    "stale waivers", "inconclusive", "error", "empty", "incomplete",
]  # fmt: skip
"""What a run comes to."""

MOST_UNDECIDED = 0.05
"""The share of the extended checks that may stay undecided: with more, the run has not qualified the data plane, even
if its core checks pass. Single ones may, as the machine may be busy at that time."""

MOST_REASONS = 4
"""The most missing features in the sentence, the most common first; the reports name all."""

BOTH = (Level.CORE, Level.EXTENDED)
FINE = (Status.PASS, Status.RECORDED)
"""The verdicts that need no comment: as required, or recorded without a requirement."""

OUR_FAULT = "not judged due to an error of esipp"


@dataclass(frozen=True)
class Tally:
    """The results of the checks of one level.

    ``required`` are as required, ``recorded`` are observations without a requirement. ``allowed``, ``defects`` and
    ``findings`` are known differences by their nature. ``waived`` are those that failed or differ by a defect, and that
    a waiver covers.
    """

    required: int = 0
    recorded: int = 0
    allowed: int = 0
    defects: int = 0
    findings: int = 0
    waived: int = 0
    failed: int = 0
    flaky: int = 0
    undecided: int = 0
    errors: int = 0
    not_asked: int = 0

    @property
    def asked(self) -> int:
        """The checks that ran, decided or not."""
        decided = (self.required, self.recorded, self.known, self.waived, self.failed, self.flaky)
        return sum(decided) + self.undecided + self.errors

    @property
    def judged(self) -> int:
        """The checks that ran and had a requirement."""
        return self.asked - self.recorded

    @property
    def known(self) -> int:
        """Known differences of any nature."""
        return self.allowed + self.defects + self.findings

    @property
    def words(self) -> str:
        """The counts above zero as text."""
        natures = (
            (self.allowed, "allowed"),
            (self.defects, form(self.defects, "defect")),
            (self.findings, form(self.findings, "finding")),
        )
        known = ", ".join(f"{count:,} {nature}" for count, nature in natures if count)
        parts = [f"{self.required:,} of {self.judged:,} as required"] * (self.required < self.judged)
        parts = parts or [f"all {self.required:,} as required"] * bool(self.required)
        parts += [f"{self.recorded:,} recorded"] * bool(self.recorded)
        parts += [f"{self.known:,} known ({known})"] * bool(self.known)
        for count, word in (
            (self.waived, "waived"),
            (self.failed, "failed"),
            (self.flaky, "flaky"),
            (self.undecided, "undecided"),
            (self.errors, OUR_FAULT),
        ):
            parts += [f"{count:,} {word}"] * bool(count)
        return ", ".join(parts)

    def as_json(self) -> dict[str, int]:
        """All counts by name; ``waived`` only where a waiver covers something."""
        counts = {name: getattr(self, name) for name in ("asked", *self.__dataclass_fields__)}
        return {name: count for name, count in counts.items() if count or name != "waived"}


@dataclass(frozen=True)
class Conclusion:
    """``result`` (one of ``Result``), the exit code, and the reason.

    ``lines`` are the counts behind it, one short line each. ``counts`` are the verdicts of the cluster's checks by
    status, ``levels`` the same by level and nature. ``instrument`` counts the checks of the reference load balancer,
    which are not part of the result. ``catalogue`` is the number of all core checks.
    """

    result: str
    exit_code: ExitCode
    why: str
    counts: Mapping[str, int]
    lines: Sequence[str] = ()
    levels: Mapping[Level, Tally] = field(default_factory=dict)
    instrument: Tally = field(default_factory=Tally)
    catalogue: int = 0

    @property
    def headline(self) -> str:
        """The result and the reason."""
        return f"{self.result.upper()}: {self.why}"

    @property
    def sentence(self) -> str:
        """The headline and all counts, in one line."""
        return "; ".join([self.headline, *self.lines])


@dataclass(frozen=True)
class Scale:
    """The scale of a run: which verdicts bind, and which prevent exit code 0.

    Args:
        fail_on: the level from which on failures bind.
        accept_known_defects: whether the user accepts known defects and findings.
        own: whether only checks of the reference load balancer were selected, so that they decide the result.
        waivers: the failures that somebody answers for.
    """

    fail_on: Binding = Binding.EXTENDED
    accept_known_defects: bool = False
    own: bool = False
    waivers: Waivers = NONE

    def concerns(self, verdict: Verdict) -> bool:
        """Whether the verdict is about the subject of the run: the cluster, not the reference load balancer."""
        return self.own or not verdict.instrument

    def binds(self, verdict: Verdict) -> bool:
        """Whether this check decides the result: core ones always, extended ones unless ``--fail-on core``."""
        extended = verdict.level is Level.EXTENDED and self.fail_on is Binding.EXTENDED
        return self.concerns(verdict) and (verdict.level is Level.CORE or extended) and not self.waives(verdict)

    def waives(self, verdict: Verdict) -> bool:
        """Whether the check failed, was flaky or has a known defect, and a waiver covers that."""
        wrong = verdict.status in (Status.FAIL, Status.FLAKY) or is_defect(verdict)
        return wrong and self.concerns(verdict) and self.waivers.of(verdict.check_id) is not None

    def spoils(self, verdict: Verdict) -> bool:
        """Whether this verdict alone prevents exit code 0.

        An undecided extended check does not; a share above ``MOST_UNDECIDED`` does.
        """
        if not self.concerns(verdict):
            return False
        core = verdict.level is Level.CORE
        if verdict.status in (Status.FAIL, Status.FLAKY):
            return self.binds(verdict)
        if verdict.status is Status.KNOWN:
            return core and is_defect(verdict) and not self.accept_known_defects and not self.waives(verdict)
        return verdict.status is Status.ERROR or (verdict.status is Status.INCONCLUSIVE and core)


def scale_of(
    verdicts: Iterable[Verdict],
    fail_on: Binding = Binding.EXTENDED,
    *,
    accept_known_defects: bool = False,
    waivers: Waivers = NONE,
) -> Scale:
    """The scale of a run with these verdicts."""
    given = list(verdicts)
    return Scale(fail_on, accept_known_defects, bool(given) and all(each.instrument for each in given), waivers)


def is_defect(verdict: Verdict) -> bool:
    """Whether it differs by a known defect or a finding, not by a difference that the API allows."""
    return verdict.status is Status.KNOWN and verdict.nature != Nature.ALLOWED


def tally(verdicts: Iterable[Verdict], scale: Scale | None = None) -> Tally:
    """The results of these checks; with a scale, those that it waives are counted apart."""
    all_of = list(verdicts)
    made = [each for each in all_of if scale is None or not scale.waives(each)]
    statuses = Counter(each.status for each in made)
    natures = Counter(each.nature for each in made if each.status is Status.KNOWN)
    return Tally(
        required=statuses[Status.PASS],
        recorded=statuses[Status.RECORDED],
        allowed=natures[Nature.ALLOWED],
        defects=statuses[Status.KNOWN] - natures[Nature.ALLOWED] - natures[Nature.FINDING],
        findings=natures[Nature.FINDING],
        waived=len(all_of) - len(made),
        failed=statuses[Status.FAIL],
        flaky=statuses[Status.FLAKY],
        undecided=statuses[Status.INCONCLUSIVE],
        errors=statuses[Status.ERROR],
        not_asked=statuses[Status.UNSUPPORTED],
    )


def conclude(
    verdicts: Iterable[Verdict],
    left_out: int,
    fail_on: Binding = Binding.EXTENDED,
    *,
    accept_known_defects: bool = False,
    waivers: Waivers = NONE,
) -> Conclusion:
    """Conclude a run.

    Args:
        verdicts: one for each selected check.
        left_out: core checks about the cluster that were not selected. With those that --without excludes, or that lack
            a client outside, they make the best result ``partial``, never ``conformant``.
        fail_on: the level from which on failures make the run fail.
        accept_known_defects: whether the user accepts known defects and findings; they are listed, and the exit code
            is 0.
        waivers: the failures that somebody answers for.
    """
    given = list(verdicts)
    scale = scale_of(given, fail_on, accept_known_defects=accept_known_defects, waivers=waivers)
    ours = [each for each in given if scale.concerns(each)]
    levels = {level: tally((each for each in ours if each.level is level), scale) for level in Level}
    core, extended, recorded = (levels[level] for level in (Level.CORE, Level.EXTENDED, Level.RECORD))
    instrument = tally(each for each in given if not scale.concerns(each))
    catalogue = core.asked + core.not_asked + left_out
    waived = [each for each in ours if scale.waives(each)]
    lines = [*_levels(levels), *_waived(waived, waivers), *_asked(core, catalogue, left_out, ours)]
    lines += _instrument(instrument)
    counts = Counter(each.status.value for each in ours)

    def say(result: str, code: ExitCode, why: str) -> Conclusion:
        return Conclusion(result, code, why, counts, lines, levels, instrument, catalogue)

    if not given:
        return say(EMPTY, ExitCode.NOTHING_SELECTED, "no check was selected")
    wrong = Counter(each.status for each in ours if scale.binds(each))
    failed, flaky = wrong[Status.FAIL], wrong[Status.FLAKY]
    if failed or flaky:
        parts = [counted(failed, "check fails", "checks fail")] * bool(failed)
        parts += [counted(flaky, "check is flaky", "checks are flaky")] * bool(flaky)
        return say(NONCONFORMANT, ExitCode.NOT_CONFORMANT, " and ".join(parts))
    defects = [each for each in ours if each.level is Level.CORE and is_defect(each) and not scale.waives(each)]
    if defects and not accept_known_defects:
        return say(KNOWN_DEFECTS, ExitCode.NOT_CONFORMANT, _defects(defects))
    if stale := _stale(ours, waivers):
        return say(STALE_WAIVERS, ExitCode.NOT_CONFORMANT, stale)
    if broken := core.errors + extended.errors + recorded.errors:
        why = f"{counted(broken, 'check')} could not be judged due to an error of esipp"
        return say(ERROR, ExitCode.HARNESS, why)
    if core.undecided:
        return say(INCONCLUSIVE, ExitCode.HARNESS, f"{counted(core.undecided, 'core check')} could not be decided")
    if fail_on is Binding.EXTENDED and extended.undecided > MOST_UNDECIDED * extended.judged:
        why = f"{extended.undecided:,} of {extended.judged:,} extended checks could not be decided"
        return say(INCONCLUSIVE, ExitCode.HARNESS, f"{why}, more than {MOST_UNDECIDED:.0%}")
    missed = left_out + sum(1 for each in ours if each.left_out and each.level is Level.CORE)
    if not core.judged and not missed:
        return say(INCONCLUSIVE, ExitCode.HARNESS, "no core check could run on this cluster")
    if waived:
        fail = counted(len(waived), "check fails", "checks fail")
        return say(WAIVED, ExitCode.CONFORMANT, f"{fail} and {form(len(waived), 'is', 'are')} waived; no other does")
    if defects:
        return say(KNOWN_DEFECTS, ExitCode.CONFORMANT, f"accepted: {_defects(defects)}")
    if missed:
        left = counted(missed, "core check was", "core checks were")
        return say(PARTIAL, ExitCode.CONFORMANT, f"no binding check fails, but {left} left out")
    if core.allowed:
        differ = counted(core.allowed, "core check differs", "core checks differ")
        rest = "all others are as required" if core.required else "no other could run"
        return say(WITH_DIFFERENCES, ExitCode.CONFORMANT, f"{differ} as the API allows, {rest}")
    held = f"all {core.required:,} core checks" if core.required > 1 else "the one core check"
    verb = form(core.required, "is", "are")
    return say(CONFORMANT, ExitCode.CONFORMANT, f"{held} that could run {verb} as required")


def _defects(defects: Sequence[Verdict]) -> str:
    """The known differences of core checks by their first reference, the most common first."""
    by = Counter(each.references[0].title if each.references else each.reason for each in defects)
    named = ", ".join(f"{reference} ({count:,})" for reference, count in by.most_common(MOST_REASONS))
    more = " and others" if len(by) > MOST_REASONS else ""
    differ = counted(len(defects), "core check differs", "core checks differ")
    return f"{differ} by a known defect or finding: {named}{more}"


def _levels(levels: Mapping[Level, Tally]) -> Iterable[str]:
    """The results of the checks of each level, one line for each."""
    for level, found in levels.items():
        if found.asked:
            yield f"{level.words}: {found.words}"


def _waived(verdicts: Sequence[Verdict], waivers: Waivers) -> Iterable[str]:
    """The waivers in use, one line for each."""
    used = Counter(waiver for each in verdicts if (waiver := waivers.of(each.check_id)))
    for waiver, count in used.items():
        yield f"waived: {counted(count, 'check')}, {waiver.words}"


def _stale(verdicts: Sequence[Verdict], waivers: Waivers) -> str:
    """The waivers that are expired or cover nothing; empty if there are none."""
    held = [each.check_id for each in verdicts if each.status in (*FINE, Status.KNOWN) and not is_defect(each)]
    others = [each.check_id for each in verdicts if each.check_id not in {*held}]
    stale = [f"the waiver of {each.words} is expired" for each in waivers.expired([*held, *others])]
    stale += [f"the waiver of {each.words} covers no failure" for each in waivers.unused(held, others)]
    return "; ".join(stale)


def _asked(core: Tally, catalogue: int, left_out: int, verdicts: Sequence[Verdict]) -> Iterable[str]:
    """The share of the catalogue's core checks that ran, and why the rest did not."""
    if catalogue:
        share = 100 * core.judged // catalogue  # never rounded up to all
        yield f"coverage: {core.judged:,} of the catalogue's {catalogue:,} {form(catalogue, 'core check')} ({share} %)"
    reasons = Counter(
        each.missing[0] if each.missing else "a feature"
        for each in verdicts
        if each.status is Status.UNSUPPORTED and each.level is Level.CORE
    )
    unjudged = [f"{count:,} without {name}" for name, count in reasons.most_common(MOST_REASONS)]
    if rest := sum(reasons.values()) - sum(count for _, count in reasons.most_common(MOST_REASONS)):
        unjudged.append(f"{rest:,} without other features")
    unjudged += [f"{core.recorded:,} only recorded, as no bound is promised"] * bool(core.recorded)
    unjudged += [f"{left_out:,} not selected"] * bool(left_out)
    if unjudged:
        yield f"not judged: {', '.join(unjudged)}"


def _instrument(found: Tally) -> Iterable[str]:
    """The results of the reference load balancer."""
    if found.asked:
        yield f"reference load balancer, not part of the result: {found.words}"
