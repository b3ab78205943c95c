"""Location of the kept cluster, and a runner of commands there; stored for `ci/enter`."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from ci.hermetic.engine import Engine
from ci.places import CONTEXT, Places, places
from ci.step import SetupError, Step, output


@dataclass(frozen=True)
class ClusterAccess:
    """A way into the network the cluster lives in; on the official path that is where we are already."""

    path: str  # "hermetic" or "official"
    lane: str
    kubernetes: str
    node_image: str
    image: str = ""  # the echo image, as loaded into the nodes
    kube_proxy_image: str = ""  # another one than the cluster's, as loaded into the nodes
    network_agent_image: str = ""  # likewise

    @property
    def prefix(self) -> list[str]:
        """Return the prefix of a command."""
        return Engine(places()).prefix if self.path == "hermetic" else []

    @property
    def environment(self) -> dict[str, str]:
        """Return the complete environment of a command there."""
        if self.path == "hermetic":
            merged = Engine(places()).env
        else:
            merged = {**os.environ, "PATH": f"{places().cache / 'bin'}:{os.environ.get('PATH', '')}"}
            merged["BUILDX_NO_DEFAULT_ATTESTATIONS"] = "1"  # kind cannot load an image that carries one
        merged.pop("PYTHONPATH", None)  # of ci/ itself
        merged["ESIPP_REPEAT"] = f"./ci/enter esipp run --context {CONTEXT}"  # what esipp tells its reader to run
        if self.image:
            merged["ESIPP_IMAGE"] = self.image
        if self.kube_proxy_image:
            merged["ESIPP_KUBE_PROXY_IMAGE"] = self.kube_proxy_image
        if self.network_agent_image:
            merged["ESIPP_NETWORK_AGENT_IMAGE"] = self.network_agent_image
        return merged

    def run(self, step: Step, *command: str | Path, stdin: bytes | None = None, hint: str = "") -> None:
        """Run a command there; its output goes to the step's log."""
        step.run([*self.prefix, *command], env=self.environment, stdin=stdin, hint=hint)

    def ask(self, *command: str | Path, timeout: float = 30) -> str | None:
        """Return the output of a quick query there; None if it fails."""
        return output([*self.prefix, *command], env=self.environment, timeout=timeout)

    def save(self, where: Places) -> None:
        """Write it down."""
        where.run.mkdir(parents=True, exist_ok=True)
        half = where.cluster_file.with_suffix(".half")
        half.write_text(json.dumps(asdict(self), indent=1))
        half.rename(where.cluster_file)

    @staticmethod
    def load(where: Places) -> "ClusterAccess | None":
        """Read what the newest run wrote down, if its cluster was kept."""
        try:
            return ClusterAccess(**json.loads(where.cluster_file.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    @staticmethod
    def kept(where: Places) -> "ClusterAccess":
        """Read the same for a command that needs it.

        Raises:
            SetupError: there is no kept cluster.
        """
        if there := ClusterAccess.load(where):
            return there
        raise SetupError("There is no kept cluster.", "ci/conformance --up creates one.")
