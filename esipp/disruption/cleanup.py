"""``esipp clean``: what killed runs left in a cluster and beside it is found by its marks, undone and removed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from esipp.base.errors import PreflightError
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import is_alive, remove_namespace
from esipp.disruption import marks, shell
from esipp.disruption.rollback import Undo
from esipp.disruption.services import wait_for_control_plane, wait_for_node
from esipp.loadbalancers.detection import find, platform_of
from esipp.loadbalancers.profiles.loading import all_profiles
from esipp.loadbalancers.timeouts import patience_of
from esipp.probing import outside
from esipp.probing.node_containers import node_containers
from esipp.testbed import leftovers
from esipp.testbed.leftovers import Thing

AGAIN = Budget("the API server answering again", 90.0, need=1, spacing=0.5)

REMOVED = Budget("a killed run's namespace being gone", 330.0)
"""Who removes it may be a controller manager that lost its leader election with the API server's absence, and whose
kubelet starts it anew only after its longest back-off."""

Say = Callable[[str], None]


def clean(cluster: Cluster, run: str | None, force: bool, say: Say, *, dry_run: bool = False) -> None:
    """Undo and remove what no living run answers for, and say each in a line.

    The nodes' own marks come first, through their containers: an API server that is stopped cannot be asked.

    Args:
        cluster: the cluster.
        run: only this run's namespace and containers; disruptions are undone whichever run's they are.
        force: also what belongs to a run that is at work, here or on another machine.
        say: prints a line.
        dry_run: only say what would be undone and removed.

    Raises:
        PreflightError: the API server does not answer, or refuses.
        HarnessError: something could not be undone or removed.
    """
    _Sweep(cluster, run, force, say, dry_run).perform()


class _Sweep:
    """One clean-up."""

    def __init__(self, cluster: Cluster, run: str | None, force: bool, say: Say, dry_run: bool) -> None:
        self.cluster, self.run, self.force, self.dry_run = cluster, run, force, dry_run
        self._say, self._said = say, False
        self._busy: set[str] | None = None

    def perform(self) -> None:
        """Do all of it, in the order in which it can be done."""
        began = self._wake()
        if any(what is Disruption.API_SERVER for _, what in began):
            _await(self.cluster)
        self.cluster.version()
        with _refusals("The nodes cannot be looked after", "nodes must be listed and patched."):
            self._unmark()
        with _refusals("The cluster cannot be swept", "namespaces must be listed and deleted."):
            spaces = leftovers.namespaces(self.cluster)
            self._remove(spaces)
        self._remove_containers(spaces)
        if not self.dry_run:
            self._look_again(began)
        if not self._said:
            self._say("nothing was left")

    def _look_again(self, began: set[tuple[str, Disruption]]) -> None:
        """Undo what a process that was killed a moment ago had sent off, and wait for what was stopped."""
        late = self._wake()
        if any(what is Disruption.API_SERVER for _, what in late):
            _await(self.cluster)
        with _refusals("The nodes cannot be looked after", "nodes must be listed and patched."):
            self._unmark()
        woken = began | late
        if any(what is Disruption.API_SERVER for _, what in woken):
            wait_for_control_plane(self.cluster)
        for node in sorted(node for node, what in woken if what is Disruption.KUBELET):
            wait_for_node(self.cluster, node)

    def _tell(self, line: str) -> None:
        self._said = True
        self._say(line)

    def _is_spared(self, owner: str) -> bool:
        """Whether what an owner did to a node stays: its run is at work."""
        return not self.force and (is_alive(owner) or owner in self._owners_at_work())

    def _owners_at_work(self) -> set[str]:
        """The owners whose runs hold a Lease, as far as the API server tells now."""
        if self._busy is None:
            try:
                self._busy = {space.owner for space in leftovers.namespaces(self.cluster) if space.alive}
            except (ApiError, UnreachableError):
                return set()
        return self._busy

    def _wake(self) -> set[tuple[str, Disruption]]:
        """Undo what was done on the nodes themselves; where, and what.

        A stopped API server comes first: it is the one that tells which runs are at work.
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
        """Undo what was done to Node objects."""
        for left in marks.left_behind(self.cluster):
            if not self._is_spared(left.owner):
                self._undo(Undo(left.mark.value, left.node, left.owner))

    def _undo(self, undo: Undo) -> bool:
        """Undo one thing; whether that was done."""
        if self.dry_run:
            self._tell(f"would undo {undo.what} on node {undo.node}")
            return False
        if not undo.perform(self.cluster):
            return False
        self._tell(undo.done)
        return True

    def _goes(self, what: str, thing: Thing) -> bool:
        """Whether something may be removed; says why where it may not."""
        if self.run not in (None, thing.run):
            return False
        if thing.foreign:
            self._tell(f"kept {what}, which is not surely of a run: {thing.foreign}")
        elif thing.alive and not self.force:
            self._tell(f"kept {what}: {thing.alive} (--force removes it)")
        elif self.dry_run:
            self._tell(f"would remove {what} of run {thing.run}, made by {thing.owner}")
        else:
            return True
        return False

    def _remove(self, spaces: list[Thing]) -> None:
        """Remove the namespaces of runs that are over."""
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
        """Remove the containers of runs that are over."""
        found = leftovers.containers(outside.left_behind(self.cluster.server), spaces)
        left = [each.name for each in found if self._goes(f"container {each.name}", each)]
        outside.sweep(left)
        for name in left:
            self._tell(f"removed container {name}")


def _await(cluster: Cluster) -> None:
    """An API server that was just made to go on answers soon; whoever asks next says what is wrong if not."""

    def look() -> Reading:
        try:
            cluster.request("GET", "/version", read_timeout=5)
        except (ApiError, UnreachableError) as silent:
            return Reading(False, str(silent))
        return Reading(True, "it answers")

    converge(look, AGAIN)


def removal_budget(cluster: Cluster) -> Budget:
    """How long a namespace's removal may take: its load balancers must go first, which takes minutes on a cloud."""
    try:
        platform = platform_of(cluster.list("/api/v1/nodes")).value
    except (ApiError, UnreachableError):
        return REMOVED
    profiles, _ = find(all_profiles(), platform, ())
    return replace(REMOVED, seconds=max(REMOVED.seconds, patience_of(profiles).removed))


@contextmanager
def _refusals(sentence: str, hint: str) -> Iterator[None]:
    """A cluster that cannot be asked is told as such."""
    try:
        yield
    except (ApiError, UnreachableError) as broken:
        raise PreflightError(f"{sentence}: {broken}.", hint) from None
