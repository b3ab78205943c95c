"""Builds of programs from Go modules pinned by go.sum."""

import os
import platform
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.hermetic.store import Store, key_of
from ci.places import CI, versions
from ci.step import Journal, SetupError, Step, guarded, output

MODULES = CI / "hermetic" / "modules"


@dataclass(frozen=True)
class Build:
    """Programs of one module: program name -> package, plus files of its source tree to keep."""

    name: str
    folder: Path
    module: str
    version: str
    programs: dict[str, str]
    tags: str = ""
    defines: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # paths in the module, kept under files/
    apart: bool = False  # each version is a kind of artifact: lanes take turns with several
    c: bool = False  # parts of it are in C: a compiler and libc's static library have to be there

    @property
    def kind(self) -> str:
        """The kind of artifact, of which the cache keeps the newest ones."""
        return f"{self.name}-{self.version}" if self.apart else self.name

    @property
    def key(self) -> str:
        """Hash what goes in."""
        more = ["C"] if self.c else []
        return key_of(self.folder, self.programs, self.tags, self.defines, self.files, platform.machine(), *more)

    def get(self, store: Store, journal: Journal) -> Path:
        """Return the folder with the programs, building them if need be."""
        return store.get(self.kind, self.key, lambda out: self._build(out, journal))

    def _build(self, out: Path, journal: Journal) -> None:
        go = find_go()
        hint = "is the Go module proxy reachable (go env GOPROXY), and is the Go that is installed new enough?"
        with journal.step(f"build {self.name} {self.version or ''}".strip() + " from its Go module", hint=hint) as step:
            self._check_version()
            env = {**os.environ, "CGO_ENABLED": str(int(self.c)), "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
            static = ["-extldflags=-static"] if self.c else []
            flags = " ".join(["-s", "-w", *static, *(f"-X {define}" for define in self.defines)])
            base = [go, "build", "-v", "-trimpath", "-mod=readonly", "-tags", self.tags, "-ldflags", flags]
            # One command for all packages of a module links them side by side; only a major version's
            # folder (…/server/v3) gives a program another name than its package has.
            odd = {name: package for name, package in self.programs.items() if package.rsplit("/", 1)[-1] != name}
            if even := [package for name, package in self.programs.items() if name not in odd]:
                step.run([*base, "-o", f"{out}/", *even], cwd=self.folder, env=env)
            for name, package in odd.items():
                step.run([*base, "-o", out / name, package], cwd=self.folder, env=env)
            self._keep_files(step, go, out)

    def _keep_files(self, step: Step, go: str, out: Path) -> None:
        if not self.files:
            return
        found = output([go, "-C", self.folder, "list", "-m", "-f", "{{.Dir}}", self.module], timeout=120)
        if not found:
            raise SetupError(
                f"The source folder of {self.module} was not found.", "go clean -modcache and run again", step.log
            )
        for name in self.files:
            source, target = Path(found.strip()) / name, out / "files" / Path(name).name
            target.parent.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, copy_function=shutil.copyfile)  # the module cache is read-only
            else:
                shutil.copyfile(source, target)

    def _check_version(self) -> None:
        if not self.module:
            return
        pattern = rf"^(?:require )?\s*{re.escape(self.module)} (v\S+)"
        found = re.search(pattern, (self.folder / "go.mod").read_text(), re.MULTILINE)
        if not found or found[1] != self.version:
            raise SetupError(
                f"ci/versions.toml requires {self.module} {self.version}, but its go.mod {found and found[1]}.",
                f"cd {self.folder.relative_to(CI.parent)} && go get {self.module}@{self.version} && go mod tidy",
            )


def find_go() -> str:
    """Return the Go to build with."""
    go = shutil.which("go")
    if not go:
        raise SetupError(
            "There is no docker engine with a registry, and no Go to build the cluster's programs.",
            "install Go 1.26 or newer, or docker with access to a registry.",
        )
    found = re.search(r"go1\.(\d+)", output([*guarded([go]), "version"]) or "")
    if not found or int(found[1]) < 21:  # from 1.21 on it fetches the toolchain that go.mod asks for
        raise SetupError("The Go installed here is too old.", "install Go 1.26 or newer")
    return go


def kubernetes_versions() -> list[str]:
    """List the versions of Kubernetes that have a module folder."""
    return _versions_of("kubernetes")


def cilium_versions() -> list[str]:
    """List the versions of Cilium that have a module folder."""
    return _versions_of("cilium")


def _versions_of(name: str) -> list[str]:
    return sorted(path.name for path in (MODULES / name).iterdir() if path.is_dir())


def _folder_of(name: str, version: str) -> Path:
    """The module folder of a version.

    Raises:
        SetupError: there is none.
    """
    if version not in _versions_of(name):
        raise SetupError(
            f"{name.capitalize()} {version} has no Go module in ci/hermetic/modules/{name}/.",
            f"available: {', '.join(_versions_of(name))}",
        )
    return MODULES / name / version


