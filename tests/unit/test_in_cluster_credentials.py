"""A pod's own credentials: written as a kubeconfig, read anew when the kubelet has written others, never guessed."""

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from esipp.app.cli import _parser, main
from esipp.app.in_cluster import credentials
from esipp.app.in_cluster.credentials import CONTEXT, HOST, PORT, config_of, named
from esipp.app.options import settings_of
from esipp.base.client_places import Kind, Place
from esipp.base.errors import ExitCode, PreflightError
from esipp.base.redaction import redact
from esipp.cluster.client import ApiError, Cluster
from esipp.ledger.run import Settings
from esipp.preflight import outside_clients as standing
from esipp.preflight.outside_clients import NO_CLIENT_OUTSIDE
from esipp.preflight.preflight import _of_a_pod

IN_POD = {HOST: "10.96.0.1", PORT: "443"}
FIRST, SECOND = "eyJhbGciOiJSUzI1NiJ9.first.signature", "eyJhbGciOiJSUzI1NiJ9.second.signature"


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """What the kubelet mounts."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    for name, content in {"token": FIRST, "ca.crt": "CERTIFICATE", "namespace": "esipp-account"}.items():
        (folder / name).write_text(content)
    return folder


@pytest.fixture
def pod(account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process as one in a pod; nothing is left in the cache of those."""
    for name, value in {**IN_POD, "TMPDIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(credentials, "ACCOUNT", account)
    credentials.kubeconfig.cache_clear()
    yield account
    credentials.kubeconfig.cache_clear()
    monkeypatch.setattr("tempfile.tempdir", None)


def test_the_token_is_named_by_its_file_and_not_copied(account: Path) -> None:
    config = config_of(IN_POD, account)
    assert config["users"] == [{"name": CONTEXT, "user": {"tokenFile": str(account / "token")}}]
    assert FIRST not in json.dumps(config)


@pytest.mark.parametrize(
    ("environment", "server"),
    [
        (IN_POD, "https://10.96.0.1:443"),
        ({HOST: "fd00:10:96::1", PORT: "6443"}, "https://[fd00:10:96::1]:6443"),
        ({HOST: "10.96.0.1"}, "https://10.96.0.1:443"),
    ],
)
def test_the_server_is_the_environments(account: Path, environment: dict[str, str], server: str) -> None:
    (cluster,) = config_of(environment, account)["clusters"]
    assert cluster["cluster"] == {"server": server, "certificate-authority": str(account / "ca.crt")}


@pytest.mark.parametrize(("content", "namespace"), [("esipp-account\n", "esipp-account"), ("", "default")])
def test_the_namespace_is_the_pods(account: Path, content: str, namespace: str) -> None:
    (account / "namespace").write_text(content)
    (context,) = config_of(IN_POD, account)["contexts"]
    assert context["context"]["namespace"] == namespace


def test_outside_of_a_pod_it_is_refused(account: Path) -> None:
    with pytest.raises(PreflightError, match="this is not a pod") as refused:
        config_of({}, account)
    assert "--context" in refused.value.hint


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_an_account_hears_which_file_is_missing(account: Path, missing: str) -> None:
    (account / missing).unlink()
    with pytest.raises(PreflightError, match=f"serviceaccount/{missing} is missing") as refused:
        config_of(IN_POD, account)
    assert "automountServiceAccountToken" in refused.value.hint


def test_a_pod_where_nothing_can_be_written_is_reported(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(**_: object) -> str:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.mkdtemp", read_only)
    with pytest.raises(PreflightError, match="Read-only file system") as refused:
        named(None, None, True)
    assert "emptyDir" in refused.value.hint


@pytest.mark.parametrize(
    ("context", "file", "said"), [("kind-there", None, "--context"), (None, "file", "--kubeconfig")]
)
def test_two_accounts_are_one_too_many(pod: Path, context: str | None, file: str | None, said: str) -> None:
    with pytest.raises(PreflightError, match=f"--in-cluster and {said} name two accounts"):
        named(context, file, True)


@pytest.mark.parametrize("command", ["run", "clean"])
def test_in_a_pod_nothing_is_asked_by_accident(
    command: str, pod: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESIPP_IMAGE", "example.com/echo:1")
    assert main([command]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "No cluster is named, and this is a pod." in said
    assert "--in-cluster" in said


def test_a_pod_may_name_another_cluster(pod: Path) -> None:
    assert named("kind-there", "file", False) == ("kind-there", "file")


def test_the_run_and_kubectl_go_by_the_same_file(pod: Path) -> None:
    options = _parser().parse_args(["run", "--in-cluster", "--image", "example.com/echo:1"])
    once, again = settings_of(options), settings_of(options)
    assert (once.context, once.kubeconfig) == (again.context, again.kubeconfig), "pytest reads the options again"
    assert Cluster.of(once).kubectl == ["kubectl", "--context", CONTEXT, "--kubeconfig", once.kubeconfig]
    assert json.loads(Path(str(once.kubeconfig)).read_text())["current-context"] == CONTEXT


def test_the_command_that_repeats_it_names_no_file(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ESIPP_REPEAT", raising=False)
    settings = settings_of(_parser().parse_args(["run", "--in-cluster", "--image", "example.com/echo:1"]))
    assert settings.repeat.startswith("esipp run --in-cluster ")
    assert "kubeconfig" not in settings.repeat


# ------------------------------------------------------------------------------------------ the token is another one
class Server(ThreadingHTTPServer):
    """Lets in who has the token of now."""

    token = FIRST
    seen: list[str]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.seen.append(self.headers.get("Authorization", ""))
        allowed = server.seen[-1] == f"Bearer {server.token}"
        body = json.dumps({"gitVersion": "v1.36.3", "items": []} if allowed else {"reason": "Unauthorized"}).encode()
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def asked(pod: Path) -> Iterator[tuple[Server, Cluster]]:
    """A cluster by the pod's account, over HTTP."""
    with Server(("127.0.0.1", 0), Handler) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        context, file = named(None, None, True)
        config = json.loads(Path(str(file)).read_text())
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{server.server_port}"}
        Path(str(file)).write_text(json.dumps(config))
        try:
            yield server, Cluster(context, file)
        finally:
            server.shutdown()
            thread.join()


def test_a_token_that_was_written_anew_is_read_when_the_old_one_is_refused(
    asked: tuple[Server, Cluster], pod: Path
) -> None:
    server, cluster = asked
    assert cluster.version() == "v1.36.3"
    server.token = SECOND
    (pod / "token").write_text(SECOND)
    assert cluster.list("/api/v1/nodes") == []
    assert server.seen[-2:] == [f"Bearer {FIRST}", f"Bearer {SECOND}"]


def test_where_there_is_no_new_token_the_refusal_stands(asked: tuple[Server, Cluster]) -> None:
    server, cluster = asked
    cluster.version()
    server.token = SECOND
    with pytest.raises(ApiError, match="Unauthorized"):
        cluster.list("/api/v1/nodes")


@pytest.mark.parametrize("rotated", [False, True], ids=["mounted", "written-anew"])
def test_no_token_reaches_a_report(asked: tuple[Server, Cluster], pod: Path, rotated: bool) -> None:
    server, cluster = asked
    if rotated:
        server.token = SECOND
        (pod / "token").write_text(SECOND)
    with suppress(ApiError):
        cluster.version()
    assert redact(f"it said {server.token}") == "it said [redacted: token]"


# -------------------------------------------------------------------------------------------------- nobody is outside
@pytest.mark.parametrize(
    ("in_cluster", "network", "why"),
    [
        (True, None, NO_CLIENT_OUTSIDE),
        (False, None, "there is no client outside the cluster"),
        (True, "kind", str(Place(Kind.DOCKER, "kind"))),
    ],
)
def test_a_run_inside_has_no_client_outside_unless_it_is_given_some(
    in_cluster: bool, network: str | None, why: str
) -> None:
    found = standing.features((Place(Kind.DOCKER, network),) if network else (), [], [])
    found |= _of_a_pod(Settings("c", in_cluster=in_cluster), found)
    for name in ("vantage.outside", "vantage.outside.two-addresses"):
        assert (found[name].present, found[name].why) == (network is not None, why)
        assert found[name].ours == (network is None), "then core checks are left out, and the result is PARTIAL"
