"""Leftovers of earlier runs: namespaces and containers that certainly belong to a run, and runs that may be active.

An object belongs to a run if three marks agree: the prefix of its name, the label of the run (the name contains its
value), and the owner. An object with only some of the marks belongs to someone else and is kept.
"""

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from esipp.base.json import Json
from esipp.base.labels import OWNER, RUN_LABEL
from esipp.cluster import leases
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import is_alive, of_runs

PREFIX = "esipp-"
FORBIDDEN, NOT_FOUND = 403, 404


@dataclass(frozen=True)
class Thing:
    """A namespace or container with marks of esipp.

    Args:
        name: its name.
        run: id of the run, from the label.
        owner: ``host/pid`` of the run.
        foreign: why it may not belong to a run; empty if it certainly does.
        alive: why its run may be active; empty if it is not.
        created: creation time in seconds since 1970, if known.
    """

    name: str
    run: str
    owner: str
    foreign: str = ""
    alive: str = ""
    created: float | None = None


def lacks(name: str, run: str, owner: str, *, several: bool = False) -> str:
    """A description of the first missing mark; empty if there are all three.

    Args:
        name: name of the object.
        run: value of the run's label.
        owner: value of the owner's mark.
        several: whether a run has several such objects, so that the name has a suffix after the run's id.
    """
    wanted = f"{PREFIX}{run}"
    if not name.startswith(PREFIX):
        return f"its name does not begin with '{PREFIX}'"
    if not run:
        return f"it has no label {RUN_LABEL}"
    if not (name.startswith(f"{wanted}-") if several else name == wanted):
        return f"its label {RUN_LABEL} names another run: {run}"
    host, _, pid = owner.rpartition("/")
    return "" if host and pid.isdigit() else f"its {OWNER} does not name a process"


def namespaces(cluster: Cluster) -> list[Thing]:
    """The namespaces with esipp's label, and what is known about their runs.

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
    created = leases.moment(str(about.get("creationTimestamp") or ""))
    foreign = lacks(about["name"], run, owner)
    alive = "" if foreign else _why_alive(cluster, about["name"], owner, created, now)
    return Thing(about["name"], run, owner, foreign, alive, created)


def _why_alive(cluster: Cluster, name: str, owner: str, created: float | None, now: float) -> str:
    """Why the run of a namespace may be active."""
    host, _, pid = owner.rpartition("/")
    here = host == socket.gethostname()
    try:
        lease = cluster.request("GET", f"{leases.path_of(name)}/{leases.NAME}")
    except ApiError as refused:
        if here:
            return f"process {pid} uses it" if is_alive(owner) else ""
        if refused.status != NOT_FOUND:
            return f"{owner} created it, and may be active: cannot read its Lease: {refused.message.rstrip('.')}"
        age = leases.DURATION if created is None else now - created
        return f"{owner} created it {max(0.0, age):.0f} s ago and may not have its Lease yet" if age < SETTLED else ""
    return judge_lease(lease, owner, now)


SETTLED = float(leases.DURATION)
"""Seconds after which a namespace without a Lease belongs to a run that could not create one."""


def judge_lease(lease: Json, owner: str, now: float) -> str:
    """Why the holder of a Lease counts as active; empty if it does not.

    For a process on this machine, esipp looks it up. For any other one, only the Lease decides.
    """
    host, _, pid = owner.rpartition("/")
    theirs = str(((lease.get("metadata") or {}).get("annotations") or {}).get(leases.MACHINE) or "")
    here = leases.machine()
    if host == socket.gethostname() and theirs in ("", here):
        if is_alive(owner):
            return f"process {pid} uses it"
        if theirs:  # certainly this machine
            return ""
    until = leases.fresh_until(lease)
    if until <= now:
        return ""
    holder = (lease.get("spec") or {}).get("holderIdentity") or owner
    return f"{holder} holds its Lease until {datetime.fromtimestamp(until, UTC):%H:%M:%S} UTC"


def containers(found: Mapping[str, tuple[str, str]], spaces: list[Thing]) -> list[Thing]:
    """The containers of runs on this machine, from their labels (run and owner); they are active if their run is."""
    at_work = {space.run: space.alive for space in spaces if space.alive}
    things = []
    for name, (run, owner) in sorted(found.items()):
        foreign = lacks(name, run, owner, several=True)
        alive = "" if foreign else at_work.get(run, "")
        if not foreign and not alive and is_alive(owner):
            alive = f"process {owner.rpartition('/')[2]} uses it"
        things.append(Thing(name, run, owner, foreign, alive))
    return things


def _server_time(cluster: Cluster) -> float:
    """The API server's time, by which Leases are dated; this machine's time if the server does not report it."""
    try:
        return parsedate_to_datetime(cluster.date()).timestamp()
    except (ApiError, UnreachableError, ValueError, TypeError):
        return time.time()
