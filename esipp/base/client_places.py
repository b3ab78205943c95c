"""Where clients outside the cluster stand, as ``--outside`` says: containers, this machine, hosts over ssh. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from esipp.base.errors import PreflightError
from esipp.base.redaction import KNOWN

HINT = "auto, none, docker:NETWORK, machine, ssh:[USER@]HOST[:PORT]; several with commas: --outside machine,ssh:a@b."

_DOCKER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SSH = re.compile(
    r"((?P<user>[A-Za-z0-9_][A-Za-z0-9_.\\-]*)@)?"
    r"(\[(?P<literal>[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?)\]|(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*))"
    r"(:(?P<port>[0-9]{1,5}))?"
)


class Kind(StrEnum):
    """What stands at a place."""

    DOCKER = "docker"
    MACHINE = "machine"
    SSH = "ssh"


@dataclass(frozen=True)
class Place:
    """One place outside the cluster.

    Args:
        kind: a container is started for every client; this machine and a host over ssh are one client each.
        name: the docker network, or the host as ssh knows it (an alias of the user's ssh configuration, too).
        user: the account there; empty for what ssh's configuration says.
        port: of ssh; 0 for what its configuration says.
    """

    kind: Kind
    name: str = ""
    user: str = ""
    port: int = 0

    def __str__(self) -> str:
        """The place in words."""
        if self.kind is Kind.DOCKER:
            return f"containers on docker network {self.name}"
        return "this machine" if self.kind is Kind.MACHINE else f"host {self.login} over ssh"

    @property
    def login(self) -> str:
        """The host as it is told to a person."""
        host = f"[{self.name}]" if ":" in self.name else self.name
        return f"{self.user}@{host}".removeprefix("@") + (f":{self.port}" if self.port else "")


AUTO, NONE = "auto", "none"


def read_places(text: str) -> tuple[Place, ...] | None:
    """The places that ``--outside`` names, in their order: outside-1 stands at the first; None for ``auto``.

    Raises:
        PreflightError: a word is no place, a place is named twice, or ``auto`` or ``none`` stands beside another.
    """
    words = [word.strip() for word in text.split(",")]
    if words == [AUTO]:
        return None
    if words == [NONE]:
        return ()
    for word in (AUTO, NONE):
        if word in words:
            raise PreflightError(f"--outside {text}: '{word}' goes with no other place.", HINT)
    places = tuple(_read(word, text) for word in words)
    for place in places:
        if places.count(place) > 1:
            raise PreflightError(
                f"--outside names {place} twice.", "every place but docker is one client, and one only."
            )
    if any(place.kind is Kind.DOCKER for place in places[:-1]):
        raise PreflightError(
            f"--outside {text}: nothing can stand after docker, which takes all further clients.",
            "name docker:NETWORK last.",
        )
    return places


def _read(word: str, text: str) -> Place:
    kind, colon, rest = word.partition(":")
    if word == Kind.MACHINE:
        return Place(Kind.MACHINE)
    if kind == Kind.DOCKER and _DOCKER.fullmatch(rest):
        return Place(Kind.DOCKER, rest)
    found = _SSH.fullmatch(rest) if kind == Kind.SSH and colon else None
    if found and int(found["port"] or 1) in range(1, 65536):
        return Place(Kind.SSH, found["literal"] or found["host"], found["user"] or "", int(found["port"] or 0))
    raise PreflightError(f"--outside {text}: '{word}' is no place where a client can stand.", HINT)


def place_of(client: str, places: tuple[Place, ...]) -> Place:
    """Where a client stands: outside-1 at the first place, outside-2 at the second, and so on; the last is docker's."""
    number = int(client.rpartition("-")[2])
    return places[min(number, len(places)) - 1]


def most_clients(places: tuple[Place, ...]) -> int | None:
    """How many clients can stand at these places; None where containers are as many as are wanted."""
    return None if any(place.kind is Kind.DOCKER for place in places) else len(places)


def keep_private(places: Iterable[Place], addresses: Iterable[object] = (), called: str = "") -> None:
    """Have hosts over ssh replaced in all that is written, where cloud ids are.

    Args:
        places: of which those count that are hosts over ssh.
        addresses: those that such a host has, or is seen by.
        called: its own name for itself.
    """
    for place in places:
        if place.kind is Kind.SSH:
            KNOWN.cloud.learn_host(place.name, place.user, [str(each) for each in addresses], called)
