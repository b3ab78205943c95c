"""A docker engine in a network namespace without an uplink: no packet of a test can leave the machine.

The engine also has its own mount namespace, so its mounts end with its last process.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import IO

from ci.memory import processes, tree
from ci.places import CI, Places
from ci.polling import until
from ci.step import Journal, SetupError, Step, output

CAP_SYS_RESOURCE = 24
# A node's systemd, containerd and kubelet open about 25 inotify instances; the kernel's default of 128 a user is used
# up by four nodes and an editor, and the kubelets then fail in ways that do not say so.
INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_WANTED = 1024
START_SECONDS = 40.0
STOP_SECONDS = 20.0
KILL_SECONDS, CGROUP_SECONDS = 5.0, 5.0


def lacks_sys_resource() -> bool:
    """Say whether containers can be given CAP_SYS_RESOURCE here."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapBnd:"):
            return not int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1
    return False


class Engine:
    """The engine of one cache folder; `prefix` and `env` reach it."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.data = places.cache / "engine"
        self.config = places.run / "engine.json"
        self.socket = places.run / "docker.sock"
        self.pidfile = places.run / "engine.pid"
        self.exec_root = places.run / "exec"
        self.name = places.run.name  # of the network namespace and the cgroup
        self.netns = Path("/run/netns") / self.name
        self.prefix = ["nsenter", f"--net={self.netns}", "--"]
        self.bin = places.run / "bin"
        self.kubeconfig = places.run / "kubeconfig"

    @property
    def env(self) -> dict[str, str]:
        """Environment in which docker, kind and kubectl find the hermetic cluster and nothing else."""
        dropped = ("DOCKER_", "KUBE", "KIND_")
        proxies = {"http_proxy", "https_proxy", "no_proxy", "all_proxy"}
        environment = {k: v for k, v in os.environ.items() if not k.startswith(dropped) and k.lower() not in proxies}
        environment["PATH"] = f"{self.bin}:{environment.get('PATH', '')}:/usr/sbin:/sbin"
        return {
            **environment,
            "DOCKER_HOST": f"unix://{self.socket}",
            "DOCKER_CONFIG": str(self.places.run / "docker-config"),
            "DOCKER_BUILDKIT": "0",  # Debian's engine is built without the other builder's client
            "KUBECONFIG": str(self.kubeconfig),
        }

    def lives(self) -> bool:
        """Whether the engine's process runs; faster than a query to the engine."""
        with contextlib.suppress(OSError, ValueError):
            return str(self.config).encode() in Path(f"/proc/{int(self.pidfile.read_text())}/cmdline").read_bytes()
        return False

    def answers(self) -> bool:
        """Say whether the engine is up."""
        return self.socket.exists() and output(["docker", "version"], env=self.env, timeout=10) is not None

    def start(self, journal: Journal) -> None:
        """Start the engine and wait until it answers."""
        hint = f"is this root in a container that may not mount or use cgroups? see {self.places.logs}"
        with journal.step("start the docker engine in its own network namespace", hint=hint) as step:
            self._prepare(step)
            # A containerd of the machine would be used instead of the engine's own, and live in another network
            # namespace: hide it. The same for /run/docker, which the engine would leave behind.
            hide = "mkdir -p /run/containerd /run/docker && mount -t tmpfs none /run/containerd && "
            hide += 'mount -t tmpfs none /run/docker && exec "$@"'
            argv = [*self.prefix, "unshare", "--mount", "sh", "-c", hide, "sh"]
            argv += ["dockerd", "--config-file", str(self.config)]
            with step.log.open("ab") as log:
                process = subprocess.Popen(
                    argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            until(lambda: self.answers() or process.poll() is not None, START_SECONDS)
            if not self.answers():
                process.kill()
                raise SetupError("The docker engine did not start.", hint, step.log)

    def _prepare(self, step: Step) -> None:
        for folder in (self.data, self.places.run, self.bin, self.places.run / "docker-config"):
            folder.mkdir(parents=True, exist_ok=True)
        if not self.netns.exists():
            step.run(["ip", "netns", "add", self.name])
        self._raise_inotify(step)
        step.run(["ip", "-n", self.name, "link", "set", "lo", "up"])
        # A second docker client on PATH may be newer than the engine and lack its classic builder.
        docker = self.bin / "docker"
        docker.unlink(missing_ok=True)
        docker.symlink_to("/usr/bin/docker" if Path("/usr/bin/docker").exists() else shutil.which("docker") or "docker")
        config: dict[str, object] = {
            "data-root": str(self.data),
            "exec-root": str(self.exec_root),
            "pidfile": str(self.pidfile),
            "hosts": [f"unix://{self.socket}"],
            "cgroup-parent": f"/{self.name}",
        }
        if lacks_sys_resource():
            wrapper = self.places.run / "runc-wrapper"
            shutil.copy(CI / "hermetic" / "runc-wrapper", wrapper)
            config |= {"runtimes": {"softened": {"path": str(wrapper)}}, "default-runtime": "softened"}
        self.config.write_text(json.dumps(config, indent=1))

    def _raise_inotify(self, step: Step) -> None:
        """Raise the machine's limit for as long as the engine runs; `stop` sets it back."""
        before = int(INOTIFY.read_text())
        if before < INOTIFY_WANTED:
            (self.places.run / "inotify").write_text(str(before))
            INOTIFY.write_text(str(INOTIFY_WANTED))
            step.note = f"fs.inotify.max_user_instances {before} -> {INOTIFY_WANTED} for as long as it runs"

    def _lower_inotify(self) -> None:
        """Restore the limit, unless another engine of this project still needs it."""
        noted = self.places.run / "inotify"
        with contextlib.suppress(OSError, ValueError):
            before = int(noted.read_text())
            others = [run for run in _engines() if run != self.places.run]
            if others:
                (others[0] / "inotify").write_text(str(before))
            else:
                INOTIFY.write_text(str(before))
            noted.unlink()

    def docker(self, step: Step, *args: str | Path, stdin: IO[bytes] | bytes | None = None) -> None:
        """Run a docker command against this engine."""
        step.run(["docker", *args], env=self.env, stdin=stdin)

    def ask(self, *args: str) -> list[str]:
        """Return the lines a quick docker query prints; none when it fails."""
        return (output(["docker", *args], env=self.env, timeout=60) or "").split()

    def has_image(self, reference: str) -> bool:
        """Say whether the engine has an image."""
        return bool(self.ask("image", "inspect", "--format", "{{.Id}}", reference))

    def remove_containers(self) -> int:
        """Remove every container of this engine."""
        old = self.ask("ps", "--all", "--quiet")
        if old:
            output(["docker", "rm", "--force", "--volumes", *old], env=self.env, timeout=120)
        output(["docker", "network", "prune", "--force"], env=self.env)
        output(["docker", "volume", "prune", "--force"], env=self.env)
        return len(old)

    def stop(self) -> None:
        """Stop the engine with everything it runs, and remove its namespace, cgroups, mounts and run folder."""
        if self.answers():
            self.remove_containers()
        for pid in self._pids():
            if _is_dockerd(pid):
                _end(pid, signal.SIGTERM)
        until(lambda: not any(_is_dockerd(pid) for pid in self._pids()), STOP_SECONDS)
        until(
            self._killed, KILL_SECONDS
        )  # shims and what they run, when the engine was killed before it could end them
        _unmount_below(self.places.run, self.data)
        self.empty_tmp()
        if self.netns.exists():
            subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)
        remove_cgroups(self.name)
        self._lower_inotify()
        for name in ("exec", "bin", "docker-config", "load-balancer", "router"):
            shutil.rmtree(self.places.run / name, ignore_errors=True)
        for path in (self.config, self.socket, self.pidfile, self.kubeconfig, self.places.cluster_file):
            path.unlink(missing_ok=True)
        for name in ("runc-wrapper", "kind.yaml"):
            (self.places.run / name).unlink(missing_ok=True)

    def empty_tmp(self) -> None:
        """Remove what is half-built, and nothing that is mounted into it."""
        if still := _unmount_below(self.places.tmp):
            raise SetupError(f"{still[0]} is still mounted.", f"umount {still[0]}, then run it again")
        shutil.rmtree(self.places.tmp, ignore_errors=True)

    def leftovers(self) -> bool:
        """Say whether an earlier engine, or the traces of one, are here."""
        return bool(self._pids()) or self.netns.exists() or self.socket.exists() or self.pidfile.exists()

    def _killed(self) -> bool:
        """Kill what is left, and say whether nothing was."""
        pids = self._pids()
        for pid in pids:
            _end(pid, signal.SIGKILL)
        return not pids

    def _pids(self) -> list[int]:
        """List processes started here: programs of the engine and builds with this project's folders on their command
        line, and their children.
        """
        marks = (f"{self.places.run}/", f"{self.places.tmp}/")
        programs = ("dockerd", "containerd", "containerd-shim-runc-v2", "docker-proxy", "runc", "perl", "go")
        found = {each.pid: each for each in processes()}
        ours = [pid for pid, each in found.items() if each.command[0].rsplit("/", 1)[-1] in programs
                and any(mark in part for mark in marks for part in each.command[1:])]  # fmt: skip
        return sorted({each.pid for each in tree(ours, found)} - {os.getpid()})


