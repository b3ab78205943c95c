"""An API server with nodes, pods and Leases, over HTTP; and a node's own commands, as small scripts."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from esipp.base.json import Json
from esipp.cluster.client import Cluster

Answer = tuple[int, Json]

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: home, context: {cluster: c, user: u}}]
"""

PROXY_CONFIG = "/api/v1/namespaces/kube-system/configmaps/kube-proxy"
PROXIES = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
CILIUM = "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium"

EXCLUDED = {"node.kubernetes.io/exclude-from-external-load-balancers": ""}


class FakeNodes:
    """What disruptions need of an API server; ``before`` is called with each request and may answer it, or be silent.

    Deleted pods of a DaemonSet come again, under another name, unless ``abandoned``. ``spaces`` are the namespaces with
    our label, ``of_runs`` the Leases in them, by namespace. ``objects`` are those of agents, by path (``add_proxies``,
    ``add_cilium``): a DaemonSet whose template changes has all its pods replaced, unless ``abandoned``. Each kube-proxy
    is in ``stuck_mode``, or in that of the configuration. Replaced pods ``linger`` in lists, as they end.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Json] = {name: self._node(name) for name in ("a", "b", "c")}
        self.pods: dict[str, Json] = {}
        self.leases: dict[str, int] = {}
        self.spaces: list[Json] = []
        self.services: list[Json] = []
        self.of_runs: dict[str, Json] = {}
        self.requests: list[str] = []
        self.objects: dict[str, Json] = {}
        self.logs: dict[str, str] = {}
        self.stuck_mode = ""
        self.linger = False
        self.silent: Callable[[], bool] = lambda: False
        self.abandoned = False
        self.before: Callable[[str, str, Json], Answer | None] = lambda method, path, body: None
        self._made = 0

    @staticmethod
    def _node(name: str) -> Json:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        metadata = {"name": name, "resourceVersion": "1", "uid": f"uid-{name}", "labels": {}, "annotations": {}}
        return {"metadata": metadata, "spec": {}, "status": ready}

    def add_pod(self, name: str, node: str, *, namespace: str, daemon_set: str = "", **labels: str) -> None:
        """A pod that is ready; with labels, whose names have _ for - and __ for /."""
        metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
        metadata["labels"] = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
        if daemon_set:
            metadata["ownerReferences"] = [{"kind": "DaemonSet", "uid": daemon_set, "controller": True}]
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.pods[f"{namespace}/{name}"] = {"metadata": metadata, "spec": {"nodeName": node}, "status": ready}

    def add_proxies(self, config: str = 'mode: ""\nkind: Config\n', image: str = "kube-proxy:v1.36.3") -> None:
        """kube-proxy on all nodes, as kubeadm leaves it; its version is its image's tag."""
        metadata = {"name": "kube-proxy", "resourceVersion": "1", "generation": 1}
        containers = [{"name": "beside", "image": "other:1"}, {"name": "kube-proxy", "image": image}]
        template = {"metadata": {"labels": {"k8s-app": "kube-proxy"}}, "spec": {"containers": containers}}
        self.objects[PROXY_CONFIG] = {
            "metadata": {"name": "kube-proxy", "resourceVersion": "1"}, "data": {"config.conf": config},
        }  # fmt: skip
        self.objects[PROXIES] = {"metadata": metadata, "spec": {"template": template}}
        self.roll()

    def add_cilium(self, image: str = "cilium:v1.18.6", **strategy: Any) -> None:
        """Cilium's agents on all nodes, as its chart has them; their version is their image's tag."""
        containers = [{"name": "cilium-agent", "image": image}, {"name": "beside", "image": "other:1"}]
        spec = {"initContainers": [{"name": "config", "image": image}], "containers": containers}
        metadata = {"name": "cilium", "resourceVersion": "1", "generation": 1}
        template = {"metadata": {"labels": {"k8s-app": "cilium"}}, "spec": spec}
        self.objects[CILIUM] = {"metadata": metadata, "spec": {"template": template, "updateStrategy": strategy}}
        self.roll_cilium()

    def roll_cilium(self) -> None:
        """The controller of Cilium's DaemonSet: a new agent on each node."""
        spec = self.objects[CILIUM]["spec"]["template"]["spec"]
        (image,) = {each["image"] for each in (*spec["initContainers"], spec["containers"][0])}

        def says(name: str) -> None:
            self.logs[name] = f'time="" level=info msg="Cilium {image.partition(":v")[2]} 95896696119f go version"\n'

        self._replace(CILIUM, "cilium", "cilium-agent", image, says)

    def plain_objects(self) -> dict[str, Json]:
        """What others see of kube-proxy's objects, to be compared."""
        found = deepcopy(self.objects)
        for item in found.values():
            for name in ("resourceVersion", "generation"):
                item["metadata"].pop(name, None)
            item.pop("status", None)
            for metadata in (item["metadata"], item.get("spec", {}).get("template", {}).get("metadata", {})):
                if not metadata.get("annotations"):
                    metadata.pop("annotations", None)
        return found

    def roll(self) -> None:
        """The controller of kube-proxy's DaemonSet: a new pod on each node, which reads the configuration."""
        daemon_set, text = self.objects[PROXIES], self.objects[PROXY_CONFIG]["data"]["config.conf"]
        image = daemon_set["spec"]["template"]["spec"]["containers"][1]["image"]
        named = [line.split()[1].strip('"') for line in text.splitlines() if line.startswith("mode:")]
        mode = self.stuck_mode or "".join(named) or "iptables"

        def says(name: str) -> None:
            self.logs[name] = (
                f'I1128 server_linux.go:254] "Using {mode} Proxier"\n'
                f'I1128 server.go:539] "Version info" version="{image.partition(":")[2]}"\n'
            )

        self._replace(PROXIES, "kube-proxy", "kube-proxy", image, says)

    def _replace(self, path: str, app: str, container: str, image: str, says: Callable[[str], None]) -> None:
        """The controller of a DaemonSet: a new pod on each node."""
        for key in [key for key, pod in self.pods.items() if pod["metadata"]["labels"].get("k8s-app") == app]:
            gone = self.pods.pop(key)
            if self.linger:
                gone["metadata"]["deletionTimestamp"] = "2026-11-28T07:36:00Z"
                self.pods[f"{key}-gone"] = gone
        for node in self.nodes:
            self._made += 1
            name = f"{app}-{self._made}"
            self.add_pod(name, node, namespace="kube-system", daemon_set="d", k8s_app=app)
            state = {"name": container, "imageID": f"sha256:{image}"}
            self.pods[f"kube-system/{name}"]["status"]["containerStatuses"] = [state]
            says(name)
        number, daemon_set = len(self.nodes), self.objects[path]
        daemon_set["status"] = {
            "observedGeneration": daemon_set["metadata"]["generation"], "desiredNumberScheduled": number,
            "updatedNumberScheduled": number, "numberReady": number,
        }  # fmt: skip

    def _on_object(self, method: str, path: str, body: Json) -> Answer:
        item = self.objects[path]
        if method == "PATCH":
            metadata = item["metadata"]
            if body["metadata"].pop("resourceVersion") != metadata["resourceVersion"]:
                return _no(409, "Conflict", "the object has been modified")
            before = deepcopy(item.get("spec"))
            _merge(item, body)
            metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
            if item.get("spec") != before:
                metadata["generation"] += 1
                if not self.abandoned:
                    self.roll() if path == PROXIES else self.roll_cilium()
        return 200, item

    def marked(self) -> dict[str, dict[str, str]]:
        """The annotations of the nodes that have any."""
        return {name: notes for name, node in self.nodes.items() if (notes := dict(node["metadata"]["annotations"]))}

    def plain(self) -> dict[str, Json]:
        """The nodes without their versions and uids, to be compared."""
        nodes = deepcopy(self.nodes)
        for node in nodes.values():
            del node["metadata"]["resourceVersion"], node["metadata"]["uid"]
        return nodes

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> Answer:
        """The answer to one request."""
        self.requests.append(f"{method} {path}")
        early = self.before(method, path, body)
        if early is not None:
            return early
        parts = path.strip("/").split("/")
        match (method, parts):
            case "GET", ["version"]:
                return 200, {"gitVersion": "v1.36.0"}
            case "GET", ["api", "v1", "nodes"]:
                return 200, {"items": list(self.nodes.values())}
            case _, ["api", "v1", "nodes", name]:
                return self._on_node(method, name, body)
            case "GET", ["apis", "coordination.k8s.io", "v1", "namespaces", space, "leases", "esipp-run"]:
                lease = self.of_runs.get(space)
                return (200, lease) if lease else _no(404, "NotFound", space)
            case "GET", ["apis", "coordination.k8s.io", "v1", "namespaces", space, "leases", name]:
                return self._lease(f"{space}/{name}")
            case "GET", ["apis", "apps", "v1", "namespaces", "kube-system", "daemonsets"]:
                return 200, {"items": [item for path, item in self.objects.items() if path in (PROXIES, CILIUM)]}
            case "GET" | "PATCH", _ if path in self.objects:
                return self._on_object(method, path, body)
            case "GET", ["api", "v1", "namespaces", _, "pods", name, "log"] if name in self.logs:
                return 200, {"log": self.logs[name]}
            case "GET", ["api", "v1", "pods"]:
                return 200, {"items": self._selected("", query)}
            case "GET", ["api", "v1", "namespaces", space, "pods"]:
                return 200, {"items": self._selected(f"{space}/", query)}
            case _, ["api", "v1", "namespaces", space, "pods", name, *eviction]:
                return self._on_pod(method, f"{space}/{name}", bool(eviction))
            case "GET", ["api", "v1", "namespaces"]:
                chosen = query.get("fieldSelector", "").removeprefix("metadata.name=")
                spaces = [each for each in self.spaces if chosen in ("", each["metadata"]["name"])]
                return 200, {"items": spaces, "metadata": {"resourceVersion": "1"}}
            case "DELETE", ["api", "v1", "namespaces", space]:
                self.spaces = [each for each in self.spaces if each["metadata"]["name"] != space]
                return 200, {}
            case "GET", ["api", "v1", "namespaces", _, "services"]:
                return 200, {"items": self.services}
        return _no(404, "NotFound", path)

    def _on_node(self, method: str, name: str, body: Json) -> Answer:
        if name not in self.nodes:
            return _no(404, "NotFound", f"no node {name}")
        node = self.nodes[name]
        if method == "DELETE":
            if body["preconditions"]["resourceVersion"] != node["metadata"]["resourceVersion"]:
                return _no(409, "Conflict", "the object has been modified")
            del self.nodes[name]
        if method == "PATCH":
            version = body["metadata"].pop("resourceVersion", node["metadata"]["resourceVersion"])
            if version != node["metadata"]["resourceVersion"]:
                return _no(409, "Conflict", "the object has been modified")
            _merge(node, body)
            node["metadata"]["resourceVersion"] = str(int(version) + 1)
        return 200, node

    def _lease(self, key: str) -> Answer:
        """Each look at a Lease finds it renewed, unless its holder is said to be idle by a negative number."""
        if key not in self.leases:
            return _no(404, "NotFound", key)
        self.leases[key] += self.leases[key] >= 0
        return 200, {"spec": {"renewTime": str(self.leases[key])}}

    def _selected(self, prefix: str, query: dict[str, str]) -> list[Json]:
        wanted = dict(part.split("=") for part in query.get("labelSelector", "").split(",") if part)
        node = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        pods = [pod for key, pod in self.pods.items() if key.startswith(prefix)]
        pods = [pod for pod in pods if node in ("", pod["spec"]["nodeName"])]
        return [pod for pod in pods if wanted.items() <= pod["metadata"]["labels"].items()]

    def _on_pod(self, method: str, key: str, eviction: bool) -> Answer:
        if key not in self.pods:
            return _no(404, "NotFound", key)
        if method == "GET":
            return 200, self.pods[key]
        if method == "DELETE" or eviction:
            pod = self.pods.pop(key)
            owners = pod["metadata"].get("ownerReferences")
            if owners and not self.abandoned:
                self._made += 1
                name = f"{pod['metadata']['name']}-{self._made}"
                again = {**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"uid-{name}"}}
                self.pods[f"{pod['metadata']['namespace']}/{name}"] = again
        return 201, {}

    @contextmanager
    def served(self, folder: Path) -> Iterator[Cluster]:
        """The cluster that has this API server."""
        with _server(self) as port:
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(KUBECONFIG.replace("PORT", str(port)))
            yield Cluster("home", str(kubeconfig))


