"""The reference load balancer: one container next to the kind nodes, with an account of least rights."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ci import network, returning
from ci.access import ClusterAccess
from ci.cluster import kubectl
from ci.containers import Image, docker, forwarding, inspect, runs
from ci.emulation import HOSTNAME, TRANSLATING
from ci.places import CLUSTER, CONTEXT, ROOT, Places, places
from ci.polling import until
from ci.step import Journal, SetupError

IMAGE = Image("localhost/esipp/loadbalancer", ROOT / "images" / "loadbalancer", "the reference load balancer's",
              ("balancer", "Dockerfile"))  # fmt: skip
NAME = "esipp-load-balancer"  # of the container, and of all objects in the cluster
ADMIN_PORT = 9000
ADMIN_LABEL = "esipp.dev/load-balancer"  # value: the admin port
SERVER_LABEL = "esipp.dev/balances"  # value: the cluster's API server, as the kubeconfig has it
OPTIONS_LABEL = "esipp.dev/options"  # value: what it was given beyond what it has by itself
OWN_LABEL = "esipp.dev/own-options"  # value: what its lane always gives it
# Always the same, so that neighbours who learned a VIP from its predecessor are right about it.
MAC = "02:65:73:69:70:70"
READY_SECONDS = 60.0
SHARES = 16384  # a node has 1024
# Addresses, protocol and ports, which make a connection. By these fields, as routers do, and not by the policy that has
# the same: that believes the hash which a sender on this machine gave its socket, and gives anew when it sends again.
CONNECTION = 0x37
SYSCTLS = {
    "net.ipv4.ip_forward": 1,
    "net.ipv6.conf.all.forwarding": 1,
    "net.ipv4.fib_multipath_hash_policy": 3,
    "net.ipv6.fib_multipath_hash_policy": 3,
    "net.ipv4.fib_multipath_hash_fields": CONNECTION,
    "net.ipv6.fib_multipath_hash_fields": CONNECTION,
    "net.ipv4.ip_nonlocal_bind": 1,  # HAProxy may be a moment behind with VIPs that come and go
    "net.ipv6.ip_nonlocal_bind": 1,
    "net.unix.max_dgram_qlen": 4096,  # HAProxy drops what it has to say when more than so many lines wait
    "net.ipv4.conf.all.send_redirects": 0,  # or the kernel would send clients around it
    "net.ipv4.conf.default.send_redirects": 0,
    "net.ipv4.conf.all.rp_filter": 0,
    "net.ipv4.conf.default.rp_filter": 0,
}


def install(there: ClusterAccess, image: str, journal: Journal, own: Sequence[str] = ()) -> None:
    """Give it an account and start it, with the lane's own options; returns when it knows nodes and Services."""
    hint = f"ci/enter docker logs {NAME}"
    with journal.step("start the reference load balancer", hint=hint) as step:
        path = step.log.with_suffix(".yaml")
        path.write_text(yaml.safe_dump_all(objects()))
        kubectl(there, step, "apply", "--server-side", "--filename", path)
        wait = ["--namespace", NAME, f"--timeout={READY_SECONDS:.0f}s"]
        kubectl(there, step, "wait", f"secret/{NAME}", "--for=jsonpath={.data.token}", *wait)
        _write_credentials(there, places())
        run(there, image, own=own)
        step.note = ", ".join(pools(there))


def renew(there: ClusterAccess, image: str, journal: Journal, own: Sequence[str] = ()) -> None:
    """See that a standing cluster has it, of this image, with these settings and options, and without faults."""
    found = inspect(there, NAME)
    if found and found["State"]["Running"] and found["Config"]["Image"] == image:
        has = found["HostConfig"]["Sysctls"]
        same = all(has.get(name) == str(value) for name, value in SYSCTLS.items())
        if same and not _options(found) and _options(found, OWN_LABEL) == list(own):
            return
    install(there, image, journal, own)


def restart(there: ClusterAccess, options: Sequence[str] = ()) -> None:
    """Restart it with additional options, such as ``--fault slow``, or without arguments with the original ones."""
    found = inspect(there, NAME)
    if not found:
        raise SetupError("There is no reference load balancer to restart.", "ci/conformance --up creates one.")
    run(there, found["Config"]["Image"], options, _options(found, OWN_LABEL))


def options(there: ClusterAccess) -> list[str]:
    """Return its additional options; empty if it does not exist."""
    found = inspect(there, NAME)
    return _options(found) if found else []


def run(there: ClusterAccess, image: str, options: Sequence[str] = (), own: Sequence[str] = ()) -> None:
    """Start the container in place of an existing one, and wait until it serves."""
    remove(there)
    docker(there, *container(there, image, options, own))
    log = ""

    def ready() -> bool:
        nonlocal log
        log = docker(there, "logs", NAME)
        return any(line.startswith("ready:") for line in log.splitlines())

    until(lambda: ready() or not runs(there, NAME), READY_SECONDS)
    if not ready():
        raise SetupError(f"The reference load balancer does not become ready: {log[-300:]}", f"docker logs {NAME}")
    if TRANSLATING in (*own, *options):
        returning.give(there, addresses(there), MAC)


