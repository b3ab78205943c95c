"""Cluster locks: shared for breaks that affect only their own run's Services, exclusive for others.

They are file locks between processes, as pytest-xdist's workers share nothing else.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(lock: Path, *, alone: bool) -> Iterator[None]:
    """Acquire the cluster, shared or exclusively, for the duration of the context.

    A waiting process holds a gate, so that later ones cannot overtake it for ever.
    """
    with lock.open("a") as file:
        with lock.with_suffix(".gate").open("a") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield  # closing the file lets go


@contextmanager
def once(folder: Path, name: str) -> Iterator[Path | None]:
    """The first process gets a file to write; later ones wait for it and get None."""
    done = folder / name
    with (folder / f"{name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield None if done.exists() else done
