"""Whether health ports answer before a load balancer gives up, if that was measured well enough. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.base.plural import counted
from esipp.checks.check import Check, Status
from esipp.checks.model import Outcome
from esipp.checks.timing import Blur, Bound, Held, hold, needed
from esipp.judging.controls import but_one
from esipp.judging.frame import Decision, undecided

MOST_NAMED = 5
"""The most ports that a verdict names."""

ALIKE = 1
"""An answer waits for a processor as often as that of a control listener: both are one request to a process there."""

NOT_RECORDED = "the run did not record how long answers took"


@dataclass(frozen=True)
class Timed:
    """How long the requests to a health port took, in seconds: those with an HTTP answer, and those without one."""

    answered: tuple[float, ...] = ()
    silent: tuple[float, ...] = ()

    @classmethod
    def of(cls, answers: Iterable[tuple[Outcome, Sequence[float]]]) -> "Timed":
        """The times of requests, by how they ended."""
        every = list(answers)
        return cls(
            tuple(each for outcome, took in every if outcome is Outcome.ANSWERED for each in took),
            tuple(each for outcome, took in every if outcome is not Outcome.ANSWERED for each in took),
        )

    def over(self, bound: float) -> int:
        """How many surely got no answer within a bound; a client that gave up before it proves nothing."""
        return sum(seconds > bound for seconds in (*self.answered, *self.silent))


def control_of(listeners: Iterable[Sequence[float]]) -> float | None:
    """How long nodes' control listeners took to answer the same client meanwhile, in seconds; None without any.

    It is the slowest answer but one of the best node, as trouble of one node is that node's.
    """
    return min((but_one(took) for took in listeners if took), default=None)


def decide_in_time(
    check: Check,
    ports: Mapping[str, Timed],
    bound: Bound | None,
    control: float | None,
    unasked: Mapping[str, str],
) -> Decision:
    """The decision on all ports of a check. Of each port, the slowest answer but one counts.

    A port that never answered may be closed or filtered, which is for the check of its status.
    The reason names those that are late: ``1 of 4 ports answered too late: esipp-worker3 (172.18.0.4): 5 of 20 …``.

    Args:
        check: the check.
        ports: the times of each port, by its text.
        bound: when the load balancer gives up; None in ledgers of older versions.
        control: see ``control_of``.
        unasked: why a port was not asked, by its text.
    """
    if bound is None or not any((each.answered or each.silent) for each in ports.values()):
        return undecided(check, next(iter(unasked.values()), NOT_RECORDED))
    late: dict[str, str] = {}
    doubts, whole, slow = dict(unasked), False, Blur(slow=control or 0.0)
    for where, timed in ports.items():
        total, over = len(timed.answered) + len(timed.silent), timed.over(bound.seconds)
        slowest = but_one((*timed.answered, *(each for each in timed.silent if each > bound.seconds)))
        held = hold(slowest, bound.seconds, slow, ALIKE)
        words = f"{over} of {total} requests had no answer within {bound.seconds:g} s, slowest but one {slowest:.2f} s"
        if not total:
            doubts[where] = NOT_RECORDED
        elif not timed.answered:
            doubts[where] = "it gave no HTTP answer; see the check of its status"
        elif held is Held.OVER and control is not None:
            late[where] = words
            whole = whole or over == total
        elif held is Held.OVER:
            doubts[where] = f"{words}; without a control listener, this machine may be the cause"
        elif held is Held.UNKNOWN:
            doubts[where] = (
                f"slowest answer but one {slowest:.2f} s; not measured well enough: control listeners took "
                f"{slow.slow:.2f} s, {needed(bound.seconds):.2f} s are needed to judge {bound.seconds:g} s"
            )
        elif missing := sum(each <= bound.seconds for each in timed.silent):
            doubts[where] = f"{missing} of {total} requests had no HTTP answer; see the check of its status"
    took = sorted(each for timed in ports.values() for each in timed.answered)
    shown = f"median {took[len(took) // 2]:.3f} s, max {took[-1]:.3f} s" if took else "none"
    observed = f"{counted(len(ports), 'port')}, {counted(len(took), 'answer')}: {shown}; bound {bound.seconds:g} s"
    observed += f" ({bound.source})"
    if late:
        reason = f"{len(late)} of {counted(len(ports), 'port')} answered too late: {_named(late)}"
        return Decision(Status.FAIL if whole else Status.FLAKY, check.expected, observed, reason, "late", late=True)
    if doubts:
        return undecided(check, _named(doubts), observed)
    measured = "no control listener answered" if control is None else f"control listeners took {control:.3f} s"
    sees = f"{measured}; a port with one late answer is missed"
    return Decision(Status.PASS, check.expected, observed, sees=sees)


def _named(found: Mapping[str, str]) -> str:
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return "; ".join(f"{where}: {words}" for where, words in list(found.items())[:MOST_NAMED]) + more
