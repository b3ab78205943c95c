"""What a run puts into a cluster is harmless: pods are as Pod Security's `restricted` wants them, but for a few."""

import re
from collections import Counter

import pytest
import yaml

from ci.cluster import ECHO
from ci.places import ROOT, versions
from esipp.base.json import Json
from esipp.base.labels import UNSERVED_CLASS
from esipp.checks.model import HOST_BACKEND, Backends
from esipp.probing import outside
from tests.unit import objects_world as world
from tests.unit.world import CHECKS

HOST_NETWORK = {
    "agent-": "the node's own vantage: its addresses, its control listener, its packets",
    HOST_BACKEND: "checks about a backend on the host network",
    "health-host-network": "the health check of a service whose pod is on the host network",
}
"""Pods on the host network, by the beginning of their names, and what for."""

DROPPED = {"drop": ["ALL"]}
FOR_SCTP = {**DROPPED, "add": ["NET_RAW"]}
FOR_PACKETS = {**DROPPED, "add": ["NET_RAW", "SETUID", "SETGID"]}

PODS = world.pods()
UNPRIVILEGED = world.pods(sctp=False, packets=False)


def on_the_host_network(name: str) -> bool:
    return any(name.startswith(each) for each in HOST_NETWORK)


def containers(pod: Json) -> list[Json]:
    assert not pod["spec"].get("initContainers")
    found: list[Json] = pod["spec"]["containers"]
    assert len(found) == 1 + (pod["metadata"].get("name") == "changes-two-servers")
    return found


# ------------------------------------------------------------------------------------------------------- every pod
@pytest.mark.parametrize("name", sorted(PODS))
def test_of_every_pod(name: str) -> None:
    pod = PODS[name]
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostPID", "hostIPC", "volumes", "serviceAccountName", "shareProcessNamespace"} & set(spec)
    for container in containers(pod):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert "privileged" not in security
        assert security["capabilities"]["drop"] == ["ALL"]
        assert "command" not in container, "the image's own entrypoint: no shell"
        assert not {"lifecycle", "stdin", "tty", "volumeMounts", "envFrom"} & set(container)
        resources = container["resources"]
        assert {"cpu", "memory"} <= set(resources["requests"])
        assert "memory" in resources["limits"]
        assert not any("hostPort" in port for port in container.get("ports", []))
    assert bool(spec.get("hostNetwork")) == on_the_host_network(name)


