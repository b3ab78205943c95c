"""Where clients outside can stand: what ``--outside`` says, what ssh says, and what preflight makes of it."""

import ast
import json
import shlex
import subprocess
from pathlib import Path

import pytest

from esipp.app.cli import main
from esipp.base.client_places import BEHIND_NAT, BEHIND_ROUTER, Kind, Place, most_clients, place_of, read_places
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.check import NAT, OUTSIDE, RAW_SOCKETS, ROUTED, TWO_ADDRESSES, Feature, missing_features
from esipp.checks.model import Family
from esipp.judging.topology import parse_address
from esipp.preflight import outside_clients
from esipp.probing import host_check, hosts
from esipp.probing.hosts import HostDescription
from esipp.probing.prober import Prober
from tests.unit.world import by_id, topology

MACHINE = Place(Kind.MACHINE)
FAR = Place(Kind.SSH, "far", "me", 2022)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("auto", None),
        ("none", ()),
        ("docker:kind", (Place(Kind.DOCKER, "kind"),)),
        ("machine", (MACHINE,)),
        ("ssh:far", (Place(Kind.SSH, "far"),)),
        ("ssh:me@far:2022", (FAR,)),
        ("ssh:me@[fd00::1]:22", (Place(Kind.SSH, "fd00::1", "me", 22),)),
        ("ssh:[fe80::1%eth0]", (Place(Kind.SSH, "fe80::1%eth0"),)),
        ("machine, ssh:me@far:2022,docker:kind", (MACHINE, FAR, Place(Kind.DOCKER, "kind"))),
        ("machine=203.0.113.9", (Place(Kind.MACHINE, seen=("203.0.113.9",)),)),
        ("ssh:far=2001:DB8::9+203.0.113.9", (Place(Kind.SSH, "far", seen=("2001:db8::9", "203.0.113.9")),)),
    ],
)
def test_places_are_read(text: str, places: tuple[Place, ...] | None) -> None:
    assert read_places(text) == places


@pytest.mark.parametrize(
    "text",
    [
        "", "machine:1", "docker", "docker:", "docker:-x", "ssh", "ssh:", "ssh:-oProxyCommand=x", "ssh:me@-x",
        "ssh:far:0", "ssh:far:70000", "ssh:a b", "ssh:fd00::1", "ssh:me@far;true", "auto,machine", "machine,none",
        "machine,machine", "machine=203.0.113.9,machine", "docker:kind=203.0.113.9", "machine=", "machine=nonsense",
        "machine=203.0.113.9+203.0.113.8", "machine=0.0.0.0", "machine=::1", "ssh:far=224.0.0.1", "machine,,ssh:far",
        "docker:a,machine", "docker:a,docker:b", "https://far",
    ],
)  # fmt: skip
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(PreflightError) as refused:
        read_places(text)
    assert refused.value.hint
    assert refused.value.exit_code is ExitCode.USAGE


def test_the_command_line_takes_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--context", "x", "--outside", "machine", "--outside", "moon"]) == ExitCode.USAGE
    assert "--outside machine,moon: 'moon' is not a valid place" in capsys.readouterr().err


def test_a_wrong_address_is_one_clear_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--context", "x", "--outside", "machine=nonsense"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "--outside machine=nonsense: 'nonsense' is not an IP address." in said
    assert "machine=203.0.113.9" in said


def test_those_behind_a_router_and_nat_are_containers() -> None:
    places = (MACHINE, Place(Kind.DOCKER, "kind"))
    assert {place_of(name, places) for name in (BEHIND_ROUTER, BEHIND_NAT)} == {places[1]}
    for tools, named, present in (("image", places, True), ("", places, False), ("image", (MACHINE,), False)):
        found = outside_clients.features(named, [], list(Family), tools)
        assert {found[name].present for name in (ROUTED, NAT)} == {present}
        assert not any(found[name].ours for name in (ROUTED, NAT)), "without them a run is complete"


