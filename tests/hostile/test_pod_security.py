"""Pod Security's judgement of the suite's pods, by dry runs in a namespace that enforces `restricted`.

It refuses only the pods that are named, and for the reason that is named.
"""

import re
import secrets
from collections.abc import Iterator

import pytest

from esipp.base.json import Json
from esipp.cluster.client import ApiError, Cluster
from esipp.cluster.namespaces import owner, remove_namespace, wait_for_account
from esipp.testbed.manifests import SECURITY_LEVEL
from tests.unit import objects_world as world
from tests.unit.test_objects import on_the_host_network

HOST, ROOT_USER, CAPABILITIES = "hostNetwork", "runAsNonRoot", "unrestricted capabilities"
OTHERS = r"seccomp|allowPrivilegeEscalation|volume types|hostPID|hostPath|privileged \("
"""What nothing of ours may be refused for; a port on the host network is a hostPort to it."""


@pytest.fixture(scope="module")
def restricted(cluster: Cluster) -> Iterator[str]:
    """A namespace that enforces it."""
    name = f"esipp-restricted-{secrets.token_hex(2)}"
    run = name.removeprefix("esipp-")
    labels = {**world.NAMESPACE["metadata"]["labels"], "esipp.dev/run": run, SECURITY_LEVEL: "restricted"}
    metadata = {"name": name, "labels": labels, "annotations": {"esipp.dev/owner": owner()}}
    cluster.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    try:
        wait_for_account(cluster, name)
        yield name
    finally:
        remove_namespace(cluster, name)


def refusal(cluster: Cluster, namespace: str, pod: Json) -> str:
    """What admission has against a pod; nothing is created."""
    whole = {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], "name": "dry-run"}}
    whole["spec"] = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    try:
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", query={"dryRun": "All"}, body=whole)
    except ApiError as refused:
        if "PodSecurity" not in refused.message:
            raise
        return refused.message
    return ""


def reasons(message: str) -> set[str]:
    return {word for word in (HOST, ROOT_USER, CAPABILITIES) if word in message}


def test_without_sctp_and_packets_only_the_host_network_is_refused(cluster: Cluster, restricted: str) -> None:
    for name, pod in world.pods(sctp=False, packets=False).items():
        said = refusal(cluster, restricted, pod)
        assert reasons(said) == ({HOST} if on_the_host_network(name) else set()), (name, said)
        assert bool(said) == on_the_host_network(name), (name, said)
        assert not re.search(OTHERS, said), (name, said)


def test_with_them_root_and_raw_sockets_are_refused_where_they_are_named(cluster: Cluster, restricted: str) -> None:
    for name, pod in world.pods().items():
        raw = "add" in pod["spec"]["containers"][0]["securityContext"]["capabilities"]
        wanted = ({HOST} if on_the_host_network(name) else set()) | ({ROOT_USER, CAPABILITIES} if raw else set())
        said = refusal(cluster, restricted, pod)
        assert reasons(said) == wanted, (name, said)
        assert not re.search(OTHERS, said), (name, said)
