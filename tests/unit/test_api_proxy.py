"""Through which proxy the API server is asked: as kubectl decides it."""

from pathlib import Path

import pytest

from esipp.base.errors import PreflightError
from esipp.cluster.client import Cluster
from esipp.cluster.proxy import account_at, proxy_for

P = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        ("https://api.example.com:6443", {}, None),
        ("https://api.example.com:6443", {"HTTPS_PROXY": P}, P),
        ("https://api.example.com:6443", {"https_proxy": P}, P),
        ("https://api.example.com:6443", {"HTTPS_PROXY": P, "https_proxy": "http://other:1"}, P),
        ("https://api.example.com:6443", {"HTTPS_PROXY": "proxy:3128"}, P),
        ("https://api.example.com:6443", {"HTTP_PROXY": P}, None),
        ("https://api.example.com:6443", {"ALL_PROXY": P, "all_proxy": P}, None),
        ("http://api.example.com:8080", {"http_proxy": P}, P),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": P}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": P}, None),
        ("https://localhost:6443", {"HTTPS_PROXY": P}, None),
    ],
)
def test_which_variable_counts(server: str, environment: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(server, environment) == proxy


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
@pytest.mark.parametrize(
    ("server", "excepted", "direct"),
    [
        ("https://api.example.com:6443", "*", True),
        ("https://api.example.com:6443", "other, api.example.com", True),
        ("https://api.example.com:6443", "example.com", True),
        ("https://api.example.com:6443", ".example.com", True),
        ("https://api.example.com:6443", "*.example.com", True),
        ("https://example.com:6443", ".example.com", False),
        ("https://badexample.com:6443", "example.com", False),
        ("https://api.example.com:6443", "api.example.com:6443", True),
        ("https://api.example.com:6443", "api.example.com:443", False),
        ("https://api.example.com", "api.example.com:443", True),
        ("https://172.18.0.5:6443", "172.18.0.0/16", True),
        ("https://172.18.0.5:6443", "172.19.0.0/16", False),
        ("https://172.18.0.5:6443", "172.18.0.5", True),
        ("https://172.18.0.5:6443", "172.18.0.5:1", False),
        ("https://[fc00::5]:6443", "fc00::/64", True),
        ("https://[fc00::5]:6443", "fc00:0::5", True),
        ("https://[fc00::5]:6443", "[fc00::5]:6443", True),
        ("https://[fc00::5]:6443", "[fc00::5]:1", False),
        ("https://172.18.0.5:6443", "18.0.5, not/a/cidr, ,", False),
    ],
)
def test_whom_no_proxy_names(name: str, server: str, excepted: str, direct: bool) -> None:
    assert (proxy_for(server, {"HTTPS_PROXY": P, name: excepted}) is None) is direct


def test_an_account_at_the_proxy() -> None:
    assert account_at("http://me:p%40ss@proxy:3128") == "me:p@ss"
    assert account_at(P) == ""


def kubeconfig(folder: Path, more: str = "") -> str:
    file = folder / "config"
    file.write_text(
        "apiVersion: v1\nkind: Config\n"
        "contexts: [{name: home, context: {cluster: home, user: me}}]\n"
        "users: [{name: me, user: {token: abcdef0123456789}}]\n"
        f"clusters: [{{name: home, cluster: {{server: 'https://172.18.0.5:6443'{more}}}}}]\n"
    )
    return str(file)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)


def used(cluster: Cluster) -> str | None:
    return cluster._api.configuration.proxy or None


def test_the_client_obeys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kubeconfig(tmp_path)
    monkeypatch.setenv("ALL_PROXY", P)
    assert used(Cluster("home", file)) is None
    monkeypatch.setenv("https_proxy", "http://me:secret@proxy:3128")
    asked = Cluster("home", file)
    assert used(asked) == "http://me:secret@proxy:3128"
    assert asked._api.configuration.proxy_headers["proxy-authorization"].startswith("Basic ")
    monkeypatch.setenv("no_proxy", "172.18.0.0/16")
    assert used(Cluster("home", file)) is None


def test_a_kubeconfigs_own_proxy_goes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://other:1")
    monkeypatch.setenv("NO_PROXY", "*")
    asked = Cluster("home", kubeconfig(tmp_path, f", proxy-url: '{P}'"))
    assert used(asked) == P
    assert type(asked._api.rest_client.pool_manager).__name__ == "ProxyManager"


@pytest.mark.filterwarnings("ignore:SOCKS support")
@pytest.mark.parametrize("proxy", ["socks5://proxy:1", "ftp://proxy:1", "http://[::"])
def test_a_proxy_that_cannot_be_used_is_reported(proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(PreflightError, match="proxy of context 'home'"):
        Cluster("home", kubeconfig(tmp_path))


def test_a_server_that_is_no_url_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", P)
    file = Path(kubeconfig(tmp_path))
    file.write_text(file.read_text().replace(":6443", ":99999"))
    with pytest.raises(PreflightError, match="Cannot use the server"):
        Cluster("home", str(file))


def test_a_certificate_whose_file_was_taken_away_ends_nothing(tmp_path: Path) -> None:
    asked = Cluster("home", kubeconfig(tmp_path))
    old = asked._api
    old.configuration.cert_file = str(tmp_path / "gone")
    assert asked._log_in_again(old) is False
