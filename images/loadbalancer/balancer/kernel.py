"""The kernel's side, by netlink: VIPs, the routes that steer, and the rules that put these before local delivery.

A VIP is an address of the interface, so that the kernel answers ARP and neighbour solicitations for it. What arrives
for it would then be delivered here; rules for TCP, UDP and SCTP that come before the `local` table send it to a table
of ours instead. That holds a route for every VIP that is forwarded and for nothing else: ARP, pings and the VIPs of
proxies meet the `local` table as ever.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pyroute2 import IPRoute  # type: ignore[import-not-found,import-untyped,unused-ignore]  # of its image alone
from pyroute2.netlink.exceptions import (  # type: ignore[import-not-found,import-untyped,unused-ignore]  # of its image alone
    NetlinkError,
)

from .nat import Translations
from .objects import Port, family_of

TABLE = 3665
PROTOCOL = 229  # marks routes as ours
OUR_PREFERENCE = 100
LOCAL_BEFORE, LOCAL_BEHIND = 0, 32000
LOCAL_TABLE, MAIN_TABLE = 255, 254
CARRIED = (6, 17, 132)  # TCP, UDP, SCTP
NO_DAD = 0x02
FOREVER = 0xFFFFFFFF
AF = {"IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}
LENGTH = {"IPv4": 32, "IPv6": 128}


class Kernel:
    """One network namespace's addresses, rules and routes."""

    def __init__(self, interface: str) -> None:
        self._ip = IPRoute()
        self._name = interface
        self._index: int = self._ip.link_lookup(ifname=interface)[0]
        self.addresses: set[str] = set()  # VIPs
        self._pods: dict[str, str] = {}
        self._translations = Translations()

    def own_addresses(self) -> dict[str, str]:
        """The interface's own address of each family: what connections of ours come from."""
        found: dict[str, str] = {}
        for address in self._dump_addresses():
            whole = address["prefixlen"] == LENGTH[family_of(address.get_attr("IFA_ADDRESS"))]
            if address["scope"] == 0 and not whole:  # global; a VIP has its full length
                text = address.get_attr("IFA_ADDRESS")
                found.setdefault(family_of(text), text)
        return found

    def set_up(self) -> None:
        """Clear away what a killed predecessor left, and put the rules in."""
        self.tear_down()
        for family in AF.values():
            self._rule("add", family, table=LOCAL_TABLE, priority=LOCAL_BEHIND)
            for protocol in CARRIED:
                self._rule(
                    "add", family, table=TABLE, priority=OUR_PREFERENCE, iifname=self._name, FRA_IP_PROTO=protocol
                )
            self._rule("del", family, table=LOCAL_TABLE, priority=LOCAL_BEFORE)

    def tear_down(self) -> None:
        """Remove all that is ours, and put local delivery first again; nothing may be there, too."""
        for address in self._dump_addresses():
            text = address.get_attr("IFA_ADDRESS")
            if address["prefixlen"] == LENGTH[family_of(text)] and address["scope"] == 0:
                self._address("del", text)
        for family in AF.values():
            rules = list(self._ip.get_rules(family=family))
            if not any(self._is_local(rule, LOCAL_BEFORE) for rule in rules):
                self._rule("add", family, table=LOCAL_TABLE, priority=LOCAL_BEFORE)
            for rule in rules:
                if self._is_local(rule, LOCAL_BEHIND):
                    self._rule("del", family, table=LOCAL_TABLE, priority=LOCAL_BEHIND)
                elif rule.get_attr("FRA_TABLE") == TABLE:
                    self._rule(
                        "del",
                        family,
                        table=TABLE,
                        priority=OUR_PREFERENCE,
                        iifname=self._name,
                        FRA_IP_PROTO=rule.get_attr("FRA_IP_PROTO"),
                    )
            for route in list(self._ip.get_routes(family=family)):
                if route.get("proto") == PROTOCOL:
                    self._forget(route, family)
        self._translations.clear()
        self.addresses.clear()
        self._pods.clear()

    def assign(self, vips: set[str]) -> None:
        """Have these VIPs and no others."""
        for vip in self.addresses - vips:
            self._address("del", vip)
        for vip in vips - self.addresses:
            self._address("add", vip)
        self.addresses = set(vips)

    def steer(self, vip: str, via: Mapping[str, int]) -> None:
        """Send what comes for a VIP on to these nodes by their weights, at once; without any it is dropped."""
        family = family_of(vip)
        hops = [{"gateway": gateway, "oif": self._index, "hops": weight - 1} for gateway, weight in sorted(via.items())]
        way: dict[str, Any] = {"type": "blackhole"}
        if len(hops) == 1:
            way = {"gateway": hops[0]["gateway"], "oif": self._index}
        elif hops:
            way = {"multipath": hops}
        self._try(
            "route", "replace", family=AF[family], dst=f"{vip}/{LENGTH[family]}", table=TABLE, proto=PROTOCOL, **way
        )

    def translate(self, vip: str, ports: Sequence[Port], via: Mapping[str, int]) -> None:
        """Send what comes for a VIP's ports to nodePorts of these nodes; what is not translated is dropped."""
        self.steer(vip, {})
        self._translations.put(vip, ports, via)

    def forget(self, vip: str) -> None:
        """Steer a VIP no more."""
        self._translations.forget(vip)
        family = family_of(vip)
        dst = f"{vip}/{LENGTH[family]}"
        for route in list(self._ip.get_routes(family=AF[family], table=TABLE)):
            if f"{route.get_attr('RTA_DST')}/{route['dst_len']}" == dst:
                self._forget(route, AF[family])

    def reach_pods(self, networks: Mapping[str, str]) -> None:
        """Route pod networks by way of their nodes: pods that dial a proxy's VIP come with their own addresses."""
        for network in set(self._pods) - set(networks):
            self._try("route", "del", family=AF[family_of(network)], dst=network, table=MAIN_TABLE, proto=PROTOCOL)
        for network, gateway in networks.items():
            if self._pods.get(network) != gateway:
                self._try(
                    "route",
                    "replace",
                    family=AF[family_of(network)],
                    dst=network,
                    gateway=gateway,
                    oif=self._index,
                    table=MAIN_TABLE,
                    proto=PROTOCOL,
                )
        self._pods = dict(networks)

    def _dump_addresses(self) -> Sequence[Any]:
        return [a for a in self._ip.get_addr() if a["index"] == self._index]

    def _address(self, command: str, vip: str) -> None:
        family = family_of(vip)
        options: dict[str, Any] = {}
        if command == "add" and family == "IPv6":
            # Deprecated: never chosen as a source. Docker gave the interface its own address before.
            options = {"flags": NO_DAD, "cacheinfo": {"preferred": 0, "valid": FOREVER}}
        self._try("addr", command, index=self._index, address=vip, mask=LENGTH[family], family=AF[family], **options)

    def _rule(self, command: str, family: int, **what: Any) -> None:
        self._try("rule", command, family=family, **what)

    def _is_local(self, rule: Any, priority: int) -> bool:
        return (rule.get_attr("FRA_PRIORITY") or 0) == priority and rule.get_attr("FRA_TABLE") == LOCAL_TABLE

    def _forget(self, route: Any, family: int) -> None:
        what = {"dst": f"{route.get_attr('RTA_DST')}/{route['dst_len']}", "table": route.get_attr("RTA_TABLE")}
        if route["type"] == 6:
            what["type"] = "blackhole"
        self._try("route", "del", family=family, proto=PROTOCOL, **what)

    def _try(self, what: str, command: str, **arguments: Any) -> None:
        """Do it. What the kernel refuses is logged, and the rest goes on."""
        try:
            getattr(self._ip, what)(command, **arguments)
        except NetlinkError as error:
            print(f"{what} {command} {arguments}: {error}", file=sys.stderr, flush=True)
