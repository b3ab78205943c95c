"""flannel without a registry: its image, and an image of its CNI plugin, which is imitated.

The images are loaded into each cluster's nodes, as the echo image is: they lie on the base image, which nodes have.
"""

import tempfile
from pathlib import Path

from ci.flannel import Flannel, called, documents_of, images_of
from ci.hermetic import apt, golang
from ci.hermetic.cilium import place
from ci.hermetic.engine import Engine
from ci.hermetic.store import Store
from ci.step import Journal

PLUGIN = Path(__file__).parent / "flannel_cni" / "flannel"
COMPILER = {"gcc": "gcc", "gencat": "libc6-dev"}  # the package brings libc's static library, and with another, gencat


def make(base: str, store: Store, engine: Engine, journal: Journal) -> Flannel:
    """Make flannel's images on the base image; the engine must answer and have that one."""
    build = golang.flannel()
    if build.c and not store.has(build.kind, build.key):
        apt.install(COMPILER, journal, "flannel has parts in C")
    built = build.get(store, journal)
    manifest = built / "files" / "kube-flannel.yml"
    own, plugin = images_of(documents_of(manifest))
    with journal.step("make flannel's images") as step:
        store.places.tmp.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="flannel-", dir=store.places.tmp) as folder:
            programs = {f"opt/bin/{name}": built / name for name in build.programs}
            for image, files in ((own, programs), (plugin, {PLUGIN.name: PLUGIN})):
                context = Path(folder) / image.replace("/", "-")
                for target, source in files.items():
                    place(source, context / "root" / target)
                (context / "Dockerfile").write_text(f"FROM {base}\nCOPY root/ /\n")
                engine.docker(step, "build", "--tag", image, context)
    return Flannel(manifest, called(store, journal), (own,), plugin)
