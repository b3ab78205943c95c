"""Breaks while a run disturbs the cluster, or from then on; and the checks of one event."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import ParamSpec

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, Way, What
from esipp.checks.disruption import Disruption
from esipp.checks.model import Role
from esipp.disruption import marks, shell
from esipp.disruption.agents import agent_pods, api_servers
from esipp.disruption.marks import Mark
from esipp.scenarios.service_change.subject import At, Claim, ServiceChange
from tests.broken.breakage import RunOptions
from tests.broken.nodes import Live, Nodes, Placed, Rule, new_mark
from tests.broken.policy_changes import LOOKS, entered_once, for_a_moment, in_background, set_up_run

Asked = ParamSpec("Asked")
IsSo = Callable[[], bool]
Happens = Callable[[Nodes], IsSo]
"""What tells whether something is so, or has happened since the break was applied."""

Making = Callable[[Live], Iterable[Rule]]
Where = Callable[[Nodes], str]
"""The node where something is in effect."""


def run_of(phase: Phase) -> RunOptions:
    """A phase on all ways, and quiet: the time before and after it, in which only breaks that last must be noticed."""
    return RunOptions(
        ("continuity",), (f"continuity.{phase.value}.", f"continuity.{Phase.QUIET.value}."), disruptive=True
    )


def run_of_change(event: str) -> RunOptions:
    """An event of changes."""
    return RunOptions(("changes",), (f"changes.{event}.",), disruptive=True)


# --------------------------------------------------------------------------------------- from when, and until when
Entering = Callable[[Live], AbstractContextManager[object]]


def comes_about(is_so: IsSo, ended: threading.Event) -> bool:
    """Wait until something is so; false if the test ends before."""
    while not ended.wait(LOOKS):
        if is_so():
            return True
    return False


@contextmanager
def entered_while_so(nodes: Nodes, services: Iterable[str], is_so: IsSo, enter: Entering) -> Iterator[Placed]:
    """A context is entered each time something is so, and left once it no longer is."""
    placed = Placed()

    def work(ended: threading.Event) -> None:
        live = set_up_run(nodes, {*services}, ended)
        while live is not None and comes_about(is_so, ended):
            with enter(live):
                placed.at = placed.at or time.time()
                while is_so() and not ended.wait(LOOKS):
                    pass

    with in_background(work):
        yield placed


def entered_once_so(
    nodes: Nodes, services: Iterable[str], is_so: IsSo, enter: Entering
) -> AbstractContextManager[Placed]:
    """A context is entered when something is so for the first time, and left at the end of the test."""
    return entered_once(nodes, services, lambda _, ended: comes_about(is_so, ended), enter)


@contextmanager
def run_once(
    nodes: Nodes, services: Iterable[str], is_so: IsSo, act: Callable[[Live, threading.Event], object]
) -> Iterator[Placed]:
    """Call ``act`` once, as soon as ``is_so`` says yes; it gets an event that is set when the break ends."""
    placed = Placed()

    def work(ended: threading.Event) -> None:
        live = set_up_run(nodes, {*services}, ended)
        if live is not None and comes_about(is_so, ended):
            placed.at = time.time()
            act(live, ended)

    with in_background(work):
        yield placed


def while_so(nodes: Nodes, services: Iterable[str], is_so: IsSo, rules: Making) -> AbstractContextManager[Placed]:
    """Rules on the nodes for as long as something is so."""
    return entered_while_so(nodes, services, is_so, lambda live: nodes.rules(*rules(live)))


def once_so(nodes: Nodes, services: Iterable[str], is_so: IsSo, rules: Making) -> AbstractContextManager[Placed]:
    """Rules on the nodes from when something is so, to the end of the run."""
    return entered_once_so(nodes, services, is_so, lambda live: nodes.rules(*rules(live)))


When = Callable[[Nodes, Iterable[str], IsSo, Making], AbstractContextManager[Placed]]
"""``while_so`` or ``once_so``."""


@contextmanager
def for_seconds_once(
    nodes: Nodes, service: str, is_so: IsSo, make: Callable[[Json], Iterable[Rule]], seconds: float
) -> Iterator[Placed]:
    """Rules, made from a Service, on the nodes that they name, for some seconds from when something is so."""
    mark = new_mark()

    def act(live: Live, _: threading.Event) -> None:
        for_a_moment([*make(live.service(service))], seconds, mark)

    try:
        with run_once(nodes, (service,), is_so, act) as placed:
            yield placed
    finally:
        nodes.take_away(mark)


# ------------------------------------------------------------------------------------------------ what may be so
def marked(nodes: Nodes, mark: Mark) -> bool:
    return any(marks.is_so(item, mark) for item in nodes.cluster.list("/api/v1/nodes"))


def in_effect(node: str, what: Disruption) -> bool:
    """By the mark on the node: whatever the disruption does, its mark comes first."""
    return what in shell.marks(("docker", "exec", node))


def effect_of(what: Disruption, where: Where) -> Happens:
    """Whether something is in effect at a node; which one, is looked up before the run."""

    def happens(nodes: Nodes) -> IsSo:
        node = where(nodes)
        return lambda: in_effect(node, what)

    return happens


def end_of(what: Disruption, where: Where) -> Happens:
    """Whether something was in effect at a node, and no longer is."""
    return lambda nodes: over(effect_of(what, where)(nodes))


def restart_of(what: Disruption) -> Happens:
    """Whether one of these agents has been started anew."""
    return lambda nodes: restarted(nodes, what)


def at_bare_node(nodes: Nodes) -> str:
    return nodes.bare


def at_endpoint_node(nodes: Nodes) -> str:
    return nodes.roles[Role.ENDPOINT_NODE]


def at_other_node(nodes: Nodes) -> str:
    return nodes.roles[Role.OTHER_NODE]


def at_control_plane(nodes: Nodes) -> str:
    return str(api_servers(nodes.cluster)[0]["spec"]["nodeName"])


def at_controller(nodes: Nodes) -> str:
    (pod,) = agent_pods(nodes.cluster, Disruption.CONTROLLER_STOPPED)
    return str(pod["spec"]["nodeName"])


def so_for(seconds: float, is_so: Callable[Asked, bool]) -> Callable[Asked, bool]:
    """Whether something has been so for some seconds."""
    since: float | None = None

    def has_been(*of: Asked.args, **more: Asked.kwargs) -> bool:
        nonlocal since
        since = (since or time.monotonic()) if is_so(*of, **more) else None
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
