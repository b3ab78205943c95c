"""The container of a kind node as a machine that is switched off and on, and what has to outlive that.

Docker gives a container that starts its own addresses of its network, and no others. A real machine has its addresses
from its configuration: a unit of systemd stands for that.
"""

import json
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.probing.docker import docker, why
from esipp.probing.node_containers import run

_ADDRESSES, _UNIT = "/etc/esipp-addresses", "/etc/systemd/system/esipp-addresses.service"
_WANTED = "/etc/systemd/system/multi-user.target.wants/esipp-addresses.service"
_GONE = f"rm -f {_WANTED} {_UNIT} {_ADDRESSES}"
_FORGET = "systemd-run --no-block --collect --property=After=esipp-addresses.service systemctl daemon-reload"
"""systemd forgets a unit without a file only once that has ended."""

KEEP = f"""set -e
ip -o address show scope global | awk '
  $2 !~ /^(veth|lxc|cilium)/ {{
    more = / deprecated / ? " nodad valid_lft forever preferred_lft 0" : ($3 == "inet6" ? " nodad" : "")
    print "address add", $4, "dev", $2 more
  }}' >{_ADDRESSES}
cat >{_UNIT} <<'END'
[Unit]
Description=The further addresses of this node, as before it was switched off
Before=kubelet.service containerd.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'ip -force -batch {_ADDRESSES} 2>/dev/null; {_GONE}; {_FORGET}'
END
mkdir -p {_WANTED.rpartition("/")[0]}
ln -sf {_UNIT} {_WANTED}
"""
"""Addresses that the node has anyway are refused, and stay as they are."""


@dataclass(frozen=True)
class State:
    """Whether a container runs, when it was started, and its addresses."""

    running: bool
    started: str
    addresses: tuple[str, ...]


NOWHERE = State(False, "", ())


def state_of(container: str) -> State:
    """The state of a container.

    Raises:
        HarnessError: docker does not know it.
    """
    found: Json = json.loads(_docker("Cannot inspect", "inspect", "--type", "container", container))[0]
    state, networks = found["State"], (found["NetworkSettings"].get("Networks") or {}).values()
    addresses = [each.get(key) for each in networks for key in ("IPAddress", "GlobalIPv6Address")]
    return State(bool(state["Running"]), str(state["StartedAt"]), tuple(each for each in addresses if each))


def keep_addresses(way: Sequence[str]) -> None:
    """Have a node give itself all its addresses when it boots, once.

    Raises:
        HarnessError: it cannot.
    """
    done = run(way, KEEP)
    if done.returncode != 0:
        raise HarnessError(
            f"Cannot keep the addresses of a node: {done.stderr.strip()[:300]}", "check that this is a node of kind."
        )


def start_later(container: str, before: State, seconds: float) -> "subprocess.Popen[bytes]":
    """Start a container after some seconds unless it was started meanwhile, by a process that outlives this one."""
    same = f"docker inspect --format '{{{{.State.StartedAt}}}}' {shlex.quote(container)}"
    script = f'sleep {seconds:.0f}; [ "$({same})" != {shlex.quote(before.started)} ] || docker start '
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        ["sh", "-c", script + shlex.quote(container)], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )


def forget(later: "subprocess.Popen[bytes]") -> None:
    """End what would start a container later."""
    later.kill()
    later.wait()


def kill(container: str) -> None:
    """End all processes of a container at once.

    Raises:
        HarnessError: docker failed.
    """
    _docker("Cannot kill", "kill", container)


def start(container: str) -> None:
    """Start a container; one that runs stays as it is.

    Raises:
        HarnessError: docker failed.
    """
    if not state_of(container).running:
        _docker("Cannot start", "start", container)
        return
    # it was never killed, or is up for long enough to have its addresses
    run(("docker", "exec", container), f"! systemctl is-active --quiet multi-user.target || {_GONE}")


def _docker(cannot: str, *arguments: str) -> str:
    done = docker(*arguments)
    if done.returncode != 0:
        raise HarnessError(f"{cannot} container {arguments[-1]}: {why(done.stderr)}", "see 'docker ps --all'.")
    return done.stdout
