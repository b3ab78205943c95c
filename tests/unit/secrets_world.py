"""A cluster that is full of secrets, wherever a run can meet one, and a search through all that a run leaves.

All secrets are made up. ``PLANTED`` says which stands where.
"""

import base64
import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

from esipp.base.json import Json


def _web_token(who: str) -> str:
    parts = ('{"alg":"RS256"}', f'{{"sub":"{who}"}}', f"signed by {who}")
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)


def _pem(kind: str, seed: str) -> str:
    body = base64.b64encode((seed * 40).encode()).decode()
    lines = [body[i : i + 64] for i in range(0, 640, 64)]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])


KEY, CERTIFICATE = _pem("RSA PRIVATE KEY", "our own key "), _pem("CERTIFICATE", "our own cert ")
FOREIGN_KEY = _pem("EC PRIVATE KEY", "somebody's key ")

PLANTED = {
    "token of the kubeconfig": "opaque-kubeconfig-token-4711",
    "key of the kubeconfig": base64.b64encode(KEY.encode()).decode(),
    "a line of that key": KEY.splitlines()[3],
    "certificate of the kubeconfig": base64.b64encode(CERTIFICATE.encode()).decode(),
    "password of another user of it": "0ther-Us3rs-Passw0rd",
    "its plugin's variable": "pl4in-plugin-client-value",
    "its plugin's argument": "arg-0f-the-plugin",
    "name of the kubeconfig": "pw-1n-a-path",
    "command line": "t0k3n-in-a-command",
    "proxy in the environment": "pr0xy-pa55",
    "variable in a pod": "v4lue of a variable",
    "argument in a pod": "arg-in-a-p0d",
    "annotation of a node": "anno-tated-pa55word",
    "refusal of the API server": _web_token("refused"),
    "bearer in an exception": "0a1b2c3d4e-except",
    "log of a pod": _web_token("logged"),
    "another's key in a log": FOREIGN_KEY.splitlines()[2],
    "data of a Secret": base64.b64encode(b"data of a secret").decode(),
    "AWS key": "AKIAIOSFODNN7PLANTED",
    "packets": _web_token("packets"),
}
"""Where a secret stands, and the secret."""

REFUSED, LOGGED = PLANTED["refusal of the API server"], PLANTED["log of a pod"]
EXCEPTION = PLANTED["bearer in an exception"]
ACCOUNT = "123456789012"
CONTEXT = f"arn:aws:eks:eu-west-1:{ACCOUNT}:cluster/planted"
CLOUD_IDS = (ACCOUNT, "i-0abc1234def567890", "ip-10-0-1-23.eu-west-1.compute.internal", "0a1b2c.gr7.eu-west-1.eks")
"""Ids of the cloud's account, hidden on request only."""

LOG = f"""started with AWS key {PLANTED["AWS key"]}
Authorization: Bearer {LOGGED}
{FOREIGN_KEY}
GET https://me:{PLANTED["proxy in the environment"]}@proxy:3128/
seen 172.18.0.5:44880, nonce 1a859da53bc08035:405:0, uid 772fa9c1-1e8f-4ee4-890f-823b4efe79bb
"""
EVIDENCE = ("172.18.0.5:44880", "1a859da53bc08035:405:0", "772fa9c1-1e8f-4ee4-890f-823b4efe79bb")
"""What stands in the log, and must still stand there afterwards."""


def environment(kubeconfig: Path) -> dict[str, str]:
    """The environment of a run, with a proxy that nothing goes to and a command line that tells too much."""
    return {
        "KUBECONFIG": str(kubeconfig),
        "HTTPS_PROXY": f"http://me:{PLANTED['proxy in the environment']}@127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
        "ESIPP_REPEAT": f"ci/conformance --token {PLANTED['command line']}",
        "ESIPP_IMAGE": "example.com/echo:1",
        "SOME_CLIENT_SECRET": PLANTED["its plugin's argument"],
    }


def write_kubeconfig(folder: Path, server: str) -> Path:
    """A kubeconfig in a file whose very name holds a password."""
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/nowhere/get-token",
        "args": ["--client-secret", PLANTED["its plugin's argument"]],
        "env": [{"name": "PLUGIN_SECRET", "value": PLANTED["its plugin's variable"]}],
    }
    user = {
        "token": PLANTED["token of the kubeconfig"],
        "client-key-data": PLANTED["key of the kubeconfig"],
        "client-certificate-data": PLANTED["certificate of the kubeconfig"],
    }
    other = {"username": "me", "password": PLANTED["password of another user of it"]}
    users = {"u": user, "other": other, "plugin": {"exec": plugin}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": name, "user": each} for name, each in users.items()],
        "contexts": [{"name": CONTEXT, "context": {"cluster": "c", "user": "u"}}],
    }
    path = folder / f"password={PLANTED['name of the kubeconfig']}"
    path.write_text(yaml.safe_dump(config))
    return path


