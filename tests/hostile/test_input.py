"""Bad input, and problems of a cluster before a run begins."""

import contextlib
import json
import select
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from esipp.cluster.client import ApiError, Cluster
from tests.hostile.accounts import account, kubeconfig_with, view
from tests.hostile.running import CHECKS, Place, control_plane, docker
from tests.hostile.tried import Tried

pytestmark = pytest.mark.timeout(2400)


def test_context_is_unknown(place: Place, tried: Tried) -> None:
    context = "nobody"
    ended = place.start(context=context).end()
    tried.keep(ended, what="there is no such context", how="--context nobody", left=place.left(ended))
    assert (ended.code, place.left(ended)) == (4, [])
    assert f"There is no context '{context}' in the kubeconfig." in ended.message


def test_kubeconfig_is_broken(place: Place, tried: Tried, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [\n")
    ended = place.start("--kubeconfig", str(file)).end()
    tried.keep(ended, what="the kubeconfig cannot be read", how="a file that is no YAML", left=place.left(ended))
    assert ended.code == 4
    assert "Cannot use the kubeconfig" in ended.message


def test_check_is_unknown(place: Place, tried: Tried) -> None:
    misspelt = "nodeport.lokal"
    ended = place.start(checks=[misspelt]).end()
    tried.keep(ended, what="no check is called so", how="a misspelt part of an id", left=place.left(ended))
    assert ended.code == 4
    assert f"No check matches '{misspelt}'." in ended.message


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_api_server_does_not_answer(place: Place, cluster: Cluster, tried: Tried, tmp_path: Path, how: str) -> None:
    config = view(cluster)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1] if how == "silent" else 9
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        (tmp_path / "config").write_text(json.dumps(config))
        ended = place.start("--kubeconfig", str(tmp_path / "config")).end()
    tried.keep(
        ended, what=f"the API server does not answer ({how})", how="a kubeconfig that names another port",
        left=place.left(ended),
    )  # fmt: skip
    assert ended.code == 4
    assert "does not answer" in ended.message


def test_credentials_are_refused(place: Place, cluster: Cluster, tried: Tried, tmp_path: Path) -> None:
    file = kubeconfig_with(cluster, tmp_path / "config", "nonsense")
    ended = place.start("--kubeconfig", str(file)).end()
    tried.keep(ended, what="the credentials are not accepted", how="a token that is none", left=place.left(ended))
    assert ended.code == 4
    assert "refuses the credentials" in ended.message
    assert "nonsense" not in ended.text


def test_rights_are_missing(place: Place, cluster: Cluster, tried: Tried, tmp_path: Path) -> None:
    with account(cluster, "esipp-hostile-poor", role="view") as token:
        file = kubeconfig_with(cluster, tmp_path / "config", token(600))
        ended = place.start("--kubeconfig", str(file)).end()
    tried.keep(ended, what="the account lacks rights", how="one with the ClusterRole `view`", left=place.left(ended))
    assert (ended.code, place.left(ended)) == (4, [])
    missing = "list nodes, create namespaces"
    assert f"lacks these rights: {missing}" in ended.message


def test_too_few_nodes(place: Place, cluster: Cluster, tried: Tried) -> None:
    workers = [n["metadata"]["name"] for n in cluster.list("/api/v1/nodes") if not n["spec"].get("taints")]
    try:
        for name in workers[1:]:
            cluster.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        ended = place.start().end()
    finally:
        for name in workers[1:]:
            cluster.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
    tried.keep(ended, what="fewer than two nodes can take pods", how="the others were cordoned", left=place.left(ended))
    assert (ended.code, place.left(ended)) == (4, [])
    assert "a run needs two" in ended.message


def test_folder_is_nearly_full(place: Place, tried: Tried, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=50m", "none", str(small)], check=True)
    try:
        ended = place.start(out=small / "run").end()
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)
    tried.keep(ended, what="there is too little space for the run's folder", how="a tmpfs of 50 MB", left=[])
    assert ended.code == 4
    assert "are free for the run's folder" in ended.message


def test_image_cannot_be_pulled(place: Place, tried: Tried) -> None:
    image = "registry.invalid/esipp/echoserver:none"
    ended = place.start("--image", image).end()
    tried.keep(
        ended, what="the echo image cannot be pulled", how="--image registry.invalid/...", left=place.left(ended)
    )
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert image in ended.message


WRONG = "docker.io/library/esipp-hostile:wrong"


@contextmanager
def other_image(dockerfile: str) -> Iterator[str]:
    """An image made of the echo image, on all nodes."""
    nodes = docker("ps", "--format", "{{.Names}}", "--filter", "label=io.x-k8s.kind.cluster=esipp").split()
    docker("build", "--tag", WRONG, "-", text=dockerfile)
    try:
        for node in nodes:
            load = ["docker", "exec", "-i", node, "ctr", "--namespace", "k8s.io", "images", "import", "-"]
            with subprocess.Popen(["docker", "save", WRONG], stdout=subprocess.PIPE) as saving:
                subprocess.run(load, stdin=saving.stdout, check=True, capture_output=True)
            assert saving.returncode == 0
        yield WRONG
    finally:
        for node in nodes:
            docker("exec", node, "ctr", "--namespace", "k8s.io", "images", "rm", WRONG, check=False)
        docker("image", "rm", "--force", WRONG, check=False)


def echo_image() -> str:
    """The image that the cluster has."""
    import os

    return os.environ["ESIPP_IMAGE"]


def test_image_is_of_another_version(place: Place, tried: Tried) -> None:
    version = 3
    older = f"RUN sed -i -E 's/^(PROTOCOL(_VERSION)?) *= *[0-9]+/\\1 = {version}/' /esipp/prober.py"
    with other_image(f"FROM {echo_image()}\nUSER 0\n{older}\nUSER 65532\n") as image:
        ended = place.start("--image", image).end()
    tried.keep(
        ended, what="the echo image is of another version", how=f"one whose prober speaks protocol {version}",
        left=place.left(ended),
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert f"has protocol version {version}" in ended.message


def test_image_is_no_echo_server(place: Place, tried: Tried) -> None:
    with other_image(f'FROM {echo_image()}\nENTRYPOINT ["false"]\n') as image:
        ended = place.start("--image", image).end()
    tried.keep(ended, what="the image is no echo server", how="one whose program ends at once", left=place.left(ended))
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])


