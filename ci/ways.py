"""The two paths to a cluster: official images if the engine can pull them, else the hermetic build."""

import os
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from ci import account, cilium, cluster, flannel, loadbalancer, metallb, published, router
from ci.access import ClusterAccess
from ci.containers import name_of
from ci.hermetic import apt, base_image, masquerading
from ci.hermetic import cilium as hermetic_cilium
from ci.hermetic import flannel as hermetic_flannel
from ci.hermetic.engine import Engine
from ci.hermetic.images import KUBE_PROXY, Builder, Built, prune_images
from ci.hermetic.store import Store, need_space
from ci.hermetic.thin import thin
from ci.lane_file import CILIUM, FLANNEL, Lane
from ci.network import node_addresses
from ci.places import CLUSTER, Places, versions
from ci.step import Journal, SetupError, output

RUNNING_GIGABYTES = 6.0
CILIUM_GIGABYTES = 6.0  # more: every node has a copy of its images, and unpacks it


AddOn = Callable[[ClusterAccess, Journal], None]
"""Installs a lane's network add-on in a new cluster, in which no pod has an address yet."""


@dataclass(frozen=True)
class Prepared:
    """Everything a cluster is started from."""

    there: ClusterAccess
    metallb_manifest: Path
    echo_base: str | None
    balancer_base: str | None
    router_base: str | None = None
    add_on: AddOn | None = None  # where the lane has another one than kind's own


class Way(Protocol):
    """One way to a cluster."""

    name: str

    def expected_image(self, lane: Lane) -> str:
        """Name the node image that a cluster of this lane runs on."""

    def clear(self) -> None:
        """Remove leftovers of an earlier run."""

    def prepare(self, lane: Lane, *, fresh: bool) -> Prepared:
        """Get everything ready."""

    def load(self, there: ClusterAccess, image: str) -> None:
        """Load an image into the nodes."""

    def kube_proxy(self, version: str) -> str:
        """Make or pull an image of kube-proxy of a version, and return its name."""

    def cilium_agent(self, version: str) -> str:
        """Make or pull an image of Cilium's agent of a version, and return its name."""

    def tidy(self, *images: str) -> None:
        """Limit the cached images, except those in use."""

    def remove(self, there: ClusterAccess, /) -> None:
        """Delete the cluster and everything that ran for it."""


