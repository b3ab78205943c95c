"""Events under traffic: how one is done, proven and undone, how long streams may take to follow, and controls."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.waiting import Budget, Convergence, Reading
from esipp.checks.model import Family, Protocol
from esipp.judging.timeline import Stream
from esipp.probing.prober import Target
from esipp.testbed.testbed import Testbed

Notes = TypeVar("Notes")
"""What an event notes of itself."""


def _nothing(_: object) -> None:
    """Nothing is to do."""


@dataclass(frozen=True)
class Steps(Generic[Notes]):
    """How an event is done.

    Args:
        do: does it.
        prove: proves that it happened, and lets it last.
        undo: undoes it, whatever broke it off.
        settle: proves that it is undone.
        times: how often, at most.
    """

    do: Callable[[Notes], object] = _nothing
    prove: Callable[[Notes], object] = _nothing
    undo: Callable[[Notes], object] = _nothing
    settle: Callable[[Notes], object] = _nothing
    times: int = 1

    def perform(self, notes: Notes, enough: Callable[[], bool] = lambda: False) -> None:
        """Do, prove and undo it as often as it says.

        Args:
            notes: what each step is given.
            enough: whether another time would show nothing new.
        """
        for _ in range(self.times):
            try:
                self.do(notes)
                self.prove(notes)
            finally:
                self.undo(notes)
            self.settle(notes)
            if enough():
                return


@dataclass
class Following:
    """Waits until all that is observed follows a change.

    What does not follow in its whole time has failed the check of that. At later changes of the same kind it gets less,
    so that a run on a broken cluster does not take many times as long. All else has its whole time there, too.

    Args:
        stop: ends the wait.
        later: seconds after a change for what did not follow an earlier one.
        forgives: whether what follows a later change has its whole time again.
    """

    stop: Stop
    later: float
    forgives: bool = False
    _late: defaultdict[Hashable, set[str]] = field(default_factory=lambda: defaultdict(set))
    """What did not follow in time, by the kind of change."""

    def wait(
        self,
        behind: Callable[[float], Iterable[str]],
        budget: Budget,
        since: float,
        kind: Hashable = None,
        lasts: float = 0.0,
    ) -> list[str]:
        """Wait; returns what does not follow, or does so no more.

        Args:
            behind: the names of what does not follow yet, at a time.
            budget: the whole time.
            since: when the change was made.
            kind: the kind of change.
            lasts: seconds after the change until which the wait lasts at least.
        """
        missing, known = list[str](), self._late[kind]

        def look() -> Reading:
            nonlocal missing
            now = time.monotonic()
            missing = list(behind(now))
            waiting = [name for name in missing if now - since <= self.later or name not in known]
            if waiting:
                return Reading(False, f"waiting for {', '.join(sorted(waiting))}")
            return Reading(now - since >= lasts, "followed")

        self.stop.converge(look, budget)
        self._late[kind] = {*missing} if self.forgives else known | {*missing}
        return missing


def last_answers(
    stop: Stop, end: float, patience: float, budget: Budget, streams: Collection[Stream] = ()
) -> Convergence:
    """Wait after the end of an event: what stays silent is known to have done so only once its time is up.

    Args:
        stop: ends the wait.
        end: the end of the event.
        patience: seconds until a silent probe is known to be so.
        budget: the whole time.
        streams: if every probe of these that began before the end has a result, the wait is over.
    """

    def look() -> Reading:
        known = bool(streams) and all(each.known_until(end) for each in streams)
        return Reading(known or time.monotonic() - end > patience, "last answers")

    return stop.converge(look, budget)


def control_targets(
    testbed: Testbed, nodes: Iterable[str], *, required: bool = False
) -> Mapping[tuple[str, Family], Target]:
    """The control listeners of nodes, by node and family.

    Args:
        testbed: has the agents with the listeners.
        nodes: the names of the nodes.
        required: whether every node must have one.

    Raises:
        HarnessError: a node has no agent.
    """
    found: dict[tuple[str, Family], Target] = {}
    for name in dict.fromkeys(nodes):
        port = testbed.listeners.get(name, {}).get(Protocol.TCP)
        if port:
            found |= {(name, family): Target(host, port) for family, host in testbed.nodes[name].internal.items()}
        elif required:
            raise HarnessError(f"Node {name} has no agent.", "run again.")
    return found
