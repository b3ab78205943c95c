"""A run's folder as one file that can be sent, and told whole from cut: gzipped tar, its size and its SHA-256."""

import hashlib
import json
import shutil
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from esipp.base.errors import HarnessError

CHUNK = 1 << 20


@dataclass(frozen=True)
class Parcel:
    """What waits to be fetched.

    Args:
        name: of the run's folder.
        exit_code: the run's.
        size: bytes of the archive.
        sha256: of the archive, in hexadecimal.
    """

    name: str
    exit_code: int
    size: int
    sha256: str

    def write(self, path: Path) -> None:
        """Write it down in one step: whoever sees the file sees all of it."""
        half = path.with_suffix(".half")
        half.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        half.replace(path)


def read(text: str) -> Parcel:
    """What ``write`` wrote.

    Raises:
        HarnessError: it is something else.
    """
    try:
        told: dict[str, Any] = json.loads(text)
        found = Parcel(str(told["name"]), int(told["exit_code"]), int(told["size"]), str(told["sha256"]))
    except (ValueError, KeyError, TypeError):
        raise HarnessError(
            "What the pod tells of its report cannot be read.", "is its image of this checkout's esipp?"
        ) from None
    if PurePosixPath(found.name).name != found.name or found.name in ("", ".", ".."):
        raise HarnessError(f"'{found.name[:80]}' is no name of a run's folder.", "is this pod one of esipp's?")
    return found


def pack(folder: Path, archive: Path, exit_code: int) -> Parcel:
    """Write a run's folder into an archive, below its own name, and describe it. Only files and folders go in."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return entry if entry.isfile() or entry.isdir() else None

    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=folder.name, filter=plain)
    return Parcel(folder.name, exit_code, archive.stat().st_size, digest(archive))


def digest(archive: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(archive: Path, name: str, target: Path) -> None:
    """Write what is in an archive below ``name`` to ``target``, which is not there yet; nothing else is written.

    It comes out of a cluster: what is neither a file nor a folder, or lies elsewhere, is refused. The standard
    library's own filter for this is younger than some Python 3.11.

    Raises:
        HarnessError: the archive is not what esipp packs, or cannot be written.
    """
    half = target.with_name(f".{target.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    try:
        half.mkdir(parents=True)
        with tarfile.open(archive, "r:gz") as tar:
            for entry in tar:
                _place(tar, entry, name, half)
        half.replace(target)
    except (tarfile.TarError, EOFError, OSError) as broken:
        raise HarnessError(f"The report cannot be unpacked: {broken}.", "is the disk full?") from None
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _place(tar: tarfile.TarFile, entry: tarfile.TarInfo, name: str, half: Path) -> None:
    first, *rest = PurePosixPath(entry.name).parts or ("",)
    if first != name or ".." in rest or not (entry.isfile() or entry.isdir()):
        raise HarnessError(
            f"The report holds '{entry.name[:80]}', which no run writes.", "nothing was unpacked; whose pod is this?"
        )
    path = half.joinpath(*rest)
    if entry.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(entry)
    assert content is not None
    with content, path.open("xb") as file:
        shutil.copyfileobj(content, file, CHUNK)
