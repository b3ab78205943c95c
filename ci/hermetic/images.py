"""Images of the hermetic path: the small base image, and the node image with everything a cluster runs inside."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

from ci.hermetic import apt, golang
from ci.hermetic.engine import Engine, lacks_sys_resource
from ci.hermetic.store import Store, key_of, need_space
from ci.places import CI
from ci.step import Journal, SetupError, Step, interrupt_children, output

NODE = CI / "hermetic" / "node"
BASE_NAME = "localhost/esipp/base"
NODE_NAME = "localhost/esipp/node"
KIND_PAUSE = "registry.k8s.io/pause:3.10"  # the sandbox image that kind's containerd configuration names
KUBE_PROXY = "registry.k8s.io/kube-proxy"  # the name that kubeadm gives it
COLD_GIGABYTES = 16.0
PATH_ENV = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Built:
    """What a hermetic cluster starts from."""

    node_image: str
    base_image: str
    kind: Path
    kubectl: Path
    metallb_manifest: Path


class Builder:
    """Builds, or finds built, everything for one Kubernetes version."""

    def __init__(self, kubernetes: str, store: Store, engine: Engine, journal: Journal) -> None:
        self.store, self.engine, self.journal = store, engine, journal
        self.kubernetes = golang.kubernetes(kubernetes)
        self.kind, self.metallb = golang.kind(), golang.metallb()
        self.others = [golang.containerd(), golang.etcd(), golang.coredns(), golang.pause()]
        self.base_image = f"{BASE_NAME}:{apt.rootfs_key('base')}"
        parts = [b.key for b in (self.kubernetes, self.kind, self.metallb, *self.others)]
        recipe = [NODE, Path(__file__), apt.rootfs_key("node"), self.base_image, lacks_sys_resource()]
        self.node_image = f"{NODE_NAME}:{kubernetes}-{key_of(parts, *recipe)}"

    def check(self) -> None:
        """Fail early where something will have to be built, and cannot be."""
        if any(not self.store.has(build.name, build.key) for build in (self.kind, self.kubernetes, self.metallb)):
            golang.find_go()
            need_space(self.store.places.cache, COLD_GIGABYTES, "building the cluster's parts")

    def all(self) -> Built:
        """Return what is needed to start a cluster; the engine must answer."""
        fresh = self.store.fresh
        whole = not fresh and self.engine.has_image(self.node_image) and self.engine.has_image(self.base_image)
        builds = [self.kind, self.kubernetes, self.metallb]
        builds += [] if whole else self.others
        missing = [build for build in builds if not self.store.has(build.name, build.key)]
        if missing:
            golang.find_go()
        # Go builds use every core already; bootstrapping waits for the network and runs beside them.
        with ThreadPoolExecutor() as pool:
            roots = None if whole else pool.submit(self._roots)
            try:
                folders = [build.get(self.store, self.journal) for build in builds]
            except BaseException:
                interrupt_children()  # do not wait for what is of no use any more
                raise
            if roots:
                base, node = roots.result()
        by_name = dict(zip((build.name for build in builds), folders, strict=True))
        if not whole:
            with self.journal.step("make the base image") as step:
                self._import(step, self.base_image, (base / "root.tar").open("rb"), PATH_ENV)
            with self.journal.step("make the node image") as step:
                self._node_image(step, by_name, node / "root.tar")
        self._prune()
        return Built(
            self.node_image,
            self.base_image,
            by_name["kind"] / "kind",
            by_name["kubernetes"] / "kubectl",
            by_name["metallb"] / "files" / "metallb-native.yaml",
        )

    def kube_proxy(self) -> str:
        """Make an image of kube-proxy of this version alone, and return its name; the base image must be there."""
        folder = golang.kube_proxy(self.kubernetes.version).get(self.store, self.journal)
        reference = f"{KUBE_PROXY}:{self.kubernetes.version}"
        with self.journal.step(f"make the image of kube-proxy {self.kubernetes.version}") as step:
            self._on_base(step, reference, folder / "kube-proxy")
        return reference

    def _roots(self) -> tuple[Path, Path]:
        base = apt.root_file_system("base", self.store, self.journal)
        return base, apt.root_file_system("node", self.store, self.journal)

    def _import(self, step: Step, reference: str, tar: io.BufferedIOBase, *changes: str) -> None:
        """Make an image of one layer from a tar stream."""
        options = [part for change in changes for part in ("--change", change)]
        command = ["docker", "import", *options, "-", reference]
        with tar, step.log.open("ab") as log:
            process = subprocess.Popen(command, env=self.engine.env, stdin=subprocess.PIPE, stdout=log, stderr=log)
            assert process.stdin
            with process.stdin:
                shutil.copyfileobj(tar, process.stdin, 1 << 20)
            if process.wait() != 0:
                raise SetupError(f"The image {reference} could not be imported.", "is the disk full?", step.log)

    def _program_image(self, step: Step, reference: str, program: Path) -> None:
        """Make an image of one static program."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(program, f"usr/local/bin/{program.name}")
        packed.seek(0)
        self._import(step, reference, packed, PATH_ENV, f'ENTRYPOINT ["/usr/local/bin/{program.name}"]')

    def _node_image(self, step: Step, programs: dict[str, Path], root: Path) -> None:
        wanted = output(
            [
                programs["kubernetes"] / "kubeadm",
                "config",
                "images",
                "list",
                "--kubernetes-version",
                self.kubernetes.version,
            ]
        )
        if not wanted:
            raise SetupError("kubeadm does not list the images it wants.", "run it again with --fresh", step.log)
        inside = self._component_images(step, programs, wanted.split())
        rootfs = f"{NODE_NAME}-rootfs:{apt.rootfs_key('node')}"
        self._import(step, rootfs, root.open("rb"), PATH_ENV)
        bare = f"{NODE_NAME}-bare:latest"
        with tempfile.TemporaryDirectory(prefix="node-", dir=self._tmp()) as folder:
            context = Path(folder)
            shutil.copy(NODE / "Dockerfile", context)
            self._fill(context / "root", programs)
            self.engine.docker(step, "build", "--tag", bare, "--build-arg", f"ROOTFS={rootfs}", context)
        self._bake(step, bare, inside)
        for image in (rootfs, bare, *inside):
            if image != self.base_image:
                self.engine.docker(step, "image", "rm", "--no-prune", image)

    def _component_images(self, step: Step, programs: dict[str, Path], wanted: list[str]) -> list[str]:
        """Make the images that kubeadm's and MetalLB's manifests name, under just these names."""
        made = [self.base_image]
        for reference in [*wanted, KIND_PAUSE, *_images_of(programs["metallb"] / "files" / "metallb-native.yaml")]:
            name = reference.rsplit("/", 1)[1].split(":")[0]
            if reference in made:
                continue
            if name == "kube-proxy":
                self._on_base(step, reference, programs["kubernetes"] / name)
            else:
                folder = next((f for f in programs.values() if (f / name).is_file()), None)
                if not folder:
                    raise SetupError(
                        f"No program is built for the image {reference}.", "see ci/hermetic/golang.py", step.log
                    )
                self._program_image(step, reference, folder / name)
            made.append(reference)
        return made

    def _on_base(self, step: Step, reference: str, program: Path) -> None:
        """Make an image of a program that needs iptables and nft beside it."""
        with tempfile.TemporaryDirectory(prefix="image-", dir=self._tmp()) as folder:
            context = Path(folder)
            shutil.copy(program, context)
            text = f'FROM {self.base_image}\nCOPY {program.name} /usr/local/bin/\nENTRYPOINT ["{program.name}"]\n'
            (context / "Dockerfile").write_text(text)
            self.engine.docker(step, "build", "--tag", reference, context)

    def _fill(self, root: Path, programs: dict[str, Path]) -> None:
        """Lay out what comes on top of the root file system, with the modes that kind's own build gives it."""
        shutil.copytree(programs["kind"] / "files" / "files", root)
        for path in [root, *root.rglob("*")]:
            executable = path.is_dir() or path.parent in (root / "usr/local/bin", root / "kind/bin")
            path.chmod(0o755 if executable else 0o644)
        for name in ("kubeadm", "kubelet", "kubectl"):
            _place(programs["kubernetes"] / name, root / "usr/bin" / name)
        for name in ("containerd", "ctr", "containerd-shim-runc-v2"):
            _place(programs["containerd"] / name, root / "usr/local/bin" / name)
        _place(NODE / "set-up-node", root / "kind" / "set-up-node")
        _place(NODE / "99-forwarding.conf", root / "etc/sysctl.d/99-forwarding.conf")
        _place(NODE / "default-storage.yaml", root / "kind/manifests/default-storage.yaml")
        (root / "kind/manifests/default-cni.yaml").write_text(self._addon())
        (root / "kind/version").write_text(self.kubernetes.version)
        if lacks_sys_resource():
            config = root / "etc/containerd/config.toml"
            text = config.read_text()
            config.write_text(text.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true"))

    def _addon(self) -> str:
        documents = list(yaml.safe_load_all((NODE / "network-addon.yaml").read_text()))
        for document in documents:
            if document["kind"] == "ConfigMap":
                document["data"]["network_addon.py"] = (NODE / "network_addon.py").read_text()
            elif document["kind"] == "DaemonSet":
                document["spec"]["template"]["spec"]["containers"][0]["image"] = self.base_image
        return yaml.safe_dump_all(documents, sort_keys=False)

    def _bake(self, step: Step, bare: str, inside: list[str]) -> None:
        """Load images into the node image's containerd, as kind's own image build does, and commit the result."""
        container = "esipp-node-image"
        docker, script = (
            self.engine.docker,
            (
                "containerd >/var/log/containerd-bake.log 2>&1 & "
                "for i in $(seq 150); do ctr version >/dev/null 2>&1 && break; sleep 0.2; done; "
                "ctr --namespace=k8s.io images import --label=io.cri-containerd.pinned=pinned "
                "--all-platforms --no-unpack --digests - || exit 1; kill %1; wait %1; rm -rf /run/containerd"
            ),
        )
        output(["docker", "rm", "--force", "--volumes", container], env=self.engine.env)
        with tempfile.TemporaryDirectory(prefix="bake-", dir=self._tmp()) as folder:
            images = Path(folder) / "images.tar"
            docker(step, "save", "--output", images, *inside)
            options = ["--interactive", "--name", container, "--privileged", "--network=none", "--entrypoint=bash"]
            with images.open("rb") as stream:
                docker(step, "run", *options, bare, "-c", script, stdin=stream)
        entry = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
        docker(step, "commit", "--change", entry, "--change", "CMD []", container, self.node_image)
        docker(step, "rm", "--force", "--volumes", container)

    def _tmp(self) -> Path:
        self.store.places.tmp.mkdir(parents=True, exist_ok=True)
        return self.store.places.tmp

    def _prune(self) -> None:
        """Keep the newest two of a kind, of Kubernetes of each version one; the engine's data is bounded likewise."""
        versions = len(golang.kubernetes_versions())
        self.store.prune({self.kubernetes.name: versions + 1})
        prune_images(self.engine, BASE_NAME, self.base_image)
        prune_images(self.engine, NODE_NAME, self.node_image, versions)
        output(["docker", "image", "prune", "--force"], env=self.engine.env, timeout=120)


def prune_images(engine: Engine, name: str, used: str, others: int = 1) -> None:
    """Remove all images of a name but the one in use and the newest of the others, as many as are said."""
    images = engine.ask("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", name)  # newest first
    for image in [i for i in images if i != used][others:]:
        output(["docker", "image", "rm", image], env=engine.env, timeout=60)


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _images_of(manifest: Path) -> list[str]:
    """List the images that a manifest's pods name."""
    images: list[str] = []
    for document in yaml.safe_load_all(manifest.read_text()):
        spec = (document or {}).get("spec", {}).get("template", {}).get("spec", {}) if document else {}
        images += [container["image"] for container in spec.get("containers", [])]
    return images
