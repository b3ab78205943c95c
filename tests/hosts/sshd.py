"""sshd in network namespaces, each with a name and mounts of its own, and a configuration of ssh that knows them."""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ci.step import guarded
from tests.echoserver.harness import PATIENCE, Process
from tests.echoserver.namespaces import Namespace, within

SSH_TOOLS = ("sshd", "ssh", "ssh-keygen")

KEY, OTHER, BARE = "key", "other", "bare"
"""Keys for IdentityFile: one that is let in, one that is not, one that is let in and finds no python3 on its PATH."""

THERE = "/mnt"  # where a host sees the folder of its keys
HOME = pwd.getpwuid(0).pw_dir
SCRATCH = ("/run", "/tmp", "/var/tmp", "/dev/shm", HOME)  # noqa: S108 - of the host alone
"""Where something could be written on a host; all else is read-only."""

SSHD_CONFIG = f"""
Port 22
HostKey {THERE}/host
AuthorizedKeysFile {THERE}/authorized
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AcceptEnv none
"""
BARE_COMMAND = r'command="PATH=/nowhere; eval \"$SSH_ORIGINAL_COMMAND\""'

ALONE = """set -e
mount --bind "$1" "$2"
mount -o remount,bind,ro "$2"
hostname "$3"
shift 3
while [ "$1" != -- ]; do mount -t tmpfs none "$1"; shift; done
mount -o remount,bind,ro /
mkdir /run/sshd
shift
exec "$@"
"""


def prepare(folder: Path, known: Iterable[str], config: str) -> dict[str, str]:
    """Make keys and configurations in a folder; the environment in which ``ssh`` goes by them and by no other.

    Args:
        folder: theirs.
        known: the names under which ssh knows the hosts' key, which is the same one everywhere.
        config: ssh's configuration.
    """
    for name in ("host", KEY, OTHER, BARE):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    public = {name: (folder / f"{name}.pub").read_text() for name in ("host", KEY, BARE)}
    (folder / "known").write_text("".join(f"{name} {public['host']}" for name in known))
    (folder / "authorized").write_text(f"{public[KEY]}{BARE_COMMAND} {public[BARE]}")
    (folder / "sshd_config").write_text(SSHD_CONFIG)
    (folder / "ssh_config").write_text(config)
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    wrapper.chmod(0o755)
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}


class Sshd(Process):
    """sshd in a namespace, by the keys of a folder; ready once constructed, and gone with this process.

    It has a host name of its own and sees a file system in which only ``SCRATCH`` can be written, empty at first.
    """

    def __init__(self, namespace: Namespace, folder: Path, hostname: str) -> None:
        self.namespace = namespace
        apart = ["unshare", "--mount", "--uts", "--", "sh", "-c", ALONE, "sh", str(folder), THERE, hostname]
        daemon = [str(shutil.which("sshd")), "-D", "-e", "-f", f"{THERE}/sshd_config"]
        super().__init__(guarded([*namespace.prefix, *apart, *SCRATCH, "--", *daemon]))
        try:
            self.wait_for(lambda line: "Server listening on ::" in line.get("not json", ""))
        except BaseException:
            self.stop()
            raise
        self.at_first = self._files()

    def others(self) -> set[int]:
        """The processes on the host beside sshd itself: its sessions, and what these run."""
        return within(self.namespace.name) - {self.process.pid}

    def until_alone(self) -> bool:
        """Wait until nothing but sshd itself runs there; whether that came."""
        for pid in self.others():
            with contextlib.suppress(ProcessLookupError):
                handle = os.pidfd_open(pid)
                try:
                    select.select([handle], [], [], PATIENCE)
                finally:
                    os.close(handle)
        return not self.others()

    def files(self) -> list[str]:
        """All that lies where something can be written, and did not when sshd began."""
        return sorted(self._files() - self.at_first)

    def _files(self) -> set[str]:
        root = Path(f"/proc/{self.process.pid}/root")
        return {f"/{each.relative_to(root)}" for top in SCRATCH for each in (root / top.lstrip("/")).rglob("*")}
