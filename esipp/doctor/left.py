"""What earlier runs left: namespaces, marks on nodes, containers beside them."""

import time

from esipp.cluster import Cluster
from esipp.disruption import marks
from esipp.doctor.here import moment
from esipp.doctor.model import LeftOver
from esipp.labels import OWNER, RUN_LABEL
from esipp.namespaces import is_alive, of_runs
from esipp.probing import outside


def left_over(cluster: Cluster, command: str) -> list[LeftOver]:
    """All that is found, whoever may still be at work in it.

    Args:
        cluster: where.
        command: the ``esipp clean`` of that cluster.

    Raises:
        ApiError, UnreachableError: it cannot be looked at.
    """
    found, now, busy = [], time.time(), set()
    for item in of_runs(cluster):
        about = item["metadata"]
        run = (about.get("labels") or {}).get(RUN_LABEL, "")
        alive = is_alive((about.get("annotations") or {}).get(OWNER, ""))
        busy |= {run} if alive else set()
        made = moment(str(about.get("creationTimestamp") or ""))
        age = None if made is None else max(0.0, now - made)
        one = f"{command} --run {run}" if run else command
        found.append(LeftOver(f"namespace {about['name']}", run, age, one, alive))
    for mark in marks.left_behind(cluster):
        what = f"node {mark.node} is {mark.mark.name.lower()}"
        found.append(LeftOver(what, mark.owner, None, command, is_alive(mark.owner)))
    for name, run in sorted(outside.left_behind(cluster.server).items()):
        found.append(LeftOver(f"container {name}", run, None, f"{command} --run {run}", run in busy))
    return found
