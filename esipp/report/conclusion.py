"""From all verdicts to one word and one exit code (design.md, laws 7 and 8)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from esipp.errors import ExitCode
from esipp.observation import Verdict
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
    both = (Level.CORE, Level.EXTENDED)

    def binds(verdict: Verdict) -> bool:
        if verdict.level is not Level.EXTENDED:
            return verdict.level is Level.CORE
        return fail_on is Binding.TIMED or (fail_on is Binding.EXTENDED and not verdict.timed)

    def count(status: Status, which: Callable[[Verdict], bool]) -> int:
        return sum(1 for verdict in verdicts if verdict.status is status and which(verdict))

    failed = count(Status.FAIL, binds)
    flaky = count(Status.FLAKY, lambda verdict: verdict.level in both and (binds(verdict) or not verdict.timed))
    errors, undecided = count(Status.ERROR, lambda _: True), count(Status.INCONCLUSIVE, binds)
    left_out += sum(1 for verdict in verdicts if verdict.left_out and verdict.level is Level.CORE)
    differing = count(Status.FAIL, lambda verdict: verdict.level in both) - failed
    aside = f"; {differing} extended rows differ" if differing else ""

    def say(result: str, code: ExitCode, why: str) -> Conclusion:
        return Conclusion(result, code, why + aside, counts)

    if failed or flaky:
        parts = [f"{failed} rows fail"] * bool(failed) + [f"{flaky} rows are flaky"] * bool(flaky)
        return say("nonconformant", ExitCode.NOT_CONFORMANT, " and ".join(parts))
    if errors:
        return say("error", ExitCode.HARNESS, f"{errors} rows could not be judged through our own fault")
    if undecided:
        return say("inconclusive", ExitCode.HARNESS, f"{undecided} binding rows could not be decided")
    if not verdicts:
        return say("empty", ExitCode.NOTHING_SELECTED, "no row was selected")
    if left_out:
        return say("partial", ExitCode.CONFORMANT, f"what was asked holds, but {left_out} core rows were left out")
    core = sum(1 for verdict in verdicts if verdict.level is Level.CORE and verdict.status is not Status.UNSUPPORTED)
    if not core:
        return say("inconclusive", ExitCode.HARNESS, "no core row could be asked on this cluster")
    return say("conformant", ExitCode.CONFORMANT, f"all {core} core rows that this cluster supports hold")
