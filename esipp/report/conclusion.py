"""From all verdicts to one word, one exit code and the sentence that counts them (design.md, laws 7, 8 and 13)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.errors import ExitCode
from esipp.observation import Verdict
from esipp.plural import counted
from esipp.rows import Binding, Level, Nature, Status

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
PARTIAL = "partial"
INCONCLUSIVE, ERROR, EMPTY, INCOMPLETE = "inconclusive", "error", "empty", "incomplete"
RESULTS = (
    CONFORMANT, WITH_DIFFERENCES, PARTIAL, KNOWN_DEFECTS, NONCONFORMANT, INCONCLUSIVE, ERROR, EMPTY, INCOMPLETE,
)  # fmt: skip

MOST_UNDECIDED = 0.05
"""The share of the extended checks asked that may stay undecided: a run that decides fewer has not qualified the data
plane, whatever its core says. A single one may, for a machine that was busy in its moment."""

MOST_REASONS = 4
"""So many missing features are named in the sentence, the commonest first; the reports name all."""

BOTH = (Level.CORE, Level.EXTENDED)


@dataclass(frozen=True)
class Tally:
    """How the checks of one level ended.

    ``required`` are as required; ``allowed``, ``defects`` and ``findings`` are known differences by their nature.
    """

    required: int = 0
    allowed: int = 0
    defects: int = 0
    findings: int = 0
    failed: int = 0
    flaky: int = 0
    undecided: int = 0
    errors: int = 0
    not_asked: int = 0

    @property
    def asked(self) -> int:
        """All that were asked, decided or not."""
        return self.known + self.required + self.failed + self.flaky + self.undecided + self.errors

    @property
    def known(self) -> int:
        """Known differences of any nature."""
        return self.allowed + self.defects + self.findings

    @property
    def words(self) -> str:
        """The counts that are not nothing, in words."""
        natures = ((self.allowed, "allowed"), (self.defects, "defect"), (self.findings, "finding"))
        known = ", ".join(f"{count} {nature}" for count, nature in natures if count)
        parts = [f"{self.required:,} of {self.asked:,} as required"]
        parts += [f"{self.known:,} known ({known})"] * bool(self.known)
        for count, word in (
            (self.failed, "failed"),
            (self.flaky, "flaky"),
            (self.undecided, "undecided"),
            (self.errors, "not judged through our own fault"),
        ):
            parts += [f"{count:,} {word}"] * bool(count)
        return ", ".join(parts)


@dataclass(frozen=True)
class Conclusion:
    """``result`` in a word or two (``RESULTS``), the exit code, and why, in a sentence.

    ``counts`` are the verdicts of the cluster's checks by status, ``levels`` the same by level and nature.
    ``instrument`` counts the checks of our own reference load balancer, which are outside of the result. ``catalogue``
    is how many core checks there are in all, asked or not.
    """

    result: str
    exit_code: ExitCode
    why: str
    counts: Mapping[str, int]
    levels: Mapping[str, Tally] = field(default_factory=dict)
    instrument: Mapping[str, int] = field(default_factory=dict)
    catalogue: int = 0

    @property
    def sentence(self) -> str:
        """The line a person reads last."""
        return f"{self.result.upper()}: {self.why}"


def binds(verdict: Verdict, fail_on: Binding) -> bool:
    """Whether the run hangs on this check: core ones always, extended ones unless ``--fail-on core``."""
    return verdict.level is Level.CORE or (verdict.level is Level.EXTENDED and fail_on is Binding.EXTENDED)


def spoils(verdict: Verdict, fail_on: Binding) -> bool:
    """Whether this verdict alone keeps a run from exit code 0; an undecided extended one does not (MOST_UNDECIDED)."""
    if verdict.status in (Status.FAIL, Status.FLAKY):
        return binds(verdict, fail_on)
    return verdict.status is Status.ERROR or (verdict.status is Status.INCONCLUSIVE and verdict.level is Level.CORE)


def is_defect(verdict: Verdict) -> bool:
    """Whether it differs by a known defect or a finding, and not as the API allows."""
    return verdict.status is Status.KNOWN and verdict.nature != Nature.ALLOWED


def of_cluster(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts that say something of the cluster. Where only checks of our instrument were selected, these."""
    given = list(verdicts)
    return [each for each in given if not each.instrument] or given


