"""Two hosts on the bridge of the nodes, network namespaces with an sshd each; no way leads from them to elsewhere."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from esipp.checks.model import Family
from tests.echoserver.namespaces import Namespace, end_within, ip, rules
from tests.hosts.sshd import BARE, KEY, OTHER, Sshd, prepare

EAST, WEST = "east-7.example.net", "west-7.example.net"
"""By which names ssh knows them; a report that may be published names neither these nor what they call themselves."""

CALLED = {EAST: "srv-berlin-1", WEST: "srv-lisbon-2"}
LOCKED, PYTHONLESS = "locked-7.example.net", "pythonless-7.example.net"
"""The first host under other names: one does not let us in, by the other there is no python3."""

CONFIG = f"""
Host {LOCKED}
    IdentityFile {{folder}}/{OTHER}
Host {PYTHONLESS}
    IdentityFile {{folder}}/{BARE}
Host {EAST} {WEST}
    IdentityFile {{folder}}/{KEY}
Host {EAST} {LOCKED} {PYTHONLESS}
    HostName {{east}}
Host {WEST}
    HostName {{west}}
Host *
    User root
    HostKeyAlias both
    IdentitiesOnly yes
    GlobalKnownHostsFile /dev/null
    UserKnownHostsFile {{folder}}/known
"""


@dataclass(frozen=True)
class Host:
    """A host beside the nodes: how ssh knows it, what it calls itself, its addresses, its namespace and its sshd."""

    name: str
    called: str
    addresses: dict[Family, str]
    namespace: Namespace
    sshd: Sshd

    @contextlib.contextmanager
    def cut_off_from(self, addresses: Iterable[str]) -> Iterator[None]:
        """No route leads from it to these addresses, for a while."""
        added: list[str] = []
        try:
            for each in addresses:
                self.namespace.ip("route", "add", "unreachable", each)
                added.append(each)
            yield
        finally:
            for each in added:
                self.namespace.ip("route", "del", "unreachable", each)

    @contextlib.contextmanager
    def behind_nat(self, own: Mapping[Family, str]) -> Iterator[None]:
        """Its sockets have these addresses for a while, and its packets leave with its usual ones."""
        with contextlib.ExitStack() as stack:
            for family, address in own.items():
                six = family is Family.IPV6
                flag, length = ("-6", 128) if six else ("-4", 32)
                shown = self.namespace.shows(flag, "route", "show", "dev", "eth0", "proto", "kernel")
                subnet = next(line.split()[0] for line in shown.splitlines() if not line.startswith("fe80"))
                self.namespace.add_address(address, length, "lo")
                stack.callback(self.namespace.ip, "addr", "del", f"{address}/{length}", "dev", "lo")
                for half in ipaddress.ip_network(subnet).subnets():  # they precede the route of the whole subnet
                    route = (str(half), "dev", "eth0", "src", address)
                    self.namespace.ip(flag, "route", "add", *route)
                    stack.callback(self.namespace.ip, flag, "route", "del", *route)
                rule = f"nat POSTROUTING -s {address} -o eth0 -j SNAT --to-source {self.addresses[family]}"
                stack.enter_context(rules(self.namespace, family.value.lower(), rule))
            yield


@dataclass(frozen=True)
class Hosts:
    """Both of them; ``env`` is an environment whose ssh knows them, ``folder`` where its keys are."""

    east: Host
    west: Host
    env: dict[str, str]
    folder: Path


def by_family(addresses: Iterable[str]) -> dict[Family, str]:
    """Addresses, with or without a prefix length, by their family."""
    found = [ipaddress.ip_interface(each).ip for each in addresses]
    return {Family.IPV6 if each.version == 6 else Family.IPV4: str(each) for each in found}


@contextlib.contextmanager
def hosts(
    bridge: str, given: Sequence[Sequence[str]], folder: Path, inside: Namespace | None = None
) -> Iterator[Hosts]:
    """Put two hosts on a bridge, and take them away again, whatever happens.

    Args:
        bridge: its name.
        given: the addresses of each host, with the bridge's prefix length; one is reached at its first, the other at
            its last.
        folder: for keys and configurations; empty.
        inside: the namespace that the bridge is in; else it is in that of this process.
    """
    east, west = given
    env = prepare(folder, ["both"], CONFIG.format(folder=folder, east=_alone(east[0]), west=_alone(west[-1])))
    with contextlib.ExitStack() as stack:
        made = dict[str, Host]()
        for name, addresses in ((EAST, east), (WEST, west)):
            namespace = Namespace()
            stack.callback(_remove, namespace)
            stack.callback(ip, *_join(namespace, bridge, addresses, inside))
            sshd = stack.enter_context(Sshd(namespace, folder, CALLED[name]))
            made[name] = Host(name, CALLED[name], by_family(addresses), namespace, sshd)
        yield Hosts(made[EAST], made[WEST], env, folder)


def _alone(address: str) -> str:
    return address.partition("/")[0]


def _join(namespace: Namespace, bridge: str, addresses: Iterable[str], inside: Namespace | None) -> list[str]:
    """Lay a cable from a namespace to a bridge; the arguments of ``ip`` that take it away again.

    It would go with the namespace, but a namespace ends some time after it was removed.
    """
    where = ["-n", inside.name] if inside else []
    end = namespace.name.replace("esipp-", "ve-")
    ip(*where, "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", namespace.name)
    ip(*where, "link", "set", end, "master", bridge, "up")
    namespace.ip("link", "set", "eth0", "up")
    for each in addresses:
        address, _, length = each.partition("/")
        namespace.add_address(address, int(length), "eth0")
        ip(*where, "neigh", "flush", "to", address)  # an earlier host with this address had another MAC
    return [*where, "link", "del", end]


def _remove(namespace: Namespace) -> None:
    end_within(namespace.name)  # sessions outlive their sshd
    namespace.remove()


def routes(host: Host) -> list[str]:
    """Where a host can send to at all, as ``ip route`` says it, both families."""
    shown = (host.namespace.shows(family, "route", "show") for family in ("-4", "-6"))
    return [line for text in shown for line in text.splitlines()]
