"""Other addresses of a node: beside its own, or in their place."""

import ipaddress
from dataclasses import dataclass, field

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading
from esipp.cluster.client import ApiError, UnreachableError
from esipp.disruption import marks, shell
from esipp.disruption.services import OnNodes, wait_for_node

USABLE = Budget("a node's other addresses to be usable", 10.0, need=1, spacing=0.2)
"""Linux asks for a second whether another host has an IPv6 address."""

NAMED = Budget("a Node object to name other addresses", 60.0, need=1, spacing=0.2)

ABOVE = 0x20
"""The distance between the two: Docker gives out the lowest addresses of its networks, and load balancers have the
highest. Each is added as a single address (/32, /128)."""


def another(address: str) -> str:
    """The additional address for one of a node's own: ``ABOVE`` more or less than it."""
    own = ipaddress.ip_address(address)
    return str(type(own)(int(own) ^ ABOVE))


class AddressAdded(OnNodes):
    """A node with another address of each family beside its InternalIPs."""

    def prove(self, stop: Stop) -> str:
        """Wait until the node can use them."""

        def look() -> Reading:
            return Reading(all(shell.is_stopped(way, self.what) for way in self.nodes.values()), "not usable")

        stop.converge(look, USABLE)
        return f"{self._check_stopped()}: {', '.join(self._addresses())}"

    def back(self) -> str:
        """Check that they are gone."""
        if any(shell.is_stopped(way, self.what) for way in self.nodes.values()):
            raise HarnessError(
                f"Node {self._node} still has {', '.join(self._addresses())}.", f"see 'ip address' on {self._node}."
            )
        return "undone"

    def _first(self) -> str:
        return shell.note_addresses(self._addresses())

    def _addresses(self) -> list[str]:
        given: list[Json] = marks.read(self.cluster, self._node)["status"].get("addresses") or []
        return [another(each["address"]) for each in given if each["type"] == "InternalIP"]


@dataclass
class NodeReaddressed(OnNodes):
    """A node with other InternalIPs than before: its own are gone, and its Node object names the others."""

    _before: list[Json] = field(default_factory=list, init=False)

    def do(self) -> None:
        """Note the addresses that its Node object names, and replace its InternalIPs."""
        self._before = self._named()
        super().do()

    def prove(self, stop: Stop) -> str:
        """Wait until its Node object names them, its kubelet reports, and it is ready."""

        def look() -> Reading:
            try:
                named = self._named()
            except (ApiError, UnreachableError) as silent:
                return Reading(False, str(silent))
            return Reading(named == self._after, f"it names {', '.join(each['address'] for each in named)}")

        stop.converge(look, NAMED)
        said, ready = self._check_stopped(), wait_for_node(self.cluster, self._node)
        pairs = ", ".join(f"{new} in place of {old}" for old, new in self._pairs)
        return f"{said}: {pairs}; ready {ready:.1f} s after that"

    def back(self) -> str:
        """Wait until the node is ready, and check that it has its own addresses alone, and its Node object names them.

        Raises:
            HarnessError: it does not.
        """
        waited = wait_for_node(self.cluster, self._node)
        left = any(shell.is_stopped(way, self.what) for way in self.nodes.values())
        if left or self._named() != self._before:
            raise HarnessError(
                f"Node {self._node} does not have its own addresses again.", f"see 'ip address' on {self._node}."
            )
        return f"undone, and the node was ready after {waited:.1f} s"

    def _check_stopped(self) -> str:
        if self._named() != self._after:
            raise HarnessError(
                f"The Node object {self._node} does not name the node's other addresses.",
                "check who else, such as a cloud provider, writes its status.",
            )
        return super()._check_stopped()

    def _first(self) -> str:
        return shell.note_readdressing(self._pairs, self._before, self._after)

    def _named(self) -> list[Json]:
        found: list[Json] = marks.read(self.cluster, self._node)["status"].get("addresses") or []
        return found

    @property
    def _pairs(self) -> list[tuple[str, str]]:
        return [(each["address"], another(each["address"])) for each in self._before if each["type"] == "InternalIP"]

    @property
    def _after(self) -> list[Json]:
        other = dict(self._pairs)
        return [{**each, "address": other.get(each["address"], each["address"])} for each in self._before]
