"""Other hosts over OpenSSH's own client: how a command is run there, and what ssh says where it cannot be."""

import shlex
from collections.abc import Sequence

from esipp.base.client_places import Place

CONNECT_SECONDS = 10
"""Until a host that does not answer is given up."""

OPTIONS = {
    "BatchMode": "yes",  # nobody is there to be asked for a password
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
"""What is set whatever the user's configuration says; all else (keys, jump hosts, aliases) is the configuration's."""

NOT_FOUND = 127


def command(place: Place, there: Sequence[str]) -> list[str]:
    """How a command is run at a host; the account's own shell takes it apart again, whichever it is."""
    options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
    port = ["-p", str(place.port)] if place.port else []
    user = ["-l", place.user] if place.user else []
    return ["ssh", *options, *port, *user, "--", place.name, shlex.join(there)]


def explain(place: Place, code: int, complaint: str) -> tuple[str, str]:
    """What is wrong with a host where nothing could be run, by ssh's exit code and words: a sentence and a hint."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    last = (lines[-1] if lines else "no word of why")[:200].rstrip(".")
    said = complaint.lower()
    try_it = f"does '{say(place)} true' work without a question?"
    if code == NOT_FOUND or ("python3" in said and ("not found" in said or "no such file" in said)):
        return f"There is no python3 on {place.login}.", "the prober needs python3 there, and nothing else."
    if "host key verification failed" in said or "host identification has changed" in said:
        changed = "has another host key than ssh knows" if "has changed" in said else "has a host key ssh does not know"
        return f"{place.login} {changed}.", f"compare its fingerprint, then let ssh keep it: {say(place)}"
    if "permission denied" in said or "too many authentication failures" in said:
        return f"{place.login} does not let us in: {last}.", f"a key in the agent or IdentityFile is needed; {try_it}"
    if "could not resolve hostname" in said:
        return f"The host {place.login} has no address: {last}.", "is its name right, and an alias in ~/.ssh/config?"
    for sign in ("timed out", "no route to host", "network is unreachable", "connection refused", "connection closed"):
        if sign in said:
            return f"{place.login} cannot be reached over ssh: {last}.", try_it
    return f"Nothing can be run on {place.login} over ssh: {last}.", try_it


def say(place: Place) -> str:
    """The command that a person would type, up to what is to be run."""
    target = f"{place.user}@{place.name}".removeprefix("@")
    return " ".join(["ssh", *(["-p", str(place.port)] if place.port else []), target])