class Hermetic:
    """The hermetic path: own engine, own images, no uplink."""

    name = "hermetic"

    def __init__(self, places: Places, journal: Journal) -> None:
        self.places, self.journal = places, journal
        self.engine = Engine(places)
        if sys.platform != "linux" or os.geteuid() != 0:
            raise SetupError(
                "There is no docker engine with a registry, and building a cluster without one needs root on Linux.",
                "start docker, or run as root on Debian.",
            )

    def expected_image(self, lane: Lane) -> str:
        """Name the node image by what it is built from."""
        image = Builder(lane.kubernetes, Store(self.places), self.engine, self.journal).node_image
        return hermetic_cilium.node_image(image, lane.cilium_version) if lane.has_cilium else image

    def clear(self) -> None:
        """Stop a leftover engine with its namespace, mounts and containers; remove incomplete builds."""
        if self.engine.leftovers():
            with self.journal.step("clear away what an earlier run left"):
                self.engine.stop()
        account.forget(self.places)
        self.engine.empty_tmp()

    def prepare(self, lane: Lane, *, fresh: bool) -> Prepared:
        """Install, start, build: each only where needed."""
        builder = Builder(lane.kubernetes, Store(self.places, fresh=fresh), self.engine, self.journal)
        more = CILIUM_GIGABYTES if lane.has_cilium else 0.0
        need_space(self.places.cache, RUNNING_GIGABYTES + more, "running a cluster")
        builder.check()
        apt.install_needed(self.journal)
        self.engine.start(self.journal)
        self.engine.remove_containers()
        # Its packages are few, and are fetched while the programs are built.
        with ThreadPoolExecutor() as pool:
            balancing = pool.submit(base_image.make, base_image.BALANCER, builder.store, self.engine, self.journal)
            built = builder.all()
            base = balancing.result()
        routing = None
        if lane.has_router:
            routing = base_image.make(base_image.ROUTER, builder.store, self.engine, self.journal)
        if lane.control_planes > 1:
            base_image.make_api_balancer(base, self.engine, self.journal)
        node_image, add_on = self._network(lane, built, builder.store)
        for program in (built.kind, built.kubectl):
            link = self.engine.bin / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program)
        there = ClusterAccess(self.name, lane.name, lane.kubernetes, node_image)
        return Prepared(there, built.metallb_manifest, built.base_image, base, routing, add_on)

    def _network(self, lane: Lane, built: Built, store: Store) -> tuple[str, AddOn | None]:
        """The node image of the lane's network add-on, and what installs it."""
        image = built.node_image
        if lane.network == CILIUM:
            image = hermetic_cilium.make(image, lane.cilium_version, store, self.engine, self.journal)
            chart = hermetic_cilium.chart(lane.cilium_version, store, self.journal)
            return image, partial(cilium.install, chart, lane)
        if lane.network == FLANNEL:
            parts = hermetic_flannel.make(built.base_image, store, self.engine, self.journal)
            return image, partial(flannel.install, parts, lane, self.load)
        if lane.masquerade:
            return image, partial(masquerading.install, built.base_image, lane)
        return image, None

    def echo_base(self, lane_kubernetes: str) -> str:
        """Name the base image of a standing cluster."""
        return Builder(lane_kubernetes, Store(self.places), self.engine, self.journal).base_image

    def balancer_base(self) -> str:
        """Return the base image of the load balancer; load it now into an older kept cluster."""
        return base_image.make(base_image.BALANCER, Store(self.places), self.engine, self.journal)

    def load(self, there: ClusterAccess, image: str) -> None:
        """Send every node the layers that not all of them have."""
        with self.journal.step(f"load {name_of(image)} into the nodes") as step:
            self.places.tmp.mkdir(parents=True, exist_ok=True)
            saved, sent = self.places.tmp / "echo.tar", self.places.tmp / "echo-thin.tar"
            self.engine.docker(step, "save", "--output", saved, image)
            ctr = ["ctr", "--namespace=k8s.io"]
            # kind also lists the load balancer of several API servers, which runs no containers
            nodes = [*node_addresses(there)]
            has = [set(self.engine.ask("exec", node, *ctr, "content", "ls", "--quiet")) for node in nodes]
            present = sorted(set.intersection(*has)) if has else []
            thin(saved, present, image, sent)
            importing = [*ctr, "images", "import", "--digests", "--snapshotter=overlayfs", "-"]
            for node in nodes:
                with sent.open("rb") as archive:
                    self.engine.docker(step, "exec", "--interactive", node, *importing, stdin=archive)
            saved.unlink()

    def kube_proxy(self, version: str) -> str:
        """Build it from its Go module; the engine must run."""
        return Builder(version, Store(self.places), self.engine, self.journal).kube_proxy()

    def cilium_agent(self, version: str) -> str:
        """Build it from its Go module; the engine must run."""
        return hermetic_cilium.agent(version, Store(self.places), self.engine, self.journal)

    def tidy(self, *images: str) -> None:
        """Keep only the newest images of this project."""
        for image in images:
            prune_images(self.engine, image.rpartition(":")[0], image)

    def remove(self, _there: ClusterAccess) -> None:
        """Stop the engine: the cluster's nodes are containers of it."""
        if self.engine.leftovers():
            with self.journal.step("remove the cluster and stop the engine"):
                self.engine.stop()
        account.forget(self.places)
        self.engine.empty_tmp()


