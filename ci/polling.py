"""A wait for something that set-up started: a daemon, a container, a session. Nothing is judged while it waits."""

import time
from collections.abc import Callable


def until(done: Callable[[], bool], seconds: float, pause: float = 0.1) -> bool:
    """Ask until ``done``, or until the time is over.

    Args:
        done: asked at once, then after each pause; it may raise to end the wait.
        seconds: how long to ask; at least one question is asked.
        pause: seconds between two questions.

    Returns:
        Whether it was done.
    """
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)  # programs outside of Python give no event to wait for
    return True
