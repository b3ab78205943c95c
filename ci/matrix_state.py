"""State of `ci/matrix`: for each lane its run folder, its result, and the hash of the content it ran."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from ci.lane_file import Lane
from ci.places import CI, ROOT, cores
from ci.records import commit
from ci.step import SetupError
from esipp.base.errors import EsippError
from esipp.base.hashing import key_of
from esipp.ledger.reading import read_run

MADE_OF = ("esipp", "suites", "fixtures", "images", "conftest.py", "requirements.txt", "ci/hermetic",
           "ci/versions.toml")  # fmt: skip
"""Inputs of a run, in addition to its lane and the modules of ci/."""
CUT_SHORT = ("incomplete", "error")
"""Results of incomplete runs."""
ASIDE = ("matrix", "matrix_state", "data_planes", "data_planes_page", "planes", "expiry", "endurance", "soaking",
         "benchmark", "floor", "tables", "generate", "records", "samples", "rendering", "enter")  # fmt: skip
"""Modules of ci/ that no lane runs."""


@dataclass(frozen=True)
class Ended:
    """The result of a lane.

    Args:
        key: hash of its inputs: the suite, the set-up, the lane and its options.
        code: the exit code of `ci/conformance`.
        seconds: its duration, including builds.
        cores: the number of cores.
        at: the time of its end, in UTC.
        commit: the commit of the checkout, for information only.
    """

    key: str
    code: int
    seconds: float
    cores: int
    at: str
    commit: str


class State:
    """The state folder of a matrix.

    Args:
        root: the folder.
        path: the requested path to clusters, ``auto``, ``official`` or ``hermetic``.
        more: further options of each run.
    """

    def __init__(self, root: Path, path: str = "auto", more: Sequence[str] = ()) -> None:
        self.root, self.path, self.more = root.absolute(), path, list(more)

    def folder(self, lane: str) -> Path:
        """Where the run of a lane is."""
        return self.root / lane

    def _meaning(self, lane: str) -> Path:
        return self.root / f"{lane}.json"

    def key(self, lane: Lane) -> str:
        """The hash of a lane's inputs."""
        values = {
            name: str(value) for name, value in asdict(lane).items() if name not in ("kind_config", "description")
        }
        return key_of(values, lane.kind_config, self.path, self.more, self._suite)

    @cached_property
    def _suite(self) -> str:
        parts = [ROOT / name for name in MADE_OF]
        parts += sorted(path for path in CI.glob("*.py") if path.stem not in ASIDE)
        return key_of(*parts)

    def recorded(self, lane: Lane) -> Ended | None:
        """The stored result of the lane, if its run is complete and has the same inputs."""
        try:
            ended = Ended(**json.loads(self._meaning(lane.name).read_text(encoding="utf-8")))
            if ended.key != self.key(lane):
                return None
            run = read_run(self.folder(lane.name))
        except (OSError, ValueError, TypeError, EsippError):
            return None
        return ended if run.whole and run.conclusion.result not in CUT_SHORT else None

    def forget(self, lane: str) -> None:
        """Before a lane is run: what is kept of it is not how it ended."""
        self._meaning(lane).unlink(missing_ok=True)

    def note(self, lane: Lane, key: str, code: int, seconds: float) -> Ended:
        """Keep how a lane ended; the key is that of before it began."""
        at = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        ended = Ended(key, code, round(seconds, 1), cores(), at, commit())
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            half = self._meaning(lane.name).with_suffix(".half")
            half.write_text(json.dumps(asdict(ended), indent=1) + "\n", encoding="utf-8")
            half.rename(self._meaning(lane.name))
        except OSError as broken:
            raise SetupError(
                f"Cannot write to {self.root}: {broken.strerror}.", "name another folder with --state."
            ) from None
        return ended
