"""How ci/ runs the reference load balancer: the container, its account, and when it is started again."""

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ci import loadbalancer
from ci.access import ClusterAccess
from ci.hermetic import apt, base_image
from ci.step import SetupError
from images.loadbalancer import balancer
from images.loadbalancer.balancer import settings

KIND = ["172.18.0.0/16", "fc00:f853:ccd:e793::/64"]
SERVER = "https://127.0.0.1:40001"


@dataclass(frozen=True)
class Scripted(ClusterAccess):
    """A cluster that answers questions; ``container`` is what docker knows of the load balancer."""

    api: str = "1.41"
    container: dict[str, Any] | None = None
    did: list[tuple[str, ...]] = field(default_factory=list)

    def ask(self, *command: str | Path, timeout: float = 30) -> str | None:
        what = " ".join(map(str, command))
        if what.startswith("docker version"):
            return f"{self.api}\n"
        if what.startswith("docker network"):
            return json.dumps([{"IPAM": {"Config": [{"Subnet": net} for net in KIND]}}])
        if what.startswith("docker container inspect"):
            return json.dumps([self.container]) if self.container else None
        if "config view" in what:
            return SERVER
        found = {"type": "InternalIP", "address": "172.18.0.2"}
        return json.dumps({"items": [{"metadata": {"name": "one"}, "status": {"addresses": [found]}}]})


def options_of(command: list[str], name: str) -> list[str]:
    return [value for option, value in pairwise(command) if option == name]


def there(**what: Any) -> Scripted:
    return Scripted("hermetic", "lane", "v1", "node:1", **what)


def test_it_gets_the_least_it_needs() -> None:
    command = loadbalancer.container(there(), "lb:1", [])
    assert options_of(command, "--cap-drop") == ["ALL"]
    assert options_of(command, "--cap-add") == ["NET_ADMIN", "NET_BIND_SERVICE"]
    assert "--read-only" in command
    assert "--privileged" not in command
    rules = [rule for document in loadbalancer.objects() for rule in document.get("rules", [])]  # type: ignore[attr-defined]  # a fake has it
    assert rules == [
        {"apiGroups": [""], "resources": ["services", "nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"]},
    ]


def test_it_says_whose_it_is_and_where_to_ask_it() -> None:
    command = loadbalancer.container(there(), "lb:1", ["--fault", "slow"])
    labels = options_of(command, "--label")
    assert labels[:2] == ["esipp.dev/load-balancer=9000", f"esipp.dev/balances={SERVER}"]
    assert command[-2:] == ["--fault", "slow"]


def test_its_command_line_is_one_that_it_takes() -> None:
    command = loadbalancer.container(there(), "lb:1", ["--fault", "keep-one", "--period", "2"])
    given = settings.parse(command[command.index("lb:1") + 1 :])
    assert given.pools == ("172.18.255.55-172.18.255.154",)  # of the cluster's only family, below MetalLB's
    assert (given.admin, given.period, given.faults.names) == (9000, 2.0, {"keep-one"})


@pytest.mark.parametrize(
    ("api", "network"),
    [
        ("1.41", "kind"),
        ("1.46", "name=kind,driver-opt=com.docker.network.endpoint.sysctls=net.ipv4.conf.IFNAME.send_redirects=0"),
        ("1.51", "name=kind,driver-opt=com.docker.network.endpoint.sysctls=net.ipv4.conf.IFNAME.send_redirects=0"),
    ],
)
def test_newer_engines_take_an_interface_s_settings_with_the_network(api: str, network: str) -> None:
    command = loadbalancer.container(there(api=api), "lb:1", [])
    assert options_of(command, "--network") == [network]
    old = "net.ipv4.conf.eth0.send_redirects=0" in options_of(command, "--sysctl")
    assert old is (network == "kind")


@pytest.mark.parametrize(
    ("image", "running", "options", "own", "sysctls", "again"),
    [
        ("lb:1", True, [], ["a"], {}, False),
        ("lb:0", True, [], ["a"], {}, True),
        ("lb:1", False, [], ["a"], {}, True),
        ("lb:1", True, ["x"], ["a"], {}, True),
        ("lb:1", True, [], [], {}, True),
        ("lb:1", True, [], ["a"], {"net.ipv4.fib_multipath_hash_policy": "1"}, True),
    ],
)
def test_a_standing_one_is_left_alone_unless_it_is_another(
    monkeypatch: pytest.MonkeyPatch,
    image: str,
    *,
    running: bool,
    options: list[str],
    own: list[str],
    sysctls: dict[str, str],
    again: bool,
) -> None:
    labels = {"esipp.dev/options": json.dumps(options), "esipp.dev/own-options": json.dumps(own)}
    settings = {name: str(value) for name, value in loadbalancer.SYSCTLS.items()} | sysctls
    container = {
        "State": {"Running": running},
        "Config": {"Image": image, "Labels": labels},
        "HostConfig": {"Sysctls": settings},
    }
    installed: list[str] = []
    monkeypatch.setattr(loadbalancer, "install", lambda there, image, journal, own: installed.append(image))
    loadbalancer.renew(there(container=container), "lb:1", None, ["a"])
    assert installed == (["lb:1"] if again else [])


def test_it_is_started_again_with_its_image_and_other_options(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, list[str], list[str]]] = []
    monkeypatch.setattr(loadbalancer, "run", lambda there, image, *options: ran.append((image, *options)))
    labels = {"esipp.dev/own-options": '["--default", "reference-ecmp"]'}
    loadbalancer.restart(there(container={"Config": {"Image": "lb:7", "Labels": labels}}), ["--fault", "slow"])
    assert ran == [("lb:7", ["--fault", "slow"], ["--default", "reference-ecmp"])]
    with pytest.raises(SetupError, match="no reference load balancer"):
        loadbalancer.restart(there())


def test_readers_text_makes_no_other_image(tmp_path: Path) -> None:
    (tmp_path / "balancer").mkdir()
    (tmp_path / "Dockerfile").write_text("FROM x")
    image = replace(loadbalancer.IMAGE, source=tmp_path)
    before = image.reference(None)
    (tmp_path / "README.md").write_text("read me")
    assert image.reference(None) == before
    (tmp_path / "balancer" / "new.py").write_text("pass")
    assert image.reference(None) != before


def test_its_packages_are_no_part_of_the_other_root_file_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [apt.rootfs_key(name) for name in ("base", "node", "balancer")]
    monkeypatch.setattr(apt, "BALANCER_PACKAGES", ("other",))
    after = [apt.rootfs_key(name) for name in ("base", "node", "balancer")]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, True, False]
    assert base_image.reference(base_image.BALANCER).startswith("localhost/esipp/balancer-base:")


def test_its_version_is_the_project_s() -> None:
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'\nversion = "{balancer.VERSION}"\n' in project
