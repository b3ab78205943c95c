"""Outside clients that are no containers: this machine, or a host over ssh. Nothing is written there."""

import base64
import contextlib
import json
import shlex
import shutil
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from esipp.base.client_places import Kind, Place
from esipp.base.errors import PreflightError
from esipp.checks.catalog import HOUSE
from esipp.checks.model import Family
from esipp.judging.topology import IPAddress, family_of, parse_address
from esipp.probing import host_check
from esipp.probing.prober import Prober

CONNECT_SECONDS = 10
"""Timeout of the connection to a host, in seconds."""

OPTIONS = {
    "BatchMode": "yes",  # never ask for a password
    "ConnectTimeout": str(CONNECT_SECONDS),
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RequestTTY": "no",
    "RemoteCommand": "none",
}
"""Options that override the user's configuration, which decides everything else (keys, jump hosts, aliases)."""

NOT_FOUND = 127


def ssh_command(place: Place, there: Sequence[str]) -> list[str]:
    """The ssh command that runs a command on a host, quoted for the account's shell."""
    options = [part for name, value in OPTIONS.items() for part in ("-o", f"{name}={value}")]
    port = ["-p", str(place.port)] if place.port else []
    user = ["-l", place.user] if place.user else []
    return ["ssh", *options, *port, *user, "--", place.name, shlex.join(there)]


def explain_ssh(place: Place, code: int, complaint: str) -> tuple[str, str]:
    """Explain from ssh's exit code and output why a host cannot run anything: a sentence and a hint."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    last = (lines[-1] if lines else "no reason given")[:200].rstrip(".")
    said = complaint.lower()
    try_it = f"check that '{say_ssh(place)} true' works without a prompt."
    if code == NOT_FOUND or ("python3" in said and ("not found" in said or "no such file" in said)):
        return f"There is no python3 on {place.login}.", "install python3 there; the prober needs nothing else."
    if "host key verification failed" in said or "host identification has changed" in said:
        changed = "does not match the one that ssh knows" if "has changed" in said else "is unknown to ssh"
        sentence = f"The host key of {place.login} {changed}."
        return sentence, f"compare the fingerprint, then let ssh store the key: {say_ssh(place)}"
    if "permission denied" in said or "too many authentication failures" in said:
        return f"{place.login} denies access: {last}.", f"add a key to the agent or set IdentityFile; {try_it}"
    if "could not resolve hostname" in said:
        return (
            f"Cannot resolve the host name {place.login}: {last}.",
            "check the name, or the alias in ~/.ssh/config.",
        )
    for sign in ("timed out", "no route to host", "network is unreachable", "connection refused", "connection closed"):
        if sign in said:
            return f"Cannot reach {place.login} over ssh: {last}.", try_it
    return f"Cannot run anything on {place.login} over ssh: {last}.", try_it


def say_ssh(place: Place) -> str:
    """The ssh command as a person would type it, without the remote command."""
    target = f"{place.user}@{place.name}".removeprefix("@")
    return " ".join(["ssh", *(["-p", str(place.port)] if place.port else []), target])


ANSWER_SECONDS = 45.0
"""Timeout for the description of a host. It includes ssh's own timeout, jump hosts and the start of Python."""

LOADER = (
    'import base64,zlib;r=open(0,"rb",0,closefd=False).readline;exec(zlib.decompress(base64.b64decode(r())));main(r)'
)
"""Python code that reads exactly two lines, because the rest of its input is for the prober. It contains no newline,
quote or exclamation mark that a shell would interpret."""


@dataclass(frozen=True)
class HostDescription:
    """The description of a place: its addresses, its Python, and whether it may open raw sockets."""

    place: Place
    addresses: frozenset[IPAddress]
    python: str
    raw: bool
    hostname: str = ""

    def families(self) -> set[Family]:
        """The address families in which the place has an address."""
        return {family_of(address) for address in self.addresses}


@cache
def prelude() -> str:
    """The first two lines for a place: host_check.py and the prober."""
    files = (Path(host_check.__file__), HOUSE / "images" / "echoserver" / "prober.py")
    return "".join(f"{base64.b64encode(zlib.compress(file.read_bytes(), 9)).decode()}\n" for file in files)


def command(place: Place) -> list[str]:
    """The command that starts a prober at a place; its input begins with ``prelude``."""
    if place.kind is Kind.MACHINE:
        return [sys.executable, "-B", "-c", LOADER]
    return ssh_command(place, ["python3", "-B", "-c", LOADER])


def start(place: Place, name: str) -> Prober:
    """Start a prober at a place.

    Raises:
        HarnessError: it cannot start, now or at ``hello``.
    """
    return Prober(name, command(place), prelude())


def look(place: Place) -> HostDescription:
    """Examine a place.

    Raises:
        PreflightError: ssh cannot run anything there, or the place cannot run the prober.
    """
    if place.kind is Kind.SSH and shutil.which("ssh") is None:
        raise PreflightError(
            "There is no ssh on PATH.", "install openssh-client; esipp uses it to reach clients on other hosts."
        )
    try:
        done = subprocess.run(
            command(place), input=prelude(), capture_output=True, text=True, errors="replace", timeout=ANSWER_SECONDS,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PreflightError(
            f"{_subject(place)} did not answer within {ANSWER_SECONDS:.0f} s.", f"check that '{_by_hand(place)}' works."
        ) from None
    events = {line["event"]: line for line in map(_read, done.stdout.splitlines()) if "event" in line}
    answered, ready = events.get("host"), events.get("ready")
    if answered is None:
        if place.kind is Kind.SSH:
            raise PreflightError(*explain_ssh(place, done.returncode, done.stderr))
        raise PreflightError(
            f"Python does not start here: {done.stderr.strip()[-200:]}", f"check the installation of {sys.executable}."
        )
    if not answered["fit"]:
        least = ".".join(map(str, host_check.LEAST))
        raise PreflightError(
            f"{_subject(place)} has Python {answered['python']} on {answered['platform']}.",
            f"the prober needs Python {least} or newer, as python3, on Linux.",
        )
    if ready is None:
        last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise PreflightError(
            f"The prober does not start on {place}: {last[0][:200]}", "check the installation of Python there."
        )
    addresses = frozenset(parse_address(each) for each in ready["addresses"])
    return HostDescription(
        place, addresses, str(answered["python"]), bool(answered["raw"]), str(ready.get("hostname", ""))
    )


def _read(line: str) -> dict[str, Any]:
    """A line of the prober as JSON; empty for other lines, such as those of a login script."""
    with contextlib.suppress(ValueError):
        event = json.loads(line)
        if isinstance(event, dict):
            return event
    return {}


def _subject(place: Place) -> str:
    return "This machine" if place.kind is Kind.MACHINE else f"The {place}"


def _by_hand(place: Place) -> str:
    return f"{say_ssh(place)} python3 --version" if place.kind is Kind.SSH else f"{sys.executable} --version"
