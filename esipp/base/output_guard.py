"""Protection against closed or broken output: ``esipp run | head`` must still tear down its pods."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

CHUNK = 65536


def open_standard_streams() -> None:
    """Replace closed standard streams (``>&-``) with the null device."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process


@contextlib.contextmanager
def whatever_becomes_of_stdout() -> Iterator[list[str]]:
    """Let the body continue to write when the reader of standard output is gone; that output is lost.

    A terminal needs no protection: it ends with SIGHUP, which is handled.

    Yields:
        a list; after the body it contains why output was lost (a full disk, say). It stays empty if the reader closed
        the pipe, as ``head`` does.
    """
    lost: list[str] = []
    if sys.stdout.isatty():
        yield lost
        return
    sys.stdout.flush()
    real = os.dup(1)
    reader, writer = os.pipe()
    os.dup2(writer, 1)
    os.close(writer)
    pump = threading.Thread(target=_pump, args=(reader, real, lost), daemon=True)
    pump.start()
    try:
        yield lost
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os.dup2(real, 1)  # closes the pipe's last writing end: the pump sees its end
        pump.join(timeout=5)
        os.close(real)


def _pump(reader: int, real: int, lost: list[str]) -> None:
    """Copy until the end; once the reader of ``real`` is gone, continue to read and discard."""
    gone = False
    with os.fdopen(reader, "rb", buffering=0) as source:
        while chunk := source.read(CHUNK):
            while chunk and not gone:
                try:
                    chunk = chunk[os.write(real, chunk) :]
                except BrokenPipeError:
                    gone = True
                except OSError as broken:
                    gone = True
                    lost.append(str(broken.strerror))
