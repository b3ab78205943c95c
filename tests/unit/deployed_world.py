"""Everything a run can create in a cluster, of all rows of all suites."""

from functools import cache
from types import SimpleNamespace
from typing import Any, cast

from esipp import manifests
from esipp.catalog import all_rows
from esipp.cluster import Cluster
from esipp.continuity.scene import deployment
from esipp.deployed import props_of as props_on
from esipp.model import Path, Protocol, Role, paths_of
from esipp.props import Ground, Props
from esipp.rows import Feature, Row
from esipp.source_ranges import SourceRanges
from esipp.stage import Stage
from tests.unit.world import ROLES, topology

Json = dict[str, Any]
RUN, IMAGE = "0101-000000-abcd", "registry.example/echoserver:1"
NODES = topology().nodes
ALL_ROLES = {**ROLES, Role.CONTROL_PLANE: ROLES[Role.OTHER_NODE]}
EVERYTHING = {name: Feature(True, "here") for row in all_rows() for name in row.features}


def stage(*, raw: bool, ranges: SourceRanges | None = None) -> Stage:
    cluster = cast(Cluster, SimpleNamespace(context="x"))
    outside = {"outside-1": ["192.0.2.11", "2001:db8::11"], "outside-2": ["192.0.2.12", "2001:db8::12"]}
    return Stage(cluster, RUN, IMAGE, NODES, ALL_ROLES, raw, outside, ranges or SourceRanges())


def props_of(rows: list[Row]) -> Props:
    ground = Ground(RUN, IMAGE, NODES, ALL_ROLES, EVERYTHING)
    return props_on(rows, ground)


@cache
def rows(*, sctp: bool) -> tuple[list[Row], list[Path]]:
    """All rows, or those that need no SCTP; and the paths they dial."""
    asked = [row for row in all_rows() if sctp or "sctp" not in row.features]
    return asked, sorted({path for row in asked for path in paths_of(row)}, key=lambda path: path.key)


def pods(*, sctp: bool = True, packets: bool = True) -> dict[str, Json]:
    """The pods by name, a Deployment's by that of its template."""
    asked, paths = rows(sctp=sctp)
    speaks = any(path.protocol is Protocol.SCTP for path in paths)
    made = stage(raw=speaks or packets).pods_for(paths, props_of(asked))
    found = {pod["metadata"]["name"]: pod for pod in made}
    assert len(found) == len(made), "each name once"
    template = deployment(RUN, IMAGE, NODES, 6)["spec"]["template"]
    return {**found, "deployment": template}


def services() -> dict[str, Json]:
    """The Services by name, of paths and of the other suites' props."""
    asked, paths = rows(sctp=True)
    objects: dict[str, list[Path]] = {}
    for path in paths:
        if path.service:
            objects.setdefault(path.object_name, []).append(path)
    made = [stage(raw=True)._service(name, of) for name, of in objects.items()]
    return {each["metadata"]["name"]: each for each in (*made, *props_of(asked).services)}


NAMESPACE = manifests.namespace(f"esipp-{RUN}", RUN, "host/1")
