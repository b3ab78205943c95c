"""What the stage deploys, as plain dicts."""

from collections.abc import Sequence
from typing import Any

from esipp.labels import OWNER, RUN_LABEL, labels_of
from esipp.model import Service, ServiceType

Json = dict[str, Any]

HTTP, TCP, UDP, CONTROL = 8080, 8081, 8082, 8079
"""The echo server's ports in a pod (images/echoserver/README.md)."""

SERVICE_PORT = 80
BACKEND = {"esipp.dev/role": "backend"}


def namespace(name: str, run: str, owner: str) -> Json:
    """The run's namespace; host-network agents need the privileged Pod Security level."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {**labels_of(run), "pod-security.kubernetes.io/enforce": "privileged"},
            "annotations": {OWNER: owner},
        },
    }


def echo_pod(name: str, run: str, node: str, image: str, *, extra_labels: Json | None = None) -> Json:
    """A pod of the echo image pinned to a node, unprivileged, ready only when every listener is up."""
    pod = _pod(name, run, node, image, ["--on-sigterm", "stop"])
    pod["metadata"]["labels"] |= extra_labels or {}
    pod["spec"]["containers"][0]["ports"] = [
        {"name": "http", "containerPort": HTTP},
        {"name": "tcp", "containerPort": TCP},
        {"name": "udp", "containerPort": UDP, "protocol": "UDP"},
    ]
    pod["spec"]["containers"][0]["readinessProbe"] = {
        "httpGet": {"path": "/readyz", "port": HTTP},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    return pod


def agent_pod(name: str, run: str, node: str, image: str) -> Json:
    """A host-network pod: the node's own vantage, its list of addresses, and its reference listener.

    Its ports are chosen by the kernel, so that it disturbs nobody on the node; its first log line tells them.
    """
    pod = _pod(name, run, node, image, ["--http", "off", "--tcp", "0", "--udp", "0", "--control", "off"])
    pod["spec"]["hostNetwork"] = True
    return pod


def _pod(name: str, run: str, node: str, image: str, arguments: list[str]) -> Json:
    def field(path: str) -> Json:
        return {"valueFrom": {"fieldRef": {"fieldPath": path}}}

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {**labels_of(run), "esipp.dev/pod": name}},
        "spec": {
            "nodeName": node,  # pinned, past the scheduler: also onto control planes and cordoned nodes
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "echo",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "args": arguments,
                    "env": [
                        {"name": "POD_NAME", **field("metadata.name")},
                        {"name": "POD_NAMESPACE", **field("metadata.namespace")},
                        {"name": "NODE_NAME", **field("spec.nodeName")},
                        {"name": "POD_IP", **field("status.podIP")},
                        {"name": "POD_IPS", **field("status.podIPs")},
                    ],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
                }
            ],
        },
    }


def service(shape: Service, run: str) -> Json:
    """A Service over the backends, of every family the cluster has."""
    spec: Json = {
        "type": shape.type.value,
        "selector": {RUN_LABEL: run, **BACKEND},
        "ipFamilyPolicy": "PreferDualStack",
        "ports": [{"name": "tcp", "protocol": "TCP", "port": SERVICE_PORT, "targetPort": TCP}],
    }
    if shape.policy and shape.type is not ServiceType.CLUSTER_IP:
        spec["externalTrafficPolicy"] = shape.policy.value
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": shape.name, "labels": labels_of(run)},
        "spec": spec,
    }


def vips(status: Json) -> Sequence[str]:
    """The addresses of ``status.loadBalancer.ingress``; hostnames are left to those who resolve them."""
    ingress = status.get("loadBalancer", {}).get("ingress") or []
    return [each["ip"] for each in ingress if each.get("ip")]
