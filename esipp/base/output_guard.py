"""A run must end in order whatever becomes of its output: ``esipp run | head`` may not leave pods behind."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

CHUNK = 65536


def open_standard_streams() -> None:
    """Give a process that was started with closed standard streams (``>&-``) ones that lead nowhere."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


@contextlib.contextmanager
def whatever_becomes_of_stdout() -> Iterator[list[str]]:
    """Let the body write on when nobody reads any more; what it then writes is lost, and nothing else.

    A terminal is left alone: it ends with SIGHUP, which is handled.

    Yields:
        why something was lost that somebody wanted (a full disk), once the body is over; a reader who went away, as
        ``head`` does, wanted no more.
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
    """Copy until the end; when the reader behind ``real`` is gone, read on and drop."""
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