class Official:
    """The engine that is here, the published images."""

    name = "official"

    def __init__(self, places: Places, journal: Journal) -> None:
        self.places, self.journal = places, journal
        self.bin = places.cache / "bin"

    def expected_image(self, lane: Lane) -> str:
        """Return the digest-pinned image of the version, or of its minor version's newest one."""
        return official_image(lane.kubernetes, versions()["node_images"])

    def engine_answers(self) -> bool:
        """Say whether a docker engine is here."""
        return output(["docker", "version", "--format", "{{.Server.Version}}"], timeout=20) is not None

    def has_image(self, lane: Lane) -> bool:
        """Pull the node image if it is missing; return whether it is available."""
        image = self.expected_image(lane)
        if output(["docker", "image", "inspect", image]) is not None:
            return True
        try:
            with self.journal.step(f"pull {image.split('@')[0]}") as step:
                step.run(["docker", "pull", image])
        except SetupError:
            return False
        return True

    def clear(self) -> None:
        """Delete a leftover cluster of an earlier run."""
        self.bin.mkdir(parents=True, exist_ok=True)
        self._find_kind()
        there = ClusterAccess(self.name, "", "", "")
        loadbalancer.remove(there)
        router.remove(there)
        published.remove(there)
        if CLUSTER in (there.ask("kind", "get", "clusters") or "").split():
            with self.journal.step("clear away the cluster that an earlier run left") as step:
                cluster.delete(there, step)

    def prepare(self, lane: Lane, *, fresh: bool) -> Prepared:
        """Find or fetch the tools; `fresh` fetches them again."""
        if fresh:
            shutil.rmtree(self.bin, ignore_errors=True)
            self.bin.mkdir(parents=True)
        image = self.expected_image(lane)
        self._find_kind()
        self._find_kubectl(image)
        version = image.split("@")[0].split(":")[1]
        if version != lane.kubernetes:
            self.journal.line(f"         kind publishes no image of {lane.kubernetes}: this runs on {version}.")
        there = ClusterAccess(self.name, lane.name, version, image)
        manifest = metallb.fetch_manifest(self.places, self.journal)
        return Prepared(there, manifest, None, None, add_on=self._network(lane))

    def _network(self, lane: Lane) -> AddOn | None:
        """What installs the lane's network add-on; kind installs its own, which masquerades."""
        if lane.network == CILIUM:
            return partial(cilium.install, cilium.fetch_chart(self.bin, lane.cilium_version, self.journal), lane)
        if lane.network == FLANNEL:
            return partial(flannel.install, flannel.published(self.places, self.journal), lane, self.load)
        return None

    def load(self, there: ClusterAccess, image: str) -> None:
        """Let kind do it."""
        cluster.load_echo(there, image, self.journal)

    def kube_proxy(self, version: str) -> str:
        """Pull it."""
        return self._pull(f"{KUBE_PROXY}:{version}")

    def cilium_agent(self, version: str) -> str:
        """Pull it."""
        return self._pull(hermetic_cilium.names(version)[0])

    def _pull(self, image: str) -> str:
        with self.journal.step(f"pull {image}") as step:
            step.run(["docker", "pull", image])
        return image

    def tidy(self, *images: str) -> None:
        """Leave the user's engine as it is."""

    def remove(self, there: ClusterAccess) -> None:
        """Delete the cluster."""
        with self.journal.step("remove the cluster") as step:
            loadbalancer.remove(there)
            router.remove(there)
            published.remove(there)
            cluster.delete(there, step)
        for folder in (loadbalancer.credentials(self.places), router.settings(self.places)):
            shutil.rmtree(folder, ignore_errors=True)  # of no use without the cluster
        account.forget(self.places)
        self.places.cluster_file.unlink(missing_ok=True)

    def _find_kind(self) -> None:
        """Use the kind on PATH if it is new enough, else build the pinned one."""
        wanted = versions()["kind"]["version"]
        there = ClusterAccess(self.name, "", "", "")
        found = re.search(r"v(\d+)\.(\d+)", there.ask("kind", "version") or "")
        least = re.match(r"v(\d+)\.(\d+)", wanted)
        assert least
        if found and tuple(map(int, found.groups())) >= tuple(map(int, least.groups())):
            return
        if not shutil.which("go"):
            raise SetupError(
                f"kind {wanted} or newer is not on PATH.", f"install kind {wanted}, or Go to build it with"
            )
        with self.journal.step(f"install kind {wanted}", hint="check that the Go module proxy is reachable.") as step:
            env = {**os.environ, "GOBIN": str(self.bin), "CGO_ENABLED": "0"}
            step.run(["go", "install", f"sigs.k8s.io/kind@{wanted}"], env=env)

    def _find_kubectl(self, image: str) -> None:
        """Use the kubectl on PATH, else the node image's own."""
        if shutil.which("kubectl") or (self.bin / "kubectl").exists():
            return
        with self.journal.step("take kubectl from the node image", hint="or install kubectl") as step:
            name = "esipp-kubectl"
            output(["docker", "rm", "--force", name])
            step.run(["docker", "create", "--name", name, image])
            step.run(["docker", "cp", f"{name}:/usr/bin/kubectl", self.bin / "kubectl"])
            step.run(["docker", "rm", "--force", name])


def official_image(version: str, images: dict[str, str]) -> str:
    """Choose the pinned image of a version, or of the same minor version."""
    if version in images:
        return images[version]
    minor = version.rsplit(".", 1)[0]
    for pinned, image in images.items():
        if pinned.rsplit(".", 1)[0] == minor:
            return image
    raise SetupError(f"No node image is pinned for Kubernetes {version}.", f"ci/versions.toml has: {', '.join(images)}")


def choose(wanted: str, lane: Lane, places: Places, journal: Journal) -> Way:
    """Take the official way where it is open, the hermetic one elsewhere."""
    if wanted == "hermetic":
        return Hermetic(places, journal)
    official = Official(places, journal)
    if official.engine_answers():
        if official.has_image(lane):
            return official
        if wanted == "official":
            raise SetupError(
                "The docker engine cannot pull the node image.",
                "check that the registry is reachable, and 'docker login'.",
            )
        journal.line("         The docker engine here cannot pull images: building the cluster without a registry.")
    elif wanted == "official":
        raise SetupError("No docker engine answers.", "start docker, or omit --path.")
    return Hermetic(places, journal)
