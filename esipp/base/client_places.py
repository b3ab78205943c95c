"""Places of outside clients, from ``--outside``: containers, this machine, hosts over ssh. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from esipp.base.errors import PreflightError
from esipp.base.redaction import KNOWN

HINT = (
    "use auto, none, docker:NETWORK, machine or ssh:[USER@]HOST[:PORT]; separate several by commas: "
    "--outside machine,ssh:a@b."
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
    """

    kind: Kind
    name: str = ""
    user: str = ""
    port: int = 0

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
    for place in places:
        if places.count(place) > 1:
            raise PreflightError(f"--outside names {place} twice.", "every place except docker is exactly one client.")
    if any(place.kind is Kind.DOCKER for place in places[:-1]):
        raise PreflightError(
            f"--outside {text}: docker must be the last place, because all further clients run there.",
            "name docker:NETWORK last.",
        )
    return places


def _read(name: str, text: str) -> Place:
    kind, colon, rest = name.partition(":")
    if name == Kind.MACHINE:
        return Place(Kind.MACHINE)
    if kind == Kind.DOCKER and _DOCKER.fullmatch(rest):
        return Place(Kind.DOCKER, rest)
    found = _SSH.fullmatch(rest) if kind == Kind.SSH and colon else None
    if found and int(found["port"] or 1) in range(1, 65536):
        return Place(Kind.SSH, found["literal"] or found["host"], found["user"] or "", int(found["port"] or 0))
    raise PreflightError(f"--outside {text}: '{name}' is not a valid place.", HINT)


def place_of(client: str, places: tuple[Place, ...]) -> Place:
    """The place of a client: outside-1 is at the first place, outside-2 at the second; all further ones at the last."""
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
            KNOWN.cloud.learn_host(place.name, place.user, [str(each) for each in addresses], called)
