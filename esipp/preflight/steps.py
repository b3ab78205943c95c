"""The steps of preflight, each by itself: ``preflight.examine`` stops at the first misfit, ``esipp doctor`` at none."""

import contextlib
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from esipp.base.client_places import Place
from esipp.base.errors import PreflightError
from esipp.base.kubernetes_version import read_version
from esipp.base.redaction import learn_cloud
from esipp.checks.model import Role
from esipp.checks.versions import check_age
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.dialect import NEWEST
from esipp.cluster.rights import PAGE, Right, lacking, needed
from esipp.disruption.marks import CORDONED_BY
from esipp.judging.topology import Node, cast_roles, read_node
from esipp.ledger.run import Settings
from esipp.preflight import outside_clients as standing
from esipp.probing.hosts import Landed

LEAST_DISK = 100 * 1024 * 1024
HINT_RIGHTS = f"{PAGE} is an account that holds what a run needs: kubectl apply it, and see docs/rights.md."


def check_without_cluster(settings: Settings) -> None:
    """What can be known before the cluster is asked.

    Raises:
        PreflightError: no image named, no kubectl, no disk space.
    """
    check_image(settings)
    check_kubectl()
    check_disk(settings)


def check_image(settings: Settings) -> None:
    """Make sure that an echo image is named, by what can be a reference.

    Raises:
        PreflightError: it is not.
    """
    if not settings.image:
        raise PreflightError(
            "No echo image is named.",
            "--image REFERENCE or $ESIPP_IMAGE; ./ci/conformance --keep builds one and tells how to use it.",
        )
    if not re.fullmatch(r"[a-z0-9][a-zA-Z0-9./:_@-]*", settings.image):
        raise PreflightError(
            f"'{settings.image}' is no image reference.", "it looks like host/name:tag or name@sha256:…"
        )


def check_kubectl() -> str:
    """The kubectl on PATH.

    Raises:
        PreflightError: there is none.
    """
    found = shutil.which("kubectl")
    if found is None:
        raise PreflightError("There is no kubectl on PATH.", "clients in pods are reached by 'kubectl exec'.")
    return found


def check_disk(settings: Settings) -> tuple[Path, int]:
    """The folder that there is of those in which the run would be written, and its free bytes.

    Raises:
        PreflightError: they are too few.
    """
    folder = Path(settings.out or "runs").absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < LEAST_DISK:
        raise PreflightError(
            f"Only {free // 2**20} MiB are free where the run would be written ({folder}).",
            f"free at least {LEAST_DISK // 2**20} MiB, or name another place with --out.",
        )
    return folder, free


def check_server(cluster: Cluster) -> str:
    """The API server's version.

    Raises:
        PreflightError: it does not answer, or is too old.
    """
    version = cluster.version()
    check_version(version)
    return version


def check_version(version: str) -> None:
    """Make sure that a server, by its version, is not older than what is asked of it.

    Raises:
        PreflightError: it is.
    """
    check_age(read_version(version) or NEWEST)


@contextlib.contextmanager
def answered(cluster: Cluster) -> Iterator[None]:
    """What must be answered, told as a sentence where it is not."""
    try:
        yield
    except UnreachableError as silent:
        raise PreflightError(
            f"The API server {cluster.server} stopped answering: {silent}.", "is it overloaded?"
        ) from None
    except ApiError as refused:
        raise PreflightError(f"The API server refused: {refused.message}", "see the account's rights.") from None


def check_rights(cluster: Cluster, settings: Settings, suites: Iterable[str]) -> None:
    """Make sure that the account holds the rights that these suites need.

    Raises:
        PreflightError: it lacks some: all of them are named.
    """
    if missing := missing_rights(cluster, settings, suites):
        raise PreflightError(
            f"The account of context '{cluster.context}' lacks these rights: {', '.join(map(str, missing))}.",
            HINT_RIGHTS,
        )


def missing_rights(cluster: Cluster, settings: Settings, suites: Iterable[str]) -> list[Right]:
    """The rights without which these suites cannot be run, and which the account lacks.

    Raises:
        PreflightError: the API server does not tell.
    """
    with answered(cluster):
        return lacking(cluster, needed(suites, disruptive=settings.allow_disruptive))


def list_nodes(cluster: Cluster) -> list[dict[str, Any]]:
    """The nodes as the API server lists them.

    Raises:
        PreflightError: it does not.
    """
    with answered(cluster):
        raw = cluster.list("/api/v1/nodes")
    learn_cloud(cluster.context, raw)
    return raw


def read_nodes(raw: list[dict[str, Any]], settings: Settings) -> dict[str, Node]:
    """The nodes by name, as the user's wishes have them."""
    return {item["metadata"]["name"]: read_node(item, settings.customisation) for item in raw}


def check_nodes(raw: list[dict[str, Any]], settings: Settings) -> tuple[dict[str, Node], dict[Role, str]]:
    """The nodes, and who plays which part.

    Raises:
        PreflightError: fewer than two can take pods.
    """
    nodes = read_nodes(raw, settings)
    try:
        return nodes, cast_roles(nodes.values())
    except ValueError:
        fit = sorted(node.name for node in nodes.values() if node.schedulable and node.chosen)
        chosen = " that --node-selector leaves" if settings.customisation.node_selector else ""
        number = sum(node.chosen for node in nodes.values())
        raise PreflightError(
            f"Only {len(fit)} of {number} nodes{chosen} can take pods ({', '.join(fit) or 'none'}); two are needed.",
            _hint_of_too_few(raw, settings.context),
        ) from None


@dataclass(frozen=True)
class Outside:
    """Where clients outside stand, the docker network beside the nodes, and what places told that are no containers."""

    places: tuple[Place, ...] = ()
    network: str | None = None
    landed: Mapping[Place, Landed] = field(default_factory=dict)


def check_outside(settings: Settings, nodes: Mapping[str, Node]) -> Outside:
    """Where clients outside stand.

    Raises:
        PreflightError: there is no such place, it cannot run the prober, or it is a node.
    """
    places, network = standing.resolve(settings.outside, list(nodes.values()))
    return Outside(places, network, standing.land(places, nodes.values()))


def _hint_of_too_few(raw: list[dict[str, Any]], context: str) -> str:
    """What to do where too few nodes can take pods."""
    cordoned = sorted(n["metadata"]["name"] for n in raw if CORDONED_BY in (n["metadata"].get("annotations") or {}))
    if cordoned:
        return f"a run left {', '.join(cordoned)} cordoned: esipp clean --context {context} takes that back."
    two = "one Linux node must have an endpoint and one must not"
    return f"{two}: add a worker, remove its taint or cordon, or name its taint with --toleration."
