"""Batches of load balancers, if a quota limits how many may exist at the same time. Pure.

A check is judged with its controls, which a run observes in the same window. So the Services of a check stay together.
The other scenarios need their Services later, one scenario after the other.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.base.json import Json
from esipp.base.plural import counted
from esipp.checks.check import Check
from esipp.checks.model import Balancer, Path, ServiceType
from esipp.checks.path import PathCheck
from esipp.judging.scenario import scenario_of

LIMITED = re.compile(r"limited: (?:[^,]*,)*?(?:count/)?services\.loadbalancers=(\d+)")
"""The limit in the refusal of a ResourceQuota."""


@dataclass(frozen=True)
class Batches:
    """Batches of load balancers, by the names of their Services.

    Args:
        most: maximum number at the same time; None for no limit: then all exist from the beginning.
        windows: the load balancers of each judged window.
        scenarios: the load balancers of each other scenario, by its name.
        too_many: why the checks that need a Service cannot run, by its name.
    """

    most: int | None = None
    windows: tuple[frozenset[str], ...] = (frozenset(),)
    scenarios: Mapping[str, frozenset[str]] = field(default_factory=dict)
    too_many: Mapping[str, str] = field(default_factory=dict)

    @property
    def limited(self) -> bool:
        """Whether the number is limited, so that not all exist from the beginning."""
        return self.most is not None

    @property
    def at_once(self) -> int:
        """The maximum number at the same time, if it is limited."""
        return max((len(each) for each in (*self.windows, *self.scenarios.values())), default=0)

    def window_of(self, path_check: PathCheck) -> int:
        """The number of the window that observes a check; the first one for checks without load balancers."""
        needed = balanced(path_check.subject.paths)
        return next((number for number, names in enumerate(self.windows) if needed and needed <= names), 0)


ALL_AT_ONCE = Batches()


def balanced(paths: Iterable[Path]) -> frozenset[str]:
    """The Services of paths that the cluster's own load balancer serves."""
    services = {path.object_name: path.service for path in paths if path.service}
    own = (name for name, each in services.items()
           if each.type is ServiceType.LOAD_BALANCER and each.balancer is Balancer.DEFAULT)  # fmt: skip
    return frozenset(own)


def is_balanced(service: Json) -> bool:
    """Whether the cluster's own load balancer serves a Service."""
    return service["spec"].get("type") == ServiceType.LOAD_BALANCER and not service["spec"].get("loadBalancerClass")


def batches(checks: Sequence[Check], objects: Mapping[str, Iterable[Json]], most: int | None) -> Batches:
    """Plan the batches.

    Args:
        checks: the checks that run.
        objects: the own Services of each other scenario, by its name.
        most: maximum number of load balancers at the same time; None for no limit.
    """
    paths: dict[str, list[Path]] = defaultdict(list)
    for check in checks:
        paths[scenario_of(check).name].extend(check.subject.paths)
    scenarios = {
        name: frozenset(each["metadata"]["name"] for each in services if is_balanced(each)) | balanced(paths[name])
        for name, services in objects.items()
    }
    windows = _together(balanced(check.subject.window) for check in checks)
    if most is None or len(frozenset().union(*windows, *scenarios.values())) <= most:
        return ALL_AT_ONCE
    too_many = {name: _says(len(names), most) for names in windows if len(names) > most for name in names}
    for scenario, names in scenarios.items():
        if len(names) > most:
            own = {each["metadata"]["name"] for each in objects[scenario]}
            too_many |= {name: _says(len(names), most) for name in names & own}
            scenarios[scenario] = frozenset()
    return Batches(most, _packed([names for names in windows if len(names) <= most], most), scenarios, too_many)


def _says(needed: int, most: int) -> str:
    return (
        f"it needs {counted(needed, 'load balancer')} at the same time, but the limit is {most} "
        f"(--parallel-load-balancers, or a ResourceQuota)"
    )


def _together(needs: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """The groups of Services that must exist at the same time: those of a check, merged if they overlap."""
    found: list[frozenset[str]] = []
    for need in sorted(set(needs), key=sorted):
        if need:
            shared = [each for each in found if each & need]
            found = [each for each in found if not each & need] + [need.union(*shared)]
    return found


def _packed(groups: Iterable[frozenset[str]], most: int) -> tuple[frozenset[str], ...]:
    """Pack groups into windows of at most ``most`` Services, the largest groups first."""
    windows: list[frozenset[str]] = []
    for group in sorted(groups, key=lambda each: (-len(each), sorted(each))):
        fits = next((number for number, each in enumerate(windows) if len(each | group) <= most), None)
        if fits is None:
            windows.append(group)
        else:
            windows[fits] |= group
    return tuple(windows) or (frozenset(),)


def quota_of(refusal: str) -> int | None:
    """The limit on Services of type LoadBalancer in a ResourceQuota's refusal; None for another refusal."""
    found = LIMITED.search(refusal)
    return int(found[1]) if found else None
