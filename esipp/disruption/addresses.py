"""Another address of each family on a node."""

import ipaddress

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading
from esipp.disruption import marks, shell
from esipp.disruption.services import OnNodes

USABLE = Budget("a node's other addresses to be usable", 10.0, need=1, spacing=0.2)
"""Linux asks for a second whether another host has an IPv6 address."""

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
