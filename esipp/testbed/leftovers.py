"""What earlier runs left: which namespaces and containers are surely a run's, and which runs may be at work.

Something is a run's if three things agree: the prefix of its name, the label of the run (which the name repeats), and
the owner that the run wrote on it. What has only some of them belongs to somebody else, and is spared.
"""

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from esipp.base.labels import OWNER, RUN_LABEL
from esipp.cluster import leases
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import is_alive, of_runs

Json = dict[str, Any]

PREFIX = "esipp-"
FORBIDDEN, NOT_FOUND = 403, 404


@dataclass(frozen=True)
class Thing:
    """A namespace or a container that bears marks of ours.

    Args:
        name: its own.
        run: the run's id, as the label has it.
        owner: ``host/pid`` of the run.
        foreign: why it is not surely a run's; empty if it is.
        alive: why its run may be at work; empty if that is over.
        created: when it was made, in seconds since 1970, as far as that is known.
    """

    name: str
    run: str
    owner: str
    foreign: str = ""
    alive: str = ""
    created: float | None = None


def lacks(name: str, run: str, owner: str, *, several: bool = False) -> str:
    """Which of the three marks a thing lacks, in words; empty if it has all.

    Args:
        name: the thing's.
        run: the value of the run's label.
        owner: the value of the owner's mark.
        several: whether a run has more than one such thing, so that something follows the run's id in the name.
    """
    wanted = f"{PREFIX}{run}"
    if not name.startswith(PREFIX):
        return f"its name does not begin with '{PREFIX}'"
    if not run:
        return f"it has no label {RUN_LABEL}"
    if not (name.startswith(f"{wanted}-") if several else name == wanted):
        return f"its label {RUN_LABEL} names another run: {run}"
    host, _, pid = owner.rpartition("/")
    return "" if host and pid.isdigit() else f"its {OWNER} names no process"


def namespaces(cluster: Cluster) -> list[Thing]:
    """The namespaces with our label, each with what is known of its run.

    Raises:
        ApiError, UnreachableError: they cannot be listed.
    """
    items = of_runs(cluster)
    now = _server_time(cluster) if items else 0.0
    return [_of_namespace(cluster, item, now) for item in items]


def _of_namespace(cluster: Cluster, item: Json, now: float) -> Thing:
    about = item["metadata"]
    run = str((about.get("labels") or {}).get(RUN_LABEL, ""))
    owner = str((about.get("annotations") or {}).get(OWNER, ""))
    created = _moment(str(about.get("creationTimestamp") or ""))
    foreign = lacks(about["name"], run, owner)
    alive = "" if foreign else _why_alive(cluster, about["name"], owner, created, now)
    return Thing(about["name"], run, owner, foreign, alive, created)


def _why_alive(cluster: Cluster, name: str, owner: str, created: float | None, now: float) -> str:
    """Why the run of a namespace may be at work, in words."""
    host, _, pid = owner.rpartition("/")
    here = host == socket.gethostname()
    try:
        lease = cluster.request("GET", f"{leases.path_of(name)}/{leases.NAME}")
    except ApiError as refused:
        if here:
            return f"process {pid} is at work in it" if is_alive(owner) else ""
        if refused.status != NOT_FOUND:
            return f"{owner} made it, and whether that is at work cannot be seen: {refused.message.rstrip('.')}"
        age = leases.DURATION if created is None else now - created
        return f"{owner} made it {max(0.0, age):.0f} s ago, and may not hold its Lease yet" if age < SETTLED else ""
    return judge_lease(lease, owner, now)


SETTLED = float(leases.DURATION)
"""Seconds after which a namespace without a Lease is of a run that could not make one."""


def judge_lease(lease: Json, owner: str, now: float) -> str:
    """Why the holder of a Lease must be taken for at work, in words; empty if it need not.

    A process of this very machine is looked up. Of any other one the Lease is the only word.
    """
    host, _, pid = owner.rpartition("/")
    theirs = str(((lease.get("metadata") or {}).get("annotations") or {}).get(leases.MACHINE) or "")
    here = leases.machine()
    if host == socket.gethostname() and theirs in ("", here):
        if is_alive(owner):
            return f"process {pid} is at work in it"
        if theirs:  # and known to be this one
            return ""
    until = leases.fresh_until(lease)
    if until <= now:
        return ""
    holder = (lease.get("spec") or {}).get("holderIdentity") or owner
    return f"{holder} holds its Lease until {datetime.fromtimestamp(until, UTC):%H:%M:%S} UTC"


def containers(found: Mapping[str, tuple[str, str]], spaces: list[Thing]) -> list[Thing]:
    """Containers beside the cluster, by what their labels say (run and owner); alive are those of a run that is."""
    at_work = {space.run: space.alive for space in spaces if space.alive}
    told = []
    for name, (run, owner) in sorted(found.items()):
        foreign = lacks(name, run, owner, several=True)
        alive = "" if foreign else at_work.get(run, "")
        if not foreign and not alive and is_alive(owner):
            alive = f"process {owner.rpartition('/')[2]} is at work with it"
        told.append(Thing(name, run, owner, foreign, alive))
    return told


def _server_time(cluster: Cluster) -> float:
    """The API server's clock, by which Leases are dated; this machine's where it does not tell."""
    try:
        return parsedate_to_datetime(cluster.date()).timestamp()
    except (ApiError, UnreachableError, ValueError, TypeError):
        return time.time()


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