def kubernetes(version: str) -> Build:
    """Programs of Kubernetes."""
    names = ("kubeadm", "kubectl", "kubelet", "kube-apiserver", "kube-controller-manager", "kube-proxy",
             "kube-scheduler")  # fmt: skip
    return _of_kubernetes("kubernetes", version, names)


def kube_proxy(version: str) -> Build:
    """kube-proxy alone, beside a cluster of another version."""
    return _of_kubernetes("kube-proxy", version, ("kube-proxy",))


def _of_kubernetes(name: str, version: str, programs: Sequence[str]) -> Build:
    """Programs of Kubernetes; the version is linked in, as its own build does."""
    folder = _folder_of("kubernetes", version)
    major, minor, _ = version.removeprefix("v").split(".")
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "archive"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    packages_of = {each: f"k8s.io/kubernetes/cmd/{each}" for each in programs}
    defines = tuple(f"{package}.{fact}={value}" for package in packages for fact, value in facts.items())
    return Build(name, folder, "k8s.io/kubernetes", version, packages_of, defines=defines)


def _pinned(name: str, module: str, programs: dict[str, str], **more: Any) -> Build:
    """Programs of the module in modules/NAME, in the version that ci/versions.toml names."""
    return Build(name, MODULES / name, module, versions()[name]["version"], programs, **more)


def kind() -> Build:
    """kind, and the base files of its node image."""
    return _pinned("kind", "sigs.k8s.io/kind", {"kind": "sigs.k8s.io/kind"}, files=("images/base/files",))


def containerd() -> Build:
    """containerd 2, which newer kubelets need; without snapshotters that need missing headers or kernels."""
    module = "github.com/containerd/containerd/v2"
    programs = {name: f"{module}/cmd/{name}" for name in ("containerd", "ctr", "containerd-shim-runc-v2")}
    return _pinned("containerd", module, programs, tags="no_aufs,no_btrfs,no_devmapper,no_zfs")


def etcd() -> Build:
    """The etcd server."""
    module = "go.etcd.io/etcd/server/v3"
    return _pinned("etcd", module, {"etcd": module})


def coredns() -> Build:
    """CoreDNS with the plugins for a cluster without an uplink; a build with all plugins takes half as long again."""
    return _pinned("coredns", "github.com/coredns/coredns", {"coredns": "."})


def metallb() -> Build:
    """MetalLB's two programs and its manifest."""
    module = "go.universe.tf/metallb"
    programs = {name: f"{module}/{name}" for name in ("controller", "speaker")}
    return _pinned("metallb", module, programs, files=("config/manifests/metallb-native.yaml",))


def flannel() -> Build:
    """flanneld, the program that puts its CNI configuration into place, and its manifest.

    On amd64, its UDP backend has parts in C. No lane uses that backend, but flanneld cannot be built without it.
    """
    module = "github.com/flannel-io/flannel"
    return _pinned(
        "flannel",
        module,
        {"flanneld": module, "install-conf": f"{module}/cmd/install_conf"},
        tags="netgo,osusergo",
        defines=(f"{module}/pkg/version.Version={versions()['flannel']['version']}",),
        files=("Documentation/kube-flannel.yml",),
        c=platform.machine() == "x86_64",
    )


def cni_plugins() -> Build:
    """CNI's bridge plugin, which kind's node images lack."""
    module = "github.com/containernetworking/plugins"
    return _pinned("cni-plugins", module, {"bridge": f"{module}/plugins/main/bridge"})


def cilium_module(version: str) -> Path:
    """The folder of the Go module that pins a version of Cilium.

    Raises:
        SetupError: there is none.
    """
    return _folder_of("cilium", version)


def cilium(version: str) -> Build:
    """Cilium's programs, its BPF sources, scripts and chart.

    Cilium's go.mod replaces modules by forks, most of which module proxies lack. Only a main module's replacements
    apply, so this project's modules build it with the original ones, except for a replacement that their go.mod names.
    """
    module, folder = "github.com/cilium/cilium", cilium_module(version)
    label = f"{version.removeprefix('v')} {versions()['cilium']['commits'][version]}"  # as its own build does
    programs = {
        "cilium-agent": f"{module}/daemon",
        "cilium-operator-generic": f"{module}/operator",
        "cilium-cni": f"{module}/plugins/cilium-cni",
        "cilium-dbg": f"{module}/cilium-dbg",
        "cilium-mount": f"{module}/tools/mount",
    }
    files = ("install/kubernetes/cilium", "bpf", "images/cilium/init-container.sh",
             "plugins/cilium-cni/install-plugin.sh", "plugins/cilium-cni/cni-uninstall.sh")  # fmt: skip
    defines = (f"'{module}/pkg/version.ciliumVersion={label}'",)
    tags = "osusergo,ipam_provider_operator"
    return Build("cilium", folder, module, version, programs, tags, defines, files, apart=True)


def helm() -> Build:
    """helm, which renders Cilium's chart."""
    return _pinned("helm", "helm.sh/helm/v3", {"helm": "helm.sh/helm/v3/cmd/helm"})


def pause() -> Build:
    """The process that holds a pod's namespaces; upstream's is a C program, this is as much in Go."""
    return Build("pause", MODULES / "pause", "", "", {"pause": "."})
