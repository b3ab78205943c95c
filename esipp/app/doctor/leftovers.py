"""Leftovers of earlier runs: namespaces, marks on nodes, containers on this machine."""

import time

from esipp.app.doctor.model import LeftOver
from esipp.cluster.client import Cluster
from esipp.cluster.namespaces import is_alive
from esipp.disruption import marks
from esipp.probing import outside
from esipp.testbed import leftovers


def left_over(cluster: Cluster, command: str) -> list[LeftOver]:
    """Everything that certainly belongs to a run, including active ones.

    Args:
        cluster: the cluster.
        command: the ``esipp clean`` command for that cluster.

    Raises:
        ApiError, UnreachableError: the API server does not answer or refuses.
    """
    found, now = [], time.time()
    spaces = [each for each in leftovers.namespaces(cluster) if not each.foreign]
    for space in spaces:
        age = None if space.created is None else max(0.0, now - space.created)
        what = f"namespace {space.name}"
        found.append(LeftOver(what, space.run, age, f"{command} --run {space.run}", bool(space.alive)))
    busy = {each.owner for each in spaces if each.alive}
    for mark in marks.left_behind(cluster):
        what = f"node {mark.node} is {mark.mark.name.lower()}"
        found.append(LeftOver(what, mark.owner, None, command, mark.owner in busy or is_alive(mark.owner)))
    for each in leftovers.containers(outside.left_behind(cluster.server), spaces):
        if not each.foreign:
            found.append(
                LeftOver(f"container {each.name}", each.run, None, f"{command} --run {each.run}", bool(each.alive))
            )
    return found
