"""An API server of some age, over HTTP: what it does with Services and Pods stands in tests/unit/recorded/."""

import copy
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from esipp.base.json import Json

RECORDED = Path(__file__).parent / "recorded"
LOW, HIGH = 30000, 30099
FIELD_OF_POLICY, FIELD_OF_PORT = "externalTrafficPolicy", "healthCheckNodePort"
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: old, context: {cluster: c, user: u}}]
"""


def record(name: str) -> Json:
    """What is recorded of a version: ``1.5``."""
    return dict(json.loads((RECORDED / f"kubernetes-{name}.json").read_text()))


NAMES = sorted(
    (path.stem.removeprefix("kubernetes-") for path in RECORDED.glob("kubernetes-*.json")), key=lambda n: int(n[2:])
)


class RefusedError(Exception):
    """An answer that is a Status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class OldServer:
    """Services and Pods as a server of that age keeps them, in its own form."""

    def __init__(self, recorded: Json, version: str = "") -> None:
        self.recorded = recorded
        self.version = version or recorded["version"]
        self.services: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self.asked: list[tuple[str, str, Json | None]] = []
        self.next = LOW

    # ------------------------------------------------------------------------------------------------- what is asked
    def answer(self, method: str, path: str, query: dict[str, str], content: str, body: Json | None) -> Json:
        self.asked.append((method, path, body))
        if path == "/version":
            return {"gitVersion": self.version}
        review = re.fullmatch(r"/apis/authorization\.k8s\.io/(\w+)/selfsubjectaccessreviews", path)
        if review:
            if review[1] not in self.recorded["access-reviews"]:
                raise RefusedError(404, "NotFound", "the server could not find the requested resource")
            return {"status": {"allowed": True}}
        kind, name = self._place(path)
        kept = self.services if kind == "services" else self.pods
        if method == "POST":
            assert body is not None
            made = (self._create if kind == "services" else self._create_pod)(body)
            if query.get("dryRun") and self.recorded["dry-run"] == "honoured":
                del kept[made["metadata"]["name"]]
            return made
        if not name:
            return {"items": list(kept.values()), "metadata": {"resourceVersion": "1"}}
        if name not in kept:
            raise RefusedError(404, "NotFound", f'{kind} "{name}" not found')
        if method == "GET":
            return kept[name]
        if method == "DELETE":
            return kept.pop(name)
        assert body is not None
        if method == "PATCH" and "apply" in content and not self.recorded["apply"]:
            raise RefusedError(
                415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content}"
            )
        if method == "PUT":
            return self._update(name, copy.deepcopy(body))
        return self._update(name, merged(self.services[name], body))

    def _place(self, path: str) -> tuple[str, str]:
        found = re.fullmatch(r"/api/v1/(?:namespaces/([^/]+)/)?(services|pods)(?:/([^/]+))?", path)
        if not found:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return found[2], found[3] or ""

    # ------------------------------------------------------------------------------------------------------ Services
    def _create(self, body: Json) -> Json:
        service = self._known(body)
        name, chosen = service["metadata"]["name"], self._chosen(service)
        service["metadata"].setdefault("namespace", "esipp-test")
        if self.needs_port(service):
            self._set_port(service, self._reserve(name, chosen) if chosen else self._allocate())
        elif chosen:
            self._refuse("unneeded-on-create", name, chosen)
        service["spec"].setdefault("clusterIP", "10.96.0.10")
        self._default(service)
        self._node_ports(service)
        self.services[name] = service
        return service

    def _update(self, name: str, body: Json) -> Json:
        old, service = self.services[name], self._known(body)
        had, has = self.needs_port(old), self.needs_port(service)
        port, chosen = self.port(old), self._chosen(service)
        if had and has:
            if not chosen and self.recorded["refusals"]["removed"] is None:
                self._set_port(service, port)
            elif not chosen:
                self._refuse("removed", name, 0)
            elif chosen != port:
                self._refuse("changed", name, chosen)
        elif has:
            self._set_port(service, self._reserve(name, chosen) if chosen else self._allocate())
        elif had and chosen in (0, port):
            self._set_port(service, 0)
        elif chosen:
            self._refuse("unneeded-on-update", name, chosen)
        self._default(service)
        self._node_ports(service)
        self.services[name] = service
        return service

    def policy(self, service: Json) -> str:
        """``local`` or ``cluster``, as this server takes it: its annotations first, then its field."""
        said, notes = self.recorded["policy"], service["metadata"].get("annotations") or {}
        for name in said["annotations"]:
            if notes.get(name) in (said["local"], said["cluster"]):
                return "local" if notes[name] == said["local"] else "cluster"
        return "local" if said["field"] and service["spec"].get(FIELD_OF_POLICY) == "Local" else "cluster"

    def needs_port(self, service: Json) -> bool:
        return bool(service["spec"].get("type") == "LoadBalancer" and self.policy(service) == "local")

    def port(self, service: Json) -> int:
        """The port, as this server's kube-proxy takes it."""
        if not self.needs_port(service):
            return 0
        notes = service["metadata"].get("annotations") or {}
        result = [notes[name] for name in self.recorded["port"]["annotations"] if name in notes]
        return int(result[0]) if result else int(service["spec"].get(FIELD_OF_PORT) or 0)

    def ports(self) -> dict[int, str]:
        """Where kube-proxy listens, for which service."""
        return {self.port(each): name for name, each in self.services.items() if self.port(each)}

    def _by_annotation(self, service: Json) -> str | None:
        """The annotation in which the port stands; None where it is the field."""
        notes, said = service["metadata"].get("annotations") or {}, self.recorded
        if said["policy"]["field"]:  # 1.7 keeps to the form in which the policy is said
            used = any(name in notes for name in said["policy"]["annotations"])
            return str(said["port"]["annotations"][0]) if used else None
        return str(said["port"]["written-to"])

    def _chosen(self, service: Json) -> int:
        where = self._by_annotation(service)
        if where is None:
            return int(service["spec"].get(FIELD_OF_PORT) or 0)
        return int((service["metadata"].get("annotations") or {}).get(where) or 0)

    def _set_port(self, service: Json, port: int) -> None:
        where = self._by_annotation(service)
        place = service["spec"] if where is None else service["metadata"].setdefault("annotations", {})
        key = FIELD_OF_PORT if where is None else where
        place.pop(key, None)
        if port:
            place[key] = port if where is None else str(port)

    def _default(self, service: Json) -> None:
        """Where nothing is said, the field says Cluster; it is left alone where an annotation speaks."""
        said, spec = self.recorded["policy"], service["spec"]
        notes = service["metadata"].get("annotations") or {}
        external = spec.get("type") in ("NodePort", "LoadBalancer")
        if said["field"] and external and not any(name in notes for name in said["annotations"]):
            spec.setdefault(FIELD_OF_POLICY, "Cluster")

    def _known(self, body: Json) -> Json:
        service = copy.deepcopy(body)
        for name in self.recorded["service-drops"]:
            service["spec"].pop(name, None)
        return service

    def _node_ports(self, service: Json) -> None:
        for port in service["spec"].get("ports", ()):
            if service["spec"].get("type") in ("NodePort", "LoadBalancer"):
                if "nodePort" in port and not LOW <= port["nodePort"] <= HIGH:
                    said = f"provided port is not in the valid range. The range of valid ports is {LOW}-{HIGH}"
                    raise RefusedError(
                        422, "Invalid", f"spec.ports[0].nodePort: Invalid value: {port['nodePort']}: {said}"
                    )
                port["nodePort"] = port.get("nodePort") or self._allocate()

    def _allocate(self) -> int:
        self.next += 1
        return self.next

    def _reserve(self, name: str, port: int) -> int:
        if port in self.ports():
            self._refuse("taken", name, port)
        return port

    def _refuse(self, why: str, name: str, port: int) -> None:
        refusal = self.recorded["refusals"][why]
        if refusal is not None:
            status, reason, message = refusal
            raise RefusedError(status, reason, message.format(name=name, port=port))

    # ---------------------------------------------------------------------------------------------------------- Pods
    def _create_pod(self, body: Json) -> Json:
        pod = copy.deepcopy(body)
        for name in self.recorded["pod-drops"]:
            pod["spec"].pop(name, None)
        refuses = self.recorded["pod-refuses"]
        for container in pod["spec"]["containers"]:
            protocols = {port.get("protocol", "TCP") for port in container.get("ports", ())}
            asked = {
                each["valueFrom"]["fieldRef"]["fieldPath"] for each in container.get("env", ()) if "valueFrom" in each
            }
            bad = sorted(protocols & set(refuses["protocols"]) | asked & set(refuses["field-paths"]))
            if bad:
                raise RefusedError(422, "Invalid", f'Pod is invalid: spec.containers[0]: Unsupported value: "{bad[0]}"')
        pod["status"] = {"podIP": "10.244.1.7"}
        if self.recorded["pod-ips"]:
            pod["status"]["podIPs"] = [{"ip": "10.244.1.7"}]
        self.pods[pod["metadata"]["name"]] = pod
        return pod


def merged(old: Json, patch: Json) -> Json:
    """RFC 7386; what Services have, strategic merge patches merge alike but for their lists, which we do not patch."""
    made = copy.deepcopy(old)
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, dict):
            made[key] = merged(made.get(key) or {}, value)
        else:
            made[key] = value
    return made


@contextmanager
def serving(server: OldServer, folder: Path) -> Iterator[str]:
    """The server on loopback; yields a kubeconfig whose context ``old`` leads to it."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            url = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(url.query).items()}
            code = 200
            try:
                answer = server.answer(self.command, url.path, query, self.headers.get("Content-Type", ""), body)
                if query.get("watch"):
                    answer = {"type": "MODIFIED", "object": answer["items"][0]}
            except RefusedError as refused:
                code = refused.status
                answer = {"kind": "Status", "reason": refused.reason, "message": refused.message}
            data = json.dumps(answer).encode() + b"\n"
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words: Any) -> None:
            pass

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        path = folder / "kubeconfig"
        path.write_text(KUBECONFIG.replace("PORT", str(http.server_address[1])))
        yield str(path)
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
