"""The terminal in front of which somebody sits, past what redirects standard input and output."""

from pathlib import Path

from esipp.base.errors import PreflightError

TERMINAL = Path("/dev/tty")


def check_terminal() -> None:
    """Check that there is one.

    Raises:
        PreflightError: there is none, so nobody could press a key.
    """
    try:
        with TERMINAL.open(encoding="utf-8"):
            return
    except OSError:
        raise PreflightError("--pause-on-failure needs a terminal.", "run without it, or use --keep.") from None


def wait_for_enter(prompt: str) -> None:
    """Wait until somebody presses Enter.

    Raises:
        PreflightError: the terminal is gone.
    """
    check_terminal()
    with TERMINAL.open("w", encoding="utf-8") as shown, TERMINAL.open(encoding="utf-8") as keys:
        shown.write(f"{prompt}: press Enter to continue ")
        shown.flush()
        keys.readline()
