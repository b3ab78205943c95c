"""``esipp clean``: what killed runs left in a cluster and beside it is found by its marks, undone and removed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from esipp.cluster import ApiError, Cluster, UnreachableError
from esipp.convergence import Budget, Reading, converge
from esipp.disruption import marks, shell
from esipp.disruption.containers import node_containers
from esipp.disruption.model import Disruption
from esipp.disruption.services import wait_for_control_plane, wait_for_node
from esipp.disruption.undo import Undo
from esipp.errors import PreflightError
from esipp.loadbalancers.detection import find, platform_of
from esipp.loadbalancers.patience import patience_of
from esipp.loadbalancers.profiles.loading import all_profiles
from esipp.namespaces import is_alive, left_behind, remove_namespace
from esipp.probing import outside

AGAIN = Budget("the API server answering again", 90.0, need=1, spacing=0.5)

REMOVED = Budget("a killed run's namespace being gone", 330.0)
"""Who removes it may be a controller manager that lost its leader election with the API server's absence, and whose
kubelet starts it anew only after its longest back-off."""

Say = Callable[[str], None]


def clean(cluster: Cluster, run: str | None, force: bool, say: Say) -> None:
    """Undo and remove what no living run answers for, and say each in a line.

    The nodes' own marks come first, through their containers: an API server that is stopped cannot be asked.

    Args:
        cluster: the cluster.
        run: only this run's namespace and containers; disruptions are undone whichever run's they are.
        force: also what belongs to a run that is at work on this machine.
        say: prints a line.

    Raises:
        PreflightError: the API server does not answer, or refuses.
        HarnessError: something could not be undone or removed.
    """
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        say(line)

    def spared(owner: str) -> bool:
        return not force and is_alive(owner)

    began = _wake(cluster, spared, tell)
    if any(what is Disruption.API_SERVER for _, what in began):
        _await(cluster)
    cluster.version()
    busy: set[str] = set()
    with _refusals("The nodes cannot be looked after", "nodes must be listed and patched."):
        _unmark(cluster, spared, tell)
    with _refusals("The cluster cannot be swept", "namespaces must be listed and deleted."):
        busy = _remove(cluster, run, spared, tell)
    found = outside.left_behind(cluster.server)
    containers = sorted(name for name, its in found.items() if its not in busy and run in (None, its))
    outside.sweep(containers)
    for name in containers:
        tell(f"removed container {name}")
    # once more: what a process that was killed a moment ago had sent off may have arrived since
    late = _wake(cluster, spared, tell)
    if any(what is Disruption.API_SERVER for _, what in late):
        _await(cluster)
    with _refusals("The nodes cannot be looked after", "nodes must be listed and patched."):
        _unmark(cluster, spared, tell)
    woken = began | late
    if any(what is Disruption.API_SERVER for _, what in woken):
        wait_for_control_plane(cluster)
    for node in sorted(node for node, what in woken if what is Disruption.KUBELET):
        wait_for_node(cluster, node)
    if not told:
        say("nothing was left")


def _wake(cluster: Cluster, spared: Callable[[str], bool], tell: Say) -> set[tuple[str, Disruption]]:
    """Undo what was done on the nodes themselves; where, and what."""
    woken = set()
    for node, way in node_containers(cluster.server).items():
        for what, owner in shell.marks(way).items():
            undo = Undo(what.value, node, owner, way)
            if not spared(owner) and undo.perform(cluster):
                tell(undo.done)
                woken.add((node, what))
    return woken


def _await(cluster: Cluster) -> None:
    """An API server that was just made to go on answers soon; whoever asks next says what is wrong if not."""

    def look() -> Reading:
        try:
            cluster.request("GET", "/version", read_timeout=5)
        except (ApiError, UnreachableError) as silent:
            return Reading(False, str(silent))
        return Reading(True, "it answers")

    converge(look, AGAIN)


def _unmark(cluster: Cluster, spared: Callable[[str], bool], tell: Say) -> None:
    """Undo what was done to Node objects."""
    for left in marks.left_behind(cluster):
        undo = Undo(left.mark.value, left.node, left.owner)
        if not spared(left.owner) and undo.perform(cluster):
            tell(undo.done)


def _remove(cluster: Cluster, run: str | None, spared: Callable[[str], bool], tell: Say) -> set[str]:
    """Remove the runs' namespaces; the ids of those that are at work."""
    spaces = left_behind(cluster)
    wanted = {name: its for name, (its, _) in spaces.items() if run in (None, its)}
    alive = {name: spaces[name][1] for name in wanted if spared(spaces[name][1])}
    for name, owner in alive.items():
        tell(f"kept namespace {name}: process {owner.rpartition('/')[2]} is at work in it (--force removes it)")
    left = sorted(set(wanted) - set(alive))
    budget = removal_budget(cluster) if left else REMOVED
    for name in left:
        remove_namespace(cluster, name, budget)
        tell(f"removed namespace {name}")
    return {wanted[name] for name in alive}


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
