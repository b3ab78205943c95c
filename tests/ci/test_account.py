"""The account that runs the suite on kind: its kubeconfig is for nobody else's eyes, and only esipp goes by it."""

import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ci import account
from ci.access import ClusterAccess
from ci.places import CONTEXT, Places
from ci.step import Journal, SetupError
from ci.ways import Hermetic, Official

ADMIN = {
    "clusters": [
        {"name": CONTEXT, "cluster": {"server": "https://192.0.2.1:6443", "certificate-authority-data": "Q0E="}}
    ],
    "users": [{"name": CONTEXT, "user": {"client-key-data": "SECRET"}}],
}


class There:
    """A cluster where kubectl gives prepared answers; ``asked`` are its commands."""

    def __init__(self, *tokens: str | None, balancer: str | None = None) -> None:
        self.balancer = balancer
        self.tokens, self.asked = list(tokens), list[str]()
        self.environment = {"KUBECONFIG": "/admin"}

    def ask(self, *command: Any, timeout: float = 30) -> str | None:
        words = " ".join(map(str, command))
        self.asked.append(words)
        if "create token" in words:
            return self.tokens.pop(0)
        if "container inspect" in words:
            return self.balancer
        return json.dumps(ADMIN) if "config view" in words else "applied"


def at(tmp_path: Path) -> Places:
    return Places(tmp_path / "cache", tmp_path)


def made(tmp_path: Path, *tokens: str | None) -> tuple[Any, There]:
    there: Any = There(*tokens)
    return json.loads(account.kubeconfig(there, at(tmp_path)).read_text()), there


def test_it_has_a_token_and_not_the_admins_key(tmp_path: Path) -> None:
    found, there = made(tmp_path, "t0ken\n")
    assert found["users"] == [{"name": "esipp", "user": {"token": "t0ken"}}]
    assert found["contexts"] == [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": "esipp"}}]
    assert found["clusters"] == ADMIN["clusters"]
    assert "SECRET" not in json.dumps(found)
    assert f"--duration {account.DURATION}" in there.asked[0]


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = account.kubeconfig_file(at(tmp_path))
    path.write_text("before")
    path.chmod(0o644)
    made(tmp_path, "t")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_cluster_that_is_older_gets_the_account(tmp_path: Path) -> None:
    found, there = made(tmp_path, None, "second")
    assert found["users"][0]["user"]["token"] == "second"  # noqa: S105 - made up
    assert any("apply" in words and "docs/rbac.yaml" in words for words in there.asked)


def test_the_last_token_stays_where_there_is_no_new_one(tmp_path: Path) -> None:
    made(tmp_path, "first")
    found, _ = made(tmp_path, None, None)
    assert found["users"][0]["user"]["token"] == "first"  # noqa: S105 - made up


def test_without_any_token_it_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="esipp-account/esipp"):
        made(tmp_path, None, None)


@pytest.mark.parametrize(
    ("command", "own"),
    [
        (["esipp", "run", "--context", "kind-esipp"], True),
        (["esipp", "clean", "--context=kind-esipp"], True),
        (["esipp", "list"], False),
        (["esipp", "report", "runs/latest"], False),
        (["kubectl", "--context", "kind-esipp", "get", "nodes"], False),
        (["python", "-m", "pytest", "tests/broken", "--context", "kind-esipp"], False),
    ],
)
def test_esipp_goes_by_it_and_people_by_the_admins(tmp_path: Path, command: list[str], own: bool) -> None:
    there: Any = There("t")
    found = account.environment(there, command, at(tmp_path))
    assert found["KUBECONFIG"] == (str(account.kubeconfig_file(at(tmp_path))) if own else "/admin")
    assert bool(there.asked) == own


@pytest.mark.parametrize(
    ("options", "server"), [(["--default", "reference-nat", "--announce", "hostname"], "172.18.0.6"), ([], None)]
)
def test_esipp_resolves_hostnames_by_the_balancer_that_announces_them(
    tmp_path: Path, options: list[str], server: str | None
) -> None:
    labels = {"esipp.dev/own-options": json.dumps(options)}
    networks = {"kind": {"IPAddress": "172.18.0.6", "GlobalIPv6Address": "fc00::6"}}
    container = [{"Config": {"Labels": labels}, "NetworkSettings": {"Networks": networks}}]
    there: Any = There("t", balancer=json.dumps(container))
    found = account.environment(there, ["esipp", "run", "--context", "kind-esipp"], at(tmp_path))
    assert found.get("ESIPP_RESOLVER") == server


def test_the_account_is_the_one_of_the_page() -> None:
    (found,) = [each for each in yaml.safe_load_all(account.RIGHTS.read_text()) if each["kind"] == "ServiceAccount"]
    assert (found["metadata"]["namespace"], found["metadata"]["name"]) == (account.NAMESPACE, account.NAME)


def test_it_goes_with_the_cluster(tmp_path: Path) -> None:
    made(tmp_path, "t")
    account.forget(at(tmp_path))
    account.forget(at(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_real_one_has_all_methods() -> None:
    assert {"ask", "environment"} <= set(dir(ClusterAccess))


def test_every_way_removes_it_with_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ci.ways.loadbalancer.remove", lambda *_: None)
    monkeypatch.setattr("ci.ways.cluster.delete", lambda *_: None)
    monkeypatch.setattr("ci.ways.Hermetic.__init__", lambda self, places, journal: None)
    where, journal, there = at(tmp_path), Journal(tmp_path / "logs"), ClusterAccess("official", "", "", "")
    hermetic = Hermetic(where, journal)
    idle: Any = SimpleNamespace(leftovers=lambda: False, empty_tmp=lambda: None)
    hermetic.places, hermetic.journal, hermetic.engine = where, journal, idle
    for way in (hermetic, Official(where, journal)):
        made(tmp_path, "t")
        way.remove(there)
        assert not account.kubeconfig_file(where).exists(), type(way)
