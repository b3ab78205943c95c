"""Base images without a registry for the containers next to the nodes: Debian with the packages of each.

The reference load balancer has Python, HAProxy and a netlink library, the router BIRD and iproute2. What kind runs
before several API servers is made from the first one. This is separate from images.py, whose text is part of the node
image's key: a change here does not rebuild the node image.
"""

from pathlib import Path

from ci.hermetic import apt
from ci.hermetic.engine import Engine
from ci.hermetic.images import PATH_ENV, prune_images
from ci.hermetic.store import Store
from ci.places import versions
from ci.step import Journal

BALANCER, ROUTER = "balancer", "router"
NAME = "localhost/esipp/{}-base"
API_BALANCER = Path(__file__).parent / "api_balancer"


def reference(whose: str) -> str:
    """Name the base image of the balancer or of the router by the packages that are in it."""
    return f"{NAME.format(whose)}:{apt.rootfs_key(whose)}"


def make(whose: str, store: Store, engine: Engine, journal: Journal) -> str:
    """Make the image if the engine does not have it, and return its reference; the engine must answer."""
    image = reference(whose)
    if store.fresh or not engine.has_image(image):
        root = apt.root_file_system(whose, store, journal)
        with journal.step(f"make the {whose}'s base image") as step:
            engine.docker(step, "import", "--change", PATH_ENV, root / "root.tar", image)
        prune_images(engine, NAME.format(whose), image)
    return image


def make_api_balancer(base: str, engine: Engine, journal: Journal) -> str:
    """Make what kind runs before several API servers, by kind's own name for it, from the balancer's base image."""
    image: str = versions()["kind"]["balancer"]
    with journal.step(f"make the load balancer of the API servers, as {image}") as step:
        engine.docker(step, "build", "--tag", image, "--build-arg", f"BASE={base}", API_BALANCER)
    return image