@contextmanager
def _server(fake: FakeNodes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            if fake.silent():
                self.close_connection = True
                return
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            status, document = fake.answer(self.command, url.path, query, body)
            said = (document.get("log") or json.dumps(document)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815 - the base class's names

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _no(status: int, reason: str, message: str) -> Answer:
    return status, {"kind": "Status", "reason": reason, "message": message}


def _merge(into: Json, patch: Json) -> None:
    """RFC 7396."""
    for name, value in patch.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict):
            _merge(into.setdefault(name, {}), value)
        else:
            into[name] = value


SCRIPTS = {
    "systemctl": """case "$1 $2" in
  "is-active kubelet") cat "$STATE/kubelet" ;;
  "stop kubelet") echo inactive >"$STATE/kubelet" ;;
  "start kubelet")
    [ ! -e "$STATE/stuck" ] || { echo "it does not start" >&2; exit 1; }
    echo active >"$STATE/kubelet" ;;
  "is-active --quiet") [ -e "$STATE/$3" ] ;;
  "stop esipp-api-slow") rm "$STATE/$2" ;;
  *) rm -f "$STATE/switch" ;;
esac""",
    "systemd-run": """[ ! -e "$STATE/no-timers" ] || { echo "no timers" >&2; exit 1; }
case "$*" in *--unit=esipp-api-slow*) echo "$*" >"$STATE/esipp-api-slow"; exit ;; esac
while [ "$1" != sh ]; do shift; done; printf '%s' "$3" >"$STATE/switch" """,
    "pkill": """found=1; for name in $(echo "$3" | tr '|' ' '); do
  file="$STATE/${name#kube-}"; file="${file%server}"; [ -e "$file" ] || continue
  found=0; case $1 in
    -STOP) echo T >"$file" ;;
    -CONT | -KILL) echo S >"$file" ;;
    -TERM) echo "$name" >>"$STATE/ended" ;;
  esac
done; exit $found""",
    # what it says stands for a process id: the files of that container are below /proc/../…/container
    "pgrep": """for name in $(echo "$2" | tr '|' ' '); do
  file="$STATE/${name#kube-}"; [ ! -e "${file%server}" ] || { echo "..$STATE/container"; exit; }
done; exit 1""",
    "ip": """case "$*" in
  *address\\ show) cat "$STATE/addresses" ;;
  "address add "*) [ -e "$STATE/addresses" ] || : >"$STATE/addresses"
    echo "2: $5    inet $3 scope global $5" >>"$STATE/addresses" ;;
  "address delete "*) grep -vF " $3 " "$STATE/addresses" >"$STATE/rest"; mv "$STATE/rest" "$STATE/addresses" ;;
  "neighbour show to "*) grep -F "$4 " "$STATE/neighbours" ;;
  *) echo "default via 192.0.2.254 dev eth0 proto static" ;;
esac""",
    "bash": 'exec sh "$@"',  # which has no /dev/udp: nothing is sent
    "sleep": "",
    "nft": """case "$1 $2" in
  "list table") cat "$STATE/rules" ;;
  "delete table") rm "$STATE/rules" ;;
  *) printf '%s' "$1" >"$STATE/rules" ;;
esac""",
    "conntrack": """[ "$1" != -L ] || { cat "$STATE/tracked"; exit; }
echo "$*" >>"$STATE/deleted"; echo "conntrack v1.4.7: 1 flow entries have been deleted." >&2""",
    "hostname": "echo a",
    "kubectl": """case $3 in
  get)
    [ "$4" != csr ] || { cat "$STATE/csrs"; exit; }
    [ -e "$STATE/node" ] || { echo 'Error from server (NotFound): nodes "a" not found' >&2; exit 1; }
    cat "$STATE/node" ;;
  delete | -n)
    [ ! -e "$STATE/no-api" ] || { echo "no API" >&2; exit 1; }
    shift 2; echo "$*" >>"$STATE/taken-away" ;;
  annotate) [ -e "$STATE/node" ] ;;
  create) [ ! -e "$STATE/node" ] && [ ! -e "$STATE/no-api" ] && cp "$5" "$STATE/node" ;;
esac""",
    "kubeadm": """[ ! -e "$STATE/no-api" ] || { echo "no API" >&2; exit 1; }; echo "$*" >"$STATE/token" """,
    "ps": """for name in $(echo "$4" | tr ',' ' '); do
  file="$STATE/${name#kube-}"; file="${file%server}"; [ ! -e "$file" ] || cat "$file"
done""",
}


NODE = """apiVersion: v1
kind: Node
metadata:
  creationTimestamp: "2026-11-24T15:00:00Z"
  name: a
  resourceVersion: "17"
  uid: 4b1c
spec:
  providerID: kind://docker/esipp/a
"""


class FakeNode:
    """A node's own commands; ``way`` runs them. Its state is in files: kubelet, api, proxy, switch, and others."""

    def __init__(self, folder: Path, *, control_plane: bool = True) -> None:
        self.state, self.marks = folder / "state", folder / "marks"
        programs = folder / "bin"
        for each in (self.state, programs):
            each.mkdir(parents=True)
        for name, script in SCRIPTS.items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        (self.state / "kubelet").write_text("active\n")
        for name in ("proxy", "controller", "speaker", "kindnetd"):
            (self.state / name).write_text("S\n")
        (self.state / "node").write_text(NODE)
        self.writers = self.state / "container" / "root" / "usr" / "sbin"
        self.writers.mkdir(parents=True)
        for name in ("nft", "xtables-nft-multi", "tcpdump"):
            (self.writers / name).touch(0o755)
        if control_plane:
            (self.state / "api").write_text("S\n")
        path = f"PATH={programs}:{os.environ['PATH']}"
        self.way = ("env", path, f"STATE={self.state}", f"ESIPP_MARKS={self.marks}")

    def says(self, name: str) -> str:
        """A file of its state; "" if there is none."""
        path = self.state / name
        return path.read_text().strip() if path.exists() else ""

    @property
    def marked(self) -> dict[str, str]:
        """Its marks, as they are on its disk."""
        return {each.name: each.read_text().strip() for each in self.marks.iterdir()} if self.marks.exists() else {}
