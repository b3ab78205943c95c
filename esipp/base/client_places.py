"""Places of outside clients, from ``--outside``: containers, this machine, hosts over ssh. Pure."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from esipp.base.errors import PreflightError
from esipp.base.redaction import KNOWN

HINT = (
    "use auto, none, docker:NETWORK, machine or ssh:[USER@]HOST[:PORT]; separate several by commas: "
    "--outside machine,ssh:a@b."
)
GIVEN = (
    "write the address by which the cluster sees that client, at most one of each IP family: "
    "--outside machine=203.0.113.9, or machine=203.0.113.9+2001:db8::9."
)

_DOCKER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SSH = re.compile(
    r"((?P<user>[A-Za-z0-9_][A-Za-z0-9_.\\-]*)@)?"
    r"(\[(?P<literal>[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?)\]|(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*))"
    r"(:(?P<port>[0-9]{1,5}))?"
)


class Kind(StrEnum):
    """The kind of a place."""

    DOCKER = "docker"
    MACHINE = "machine"
    SSH = "ssh"


@dataclass(frozen=True)
class Place:
    """A place outside the cluster where clients run.

    Args:
        kind: the kind of place. Docker gets one container per client; this machine and an ssh host are one client each.
        name: the docker network, or the ssh host (a name, or an alias in the user's ssh configuration).
        user: the account on the ssh host; empty for the one in ssh's configuration.
        port: the ssh port; 0 for the one in ssh's configuration.
        seen: the addresses by which the cluster sees the client there, as the user says; empty if esipp finds out.
    """

    kind: Kind
    name: str = ""
    user: str = ""
    port: int = 0
    seen: tuple[str, ...] = ()

    def given(self, version: int) -> str:
        """The address that the user gives for IPv4 or IPv6; empty if there is none."""
        return next((each for each in self.seen if ipaddress.ip_address(each).version == version), "")

    def __str__(self) -> str:
        """A description of the place."""
        if self.kind is Kind.DOCKER:
            return f"containers on docker network {self.name}"
        return "this machine" if self.kind is Kind.MACHINE else f"host {self.login} over ssh"

    @property
    def login(self) -> str:
        """The ssh login: ``user@host:port``."""
        host = f"[{self.name}]" if ":" in self.name else self.name
        return f"{self.user}@{host}".removeprefix("@") + (f":{self.port}" if self.port else "")


AUTO, NONE = "auto", "none"
BEHIND_ROUTER, BEHIND_NAT = "outside-routed", "outside-nat"
"""Clients that are no neighbours of the nodes: in another subnet behind a router, and behind NAT; both containers."""


def read_places(text: str) -> tuple[Place, ...] | None:
    """The places that ``--outside`` names, in order: outside-1 is at the first; None for ``auto``.

    Raises:
        PreflightError: a place is invalid or named twice, or ``auto`` or ``none`` is combined with another place.
    """
    names = [name.strip() for name in text.split(",")]
    if names == [AUTO]:
        return None
    if names == [NONE]:
        return ()
    for name in (AUTO, NONE):
        if name in names:
            raise PreflightError(f"--outside {text}: '{name}' cannot be combined with another place.", HINT)
    places = tuple(_read(name, text) for name in names)
    bare = [replace(place, seen=()) for place in places]
    for place in bare:
        if bare.count(place) > 1:
            raise PreflightError(f"--outside names {place} twice.", "every place except docker is exactly one client.")
    if any(place.kind is Kind.DOCKER for place in places[:-1]):
        raise PreflightError(
            f"--outside {text}: docker must be the last place, because all further clients run there.",
            "name docker:NETWORK last.",
        )
    return places


def _read(whole: str, text: str) -> Place:
    name, given, addresses = whole.partition("=")
    kind, colon, rest = name.partition(":")
    if given and kind in (Kind.MACHINE, Kind.SSH):
        return replace(_read(name, text), seen=_addresses(addresses, text))
    if whole == Kind.MACHINE:
        return Place(Kind.MACHINE)
    if kind == Kind.DOCKER and not given and _DOCKER.fullmatch(rest):
        return Place(Kind.DOCKER, rest)
    found = _SSH.fullmatch(rest) if kind == Kind.SSH and colon else None
    if found and int(found["port"] or 1) in range(1, 65536):
        return Place(Kind.SSH, found["literal"] or found["host"], found["user"] or "", int(found["port"] or 0))
    raise PreflightError(f"--outside {text}: '{whole}' is not a valid place.", HINT)


def _addresses(given: str, text: str) -> tuple[str, ...]:
    """The addresses that the user gives, in their usual form.

    Raises:
        PreflightError: one is not the address of a client, or two are of one family.
    """
    found: list[ipaddress.IPv4Address | ipaddress.IPv6Address] = []
    for each in given.split("+"):
        try:
            found.append(ipaddress.ip_address(each))
        except ValueError:
            raise PreflightError(f"--outside {text}: '{each}' is not an IP address.", GIVEN) from None
        if found[-1].is_unspecified or found[-1].is_loopback or found[-1].is_multicast or found[-1].is_link_local:
            raise PreflightError(f"--outside {text}: a cluster cannot see a client as {each}.", GIVEN)
    if len({each.version for each in found}) < len(found):
        raise PreflightError(f"--outside {text}: two addresses of one IP family.", GIVEN)
    return tuple(str(each) for each in found)


def place_of(client: str, places: tuple[Place, ...]) -> Place:
    """The place of a client: outside-1 is at the first place, outside-2 at the second; all further ones at the last.

    Those behind a router or NAT are containers, so they are at the last place, too.
    """
    if client in (BEHIND_ROUTER, BEHIND_NAT):
        return places[-1]
    number = int(client.rpartition("-")[2])
    return places[min(number, len(places)) - 1]


def most_clients(places: tuple[Place, ...]) -> int | None:
    """The maximum number of clients at these places; None if containers make it unlimited."""
    return None if any(place.kind is Kind.DOCKER for place in places) else len(places)


def keep_private(places: Iterable[Place], addresses: Iterable[object] = (), called: str = "") -> None:
    """Register ssh hosts for pseudonyms, which replace them wherever cloud ids are replaced.

    Args:
        places: places; only ssh hosts count.
        addresses: addresses of the host, and its address as others see it.
        called: hostname of the host.
    """
    for place in places:
        if place.kind is Kind.SSH:
            KNOWN.cloud.learn_host(place.name, place.user, [*place.seen, *map(str, addresses)], called)