def test_clients_stand_in_order_and_docker_takes_the_rest() -> None:
    places = (MACHINE, FAR)
    assert [place_of(f"outside-{number}", places) for number in (1, 2)] == [MACHINE, FAR]
    docker = Place(Kind.DOCKER, "kind")
    assert [place_of(f"outside-{n}", (MACHINE, docker)) for n in (1, 2, 3)] == [MACHINE, docker, docker]
    assert (most_clients(places), most_clients((MACHINE, docker))) == (2, None)


# --------------------------------------------------------------------------------------------------------------- ssh
def test_ssh_asks_nobody_and_forwards_nothing() -> None:
    words = hosts.ssh_command(FAR, ["python3", "-c", "print('a b')"])
    assert {"BatchMode=yes", "ConnectTimeout=10", "ForwardAgent=no", "ClearAllForwardings=yes"} <= set(words)
    assert words[-6:-1] == ["2022", "-l", "me", "--", "far"]
    assert shlex.split(words[-1]) == ["python3", "-c", "print('a b')"]
    assert not [word for word in words if word.startswith("-F")], "the user's configuration holds"


def test_every_shell_takes_the_loader_as_it_is() -> None:
    assert not set(hosts.LOADER) & set("'!\n`$\\")


@pytest.mark.parametrize(
    ("code", "complaint", "sentence"),
    [
        (255, "Host key verification failed.", "me@far:2022 is unknown to ssh."),
        (
            255,
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n",
            "me@far:2022 does not match the one that ssh knows.",
        ),
        (255, "me@far: Permission denied (publickey).", "denies access: me@far: Permission denied (publickey)."),
        (
            255,
            "ssh: Could not resolve hostname far: Name or service not known",
            "Cannot resolve the host name me@far:2022: ssh: Could not",
        ),
        (255, "ssh: connect to host far port 22: Connection timed out", "Cannot reach me@far:2022 over ssh"),
        (255, "ssh: connect to host far port 22: No route to host", "Cannot reach me@far:2022 over ssh"),
        (127, "bash: line 1: python3: command not found", "There is no python3 on me@far:2022."),
        (1, "fish: Unknown command: python3\npython3: not found", "There is no python3 on me@far:2022."),
        (1, "This account is currently not available.", "Cannot run anything on me@far:2022 over ssh: This account"),
        (255, "", "Cannot run anything on me@far:2022 over ssh: no reason given."),
    ],
)
def test_what_ssh_says_is_a_sentence_and_a_hint(code: int, complaint: str, sentence: str) -> None:
    explained, hint = hosts.explain_ssh(FAR, code, complaint)
    assert sentence in explained
    assert explained.endswith(".")
    assert hint
    assert "\n" not in explained + hint


def fake_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """An ssh that runs this shell script; the remote command is its last word."""
    (folder / "ssh").write_text(f"#!/bin/sh\nfor last; do :; done\n{script}\n")
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def says(code: int, **described: object) -> str:
    return f"echo '{json.dumps({'event': 'host', 'platform': 'linux', 'raw': False, **described})}'; exit {code}"


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 'me@far: Permission denied (publickey).' >&2; exit 255", "denies access"),
        ("echo 'sh: 1: python3: not found' >&2; exit 127", "There is no python3"),
        (says(3, fit=False, python="3.6.8"), "The host me@far:2022 over ssh has Python 3.6.8 on linux."),
        (says(1, fit=True, python="3.11.2"), "The prober does not start on host me@far:2022 over ssh: no reason"),
    ],
)
def test_a_host_that_does_not_do_is_reported_before_anything_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, sentence: str
) -> None:
    fake_ssh(tmp_path, monkeypatch, script)
    with pytest.raises(PreflightError) as refused:
        hosts.look(FAR)
    assert sentence in refused.value.sentence
    assert refused.value.hint