@pytest.mark.parametrize("name", sorted(UNPRIVILEGED))
def test_without_sctp_and_packets_every_pod_is_restricted_but_for_the_host_network(name: str) -> None:
    pod = UNPRIVILEGED[name]
    security = pod["spec"]["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == security["runAsGroup"] == 65532
    assert all(container["securityContext"]["capabilities"] == DROPPED for container in containers(pod))


def test_root_and_raw_sockets_are_for_sctp_and_packets_only() -> None:
    for name, pod in PODS.items():
        container = containers(pod)[0]
        capabilities = container["securityContext"]["capabilities"]
        as_root = pod["spec"]["securityContext"]["runAsUser"] == 0
        assert as_root == (not pod["spec"]["securityContext"]["runAsNonRoot"]) == ("add" in capabilities), name
        if name.startswith("agent-"):
            assert capabilities == FOR_PACKETS
        elif "add" in capabilities:
            assert capabilities == FOR_SCTP
            assert "--sctp" in container["args"], name


def test_packets_alone_need_them_in_agents_only() -> None:
    pods = world.pods(sctp=False, packets=True)
    raw = {name for name, pod in pods.items() if pod["spec"]["securityContext"]["runAsUser"] == 0}
    assert raw == {name for name in pods if name.startswith("agent-")} != set()


def test_pods_that_speak_no_sctp_have_no_raw_sockets() -> None:
    speakers = {name for name, pod in PODS.items() if "--sctp" in containers(pod)[0]["args"]}
    silent = set(PODS) - speakers
    assert {"backend", "backend-2"} & speakers
    assert any(name.startswith("moves-") for name in silent)
    assert "deployment" in silent


def test_a_pod_on_the_host_network_exists_only_for_checks_that_need_it() -> None:
    paths = [path for path_check in CHECKS for path in path_check.subject.paths]
    others = [path for path in paths if not path.service or path.service.backends is not Backends.HOST_NETWORK]
    made = world.made_testbed(raw=False).pods_for(others, world.props_of([]))
    found = {pod["metadata"]["name"] for pod in made if pod["spec"].get("hostNetwork")}
    assert {name for name in found if not name.startswith("agent-")} == set()


# ------------------------------------------------------------------------------------ what is reached by the network
def test_the_control_port_is_for_the_pod_itself() -> None:
    for name, pod in PODS.items():
        for number, container in enumerate(containers(pod)):
            if pod["spec"].get("hostNetwork") or number:
                at = container["args"].index("--control")
                assert container["args"][at + 1] == "off", name
            named = {port["name"].removesuffix("-2") for port in container.get("ports", [])}
            assert named <= {"http", "tcp", "udp", "sctp"}


def test_the_image_listens_to_nobody_who_could_have_something_run() -> None:
    dockerfile = (ROOT / "images" / "echoserver" / "Dockerfile").read_text()
    assert re.findall(r"^EXPOSE (.*)$", dockerfile, re.M) == ["8080/tcp 8081/tcp 8082/udp"]
    assert '"python3", "-B", "/esipp/echoserver.py"' in dockerfile
    for path in (ROOT / "images" / "echoserver").glob("*.py"):
        if path.name != "prober.py":
            text = path.read_text()
            assert not re.search(r"\b(subprocess|os\.system|os\.exec|os\.popen|eval|exec|pickle)\b\(?", text), path.name


def test_clients_outside_are_restricted_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []

    class Done:
        returncode, stdout, stderr = 0, "[{}]", ""

    def docker(*words: str) -> Done:
        commands.append(words)
        return Done()

    monkeypatch.setattr(outside, "docker", docker)
    for raw in (False, True):
        commands.clear()
        outside.OutsideContainers("r", "kind", "image", "https://x", raw=raw).start("outside-1")
        words = " ".join(commands[0])
        assert "--read-only --cap-drop ALL" in words
        assert "no-new-privileges" in words
        assert ("--cap-add" in words) == ("--user 0" in words) == raw
        assert words.count("--cap-add") == raw
        assert not re.search(r"--privileged|--volume|-v |--pid|--network host", words)


# ------------------------------------------------------------------------------------------------- load balancers
def served(spec: Json) -> bool:
    """Whether some load balancer would make something of it: the cluster's own, or one of a class."""
    return spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") != UNSERVED_CLASS


def test_without_load_balancers_no_service_asks_for_one() -> None:
    made = world.services(without="load-balancer")
    asking = {name for name, each in made.items() if served(each["spec"])}
    others = {name for name in asking if made[name]["spec"].get("loadBalancerClass", "").startswith("esipp.dev/")}
    assert asking == others, "the reference load balancer is not the cluster's own"
    assert made["neighbour-loadbalancer"]["spec"]["type"] == "LoadBalancer", (
        "its policy changes beside the others all the same"
    )
    assert "loadBalancerClass" not in world.services()["neighbour-loadbalancer"]["spec"]


def test_without_load_balancers_no_request_makes_a_service_one() -> None:
    bodies = [(chain.name, step.body) for chain in world.chains("load-balancer") for step in chain.steps]
    specs = [(name, body["spec"]) for name, body in bodies if isinstance(body, dict) and "spec" in body]
    assert sum(spec.get("type") == "LoadBalancer" for _, spec in specs) > 50
    refused = {"rule-class-nonsense"}
    assert {name for name, spec in specs if served(spec)} == refused, "the API server takes no such class"


# ---------------------------------------------------------------------------------------------------------- images
def test_images_are_pinned() -> None:
    for name in ("echoserver", "loadbalancer"):
        (base,) = re.findall(r"^ARG BASE=(\S+)$", (ROOT / "images" / name / "Dockerfile").read_text(), re.M)
        assert re.search(r"@sha256:[0-9a-f]{64}$", base)
    assert re.fullmatch(r"localhost/esipp/echoserver:[0-9a-f]{12,64}", ECHO.reference(None)), "a tag of the content"
    pinned = yaml.safe_dump(versions())
    assert not re.search(r":latest\b", pinned)
    for page in (ROOT / "ci" / "versions.toml", *(ROOT / "kind-configs").glob("*.yaml")):
        for image in re.findall(r"[\w./-]*kindest/node\S*", page.read_text()):
            assert "@sha256:" in image, page


def test_every_pod_runs_the_one_image_that_was_named() -> None:
    assert {container["image"] for pod in PODS.values() for container in containers(pod)} == {world.IMAGE}


def test_a_node_of_two_cores_has_room_for_its_pods() -> None:
    asked: Counter[str] = Counter()
    for pod in PODS.values():
        requests = (container["resources"]["requests"]["cpu"] for container in containers(pod))
        asked[pod["spec"].get("nodeName", "any")] += sum(int(cpu.removesuffix("m")) for cpu in requests)
    assert max(asked.values()) < 1500, "more is the kubelet's to refuse (OutOfcpu), and system pods ask for their part"
