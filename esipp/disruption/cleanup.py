"""``esipp clean``: finds what killed runs left by its marks, undoes it and removes it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from esipp.base.errors import PreflightError
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.disruption import ALL_NODES, Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import is_alive, remove_namespace
from esipp.disruption import daemon_sets, marks, shell
from esipp.disruption.marks import Mark
from esipp.disruption.rollback import Undo
from esipp.disruption.rollouts import wait_until_replaced
from esipp.disruption.services import wait_for_control_plane, wait_for_node
from esipp.loadbalancers.detection import find, platform_of
from esipp.loadbalancers.profiles.loading import all_profiles
from esipp.loadbalancers.timeouts import timeouts_of
from esipp.probing import outside
from esipp.probing.node_containers import node_containers
from esipp.testbed import leftovers
from esipp.testbed.leftovers import Thing

AGAIN = Budget("the API server to answer again", 90.0, need=1, spacing=0.5)

REMOVED = Budget("removal of a killed run's namespace", 330.0)
"""Without the API server, a controller manager loses its leader election; its kubelet may restart it only after the
longest back-off."""

WITHOUT_KUBELET = (Disruption.KUBELET, Disruption.NODE_LEFT)

Say = Callable[[str], None]


def clean(cluster: Cluster, run: str | None, force: bool, say: Say, *, dry_run: bool = False) -> None:
    """Undo and remove what belongs to no active run, with one line of output each.

    Marks on the nodes themselves come first, through their containers, because a stopped API server cannot answer.

    Args:
        cluster: the cluster.
        run: remove only this run's namespace and containers; disruptions of all runs are undone.
        force: also clean up after runs that are active, on this machine or another one.
        say: prints a line.
        dry_run: only print what would be undone and removed.

    Raises:
        PreflightError: the API server does not answer, or refuses.
        HarnessError: something could not be undone or removed.
    """
    _Cleanup(cluster, run, force, say, dry_run).perform()


class _Cleanup:
    """A cleanup."""

    def __init__(self, cluster: Cluster, run: str | None, force: bool, say: Say, dry_run: bool) -> None:
        self.cluster, self.run, self.force, self.dry_run = cluster, run, force, dry_run
        self._say, self._said = say, False
        self._busy: set[str] | None = None
        self._rolling: set[Disruption] = set()
        """Whose agents are being replaced."""
        self._started: set[str] = set()
        """The nodes that boot."""

    def perform(self) -> None:
        """Clean up everything, in the order in which it is possible."""
        began = self._wake()
        if any(what is Disruption.API_SERVER for _, what in began):
            _await(self.cluster)
        self.cluster.version()
        with _refusals("Cannot clean up the nodes", "the account must be able to list and patch nodes."):
            self._unmark()
        with _refusals("Cannot clean up the namespaces", "the account must be able to list and delete namespaces."):
            spaces = leftovers.namespaces(self.cluster)
            self._remove(spaces)
        self._remove_containers(spaces)
        if not self.dry_run:
            self._look_again(began)
        if not self._said:
            self._say("nothing to clean up")

    def _look_again(self, began: set[tuple[str, Disruption]]) -> None:
        """Undo what a recently killed process had still requested, and wait for stopped services."""
        late = self._wake()
        if any(what is Disruption.API_SERVER for _, what in late):
            _await(self.cluster)
        with _refusals("Cannot clean up the nodes", "the account must be able to list and patch nodes."):
            self._unmark()
        woken = began | late
        if any(what is Disruption.API_SERVER for _, what in woken):
            wait_for_control_plane(self.cluster)
        for node in sorted({*self._started, *(node for node, what in woken if what in WITHOUT_KUBELET)}):
            wait_for_node(self.cluster, node)
        for what in sorted(self._rolling):
            wait_until_replaced(self.cluster, what)

    def _tell(self, line: str) -> None:
        self._said = True
        self._say(line)

    def _is_spared(self, owner: str) -> bool:
        """Whether an owner's change to a node stays, because its run is active."""
        return not self.force and (is_alive(owner) or owner in self._owners_at_work())

    def _owners_at_work(self) -> set[str]:
        """The owners of active runs; empty if the API server does not answer."""
        if self._busy is None:
            try:
                self._busy = {space.owner for space in leftovers.namespaces(self.cluster) if space.alive}
            except (ApiError, UnreachableError):
                return set()
        return self._busy

    def _wake(self) -> set[tuple[str, Disruption]]:
        """Undo disruptions on the nodes themselves, and return them with their nodes.

        A stopped API server comes first, because it knows which runs are active.
        """
        woken: set[tuple[str, Disruption]] = set()
        found = [
            Undo(what.value, node, owner, way)
            for node, way in node_containers(self.cluster.server).items()
            for what, owner in shell.marks(way).items()
        ]
        for undo in sorted(found, key=lambda each: each.what != Disruption.API_SERVER):
            what = Disruption(undo.what)
            silent = what is Disruption.API_SERVER
            spared = not self.force and is_alive(undo.owner) if silent else self._is_spared(undo.owner)
            if not spared and self._undo(undo):
                woken.add((undo.node, what))
        return woken

    def _unmark(self) -> None:
        """Undo changes to Node objects, and to those of agents."""
        left = [Undo(each.mark.value, each.node, each.owner) for each in marks.left_behind(self.cluster)]
        left += [Undo(each.what.value, ALL_NODES, each.owner) for each in daemon_sets.left_behind(self.cluster)]
        for undo in left:
            if self._is_spared(undo.owner) or not self._undo(undo):
                continue
            if undo.of_agents:
                self._rolling.add(Disruption(undo.what))
            if undo.what == Mark.OFF:
                self._started.add(undo.node)

    def _undo(self, undo: Undo) -> bool:
        """Undo a disruption, and return whether there was one."""
        if self.dry_run:
            self._tell(f"would undo {undo.what} on {undo.where}")
            return False
        if not undo.perform(self.cluster):
            return False
        self._tell(undo.done)
        return True

    def _goes(self, what: str, thing: Thing) -> bool:
        """Whether an object may be removed; prints the reason if not."""
        if self.run not in (None, thing.run):
            return False
        if thing.foreign:
            self._tell(f"kept {what}, which may not belong to a run: {thing.foreign}")
        elif thing.alive and not self.force:
            self._tell(f"kept {what}: {thing.alive} (--force removes it)")
        elif self.dry_run:
            self._tell(f"would remove {what} of run {thing.run}, created by {thing.owner}")
        else:
            return True
        return False

    def _remove(self, spaces: list[Thing]) -> None:
        """Remove the namespaces of runs that are not active."""
        left = [
            space
            for space in sorted(spaces, key=lambda each: each.name)
            if self._goes(f"namespace {space.name}", space)
        ]
        budget = removal_budget(self.cluster) if left else REMOVED
        for space in left:
            remove_namespace(self.cluster, space.name, budget)
            self._tell(f"removed namespace {space.name}")

    def _remove_containers(self, spaces: list[Thing]) -> None:
        """Remove the containers of runs that are not active."""
        found = leftovers.containers(outside.left_behind(self.cluster.server), spaces)
        left = [each.name for each in found if self._goes(f"container {each.name}", each)]
        outside.sweep(left)
        for name in left:
            self._tell(f"removed container {name}")


def _await(cluster: Cluster) -> None:
    """Wait until a resumed API server answers. If it does not, the next request reports the error."""

    def look() -> Reading:
        try:
            cluster.request("GET", "/version", read_timeout=5)
        except (ApiError, UnreachableError) as silent:
            return Reading(False, str(silent))
        return Reading(True, "it answers")

    converge(look, AGAIN)


def removal_budget(cluster: Cluster) -> Budget:
    """The timeout for a namespace's removal: its load balancers go first, which takes minutes in clouds."""
    try:
        platform = platform_of(cluster.list("/api/v1/nodes")).value
    except (ApiError, UnreachableError):
        return REMOVED
    profiles, _ = find(all_profiles(), platform, ())
    return replace(REMOVED, seconds=max(REMOVED.seconds, timeouts_of(profiles).removed))


@contextmanager
def _refusals(sentence: str, hint: str) -> Iterator[None]:
    """Turn errors of the API server into a preflight error."""
    try:
        yield
    except (ApiError, UnreachableError) as broken:
        raise PreflightError(f"{sentence}: {broken}.", hint) from None
