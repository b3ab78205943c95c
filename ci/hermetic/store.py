"""A cache of build artifacts, keyed by the hash of their inputs."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ci.places import Places
from ci.step import SetupError
from esipp.base.hashing import key_of as key_of  # what all in ci/ name what they keep by

KEPT_PER_KIND = 2


class Store:
    """The artifacts of one cache folder."""

    def __init__(self, places: Places, *, fresh: bool = False) -> None:
        self.places = places
        self.fresh = fresh
        self._used: set[Path] = set()

    def path(self, kind: str, key: str) -> Path:
        """Say where an artifact is or will be."""
        return self.places.artifacts / kind / key

    def has(self, kind: str, key: str) -> bool:
        """Say whether an artifact can be used as it is."""
        path = self.path(kind, key)
        return path.is_dir() and (not self.fresh or path in self._used)

    def get(self, kind: str, key: str, build: Callable[[Path], None]) -> Path:
        """Return an artifact's folder, built into a temporary folder and renamed when it is whole."""
        path = self.path(kind, key)
        if not self.has(kind, key):
            self.places.tmp.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            half = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=self.places.tmp))
            build(half)
            if path.exists():
                shutil.rmtree(path)
            half.rename(path)
        os.utime(path)
        self._used.add(path)
        return path

    def prune(self, more: Mapping[str, int] | None = None) -> None:
        """Drop all but the newest artifacts of each kind, never one of this run; ``more``: of which kinds more stay."""
        for kind in self.places.artifacts.glob("*"):
            by_age = sorted(kind.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
            for path in by_age[(more or {}).get(kind.name, KEPT_PER_KIND) :]:
                if path not in self._used:
                    shutil.rmtree(path, ignore_errors=True)


def need_space(folder: Path, gigabytes: float, what: str) -> None:
    """Refuse to begin what the disk cannot hold."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free / 1e9
    if free < gigabytes:
        raise SetupError(
            f"{folder} has {free:.1f} GB free, {what} needs about {gigabytes:.0f} GB.",
            "free some space, or set ESIPP_CACHE to a folder on a bigger disk.",
        )
