"""Commands on other hosts with OpenSSH's client, and explanations of its errors."""

import shlex
from collections.abc import Sequence

from esipp.base.client_places import Place

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


def command(place: Place, there: Sequence[str]) -> list[str]:
    """The ssh command that runs a command on a host, quoted for the account's shell."""
    options = [part for name, value in OPTIONS.items() for part in ("-o", f"{name}={value}")]
    port = ["-p", str(place.port)] if place.port else []
    user = ["-l", place.user] if place.user else []
    return ["ssh", *options, *port, *user, "--", place.name, shlex.join(there)]


def explain(place: Place, code: int, complaint: str) -> tuple[str, str]:
    """Explain from ssh's exit code and output why a host cannot run anything: a sentence and a hint."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    last = (lines[-1] if lines else "no reason given")[:200].rstrip(".")
    said = complaint.lower()
    try_it = f"check that '{say(place)} true' works without a prompt."
    if code == NOT_FOUND or ("python3" in said and ("not found" in said or "no such file" in said)):
        return f"There is no python3 on {place.login}.", "install python3 there; the prober needs nothing else."
    if "host key verification failed" in said or "host identification has changed" in said:
        changed = "does not match the one that ssh knows" if "has changed" in said else "is unknown to ssh"
        sentence = f"The host key of {place.login} {changed}."
        return sentence, f"compare the fingerprint, then let ssh store the key: {say(place)}"
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


def say(place: Place) -> str:
    """The ssh command as a person would type it, without the remote command."""
    target = f"{place.user}@{place.name}".removeprefix("@")
    return " ".join(["ssh", *(["-p", str(place.port)] if place.port else []), target])