def test_without_ssh_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PreflightError, match="There is no ssh on PATH"):
        hosts.look(FAR)


def test_a_login_script_that_greets_disturbs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ssh(tmp_path, monkeypatch, 'echo Welcome; echo "[1] done"; exec sh -c "$last"')
    assert hosts.look(FAR).python
    prober: Prober = hosts.start(FAR, "outside-1")
    try:
        assert prober.hello()["addresses"] is not None
    finally:
        prober.close()


def test_this_machine_needs_no_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert hosts.look(MACHINE).place == MACHINE


def test_the_prelude_fits_into_a_pipe() -> None:
    assert len(hosts.prelude()) < 64 * 1024
    assert hosts.prelude().count("\n") == 2


def test_old_pythons_can_read_what_tells_them_that_they_are_too_old() -> None:
    ast.parse(Path(host_check.__file__).read_text(), feature_version=(3, 6))


# --------------------------------------------------------------------------------------------------------- preflight
def described(place: Place, *addresses: str, raw: bool = True) -> HostDescription:
    return HostDescription(place, frozenset(map(parse_address, addresses)), "3.11.2", raw)


def test_a_node_is_not_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    node = next(iter(topology().nodes.values()))
    own = str(next(iter(node.internal.values())))
    monkeypatch.setattr(outside_clients, "look", lambda place: described(place, own))
    with pytest.raises(PreflightError, match=f"this machine, which is node {node.name}"):
        outside_clients.describe_hosts([MACHINE], topology().nodes.values())
    monkeypatch.setattr(outside_clients, "look", lambda place: described(place, "192.0.2.77"))
    assert outside_clients.describe_hosts([MACHINE], topology().nodes.values())[MACHINE].raw


def test_one_host_is_one_client() -> None:
    found = outside_clients.features((MACHINE,), [described(MACHINE, "192.0.2.1", "2001:db8::1")], Family)
    assert found[OUTSIDE].present
    assert not found[TWO_ADDRESSES].present
    assert found[TWO_ADDRESSES].ours
    assert found[RAW_SOCKETS].present
    assert outside_clients.features((MACHINE, FAR), [], Family)[TWO_ADDRESSES].present
    assert outside_clients.features((), [], Family)[OUTSIDE] == outside_clients.NO_OUTSIDE_CLIENT
    assert RAW_SOCKETS not in outside_clients.features((Place(Kind.DOCKER, "kind"),), [], Family)


def test_checks_of_a_family_that_a_host_has_not_are_unsupported_and_no_others() -> None:
    here = described(MACHINE, "192.0.2.1", "2001:db8::1", raw=False)
    found = outside_clients.features((MACHINE, FAR), [here, described(FAR, "192.0.2.2")], Family)
    present = {name: Feature(True, "") for name in ("family.ipv4", "family.ipv6", "sctp", "load-balancer")}

    def lacks(identity: str) -> set[str]:
        check = by_id(identity)
        return set(missing_features(check, {**dict.fromkeys(check.features, present["sctp"]), **present, **found}))

    assert lacks("nodeport.local.tcp.ipv6.outside-1-to-endpoint-node") == set()
    assert lacks("loadbalancer.local.source-ranges.tcp.ipv4.outside-2-to-vip") == set()
    assert lacks("loadbalancer.local.source-ranges.tcp.ipv6.outside-2-to-vip") == {f"{TWO_ADDRESSES}.ipv6"}
    assert lacks("nodeport.local.sctp.ipv4.outside-1-to-endpoint-node") == {RAW_SOCKETS}
    assert lacks("nodeport.local.sctp.ipv4.pod-on-other-node-to-endpoint-node") == set()


def test_nothing_is_asked_of_ssh_where_nobody_stands_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a command was run"))
    assert outside_clients.resolve("none", []) == ((), None)
    assert outside_clients.describe_hosts((Place(Kind.DOCKER, "kind"),), []) == {}
