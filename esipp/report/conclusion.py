"""From all verdicts to one word and one exit code (design.md, laws 7 and 8)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from esipp.errors import ExitCode
from esipp.observation import Verdict
from esipp.plural import counted
from esipp.rows import Binding, Level, Status

WORST_FIRST = (
    Status.ERROR,
    Status.FAIL,
    Status.FLAKY,
    Status.INCONCLUSIVE,
    Status.KNOWN,
    Status.UNSUPPORTED,
    Status.PASS,
)


@dataclass(frozen=True)
class Conclusion:
    """``result`` in one word, the exit code, and why, in a sentence."""

    result: str
    exit_code: ExitCode
    why: str
    counts: Mapping[str, int]

    @property
    def sentence(self) -> str:
        """The line a person reads last."""
        return f"{self.result.upper()}: {self.why}"


BOTH = (Level.CORE, Level.EXTENDED)


def binds(verdict: Verdict, fail_on: Binding) -> bool:
    """Whether the run hangs on this row: core ones always, extended ones as ``fail_on`` says."""
    if verdict.level is not Level.EXTENDED:
        return verdict.level is Level.CORE
    return fail_on is Binding.TIMED or (fail_on is Binding.EXTENDED and not verdict.timed)


def spoils(verdict: Verdict, fail_on: Binding) -> bool:
    """Whether this verdict alone keeps a run from exit code 0; a failure that does not bind only differs."""
    if verdict.status is Status.ERROR:
        return True
    if verdict.status is Status.FLAKY:
        return verdict.level in BOTH and (binds(verdict, fail_on) or not verdict.timed)
    return verdict.status in (Status.FAIL, Status.INCONCLUSIVE) and binds(verdict, fail_on)


def conclude(verdicts: Iterable[Verdict], left_out: int, fail_on: Binding = Binding.CORE) -> Conclusion:
    """Conclude a run.

    Args:
        verdicts: one for each selected row.
        left_out: core rows that were not selected. With those that were left out by --without, or for want of a
            client outside, they make the best result ``partial``, never ``conformant``.
        fail_on: whose failures make the run fail, and whose doubts leave it open.
    """
    verdicts = list(verdicts)
    counts = Counter(verdict.status.value for verdict in verdicts)
    against = Counter(verdict.status for verdict in verdicts if spoils(verdict, fail_on))
    failed, flaky = against[Status.FAIL], against[Status.FLAKY]
    errors, undecided = against[Status.ERROR], against[Status.INCONCLUSIVE]
    left_out += sum(1 for verdict in verdicts if verdict.left_out and verdict.level is Level.CORE)
    differing = sum(1 for each in verdicts if each.status is Status.FAIL and each.level in BOTH) - failed
    aside = f"; {counted(differing, 'extended row differs', 'extended rows differ')}" if differing else ""

    def say(result: str, code: ExitCode, why: str) -> Conclusion:
        return Conclusion(result, code, why + aside, counts)

    if failed or flaky:
        parts = [counted(failed, "row fails", "rows fail")] * bool(failed)
        parts += [counted(flaky, "row is flaky", "rows are flaky")] * bool(flaky)
        return say("nonconformant", ExitCode.NOT_CONFORMANT, " and ".join(parts))
    if errors:
        return say("error", ExitCode.HARNESS, f"{counted(errors, 'row')} could not be judged through our own fault")
    if undecided:
        return say("inconclusive", ExitCode.HARNESS, f"{counted(undecided, 'binding row')} could not be decided")
    if not verdicts:
        return say("empty", ExitCode.NOTHING_SELECTED, "no row was selected")
    if left_out:
        missed = counted(left_out, "core row was", "core rows were")
        return say("partial", ExitCode.CONFORMANT, f"what was asked holds, but {missed} left out")
    core = sum(1 for verdict in verdicts if verdict.level is Level.CORE and verdict.status is not Status.UNSUPPORTED)
    if not core:
        return say("inconclusive", ExitCode.HARNESS, "no core row could be asked on this cluster")
    held = (
        f"all {core} core rows that this cluster supports hold"
        if core > 1
        else "the one core row that this cluster supports holds"
    )
    return say("conformant", ExitCode.CONFORMANT, held)