def _engines() -> list[Path]:
    """List the run folders of all running engines of this project on this machine."""
    dockerds = (each.command for each in processes() if each.command[0].endswith("dockerd"))
    configs = (Path(each[each.index("--config-file") + 1]) for each in dockerds if "--config-file" in each[:-1])
    return [config.parent for config in configs if config.name == "engine.json"]


def _is_dockerd(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].rsplit(b"/", 1)[-1] == b"dockerd"
    return False


def _end(pid: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, how)


def _mounts_below(folders: tuple[Path, ...]) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    below = [point for point in points if any(point.startswith(f"{folder}/") for folder in folders)]
    return sorted(below, key=len, reverse=True)


def _unmount_below(*folders: Path) -> list[str]:
    """Unmount leftovers of killed builds or engines, innermost first; return mounts that remain."""
    for point in _mounts_below(folders):
        subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)
    return _mounts_below(folders)


def remove_cgroups(name: str) -> None:
    """Remove the empty cgroups that killed containers leave in every hierarchy; one frees itself a moment late."""
    tops = [root / name for root in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*/"))]

    def removed() -> bool:
        for top in tops:
            below = [path for path in top.rglob("*") if path.is_dir()] if top.is_dir() else []
            for folder in [*sorted(below, key=lambda path: -len(path.parts)), top]:
                with contextlib.suppress(OSError):
                    folder.rmdir()
        return not any(top.is_dir() for top in tops)

    until(removed, CGROUP_SECONDS, 0.05)
