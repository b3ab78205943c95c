"""The pods of a run, each pinned to the node of its role: backends, clients, and pods of scenarios."""

from collections.abc import Iterable, Mapping, Sequence

from esipp.base.json import Json
from esipp.checks.model import (
    CONTROL_BACKEND,
    HOST_BACKEND,
    PAIR_BACKEND,
    POD_BACKEND,
    UNREADY_BACKEND,
    Backends,
    Path,
    Protocol,
    Role,
    Vantage,
    backends_of,
)
from esipp.testbed import manifests
from esipp.testbed.manifests import BACKEND_LABEL, PAIR_LABEL
from esipp.testbed.objects import Objects


def speakers_of_sctp(paths: Iterable[Path]) -> frozenset[str]:
    """The pods at either end of an SCTP path, which need raw sockets because there are no SCTP sockets."""
    found: set[str] = set()
    for path in paths:
        if path.protocol is Protocol.SCTP:
            found |= {path.client.name, *backends_of(path.service)}
    return frozenset(found)


def pinned_pods(
    run: str, image: str, roles: Mapping[Role, str], paths: Sequence[Path], scenario_objects: Objects
) -> list[Json]:
    """The required backends, one pod for each client in a pod, and the pods of scenarios."""
    raw = speakers_of_sctp(paths)
    here = roles[Role.ENDPOINT_NODE]
    kinds = {path.service.backends for path in paths if path.service}
    plain = {BACKEND_LABEL: Backends.POD.value, PAIR_LABEL: "yes"}

    def backend(name: str, node: str, labels: Mapping[str, str]) -> Json:
        return manifests.echo_pod(name, run, node, image, raw=name in raw, labels=labels)

    pods = [backend(POD_BACKEND, here, plain)]
    if Backends.PAIR in kinds:
        pods.append(backend(PAIR_BACKEND, here, {PAIR_LABEL: "yes"}))
    if Backends.HOST_NETWORK in kinds:
        labels = {BACKEND_LABEL: Backends.HOST_NETWORK.value}
        host = HOST_BACKEND in raw
        pods.append(manifests.host_backend(HOST_BACKEND, run, here, image, raw=host, labels=labels))
    if Backends.NOT_READY in kinds:
        pods.append(manifests.gated(backend(UNREADY_BACKEND, here, {BACKEND_LABEL: Backends.NOT_READY.value})))
    if Backends.CONTROL_PLANE in kinds:
        labels = {BACKEND_LABEL: Backends.CONTROL_PLANE.value}
        pods.append(backend(CONTROL_BACKEND, roles[Role.CONTROL_PLANE], labels))
    clients = {path.client for path in paths} | scenario_objects.clients
    for client in sorted((c for c in clients if c.vantage is Vantage.POD), key=lambda c: c.name):
        if client.name != POD_BACKEND:
            assert client.role is not None
            pods.append(backend(client.name, roles[client.role], {}))
    return [*pods, *scenario_objects.pods]
