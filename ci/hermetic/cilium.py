"""Cilium without a registry: its two images, and a node image that has them inside.

It stands apart from images.py, whose own text is a part of the node image's key: a change here costs no node image. The
images are put into nodes once, when the node image is made, and not each time into each node of a cluster: the agent's
has a compiler in it, and half a gigabyte.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ci.cilium import Chart
from ci.hermetic import apt, golang
from ci.hermetic.engine import Engine
from ci.hermetic.images import PATH_ENV, prune_images
from ci.hermetic.store import Store, key_of, need_space
from ci.step import Journal, SetupError, Step, output

NODE_NAME = "localhost/esipp/node-cilium"
AGENT, OPERATOR = "quay.io/cilium/cilium", "quay.io/cilium/operator-generic"
BUILD_GIGABYTES = 8.0
AGENT_GIGABYTES = 6.0  # each node gets its programs, and unpacks them
KEPT = 2  # node images beside the one in use: those of other versions
SCRIPTS = ("init-container.sh", "install-plugin.sh", "cni-uninstall.sh")
CONTAINER = "esipp-cilium-node-image"
# As the node image itself is filled (images.py): its containerd takes the images in, unpacked when they are first used.
TAKE_IN = (
    "containerd >/var/log/containerd-bake.log 2>&1 & "
    "for i in $(seq 150); do ctr version >/dev/null 2>&1 && break; sleep 0.2; done; "
    "ctr --namespace=k8s.io images import --label=io.cri-containerd.pinned=pinned "
    "--all-platforms --no-unpack --digests - || exit 1; kill %1; wait %1; rm -rf /run/containerd"
)


def names(version: str) -> tuple[str, str]:
    """The images as the chart of a version names them: the agent's and the operator's."""
    return f"{AGENT}:{version}", f"{OPERATOR}:{version}"


def node_image(base: str, version: str) -> str:
    """Name the node image by the one that it is made from, and by what is put into it."""
    parts = [golang.cilium(version).key, apt.rootfs_key("cilium"), Path(__file__)]
    return f"{NODE_NAME}:{key_of(base, *parts)}"


def chart(version: str, store: Store, journal: Journal) -> Chart:
    """Return helm and the chart, building helm if need be."""
    helm = golang.helm().get(store, journal)
    return Chart(helm / "helm", golang.cilium(version).get(store, journal) / "files" / "cilium")


def make(base: str, version: str, store: Store, engine: Engine, journal: Journal) -> str:
    """Make the node image if the engine does not have it; the engine must answer and have the one below."""
    image = node_image(base, version)
    if not store.fresh and engine.has_image(image):
        return image
    need_space(store.places.cache, BUILD_GIGABYTES, "putting Cilium into the node image")
    built = golang.cilium(version).get(store, journal)
    root = apt.root_file_system("cilium", store, journal)
    with journal.step(f"put Cilium {version} into the node image") as step:
        store.places.tmp.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="cilium-", dir=store.places.tmp) as folder:
            context = Path(folder)
            engine.docker(step, "import", "--change", PATH_ENV, root / "root.tar", rootfs())
            _agent(step, engine, built, version, context / "agent")
            _operator(step, engine, built, version, context / "operator")
            _take_in(step, engine, (base, image), names(version), context / "images.tar")
        engine.docker(step, "image", "rm", "--no-prune", rootfs(), *names(version))
    prune_images(engine, NODE_NAME, image, KEPT)
    return image


def agent(version: str, store: Store, engine: Engine, journal: Journal) -> str:
    """Make the agent's image of a version, for a cluster of another one; the engine must answer.

    It begins with a layer that the nodes have already, by the images of their own version.
    """
    need_space(store.places.cache, AGENT_GIGABYTES, "loading another version of Cilium into the nodes")
    built = golang.cilium(version).get(store, journal)
    root = apt.root_file_system("cilium", store, journal)
    with journal.step(f"make the image of Cilium {version}'s agent") as step:
        store.places.tmp.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="cilium-", dir=store.places.tmp) as folder:
            engine.docker(step, "import", "--change", PATH_ENV, root / "root.tar", rootfs())
            _agent(step, engine, built, version, Path(folder) / "agent")
        engine.docker(step, "image", "rm", "--no-prune", rootfs())
    prune_images(engine, AGENT, names(version)[0])
    return names(version)[0]


def rootfs() -> str:
    """Name the image of the root file system, which all of Cilium's images begin with."""
    return f"localhost/esipp/cilium-rootfs:{apt.rootfs_key('cilium')}"


def _agent(step: Step, engine: Engine, built: Path, version: str, context: Path) -> None:
    """Lay the agent's image out as Cilium's own build does, on Debian instead of its builder's images."""
    files = built / "files"
    for name in ("cilium-agent", "cilium-dbg", "cilium-mount"):
        place(built / name, context / "root/usr/bin" / name)
    place(built / "cilium-cni", context / "root/opt/cni/bin/cilium-cni")
    for name in SCRIPTS:
        place(files / name, context / "root" / name)
    shutil.copytree(files / "bpf", context / "root/var/lib/cilium/bpf", copy_function=shutil.copyfile)
    lines = [f"FROM {rootfs()}", "COPY root/ /", "RUN ln -s cilium-dbg /usr/bin/cilium", 'CMD ["/usr/bin/cilium-dbg"]']
    _build(step, engine, context, names(version)[0], lines)


def _operator(step: Step, engine: Engine, built: Path, version: str, context: Path) -> None:
    """One program, on the layer that the agent's image begins with: a node has that only once."""
    name = "cilium-operator-generic"
    place(built / name, context / "root/usr/bin" / name)
    lines = [f"FROM {rootfs()}", "COPY root/ /", f'CMD ["/usr/bin/{name}"]']
    _build(step, engine, context, names(version)[1], lines)


def _build(step: Step, engine: Engine, context: Path, image: str, lines: list[str]) -> None:
    (context / "Dockerfile").write_text("\n".join(lines) + "\n")
    engine.docker(step, "build", "--tag", image, context)


def _take_in(step: Step, engine: Engine, nodes: tuple[str, str], inside: Sequence[str], saved: Path) -> None:
    """Run a node's containerd to take the images in, and keep the result: from one node image to another."""
    base, image = nodes
    found = engine.ask("image", "inspect", "--format", "{{.Id}}", base)
    if not found:
        raise SetupError(f"There is no node image {base} to put Cilium into.", "run it again with --fresh", step.log)
    output(["docker", "rm", "--force", "--volumes", CONTAINER], env=engine.env)
    engine.docker(step, "save", "--output", saved, *inside)
    options = ["--interactive", "--name", CONTAINER, "--privileged", "--network=none", "--entrypoint=bash"]
    with saved.open("rb") as stream:
        engine.docker(step, "run", *options, base, "-c", TAKE_IN, stdin=stream)
    entry = 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]'
    engine.docker(step, "commit", "--change", entry, "--change", "CMD []", CONTAINER, image)
    engine.docker(step, "rm", "--force", "--volumes", CONTAINER)


def place(source: Path, target: Path) -> None:
    """Copy a program or script to where it can be run from."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
