"""Who may use the cluster now: several breaks that are confined to their own run's Services, or one that is not.

Between processes, by locks on files: pytest-xdist's workers share nothing else.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(lock: Path, *, alone: bool) -> Iterator[None]:
    """Wait until nobody has the cluster alone (or uses it at all), and have it for as long as the context lasts.

    Whoever waits for it holds the gate meanwhile, so that those who come later do not overtake for ever.
    """
    with lock.open("a") as file:
        with lock.with_suffix(".gate").open("a") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield  # closing the file lets go


@contextmanager
def once(folder: Path, name: str) -> Iterator[Path | None]:
    """The first who comes gets a file to write; whoever comes later waits for that, and gets None."""
    done = folder / name
    with (folder / f"{name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield None if done.exists() else done