def image_of(there: ClusterAccess) -> str:
    """Return its image; None if it does not exist."""
    found = inspect(there, NAME)
    return str(found["Config"]["Image"]) if found else ""


def addresses(there: ClusterAccess) -> list[str]:
    """Return its own addresses, one per family of its network; empty if it does not exist."""
    found = inspect(there, NAME)
    networks = found["NetworkSettings"]["Networks"].values() if found else ()
    return [each[name] for each in networks for name in ("IPAddress", "GlobalIPv6Address") if each.get(name)]


def resolver(there: ClusterAccess) -> str:
    """Say which server resolves the hostnames that the load balancer announces, if it announces any."""
    found = inspect(there, NAME)
    given = [*_options(found, OWN_LABEL), *_options(found)] if found else []
    return next(iter(addresses(there)), "") if HOSTNAME in given else ""


def remove(there: ClusterAccess) -> None:
    """Stop and remove the container, if it exists; its objects disappear with the cluster."""
    if inspect(there, NAME):
        docker(there, "stop", "-t", "5", NAME)
        docker(there, "rm", "--force", NAME)


def container(there: ClusterAccess, image: str, options: Sequence[str], own: Sequence[str] = ()) -> list[str]:
    """Say how docker runs it: with the lane's own options, and with more, which take their place."""
    on, settings = forwarding(there, SYSCTLS)
    command = ["run", "--detach", "--name", NAME, "--hostname", NAME, "--network", on, "--mac-address", MAC]
    command += ["--restart", "no", "--read-only", "--tmpfs", "/run:mode=0755"]
    # An instrument: it must not be late with its checks because the machine is busy.
    command += ["--cpu-shares", str(SHARES)]
    command += ["--cap-drop", "ALL", "--cap-add", "NET_ADMIN", "--cap-add", "NET_BIND_SERVICE"]
    command += ["--security-opt", "no-new-privileges"]
    command += [part for setting in settings for part in ("--sysctl", setting)]
    command += ["--label", f"{ADMIN_LABEL}={ADMIN_PORT}", "--label", f"{SERVER_LABEL}={_server(there)}"]
    command += ["--label", f"{OPTIONS_LABEL}={json.dumps(list(options))}"]
    command += ["--label", f"{OWN_LABEL}={json.dumps(list(own))}"]
    command += ["--volume", f"{credentials(places())}:/credentials:ro", image]
    command += ["--server", f"https://{CLUSTER}-control-plane:6443", "--ca", "/credentials/ca.crt"]
    command += ["--token", "/credentials/token", "--admin", str(ADMIN_PORT)]
    return [*command, *(part for pool in pools(there) for part in ("--pool", pool)), *own, *options]


def pools(there: ClusterAccess) -> list[str]:
    """Say which addresses are its own: of the families that the cluster has."""
    addresses = [address for found in network.node_addresses(there).values() for address in found]
    return network.reference_pools(network.of_the_cluster(network.subnets(there), addresses))


def credentials(where: Places) -> Path:
    """Where its token and the CA's certificate lie."""
    return where.run / "load-balancer"


def objects() -> list[dict[str, object]]:
    """The objects of its account: it may read Services and nodes, and write the status of Services."""
    named = {"name": NAME, "namespace": NAME}
    rbac, v1 = "rbac.authorization.k8s.io", "v1"
    look = {"apiGroups": [""], "resources": ["services", "nodes"], "verbs": ["get", "list", "watch"]}
    tell = {"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"]}
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": NAME}
    account = {"kind": "ServiceAccount", **named}
    token = {**named, "annotations": {"kubernetes.io/service-account.name": NAME}}
    cluster_wide = {"apiVersion": f"{rbac}/v1", "metadata": {"name": NAME}}
    return [
        {"apiVersion": v1, "kind": "Namespace", "metadata": {"name": NAME}},
        {"apiVersion": v1, "kind": "ServiceAccount", "metadata": named},
        {"apiVersion": v1, "kind": "Secret", "type": "kubernetes.io/service-account-token", "metadata": token},
        {**cluster_wide, "kind": "ClusterRole", "rules": [look, tell]},
        {**cluster_wide, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [account]},
    ]


def _write_credentials(there: ClusterAccess, where: Places) -> None:
    output = there.ask("kubectl", "--context", CONTEXT, "--namespace", NAME, "get", "secret", NAME, "--output", "json")
    if output is None:
        raise SetupError("Cannot read the reference load balancer's token.", "ci/enter kubectl get secret -A")
    folder = credentials(where)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    for name in ("ca.crt", "token"):
        path = folder / name
        path.write_bytes(base64.b64decode(json.loads(output)["data"][name]))
        path.chmod(0o600)


def _server(there: ClusterAccess) -> str:
    select = "{.clusters[0].cluster.server}"
    output = there.ask("kubectl", "--context", CONTEXT, "config", "view", "--minify", "--output", f"jsonpath={select}")
    if not output:
        raise SetupError(f"The kubeconfig has no context {CONTEXT}.", "run ci/conformance --down and start again")
    return output.strip()


def _options(found: dict[str, Any], label: str = OPTIONS_LABEL) -> list[str]:
    options: list[str] = json.loads((found["Config"].get("Labels") or {}).get(label, "[]"))
    return options