# ---------------------------------------------------------------------------------------------------- the cluster
def pod(name: str) -> Json:
    env = [{"name": "DB_PASSWORD", "value": PLANTED["variable in a pod"]}]
    container = {"name": "c", "image": "example.com/x:1", "env": env}
    container["args"] = ["--api-key", PLANTED["argument in a pod"]]
    owners = [{"kind": "DaemonSet", "name": "kube-proxy"}]
    about = {"namespace": "kube-system", "labels": {"k8s-app": "kube-proxy"}, "ownerReferences": owners}
    return {
        "metadata": {"name": name, **about},
        "spec": {"nodeName": CLOUD_IDS[2], "containers": [container]},
        "status": {"containerStatuses": [{"name": "c", "imageID": "x@sha256:" + "0a" * 32}]},
    }


def node(number: int, address: str) -> Json:
    name = CLOUD_IDS[2] if number == 0 else f"ip-10-0-1-{100 + number}.eu-west-1.compute.internal"
    note = json.dumps({"password": PLANTED["annotation of a node"], "url": f"https://x.{CLOUD_IDS[3]}.amazonaws.com"})
    secret = {"kind": "Secret", "data": {"x": PLANTED["data of a Secret"]}}
    return {
        "metadata": {"name": name, "labels": {}, "annotations": {"note": note}, "x": secret},
        "spec": {"providerID": f"aws:///eu-west-1a/{CLOUD_IDS[1] if number == 0 else f'i-{number:017x}'}"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": address}],
            "nodeInfo": {
                "kubeletVersion": "v1.36.3", "kernelVersion": "6", "containerRuntimeVersion": "x://1",
                "operatingSystem": "linux",
            },
        },
    }  # fmt: skip


class Answers:
    """What the API server says. ``fault`` makes it give a node an address that is none, which breaks our own code."""

    def __init__(self, fault: bool = False) -> None:
        self.fault = fault

    def to(self, method: str, path: str) -> tuple[int, Json | str]:
        """Status and body of an answer."""
        last = path.rpartition("/")[2]
        if path == "/version":
            return 200, {"gitVersion": "v1.36.3"}
        if last == "selfsubjectaccessreviews":
            return 201, {"status": {"allowed": True}}
        if method == "POST" and last == "services":
            return 201, {"spec": {"ipFamilies": ["IPv4"]}}
        if method == "POST" or last == "kube-proxy":
            return 403, {"reason": "Forbidden", "message": f"{path} is refused, Authorization: Bearer {REFUSED}"}
        if last == "nodes":
            strange = f"Bearer {EXCEPTION}" if self.fault else "10.0.1.25"
            return 200, {"items": [node(i, each) for i, each in enumerate(("10.0.1.23", "10.0.1.24", strange))]}
        if last == "log":
            return 200, LOG
        return 200, {"items": [pod("kube-proxy-x")] if last == "pods" else []}


@contextmanager
def serving(answers: Answers, folder: Path) -> Iterator[Path]:
    """The server on loopback; yields its kubeconfig."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = answers.to(self.command, urlsplit(self.path).path)
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words: Any) -> None:
            pass

    for method in ("GET", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield write_kubeconfig(folder, f"http://127.0.0.1:{http.server_address[1]}")
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


# ----------------------------------------------------------------------------------------------------- the search
def _spellings(secret: str) -> set[str]:
    once = json.dumps(secret)[1:-1]
    return {secret, once, json.dumps(once)[1:-1], quote(secret, safe=""), base64.b64encode(secret.encode()).decode()}


def leaks(text: str, secrets: dict[str, str] = PLANTED) -> list[str]:
    """Which secrets stand in a text, however spelled."""
    return [where for where, secret in secrets.items() if any(each in text for each in _spellings(secret))]


def assert_clean(folder: Path, secrets: dict[str, str] = PLANTED) -> int:
    """No file below a folder holds a secret, nor does its name; returns how many files were searched."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in files:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
        found = leaks(raw.decode(errors="replace"), secrets) + leaks(str(path.relative_to(folder)), secrets)
        assert not found, f"{path.relative_to(folder)} holds {', '.join(found)}"
    return len(files)
