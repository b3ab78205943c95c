"""A private API server is reached by our own client and by the kubectl that we call, by the same ways."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.errors import PreflightError
from esipp.cluster.client import Cluster, kubeconfig_arguments
from esipp.testbed.clients import Clients
from tests.tools import needs_tool
from tests.unit.private_world import NAME, VERSION, Private, private_server

pytestmark = needs_tool("kubectl", "openssl")

Ask = Callable[[Path], str]


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
    return server


def by_our_client(kubeconfig: Path) -> str:
    """The version that the server tells us; empty where it cannot be had."""
    try:
        return Cluster("home", str(kubeconfig)).version()
    except PreflightError:
        return ""


def by_kubectl(kubeconfig: Path) -> str:
    """The same by kubectl, pointed at the cluster as clients in pods are started."""
    words = ["kubectl", *kubeconfig_arguments("home", str(kubeconfig)), "get", "--raw", "/version"]
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
def test_an_account_at_the_proxy_is_told_to_it(ask: Ask, private: Private, tmp_path: Path) -> None:
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


def test_the_servers_clock_is_told_by_its_answers(private: Private, tmp_path: Path) -> None:
    found = Cluster("home", str(private.kubeconfig(tmp_path, **{"tls-server-name": NAME}))).date()
    assert abs(parsedate_to_datetime(found).timestamp() - time.time()) < 3600
