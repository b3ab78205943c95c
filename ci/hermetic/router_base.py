"""What the router's image begins from: BIRD and iproute2; as balancer_base.py, and apart for the same reason."""

from __future__ import annotations

from ci.hermetic import apt
from ci.hermetic.engine import Engine
from ci.hermetic.images import PATH_ENV, prune_images
from ci.hermetic.store import Store
from ci.step import Journal

NAME = "localhost/esipp/router-base"


def reference() -> str:
    """Name the image by the packages that are in it."""
    return f"{NAME}:{apt.rootfs_key('router')}"


def make(store: Store, engine: Engine, journal: Journal) -> str:
    """Make the image if the engine does not have it, and return its reference; the engine must answer."""
    image = reference()
    if store.fresh or not engine.has_image(image):
        root = apt.root_file_system("router", store, journal)
        with journal.step("make the router's base image") as step:
            engine.docker(step, "import", "--change", PATH_ENV, root / "root.tar", image)
        prune_images(engine, NAME, image)
    return image
