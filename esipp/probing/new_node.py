"""A further node of a kind cluster: a container made as that of another node is, which joins by kubeadm as kind's do.

Source: kind's pkg/cluster/internal/providers/docker/provision.go and create/actions/kubeadmjoin/join.go.
"""

import json
import tempfile
from collections.abc import Collection, Mapping

import yaml

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.base.labels import OWNER, RUN_LABEL, SERVER_LABEL
from esipp.checks.model import Family
from esipp.probing.docker import docker, why
from esipp.probing.node_containers import CLUSTER_LABEL, ROLE_LABEL

CONFIG = "/kind/kubeadm.conf"
"""Where kind leaves the configuration of each node for kubeadm."""

COPY_SECONDS, JOIN_SECONDS = 200.0, 180.0
"""Timeouts in seconds. Images of some 850 MB, as Cilium's, took 40 s; a join takes some 10 s on an idle machine."""

_CTR = ("ctr", "--namespace=k8s.io", "images")

_WAITING = "/var"
"""Where images wait in a container. A node's /tmp is a tmpfs, which 'docker cp' does not see."""


def name_of(run: str) -> str:
    """The name of a run's further node, and of its container."""
    return f"esipp-{run}-joined"


def describe(name: str) -> Json | None:
    """A container, as ``docker inspect`` shows it; None if there is none of this name.

    Raises:
        HarnessError: docker does not say.
    """
    found = docker("inspect", "--type", "container", name)
    if found.returncode == 0:
        container: Json = json.loads(found.stdout)[0]
        return container
    if "no such" not in found.stderr.lower():
        raise HarnessError(f"Cannot inspect container {name}: {why(found.stderr)}", "check that 'docker info' works.")
    return None


def options_like(node: Json) -> list[str]:
    """The options of ``docker run`` with which kind made a node's container, but for its name and published ports.

    The container is a worker. Docker does not start it again, and removes it once it stops.
    """
    config, host = node["Config"], node["HostConfig"]
    options = ["--tty", "--rm", "--init=false", "--network", min(node["NetworkSettings"]["Networks"])]
    options += ["--privileged"] if host.get("Privileged") else []
    for option, key in (("--cgroupns", "CgroupnsMode"), ("--userns", "UsernsMode")):
        options += [option, host[key]] if host.get(key) else []
    labels = {CLUSTER_LABEL: config["Labels"][CLUSTER_LABEL], ROLE_LABEL: "worker"}
    several = {
        "--label": [f"{key}={value}" for key, value in labels.items()],
        "--security-opt": host.get("SecurityOpt") or (),
        "--tmpfs": [f"{path}:{how}" if how else path for path, how in (host.get("Tmpfs") or {}).items()],
        "--volume": [*(host.get("Binds") or ()), *(config.get("Volumes") or ())],
        "--sysctl": [f"{key}={value}" for key, value in (host.get("Sysctls") or {}).items()],
        "--device": [each["PathOnHost"] for each in host.get("Devices") or ()],
        "--env": config.get("Env") or (),
    }
    return [*options, *(part for option, values in several.items() for each in values for part in (option, each))]


def start(like: str, run: str, owner: str, server: str) -> dict[Family, str]:
    """Start the container, and return its addresses. It is no node of the cluster yet.

    Args:
        like: the container of the node that it is made like.
        run: id of the run; a label, as its owner and server are, by which a cleanup finds the container.
        owner: ``host/pid`` of the run.
        server: API server of the cluster.

    Raises:
        HarnessError: docker failed.
    """
    name, node = name_of(run), describe(like)
    if node is None:
        raise HarnessError(f"There is no container {like}.", "see 'docker ps'.")
    labels = [f"{RUN_LABEL}={run}", f"{OWNER}={owner}", f"{SERVER_LABEL}={server}"]
    marked = [part for each in labels for part in ("--label", each)]
    done = docker("run", "--detach", "--name", name, "--hostname", name, *marked, *options_like(node), node["Image"])
    made = describe(name) if done.returncode == 0 else None
    if made is None:
        raise HarnessError(f"Cannot start another node: {why(done.stderr)}", "see 'docker info'.")
    there = next(iter(made["NetworkSettings"]["Networks"].values()))
    own = {Family.IPV4: there.get("IPAddress"), Family.IPV6: there.get("GlobalIPv6Address")}
    return {family: address for family, address in own.items() if address}


