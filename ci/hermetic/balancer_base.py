"""The base image of the reference load balancer: Debian's Python, HAProxy and netlink library.

It stands apart from images.py, whose own text is a part of the node image's key: a change here costs no node image.
"""

from __future__ import annotations

from ci.hermetic import apt
from ci.hermetic.engine import Engine
from ci.hermetic.images import PATH_ENV, prune_images
from ci.hermetic.store import Store
from ci.step import Journal

NAME = "localhost/esipp/balancer-base"


def reference() -> str:
    """Name the image by the packages that are in it."""
    return f"{NAME}:{apt.rootfs_key('balancer')}"


def make(store: Store, engine: Engine, journal: Journal) -> str:
    """Make the image if the engine does not have it, and return its reference; the engine must answer."""
    image = reference()
    if store.fresh or not engine.has_image(image):
        root = apt.root_file_system("balancer", store, journal)
        with journal.step("make the load balancer's base image") as step:
            engine.docker(step, "import", "--change", PATH_ENV, root / "root.tar", image)
        prune_images(engine, NAME, image)
    return image