OLD = {
    "metadata": {
        "name": "esipp-0101-000000-dead",
        "labels": {"app.kubernetes.io/managed-by": "esipp", "esipp.dev/run": "0101-000000-dead"},
        "annotations": {"esipp.dev/owner": "elsewhere/1"},
    }
}


def test_namespace_of_an_earlier_run_is_there(place: Place, cluster: Cluster, tried: Tried) -> None:
    cluster.create("/api/v1/namespaces", OLD)
    ended = place.start().end()
    there = cluster.exists(f"/api/v1/namespaces/{OLD['metadata']['name']}")
    tried.keep(
        ended, what="an earlier run was killed and left its namespace", how="one with its labels",
        left=place.left(ended), then="the old one stays, and is what `esipp clean` removes",
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended), there) == (0, [], [], True)
    # clean keeps a young namespace without a Lease, whose run may be about to create it
    assert f"removed namespace {OLD['metadata']['name']}" in place.clean("--force")


@contextmanager
def held(cluster: Cluster, namespace: str) -> Iterator[None]:
    """An object in a namespace that cannot go, for the time of the body."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    cluster.create(path, {"metadata": {"name": "stays", "finalizers": ["example.com/stays"]}})
    try:
        yield
    finally:
        cluster.patch(f"{path}/stays", {"metadata": {"finalizers": None}}, "merge-patch")


def test_namespace_of_an_earlier_run_is_stuck(place: Place, cluster: Cluster, tried: Tried) -> None:
    cluster.create("/api/v1/namespaces", OLD)
    name = str(OLD["metadata"]["name"])
    with held(cluster, name):
        cluster.delete(f"/api/v1/namespaces/{name}")
        ended = place.start().end()
    tried.keep(
        ended, what="a namespace of an earlier run is stuck in Terminating", how="an object with a finalizer in it",
        left=place.left(ended),
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (0, [], [])
    assert cluster.wait_gone(f"/api/v1/namespaces/{name}", budget=120)


def test_own_namespace_gets_stuck(place: Place, cluster: Cluster, tried: Tried) -> None:
    run = place.start()
    run.reach("clients")
    with held(cluster, run.namespace):
        ended = run.end()
        left = place.left(ended)
    tried.keep(
        ended, what="our own namespace is stuck in Terminating", how="an object with a finalizer in it", left=left,
        then="`esipp clean` removes it once it can go",
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, left) == (3, [], ["its namespace"])
    assert "still exists after" in ended.message
    assert "see what blocks it: " in ended.message
    place.clean()
    assert place.left(ended) == []


class Proxy:
    """An HTTP proxy that knows CONNECT only, and remembers whom it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._take, args=(client,), daemon=True).start()

    def _take(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, ValueError):
            line, _, _ = client.recv(65536).decode().partition("\r\n")
            verb, target, _ = line.split()
            self.asked.append(target if verb == "CONNECT" else line)
            host, _, port = target.rpartition(":")
            with socket.create_connection((host.strip("[]"), int(port))) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                ends = {client: server, server: client}
                while True:
                    for one in select.select(list(ends), [], [])[0]:
                        data = one.recv(65536)
                        if not data:
                            return
                        ends[one].sendall(data)