def tally(verdicts: Iterable[Verdict], level: Level) -> Tally:
    """How the checks of a level ended."""
    made = [each for each in verdicts if each.level is level]
    statuses = Counter(each.status for each in made)
    natures = Counter(each.nature for each in made if each.status is Status.KNOWN)
    return Tally(
        required=statuses[Status.PASS],
        allowed=statuses[Status.KNOWN] - natures[Nature.DEFECT] - natures[Nature.FINDING],
        defects=natures[Nature.DEFECT],
        findings=natures[Nature.FINDING],
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
) -> Conclusion:
    """Conclude a run.

    Args:
        verdicts: one for each selected check.
        left_out: core checks about the cluster that were not selected. With those that were left out by --without, or
            for want of a client outside, they make the best result ``partial``, never ``conformant``.
        fail_on: whose failures make the run fail.
        accept_known_defects: that the user knows of the known defects and findings; they are told, and the exit code
            is 0.
    """
    given = list(verdicts)
    ours = of_cluster(given)
    counts = Counter(each.status.value for each in ours)
    instrument = (
        Counter(each.status.value for each in given if each.instrument) if len(ours) < len(given) else Counter()
    )
    core, extended = tally(ours, Level.CORE), tally(ours, Level.EXTENDED)
    catalogue = core.asked + core.not_asked + left_out
    missed = left_out + sum(1 for each in ours if each.left_out and each.level is Level.CORE)
    bound = [each for each in ours if spoils(each, fail_on)]
    failed = sum(1 for each in bound if each.status is Status.FAIL)
    flaky = sum(1 for each in bound if each.status is Status.FLAKY)
    most = MOST_UNDECIDED * extended.asked if fail_on is Binding.EXTENDED else extended.asked

    def say(result: str, code: ExitCode, why: str) -> Conclusion:
        told = "; ".join([why, *_counted(core, extended, catalogue, left_out, ours), *_told(instrument)])
        return Conclusion(
            result, code, told, counts, {Level.CORE: core, Level.EXTENDED: extended}, instrument, catalogue
        )

    if failed or flaky:
        parts = [counted(failed, "check fails", "checks fail")] * bool(failed)
        parts += [counted(flaky, "check is flaky", "checks are flaky")] * bool(flaky)
        return say(NONCONFORMANT, ExitCode.NOT_CONFORMANT, " and ".join(parts))
    defects = [each for each in ours if each.level is Level.CORE and is_defect(each)]
    if defects and not accept_known_defects:
        return say(KNOWN_DEFECTS, ExitCode.NOT_CONFORMANT, _defects(defects))
    if core.errors or extended.errors:
        broken = counted(core.errors + extended.errors, "check")
        return say(ERROR, ExitCode.HARNESS, f"{broken} could not be judged through our own fault")
    if core.undecided:
        return say(INCONCLUSIVE, ExitCode.HARNESS, f"{counted(core.undecided, 'core check')} could not be decided")
    if extended.undecided > most:
        why = f"{extended.undecided} of {extended.asked} extended checks could not be decided"
        return say(INCONCLUSIVE, ExitCode.HARNESS, f"{why}, more than {MOST_UNDECIDED:.0%}")
    if not given:
        return Conclusion(EMPTY, ExitCode.NOTHING_SELECTED, "no check was selected", counts)
    if defects:
        return say(KNOWN_DEFECTS, ExitCode.CONFORMANT, f"accepted: {_defects(defects)}")
    if missed:
        left = counted(missed, "core check was", "core checks were")
        return say(PARTIAL, ExitCode.CONFORMANT, f"what was asked is as required or allowed, but {left} left out")
    if not core.asked:
        return say(INCONCLUSIVE, ExitCode.HARNESS, "no core check could be asked on this cluster")
    if core.allowed:
        differ = counted(core.allowed, "core check differs", "core checks differ")
        return say(WITH_DIFFERENCES, ExitCode.CONFORMANT, f"{differ} as the API allows, all others are as required")
    held = f"all {core.asked:,} core checks" if core.asked > 1 else "the one core check"
    return say(
        CONFORMANT, ExitCode.CONFORMANT, f"{held} that could be asked {'are' if core.asked > 1 else 'is'} as required"
    )


def _defects(defects: Sequence[Verdict]) -> str:
    """What core checks differ by, with the references, the commonest first."""
    by = Counter(each.reference or each.reason for each in defects)
    named = ", ".join(f"{reference} ({count})" for reference, count in by.most_common(MOST_REASONS))
    more = " and others" if len(by) > MOST_REASONS else ""
    differ = counted(len(defects), "core check differs", "core checks differ")
    return f"{differ} by a known defect or finding: {named}{more}"


def _counted(core: Tally, extended: Tally, catalogue: int, left_out: int, verdicts: Sequence[Verdict]) -> Iterable[str]:
    """The counts of a sentence: how the checks of both levels ended, and how much of the catalogue was asked."""
    yield f"core: {core.words}"
    if extended.asked:
        yield f"extended: {extended.words}"
    if catalogue:
        share = 100 * core.asked // catalogue  # never rounded up to all
        yield f"asked {core.asked:,} of the catalogue's {catalogue:,} core checks ({share} %)"
    missing = Counter(
        each.missing[0]
        for each in verdicts
        if each.status is Status.UNSUPPORTED and each.level is Level.CORE and each.missing
    )
    reasons = [f"{count:,} for want of {name}" for name, count in missing.most_common(MOST_REASONS)]
    reasons += ["others for other features"] * (len(missing) > MOST_REASONS)
    reasons += [f"{left_out:,} not selected"] * bool(left_out)
    if reasons:
        yield f"not asked: {', '.join(reasons)}"


def _told(instrument: Mapping[str, int]) -> Iterable[str]:
    """What our own instrument did, where it did not do as it must."""
    asked = sum(count for status, count in instrument.items() if status != Status.UNSUPPORTED)
    fine = sum(instrument.get(status, 0) for status in (Status.PASS, Status.RECORDED, Status.KNOWN))
    if asked > fine:
        yield f"outside of this verdict, {asked - fine} of {asked} checks of our reference load balancer differ"
