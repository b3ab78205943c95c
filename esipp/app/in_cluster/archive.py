"""Archives of run folders: a gzipped tar with its size and SHA-256, so that a truncated transfer is detected."""

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
class Archive:
    """The description of an archive that waits to be fetched.

    Args:
        name: name of the run's folder.
        exit_code: exit code of the run.
        size: size of the archive in bytes.
        sha256: hexadecimal SHA-256 of the archive.
    """

    name: str
    exit_code: int
    size: int
    sha256: str

    def write(self, path: Path) -> None:
        """Write the description atomically: a reader sees all of it or none."""
        half = path.with_suffix(".half")
        half.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")
        half.replace(path)


def read(text: str) -> Archive:
    """Read a description that ``write`` wrote.

    Raises:
        HarnessError: the text is something else.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        found = Archive(str(data["name"]), int(data["exit_code"]), int(data["size"]), str(data["sha256"]))
    except (ValueError, KeyError, TypeError):
        raise HarnessError(
            "Cannot read the pod's description of its report.",
            "check that the pod's image has the same version of esipp.",
        ) from None
    if PurePosixPath(found.name).name != found.name or found.name in ("", ".", ".."):
        raise HarnessError(
            f"'{found.name[:80]}' is not the name of a run folder.", "check that esipp created this pod."
        )
    return found


def pack(folder: Path, archive: Path, exit_code: int) -> Archive:
    """Write a run's folder into an archive, under the folder's name, and describe it; only files and folders go in."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return entry if entry.isfile() or entry.isdir() else None

    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=folder.name, filter=plain)
    return Archive(folder.name, exit_code, archive.stat().st_size, digest(archive))


def digest(archive: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(archive: Path, name: str, target: Path) -> None:
    """Unpack what an archive has under ``name`` to ``target``, which must not exist.

    The archive comes from a cluster. Entries that are neither files nor folders, or lie elsewhere, are refused. The
    standard library's own filter is not available in every Python 3.11.

    Raises:
        HarnessError: the archive is not one of esipp's, or ``target`` is not writable.
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
        raise HarnessError(f"Cannot unpack the report: {broken}.", "check the free disk space.") from None
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _place(tar: tarfile.TarFile, entry: tarfile.TarInfo, name: str, half: Path) -> None:
    first, *rest = PurePosixPath(entry.name).parts or ("",)
    if first != name or ".." in rest or not (entry.isfile() or entry.isdir()):
        raise HarnessError(
            f"The report contains '{entry.name[:80]}', which no run writes.",
            "nothing was unpacked; check that esipp created this pod.",
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
