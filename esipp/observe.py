"""Paths in, observations out: every probe of every row flies at once, then nothing is tried again."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from esipp.convergence import Budget, Convergence, Reading, converge
from esipp.errors import HarnessError
from esipp.model import AddressClass, Cell, EntryKind, Observation, Outcome, Path, Vantage
from esipp.probing.prober import IN_FLIGHT, Job, Prober
from esipp.topology import Topology

DATA_PLANE = Budget("every path that must answer", 30.0, need=3, spacing=0.2, stable=2.0)
SETTLING_TIMEOUT = 1.0
"""Seconds a probe may take while the data plane is being programmed."""

JUDGED_TIMEOUT = 2.0
"""Seconds of silence that count as no answer in the judged window: one SYN retransmission is given its chance."""


@dataclass(frozen=True)
class Plan:
    """What to dial: address and port by path, and the paths that cannot be dialled with the reason."""

    targets: Mapping[Path, tuple[str, int]]
    obstacles: Mapping[str, str] = field(default_factory=dict)


def plan(cells: Iterable[Cell], address: Callable[[Path], tuple[str, int] | str]) -> Plan:
    """Resolve every path of the cells, controls included, once."""
    targets: dict[Path, tuple[str, int]] = {}
    obstacles: dict[str, str] = {}
    for path in sorted({path for cell in cells for path in cell.paths}, key=lambda p: p.key):
        target = address(path)
        if isinstance(target, str):
            obstacles[path.key] = target
        else:
            targets[path] = target
    return Plan(targets, obstacles)


def must_answer(cells: Iterable[Cell]) -> set[Path]:
    """The paths on which something has to answer before the window may be judged."""
    return {cell.path for cell in cells if not cell.is_negative} | {
        control.path for cell in cells for control in cell.controls
    }


def settle(probers: Mapping[str, Prober], todo: Plan, expected: set[Path]) -> Convergence:
    """Wait until every path that must answer does, three times in a row.

    Setting up may converge; only the judged window may not be tried again. A path that never answers uses up the
    budget and is then judged as it is: that it stays silent is the product's doing.
    """
    waiting = [path for path in todo.targets if path in expected]

    def look() -> Reading:
        silent = [
            path for path, seen in _fly(probers, todo, waiting, 1, SETTLING_TIMEOUT).items() if not _answered(seen)
        ]
        if not silent:
            return Reading(True, f"{len(waiting)} paths answer")
        return Reading(False, f"{len(silent)} of {len(waiting)} paths are silent, among them {silent[0].key}")

    return converge(look, DATA_PLANE)


def observe(probers: Mapping[str, Prober], todo: Plan, samples: int) -> dict[str, list[Observation]]:
    """The judged window: ``samples`` new connections on every path, all paths at once."""
    seen = _fly(probers, todo, list(todo.targets), samples, JUDGED_TIMEOUT)
    return {path.key: observations for path, observations in seen.items()}


def _fly(
    probers: Mapping[str, Prober], todo: Plan, paths: Iterable[Path], count: int, timeout: float
) -> dict[Path, list[Observation]]:
    flying: dict[Path, Future[list[Observation]]] = {}
    for path in paths:
        host, port = todo.targets[path]
        flying[path] = probers[path.client.name].submit(Job(path, host, port, count, timeout))
    # even if every probe runs into its timeout, and the machine is slow
    bound = 30 + timeout + 2 * len(flying) * count * timeout / IN_FLIGHT
    landed = {}
    for path, future in flying.items():
        try:
            landed[path] = future.result(timeout=bound)
        except TimeoutError:
            raise HarnessError(
                f"The prober of {path.client.name} has not finished {path.key} after {bound:.0f} s.",
                "is the machine or the container it runs in overloaded?",
            ) from None
    return landed


def _answered(observations: Iterable[Observation]) -> bool:
    return all(each.outcome is Outcome.ANSWERED for each in observations)


def facts_of(
    observations: Mapping[str, list[Observation]], paths: Iterable[Path], topology: Topology
) -> dict[str, str]:
    """What the reference listeners tell about the way, for overrides: do pods reach nodes with their own address?"""
    seen: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        if path.entry.kind is not EntryKind.NODE_LISTENER or path.client.vantage is not Vantage.POD:
            continue
        for each in observations.get(path.key, ()):
            if each.seen and each.source:
                own = AddressClass.CLIENT in topology.origin(path, each.seen[0], each.source[0]).classes
                seen[f"pod-to-node.{path.family.value.lower()}"].add("unchanged" if own else "masqueraded")
    return {name: values.pop() if len(values) == 1 else "mixed" for name, values in seen.items()}
