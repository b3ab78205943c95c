"""``OnConnections``: what the connections of all paths of one kind show together. No I/O."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import Check, Profile, Subject
from esipp.checks.model import ANYTHING, Family, Path, Protocol
from esipp.checks.path import OnPath


class Aspect(StrEnum):
    """What such a check looks at, beyond the address that a backend sees in the judged window.

    ``first``: the first connections of each path, while the run waits for the data plane. ``late``: connections
    that are accepted, and datagrams that are answered, after a second or more, as those after a repeated SYN.
    ``late-after-accept``: connections that wait a second or more for their answer once they are accepted. ``copies``:
    answers that come more than once. ``ports``: source ports, where the client's address is kept.
    ``silence``: nodes that answer after the time that a path's own check gives.
    """

    FIRST = "first"
    LATE = "late"
    LATE_AFTER_ACCEPT = "late-after-accept"
    COPIES = "copies"
    PORTS = "ports"
    SILENCE = "silence"


ONE_BY_ONE = frozenset({Aspect.FIRST, Aspect.SILENCE})
"""Aspects that each path shows by itself; the others are compared with connections without a Service."""


@dataclass(frozen=True)
class OnConnections(Subject):
    """An aspect of the connections of all paths of one kind, which ``of_paths``, the checks of these paths, make.

    It has no paths of its own: it judges what the run dials anyway for the checks that it sums up. It is unsupported if
    all of them are, and undecided if none was asked.
    """

    aspect: Aspect
    kind: Profile
    protocol: Protocol
    family: Family
    of_paths: tuple[Check[OnPath], ...]

    @property
    def summed(self) -> tuple[Check[OnPath], ...]:
        """Return the checks of the paths."""
        return self.of_paths

    @property
    def members(self) -> tuple[OnPath, ...]:
        """Return the subjects of these checks."""
        return tuple(check.subject for check in self.of_paths)

    @property
    def dialled(self) -> frozenset[Path]:
        """Return the paths of its members."""
        return frozenset(each.path for each in self.members)

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the load balancer must carry for VIPs."""
        words = (ANYTHING, self.protocol.value, self.family.value) if self.kind is Profile.LOAD_BALANCER else ()
        return frozenset(word.lower() for word in words)

    @property
    def on_host_network(self) -> bool:
        """Return False: members that need agents are then not asked, the others are."""
        return False

    @property
    def dials_nodes(self) -> bool:
        """Return whether clients outside dial nodes: for a member, or as the control of an aspect that is compared."""
        return self.aspect not in ONE_BY_ONE or any(each.dials_nodes for each in self.members)

    @property
    def profile(self) -> Profile:
        """Return the type of the Services."""
        return self.kind

    def as_json(self) -> dict[str, Any]:
        """Return the aspect and the kind of paths."""
        return {
            "aspect": self.aspect.value,
            "service": self.kind.value,
            "protocol": self.protocol.value,
            "family": self.family.value,
        }


ConnectionsCheck = Check[OnConnections]
"""A check of an aspect of many connections."""