def copy_images(source: str, target: str, wanted: Collection[str]) -> list[str]:
    """Copy images that a node's container has and another one lacks, and return their names.

    Args:
        source, target: the containers.
        wanted: images as pods name them; those that the source has under no such name are left out.

    Raises:
        HarnessError: they cannot be copied.
    """
    own = _images(target)
    names = [each for each in sorted(_images(source) - own) if any(_is(each, image) for image in wanted)]
    if not names:
        return []
    # By way of files: 2 s after a command has ended, 'docker exec' drops its output that was not read by then, and a
    # loaded machine reads later (see EventExit in https://github.com/moby/moby/blob/master/daemon/monitor.go).
    file = f"{_WAITING}/{target}.tar"
    with tempfile.TemporaryDirectory() as folder:
        kept = f"{folder}/images.tar"
        steps = (
            ("exec", source, *_CTR, "export", file, *names),
            ("cp", f"{source}:{file}", kept),
            ("cp", kept, f"{target}:{file}"),
            ("exec", target, *_CTR, "import", "--all-platforms", "--no-unpack", "--digests", file),
        )
        try:
            for step in steps:
                done = docker(*step, seconds=COPY_SECONDS)
                if done.returncode != 0:
                    raise HarnessError(
                        f"Cannot copy {', '.join(names)} to {target}: {why(done.stderr)}", "see 'docker info'."
                    )
        finally:
            for container in (source, target):
                docker("exec", container, "rm", "-f", file)
    return names


def _images(container: str) -> set[str]:
    listed = docker("exec", container, *_CTR, "ls", "--quiet")
    if listed.returncode != 0:
        raise HarnessError(f"Cannot list the images of {container}: {why(listed.stderr)}", "see 'docker info'.")
    return {each for each in listed.stdout.split() if not each.startswith("sha256:")}


def _is(name: str, image: str) -> bool:
    """Whether an image's whole name is that by which a pod calls it (``docker.io/library/`` may be left out)."""
    return name == image or name.endswith(f"/{image}")


def join(like: str, name: str, addresses: Mapping[Family, str], token: str, labels: Mapping[str, str]) -> None:
    """Have a container join the cluster, as kind does it.

    Args:
        like: the container of a node that joined before.
        name: the container's name.
        addresses: its addresses.
        token: a bootstrap token.
        labels: those of its Node object.

    Raises:
        HarnessError: it cannot join, or not in time.
    """
    config = docker("exec", like, "cat", CONFIG)
    if config.returncode != 0:
        raise HarnessError(f"Node {like} has no {CONFIG}: {why(config.stderr)}", "check that this is a node of kind.")
    text = join_config(config.stdout, name, addresses, token, labels)
    script = f"cat >{CONFIG} && kubeadm join --config {CONFIG} --skip-phases=preflight --v=1"
    done = docker("exec", "--interactive", name, "sh", "-c", script, seconds=JOIN_SECONDS, text=text)
    if done.returncode != 0:
        raise HarnessError(f"Node {name} cannot join: {why(done.stderr)}", f"see 'docker exec {name} journalctl'.")


def join_config(text: str, name: str, addresses: Mapping[Family, str], token: str, labels: Mapping[str, str]) -> str:
    """The configuration of kubeadm by which a node joins: another node's, with what is this node's own.

    Args:
        text: the other node's configuration, YAML.
        name: the container's name.
        addresses: its addresses.
        token: a bootstrap token.
        labels: those of its Node object.

    Raises:
        HarnessError: the other node's configuration is not about joining.
    """
    documents = [each for each in yaml.safe_load_all(text) if each and each.get("kind") == "JoinConfiguration"]
    if not documents:
        raise HarnessError(f"{CONFIG} has no JoinConfiguration.", "check that this is a node of kind.")
    config: Json = documents[0]
    config.pop("controlPlane", None)
    registration = config["nodeRegistration"]
    given = registration.get("kubeletExtraArgs") or {}
    listed = isinstance(given, list)  # since v1beta4
    named = {each["name"]: str(each["value"]) for each in given} if listed else dict(given)
    own = [addresses[family] for each in named.get("node-ip", "").split(",") if (family := _family(each)) in addresses]
    if "node-ip" in named:
        named["node-ip"] = ",".join(own)
    if "provider-id" in named:
        named["provider-id"] = f"{named['provider-id'].rpartition('/')[0]}/{name}"
    all_labels = [named.get("node-labels", ""), *(f"{key}={value}" for key, value in labels.items())]
    named["node-labels"] = ",".join(filter(None, all_labels))
    registration["kubeletExtraArgs"] = (
        [{"name": key, "value": value} for key, value in named.items()] if listed else named
    )
    registration.pop("name", None)
    config["discovery"]["bootstrapToken"]["token"] = token
    return str(yaml.safe_dump(config, sort_keys=False))


def _family(address: str) -> Family:
    return Family.IPV6 if ":" in address else Family.IPV4


def remove(name: str, owner: str) -> bool:
    """Remove a container of this owner, and return whether there was one.

    Raises:
        HarnessError: it cannot be removed.
    """
    found = describe(name)
    if found is None or (found["Config"].get("Labels") or {}).get(OWNER) != owner:
        return False
    done = docker("rm", "--force", "--volumes", name)
    if done.returncode != 0 and describe(name) is not None and "in progress" not in done.stderr:
        raise HarnessError(f"Cannot remove container {name}: {why(done.stderr)}", f"try 'docker rm --force {name}'.")
    return True
