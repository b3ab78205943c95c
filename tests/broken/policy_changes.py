"""Breaks during policy changes of a run, and the checks of these changes.

A watcher of the API server's events starts temporary breaks. The same command on the node ends them, so nothing is left
behind, whatever happens to the test.
"""

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.model import EntryKind, Role, ServiceType, TrafficPolicy
from esipp.checks.policy_change import At, ChangingService, Isolated, PolicyChange, PolicyClaim
from esipp.cluster.client import ApiError, UnreachableError
from esipp.scenarios.policy_change.objects import NEIGHBOURS
from tests.broken.breakage import RunOptions
from tests.broken.nodes import LONGEST, Live, Nodes, Placed, Rule, new_mark, script

OF_POLICY_CHANGES = RunOptions(("compatibility",))
"""All checks of the suite, including policy changes of one Service and isolation of others."""

STEADY = "nodeport-local"
"""The unchanged Service that is disturbed during policy changes of others."""

LOOKS, QUICK_LOOKS = 0.2, 0.03


# ---------------------------------------------------------------------------------------------- seeing a run's deeds
@contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Work in a thread until the test ends; its errors fail the test."""
    ended, broken = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work(ended)
        except BaseException as error:
            broken.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not broken, broken


@contextmanager
def in_own_rules(nodes: Nodes, mark: str, work: Callable[[threading.Event], None]) -> Iterator[None]:
    """The same; all rules with this mark are gone at the end."""
    try:
        with in_background(work):
            yield
    finally:
        nodes.take_away(mark)


def set_up_run(nodes: Nodes, names: set[str], ended: threading.Event) -> Live | None:
    """The test's own run, once its pods and these Services exist; None if the test ends before."""
    until = time.monotonic() + LONGEST
    while not ended.wait(LOOKS) and time.monotonic() < until:
        live = nodes.arranged()
        if live is not None and names <= {each["metadata"]["name"] for each in live.services}:
            return live
    return None


@contextmanager
def entered_once(
    nodes: Nodes,
    services: Iterable[str],
    reached: Callable[[Live, threading.Event], bool],
    enter: Callable[[Live], AbstractContextManager[object]],
) -> Iterator[Placed]:
    """A context is entered once the test's own run has come so far, and left at the end of the test.

    Args:
        nodes: the nodes.
        services: Services that the run must have first.
        reached: waits until the run has come so far; false if the test ended before.
        enter: makes the context.
    """
    placed, stack = Placed(), ExitStack()

    def work(ended: threading.Event) -> None:
        live = set_up_run(nodes, {*services}, ended)
        if live is not None and reached(live, ended):
            stack.enter_context(enter(live))
            placed.at = time.time()

    with stack, in_background(work):
        yield placed


def states_of(nodes: Nodes, path: str, ended: threading.Event) -> Iterator[Json]:
    """Poll one object until the test ends or the object is deleted."""
    until = time.monotonic() + LONGEST
    while not ended.wait(QUICK_LOOKS) and time.monotonic() < until:
        try:
            yield nodes.cluster.request("GET", path)
        except UnreachableError:
            continue  # a busy one
        except ApiError:
            return


def policies_of(nodes: Nodes, live: Live, name: str, ended: threading.Event) -> Iterator[str]:
    """The policy of a Service after each change."""
    known = policy_of(live.service(name))
    for now in map(policy_of, states_of(nodes, f"/api/v1/namespaces/{live.namespace}/services/{name}", ended)):
        if now != known:
            known = now
            yield now


def policy_of(service: Json) -> str:
    """``spec.externalTrafficPolicy``."""
    return str(service["spec"].get("externalTrafficPolicy"))


# ------------------------------------------------------------------------------------------------- rules in time
def after_the_first_change(
    nodes: Nodes, name: str, make: Callable[[Live], list[Rule]], to: TrafficPolicy
) -> AbstractContextManager[Placed]:
    """Rules on the nodes from the first change of a Service to a policy on."""

    def changed(live: Live, ended: threading.Event) -> bool:
        return any(policy == to for policy in policies_of(nodes, live, name, ended))

    return entered_once(nodes, (name,), changed, lambda live: nodes.rules(*make(live)))


def after_each_change(
    nodes: Nodes,
    names: tuple[str, ...],
    steady: tuple[str, ...],
    make: Callable[[Live], list[Rule]],
    seconds: float,
    to: TrafficPolicy | None = None,
) -> AbstractContextManager[Placed]:
    """Rules on the nodes for some seconds after each policy change of one of these Services (to one policy)."""
    mark = new_mark()

    @contextmanager
    def apply() -> Iterator[Placed]:
        placed = Placed()

        def work(ended: threading.Event) -> None:
            live = set_up_run(nodes, {*names, *steady}, ended)
            if live is None:
                return
            rules = make(live)

            def follow(name: str) -> None:
                for policy in policies_of(nodes, live, name, ended):
                    if to in (None, policy):
                        for_a_moment(rules, seconds, mark)
                        placed.at = placed.at or time.time()

            with ExitStack() as stack:
                for name in names:
                    stack.enter_context(in_background(lambda _, name=name: follow(name)))
                ended.wait(LONGEST)

        with in_own_rules(nodes, mark, work):
            yield placed

    return apply()


def for_a_moment(rules: list[Rule], seconds: float, mark: str) -> None:
    """Rules on the nodes they name, added and removed by one command each."""
    running = []
    for node in {node for rule in rules for node in rule.nodes}:
        ours = [rule for rule in rules if node in rule.nodes]
        put_in, take_away = (script(ours, how, mark) for how in ("--insert", "--delete"))
        command = ["docker", "exec", node, "sh", "-c", f"{put_in}; sleep {seconds}; {take_away}"]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    for each in running:
        assert each.wait(timeout=60) == 0


def disturbed_by_neighbours(nodes: Nodes, make: Callable[[Live], list[Rule]]) -> AbstractContextManager[Placed]:
    """Rules on the nodes for half a second after each policy change next to the unchanged Service."""
    return after_each_change(nodes, tuple(sorted(NEIGHBOURS)), (STEADY,), make, 0.5)


# ------------------------------------------------------------------------------------------------- who must notice
def is_change_check(check: Check, service: ChangingService, at: At | None, *claims: PolicyClaim) -> bool:
    """Whether a check claims this of a Service with policy changes, at an entry; None is all nodes."""
    return (
        is_about(check, PolicyChange)
        and (check.subject.service, check.subject.at) == (service, at)
        and check.subject.claim in claims
    )


def steady_at(check: Check, role: Role) -> bool:
    """Whether a check is about the disturbed service's nodePort on a node."""
    if not is_about(check, Isolated):
        return False
    path, service = check.subject.on_path.path, check.subject.on_path.path.service
    ours = service is not None and (service.type, service.policy) == (ServiceType.NODE_PORT, TrafficPolicy.LOCAL)
    return ours and path.entry.kind is EntryKind.NODE_PORT and path.entry.role is role
