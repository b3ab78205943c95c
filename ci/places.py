"""Locations of checkout, artifact cache and cluster state; and pinned versions."""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CI = ROOT / "ci"
CLUSTER = "esipp"
CONTEXT = f"kind-{CLUSTER}"


@dataclass(frozen=True)
class Places:
    """Folders outside the checkout."""

    cache: Path  # what survives: artifacts, the engine's data, logs
    run: Path  # what a reboot may forget: lock, pid, socket, the cluster at hand

    @property
    def artifacts(self) -> Path:
        """Built things, `kind/key/`."""
        return self.cache / "artifacts"

    @property
    def tmp(self) -> Path:
        """Half-built things; never read, emptied at start-up."""
        return self.cache / "tmp"

    @property
    def logs(self) -> Path:
        """Logs of the newest run."""
        return self.cache / "logs"

    @property
    def cluster_file(self) -> Path:
        """The description of the kept cluster for `ci/enter`."""
        return self.run / "cluster.json"


def places() -> Places:
    """Determine the folders from ESIPP_CACHE, XDG_CACHE_HOME or the user's home.

    A second hermetic cluster on one machine needs another ESIPP_CACHE and another ESIPP_RUN; the last part of ESIPP_RUN
    names its network namespace.
    """
    base = os.environ.get("ESIPP_CACHE")
    cache = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "esipp"
    cache = cache.expanduser().absolute()
    # A unix socket's path is short, and a stopped machine should forget its state: root uses /run.
    usual = Path("/run/esipp") if os.geteuid() == 0 and Path("/run").is_dir() else cache / "run"
    run = Path(os.environ.get("ESIPP_RUN") or usual).expanduser().absolute()
    return Places(cache, run)


def cores(pid: int = 0) -> int:
    """Count the cores that a process, by default this one, may use."""
    return len(os.sched_getaffinity(pid)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def versions() -> dict[str, Any]:
    """Read ci/versions.toml."""
    return tomllib.loads((CI / "versions.toml").read_text())
