"""Debian packages: programs for the machine, and root file systems from its package sources."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from ci.hermetic.store import Store, key_of
from ci.places import places
from ci.step import Journal, SetupError, output

# program -> the package that brings it
NEEDED = {
    "dockerd": "docker.io",
    "mmdebstrap": "mmdebstrap",
    "iptables": "iptables",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "tar": "tar",
}
# What our own tests run (tests/tools.py). They alone start an sshd, in a network namespace of their own.
TESTED_WITH = {
    **dict.fromkeys(("setpriv", "unshare", "nsenter"), "util-linux"),
    **dict.fromkeys(("ssh", "ssh-keygen"), "openssh-client"),
    **dict.fromkeys(("iptables", "ip6tables"), "iptables"),
    "chromium": "chromium",
    "haproxy": "haproxy",
    "ip": "iproute2",
    "jq": "jq",
    "kubectl": "kubernetes-client",
    "node": "nodejs",
    "openssl": "openssl",
    "pgrep": "procps",
    "sshd": "openssh-server",
    "tcpdump": "tcpdump",
}
PROGRAM_FOLDERS = "/usr/sbin:/sbin"  # beside those of PATH, which need not be root's
BASE_PACKAGES = ("python3", "iptables", "nftables", "conntrack", "iproute2", "tcpdump", "procps")
NODE_PACKAGES = (
    *("systemd", "systemd-sysv", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "kmod", "ipset"),
    *("util-linux", "mount", "hostname", "procps", "jq", "curl", "ca-certificates", "socat", "tcpdump"),
    *("libseccomp2", "runc", "containernetworking-plugins"),
)
BALANCER_PACKAGES = ("python3", "python3-pyroute2", "haproxy", "iproute2", "nftables")
ROUTER_PACKAGES = ("bird2", "iproute2")
# The agent compiles its programs on the node that they are for.
CILIUM_PACKAGES = (
    *("bash", "clang-19", "iptables", "ipset", "iproute2", "kmod", "bpftool", "mount", "util-linux", "procps"),
    "ca-certificates",
)
AGNHOST_PACKAGES = ("curl", "wget", "netcat-openbsd", "iproute2")  # what upstream's tests call in its image
SOURCES = Path("/etc/apt")
POLICY = Path("/usr/sbin/policy-rc.d")
POLICY_TEXT = "#!/bin/sh\n# esipp: the engine is started by ci/, in a network of its own\nexit 101\n"
UNUSED = ("doc", "man", "info", "locale", "lintian", "bug", "zoneinfo", "bash-completion")
# Runs on the machine with the root file system as $1: nothing of the machine's own sources may stay in it.
TIDY = """set -e
rm -rf "$1"/etc/apt/sources.list* "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/var/lib/apt/lists "$1"/var/cache/apt
rm -rf "$1"/var/cache/debconf "$1"/var/lib/dpkg/info/*.md5sums "$1"/var/log/*
"""
# kind looks for CNI plugins in /opt/cni/bin; the many others are left out.
NODE_PLUGINS = """set -e
mkdir -p "$1"/opt/cni/bin
for plugin in host-local loopback ptp portmap; do mv "$1"/usr/lib/cni/$plugin "$1"/opt/cni/bin/; done
rm -rf "$1"/usr/lib/cni
"""
# It calls the compiler by this name.
CLANG = 'ln -s clang-19 "$1"/usr/bin/clang'


def install_needed(journal: Journal) -> None:
    """Install what the hermetic path runs on this machine; an engine must not start in the machine's own network."""
    install(NEEDED, journal, "There is no docker engine with a registry here")


def install(needed: Mapping[str, str], journal: Journal, why: str) -> None:
    """Install the packages of programs that are not here, while no service may start; ``why``: if none can be."""
    if POLICY.is_file() and POLICY.read_bytes() == POLICY_TEXT.encode():
        POLICY.unlink()  # of a run that was killed here
    path = f"{os.environ.get('PATH', '')}:{PROGRAM_FOLDERS}"
    missing = sorted({package for program, package in needed.items() if not shutil.which(program, path=path)})
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise SetupError(
            f"{why}, and there is no apt-get to install {', '.join(missing)}.",
            "use Debian, or docker with access to a registry.",
        )
    ours = not POLICY.exists()
    with journal.step(f"install {', '.join(missing)}", hint="check that 'apt-get update' works.") as step:
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        try:
            if ours:
                POLICY.write_text(POLICY_TEXT)
                POLICY.chmod(0o755)
            step.run(["apt-get", "update"], env=env)
            if "docker.io" in missing and output(["apt-cache", "show", "docker-cli"]):
                missing.append("docker-cli")  # a package of its own from Debian 13 on
            step.run(["apt-get", "install", "--yes", "--no-install-recommends", *missing], env=env)
        finally:
            if ours:
                POLICY.unlink(missing_ok=True)


def root_file_system(name: str, store: Store, journal: Journal) -> Path:
    """Return the folder that holds `root.tar` of 'base', 'node', 'balancer', 'router', 'cilium' or 'agnhost'."""
    return store.get(f"rootfs-{name}", rootfs_key(name), lambda out: _bootstrap(name, out, journal))


def rootfs_key(name: str) -> str:
    """Hash the inputs: the package lists, but not the package sources."""
    packages, hooks = _recipe(name)
    return key_of(name, packages, hooks, UNUSED, _codename(), platform.machine())


def _recipe(name: str) -> tuple[tuple[str, ...], list[str]]:
    if name == "node":
        return NODE_PACKAGES, [NODE_PLUGINS, TIDY]
    if name == "cilium":
        return CILIUM_PACKAGES, [CLANG, TIDY]
    small = {"base": BASE_PACKAGES, "balancer": BALANCER_PACKAGES, "router": ROUTER_PACKAGES}
    return {**small, "agnhost": AGNHOST_PACKAGES}[name], [TIDY]


def _bootstrap(name: str, out: Path, journal: Journal) -> None:
    packages, hooks = _recipe(name)
    with journal.step(f"bootstrap the {name} root file system", hint="check that 'apt-get update' works.") as step:
        settings = out / "apt.conf"
        dump = output(["apt-config", "dump", "Acquire"]) or ""
        settings.write_text("\n".join(line for line in dump.splitlines() if not line.endswith(' "";')) + "\n")
        command: list[str | Path] = [
            "mmdebstrap",
            "--mode=root",
            "--variant=essential",
            f"--include={','.join(packages)}",
        ]
        command += ["--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", f"--aptopt={settings}"]
        command += [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in UNUSED]
        command += [f"--customize-hook={hook}" for hook in hooks]
        # mmdebstrap works in TMPDIR; ours is cleared when a killed run left something there.
        env = {**os.environ, "TMPDIR": str(out), "SOURCE_DATE_EPOCH": "0"}
        step.run([*command, _codename(), out / "root.tar", "-"], env=env, stdin=_sources().encode())
        settings.unlink()
        step.note = f"{(out / 'root.tar').stat().st_size // 1_000_000} MB"


def _codename() -> str:
    """Return the machine's own Debian release: its package sources are for that one."""
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip('"')
    raise SetupError(
        "This system does not state its Debian release.", "use Debian, or docker with access to a registry."
    )


def _sources() -> str:
    """Collect the machine's package sources for this Debian release, in both forms, as one-line entries."""
    wanted = {_codename() + suffix for suffix in ("", "-updates", "-security")}
    entries: list[str] = []
    for path in [SOURCES / "sources.list", *sorted((SOURCES / "sources.list.d").glob("*.list"))]:
        if path.is_file():
            entries += [line for line in path.read_text().splitlines() if line.startswith("deb ")]
    for path in sorted((SOURCES / "sources.list.d").glob("*.sources")):
        for stanza in path.read_text().split("\n\n"):
            entries += _one_line(stanza)
    selected = [entry for entry in entries if _main_suite(entry) in wanted]
    if not selected:
        raise SetupError(
            f"The package sources of this machine lack {_codename()} main.", "see /etc/apt/sources.list.d."
        )
    return "\n".join(dict.fromkeys(selected)) + "\n"


def _one_line(stanza: str) -> list[str]:
    lines = [line for line in stanza.splitlines() if line and not line.startswith("#") and not line[0].isspace()]
    fields = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes") == "no":
        return []
    signed = f"[signed-by={fields['signed-by']}] " if fields.get("signed-by", "").startswith("/") else ""
    return [
        f"deb {signed}{uri} {suite} {fields.get('components', '')}"
        for uri in fields.get("uris", "").split()
        for suite in fields.get("suites", "").split()
    ]


def _main_suite(entry: str) -> str | None:
    fields = entry.split("]", 1)[-1].split() if "[" in entry else entry.split()[1:]
    return fields[1] if len(fields) > 2 and "main" in fields[2:] else None


def main() -> int:
    """Install the programs of the suite's tests, if permitted; for tests without them see tests/tools.py."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        try:
            install(TESTED_WITH, Journal(places().logs), "Some tests need programs that are not here")
        except SetupError as error:
            print(error, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
