"""Breaks while a run disturbs the cluster, or from then on; and the checks of one event."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, Way, What
from esipp.checks.disruption import Disruption
from esipp.disruption import marks, shell
from esipp.disruption.agents import agent_pods
from esipp.disruption.marks import Mark
from esipp.scenarios.service_change.subject import At, Claim, ServiceChange
from tests.broken.breakage import RunOptions
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import in_background, set_up_run

LOOKS = 0.2
IsSo = Callable[[], bool]
Making = Callable[[Live], list[Rule]]


def run_of(phase: Phase) -> RunOptions:
    """A phase on all ways, and quiet: the time before and after it, in which only breaks that last must be noticed."""
    return RunOptions(
        ("continuity",), (f"continuity.{phase.value}.", f"continuity.{Phase.QUIET.value}."), disruptive=True
    )


def run_of_change(event: str) -> RunOptions:
    """An event of changes."""
    return RunOptions(("changes",), (f"changes.{event}.",), disruptive=True)


def while_so(nodes: Nodes, service: str, is_so: IsSo, rules: Making) -> Iterator[Placed]:
    """Rules on the nodes for as long as something is so."""
    placed, stack = Placed(), ExitStack()

    def work(ended: threading.Event) -> None:
        live = set_up_run(nodes, {service}, ended)
        while live is not None and not ended.wait(LOOKS):
            if is_so():
                with nodes.rules(*rules(live)):
                    placed.at = placed.at or time.time()
                    while is_so() and not ended.wait(LOOKS):
                        pass

    with stack, in_background(work):
        yield placed


def once_so(nodes: Nodes, service: str, is_so: IsSo, rules: Making) -> Iterator[Placed]:
    """Rules on the nodes from when something is so, to the end of the run."""
    placed, stack = Placed(), ExitStack()

    def work(ended: threading.Event) -> None:
        live = set_up_run(nodes, {service}, ended)
        while live is not None and not ended.wait(LOOKS):
            if is_so():
                stack.enter_context(nodes.rules(*rules(live)))
                placed.at = time.time()
                return

    with stack, in_background(work):
        yield placed


def marked(nodes: Nodes, mark: Mark) -> bool:
    return any(marks.is_so(item, mark) for item in nodes.cluster.list("/api/v1/nodes"))


def in_effect(node: str, what: Disruption) -> bool:
    """By the mark on the node: whatever the disruption does, its mark comes first."""
    return what in shell.marks(("docker", "exec", node))


def so_for(seconds: float, is_so: IsSo) -> IsSo:
    """Whether something has been so for some seconds."""
    since: float | None = None

    def has_been() -> bool:
        nonlocal since
        since = (since or time.monotonic()) if is_so() else None
        return since is not None and time.monotonic() - since >= seconds

    return has_been


def over(is_so: IsSo) -> IsSo:
    """Whether something was so, and no longer is."""
    was = False

    def is_over() -> bool:
        nonlocal was
        now = is_so()
        was = was or now
        return was and not now

    return is_over


def restarted(nodes: Nodes, what: Disruption) -> IsSo:
    """Whether one of these agents has another pod than now."""

    def pods() -> set[str]:
        return {pod["metadata"]["uid"] for pod in agent_pods(nodes.cluster, what)}

    before = pods()
    return lambda: not pods() <= before


def of_phase(check: Check, phase: Phase, way: Way, *what: What) -> bool:
    if not is_about(check, Continuity):
        return False
    return (check.subject.phase, check.subject.way) == (phase, way) and check.subject.what in what


def of_change(check: Check, event: str, at: At, *claims: Claim) -> bool:
    if not is_about(check, ServiceChange):
        return False
    return (check.subject.event.name, check.subject.at) == (event, at) and check.subject.claim in claims
