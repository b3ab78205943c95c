"""A private API server is reached by our own client and by the kubectl that we call, by the same ways."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from esipp.base.errors import PreflightError
from esipp.cluster.client import Cluster, UnreachableError
from esipp.testbed.clients import Clients
from tests.tools import needs_tool
from tests.unit.private_world import NAME, VERSION, Private, private_server

pytestmark = needs_tool("kubectl", "openssl")

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Private]:
    with private_server(tmp_path_factory.mktemp("private")) as made:
        yield made


@pytest.fixture
def private(server: Private, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Private:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    server.asked.clear()
    server.accounts.clear()
    server.impersonated.clear()
    server.user.clear()
    return server


def by_our_client(kubeconfig: Path, as_user: str = "") -> str:
    """The version that the server tells us; empty where it cannot be had."""
    try:
        return Cluster("home", str(kubeconfig), as_user=as_user).version()
    except PreflightError:
        return ""


def by_kubectl(kubeconfig: Path, as_user: str = "") -> str:
    """The same by kubectl, pointed at the cluster as clients in pods are started."""
    words = [*Cluster("home", str(kubeconfig), as_user=as_user).kubectl, "get", "--raw", "/version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env=os.environ)
    return VERSION["gitVersion"] if VERSION["gitVersion"] in done.stdout else ""


BOTH = pytest.mark.parametrize("ask", [by_our_client, by_kubectl])


@BOTH
def test_a_tunnel_needs_the_servers_name(ask: Ask, private: Private, tmp_path: Path) -> None:
    """The address is this machine's, and the certificate the server's own."""
    assert ask(private.kubeconfig(tmp_path)) == ""
    assert ask(private.kubeconfig(tmp_path, tls_server_name="other.example")) == ""
    assert ask(private.kubeconfig(tmp_path, tls_server_name=NAME)) == VERSION["gitVersion"]
    assert private.asked == []


@BOTH
def test_the_kubeconfigs_proxy_is_asked(ask: Ask, private: Private, tmp_path: Path) -> None:
    found = private.kubeconfig(tmp_path, tls_server_name=NAME, proxy_url=private.proxy)
    assert ask(found) == VERSION["gitVersion"]
    assert set(private.asked) == {private.server.removeprefix("https://")}


@BOTH
def test_it_goes_before_the_environment(
    ask: Ask, private: Private, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "*")
    found = private.kubeconfig(tmp_path, tls_server_name=NAME, proxy_url=private.proxy)
    assert ask(found) == VERSION["gitVersion"]
    assert set(private.asked) == {private.server.removeprefix("https://")}


@BOTH
def test_an_account_at_the_proxy_is_sent_to_it(ask: Ask, private: Private, tmp_path: Path) -> None:
    proxy = private.proxy.replace("//", "//me:pa55word@")
    assert ask(private.kubeconfig(tmp_path, tls_server_name=NAME, proxy_url=proxy)) == VERSION["gitVersion"]
    assert set(private.accounts) == {"Basic bWU6cGE1NXdvcmQ="}


@BOTH
@pytest.mark.parametrize("where", ["environment", "kubeconfig"])
def test_a_name_that_only_the_proxy_knows_is_left_to_it(
    ask: Ask, where: str, private: Private, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"proxy_url": private.proxy} if where == "kubeconfig" else {}
    if where == "environment":
        monkeypatch.setenv("HTTPS_PROXY", private.proxy)
    assert ask(private.kubeconfig(tmp_path, server=f"https://{NAME}:443", **more)) == VERSION["gitVersion"]
    assert set(private.asked) == {f"{NAME}:443"}


@BOTH
def test_the_environments_proxy_is_not_asked_for_this_machine(
    ask: Ask, private: Private, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a tunnel ends."""
    monkeypatch.setenv("HTTPS_PROXY", private.proxy)
    assert ask(private.kubeconfig(tmp_path, tls_server_name=NAME)) == VERSION["gitVersion"]
    assert private.asked == []


def test_clients_in_pods_are_started_by_the_same_kubeconfig(private: Private, tmp_path: Path) -> None:
    found = private.kubeconfig(tmp_path, tls_server_name=NAME, proxy_url=private.proxy)
    testbed: Any = SimpleNamespace(cluster=Cluster("home", str(found)), namespace="esipp-x")
    words = Clients(testbed, None, {}).exec_command("backend", ["true"])
    assert words[:5] == ["kubectl", "--context", "home", "--kubeconfig", str(found)]


def test_the_servers_clock_is_known_by_its_answers(private: Private, tmp_path: Path) -> None:
    found = Cluster("home", str(private.kubeconfig(tmp_path, **{"tls-server-name": NAME}))).date()
    assert abs(parsedate_to_datetime(found).timestamp() - time.time()) < 3600


@BOTH
@pytest.mark.parametrize(
    ("user", "as_user", "headers"),
    [
        ({}, "", []),
        ({}, "jane", [("Impersonate-User", "jane")]),
        (
            {"as": "joe", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": {"a/b": ["1", "2"]}},
            "",
            [
                *(("Impersonate-Extra-A%2fb", "1"), ("Impersonate-Extra-A%2fb", "2")),
                *(("Impersonate-Group", "dev"), ("Impersonate-Group", "ops")),
                *(("Impersonate-Uid", "7"), ("Impersonate-User", "joe")),
            ],
        ),
        ({"as": "joe", "as-groups": ["dev"]}, "jane", [("Impersonate-Group", "dev"), ("Impersonate-User", "jane")]),
    ],
)
def test_both_impersonate_whom_the_kubeconfig_and_the_option_say(
    ask: Ask, user: dict[str, Any], as_user: str, headers: list[tuple[str, str]], private: Private, tmp_path: Path
) -> None:
    private.user.update(user)
    assert ask(private.kubeconfig(tmp_path, tls_server_name=NAME), as_user) == VERSION["gitVersion"]
    assert [(name.lower(), value) for name, value in private.impersonated[-1]] == [
        (name.lower(), value) for name, value in headers
    ]


def test_a_request_ends_after_its_timeout(tmp_path: Path) -> None:
    """A server that accepts and stays silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = tmp_path / "kubeconfig"
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}
        context = {"name": "home", "context": {"cluster": "c", "user": "u"}}
        users = [{"name": "u", "user": {"token": "0123456789abcdef"}}]
        file.write_text(yaml.safe_dump({"clusters": [cluster], "contexts": [context], "users": users}))
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"."):
            Cluster("home", str(file), request_timeout=0.3).text("/healthz")
        assert time.monotonic() - began < 5, "the usual 30 s"