def by_address(cluster: Cluster, file: Path) -> str:
    """A kubeconfig that names the API server by an address that is not this machine's."""
    config = view(cluster)
    shown = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
    address = docker("inspect", "--format", shown, control_plane(cluster)).split()[0]
    config["clusters"][0]["cluster"]["server"] = f"https://{address}:6443"
    file.write_text(json.dumps(config))
    return f"{address}:6443"


@pytest.mark.parametrize("upper", [True, False])
def test_proxy_is_set(place: Place, cluster: Cluster, tried: Tried, tmp_path: Path, upper: bool) -> None:
    server = by_address(cluster, tmp_path / "config")
    proxy = Proxy()
    names = {f"{name}_proxy": proxy.url for name in ("http", "https", "all")}
    environment = {name.upper() if upper else name: url for name, url in names.items()}
    ended = place.start(
        "--kubeconfig", str(tmp_path / "config"), checks=[*CHECKS, "loadbalancer.local.tcp.ipv4.outside-1"],
        environment=environment,
    ).end()  # fmt: skip
    tried.keep(
        ended, what=f"the environment names a proxy ({'HTTPS_PROXY' if upper else 'https_proxy'}, and so on)",
        how="a proxy that works and counts", left=place.left(ended),
        then="the API server is asked through it, as kubectl does; nothing else",
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (0, [], [])
    assert set(proxy.asked) == {server}


def test_proxy_is_dead(place: Place, cluster: Cluster, tried: Tried, tmp_path: Path) -> None:
    by_address(cluster, tmp_path / "config")
    variable = "HTTPS_PROXY"
    environment = {variable: "http://127.0.0.1:9"}
    ended = place.start("--kubeconfig", str(tmp_path / "config"), environment=environment).end()
    tried.keep(
        ended, what="the environment names a proxy that is not there", how="HTTPS_PROXY=http://127.0.0.1:9",
        left=place.left(ended),
    )  # fmt: skip
    assert ended.code == 4
    assert f"{variable} is set" in ended.message


def test_proxy_is_excepted(place: Place, cluster: Cluster, tried: Tried, tmp_path: Path) -> None:
    server = by_address(cluster, tmp_path / "config")
    proxy = Proxy()
    network = server.rpartition(".")[0] + ".0/24"
    environment = {"HTTPS_PROXY": proxy.url, "HTTP_PROXY": proxy.url, "no_proxy": f"example.com,{network}"}
    ended = place.start("--kubeconfig", str(tmp_path / "config"), environment=environment).end()
    tried.keep(
        ended, what="NO_PROXY excepts the API server", how="no_proxy with its network", left=place.left(ended),
        then="the proxy is asked for nothing",
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (0, [], [])
    assert proxy.asked == []


def test_vip_never_comes(place: Place, cluster: Cluster, tried: Tried) -> None:
    pools = "/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools"
    names = [each["metadata"]["name"] for each in cluster.list(pools)]
    try:
        for name in names:
            cluster.patch(f"{pools}/{name}", {"spec": {"autoAssign": False}}, "merge-patch")
        ended = place.start(checks=["loadbalancer.local.tcp.ipv4.outside-1"]).end()
    finally:
        for name in names:
            cluster.patch(f"{pools}/{name}", {"spec": {"autoAssign": None}}, "merge-patch")
    tried.keep(
        ended, what="a load balancer never gets its VIP", how="the balancer's pools were closed",
        left=place.left(ended), then="the checks that need it are `inconclusive`, with why; all others are judged",
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert all("waiting for a VIP" in why for why in ended.reasons.values())


def test_node_ports_are_used_up(place: Place, cluster: Cluster, tried: Tried) -> None:
    space = "/api/v1/namespaces/esipp-hostile-ports"
    cluster.create("/api/v1/namespaces", {"metadata": {"name": "esipp-hostile-ports"}})
    try:
        with contextlib.suppress(ApiError):  # until the range is full
            for number, size in enumerate([100] * 40):
                _take(cluster, space, number, size)
        with contextlib.suppress(ApiError):
            for number in range(100, 200):
                _take(cluster, space, number, 1)
        ended = place.start().end()
    finally:
        cluster.delete(space)
        cluster.wait_gone(space, budget=300)
    tried.keep(
        ended, what="every nodePort is taken", how="Services of another namespace have them all", left=place.left(ended)
    )
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert any("no nodePort is free" in why for why in ended.reasons.values())


def _take(cluster: Cluster, space: str, number: int, size: int) -> None:
    """Take some nodePorts."""
    ports = [{"name": f"p{port}", "port": port} for port in range(1, size + 1)]
    spec = {"type": "NodePort", "ports": ports}
    cluster.create(f"{space}/services", {"metadata": {"name": f"takes-{number}"}, "spec": spec})
