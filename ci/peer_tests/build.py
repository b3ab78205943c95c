"""Upstream's e2e.test, ginkgo and agnhost of the cluster's own version, and agnhost as the image that its tests name.

The programs are built from the Go module k8s.io/kubernetes, whose content go.sum pins, and kept as the cluster's own
are. Where the engine can pull, the nodes pull the image; the hermetic path makes it and loads it into the nodes.
"""

import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ci.access import ClusterAccess
from ci.hermetic import apt
from ci.hermetic.engine import Engine
from ci.hermetic.golang import MODULES, find_go
from ci.hermetic.images import PATH_ENV
from ci.hermetic.store import Store, key_of, need_space
from ci.places import CLUSTER
from ci.step import Journal, SetupError, output

MODULE = "k8s.io/kubernetes"
AGNHOST = f"{MODULE}/test/images/agnhost"
GINKGO = "github.com/onsi/ginkgo/v2"
IMAGE = "registry.k8s.io/e2e-test-images/agnhost"
"""As test/utils/image/manifest.go names it; the tag is in test/images/agnhost/VERSION."""

BUILD_GIGABYTES = 6.0
DOCKERFILE = """FROM {base}
RUN mkdir /uploads
COPY agnhost /agnhost
ENTRYPOINT ["/agnhost"]
CMD ["pause"]
"""


@dataclass(frozen=True)
class Upstream:
    """The built programs, with their versions."""

    folder: Path
    kubernetes: str
    ginkgo_version: str
    agnhost_version: str

    @property
    def e2e(self) -> Path:
        """The binary with all of upstream's end-to-end tests."""
        return self.folder / "e2e.test"

    @property
    def ginkgo(self) -> Path:
        """The runner, of the version that the tests are linked with."""
        return self.folder / "ginkgo"

    @property
    def image(self) -> str:
        """The image that the tests name."""
        return f"{IMAGE}:{self.agnhost_version}"


def upstream(kubernetes: str, store: Store, journal: Journal) -> Upstream:
    """Return the programs of a Kubernetes version, and build them if needed (about ten minutes on four cores)."""
    folder = MODULES / "e2e" / kubernetes
    if not folder.is_dir():
        there = sorted(path.name for path in (MODULES / "e2e").iterdir())
        raise SetupError(
            f"Upstream's tests of Kubernetes {kubernetes} have no Go module in ci/hermetic/modules/e2e/.",
            f"there is: {', '.join(there)}",
        )
    key = key_of(folder, AGNHOST, GINKGO, platform.machine())
    built = store.get("e2e", key, lambda out: _build(out, folder, kubernetes, journal))
    versions = [(built / name).read_text().strip() for name in ("ginkgo.version", "agnhost.version")]
    return Upstream(built, kubernetes, *versions)


def _build(out: Path, folder: Path, kubernetes: str, journal: Journal) -> None:
    go = find_go()
    need_space(out.parent, BUILD_GIGABYTES, "building upstream's tests")
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    version = f"-X k8s.io/component-base/version.gitVersion={kubernetes}"
    flags = ["-trimpath", "-mod=readonly", "-ldflags", f"-s -w {version}"]
    hint = "check that the Go module proxy is reachable (go env GOPROXY), and that the installed Go is new enough."
    with journal.step(f"build upstream's tests {kubernetes} from their Go module", hint=hint) as step:
        step.run([go, "build", "-v", *flags, "-o", f"{out}/", AGNHOST, f"{GINKGO}/ginkgo"], cwd=folder, env=env)
        step.run(
            [go, "test", "-c", "-vet=off", *flags, "-o", out / "e2e.test", f"{MODULE}/test/e2e"], cwd=folder, env=env
        )
        command: list[str | Path] = [go, "-C", folder, "list", "-m", "-f", "{{.Version}} {{.Dir}}", GINKGO, MODULE]
        lines = [line.split() for line in (output(command, timeout=120) or "").splitlines()]
        if [fields[0] for fields in lines[1:]] != [kubernetes]:
            raise SetupError(f"ci/hermetic/modules/e2e/{kubernetes}/go.mod does not require {MODULE} {kubernetes}.")
        (out / "ginkgo.version").write_text(lines[0][0])
        shutil.copyfile(Path(lines[1][1]) / "test/images/agnhost/VERSION", out / "agnhost.version")


def load_image(built: Upstream, there: ClusterAccess, store: Store, journal: Journal) -> None:
    """Load agnhost into the nodes under the name that upstream's tests use, if it cannot be pulled."""
    if there.path != "hermetic":
        return
    nodes = (there.ask("kind", "get", "nodes", "--name", CLUSTER) or "").split()
    missing = [node for node in nodes if not _has(there, node, built.image)]
    if not missing:
        return
    engine = Engine(store.places)
    root = apt.root_file_system("agnhost", store, journal)
    store.places.tmp.mkdir(parents=True, exist_ok=True)
    with (
        journal.step("load agnhost into the nodes") as step,
        tempfile.TemporaryDirectory(dir=store.places.tmp) as folder,
    ):
        context, base = Path(folder), "localhost/esipp/agnhost-base"
        engine.docker(step, "import", "--change", PATH_ENV, root / "root.tar", base)
        shutil.copy(built.folder / "agnhost", context)
        (context / "Dockerfile").write_text(DOCKERFILE.format(base=base))
        engine.docker(step, "build", "--tag", built.image, context)
        archive = context / "image.tar"
        engine.docker(step, "save", "--output", archive, built.image)
        importing = ["ctr", "--namespace=k8s.io", "images", "import", "--digests", "--snapshotter=overlayfs", "-"]
        for node in missing:
            with archive.open("rb") as stream:
                engine.docker(step, "exec", "--interactive", node, *importing, stdin=stream)


def _has(there: ClusterAccess, node: str, image: str) -> bool:
    listed = there.ask("docker", "exec", node, "ctr", "--namespace=k8s.io", "images", "ls", "-q", f"name=={image}")
    return image in (listed or "").split()
