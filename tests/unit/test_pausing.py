"""A run that pauses needs somebody in front of it."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from esipp.base import terminal
from esipp.base.errors import PreflightError
from esipp.checks.catalog import HOUSE


def test_without_a_terminal_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "TERMINAL", tmp_path / "none")
    with pytest.raises(PreflightError, match="needs a terminal"):
        terminal.check_terminal()


def test_it_goes_on_when_somebody_presses_enter() -> None:
    main, other = pty.openpty()
    code = "from esipp.base.terminal import wait_for_enter; wait_for_enter('here'); print('went on')"
    command = f"import fcntl, os, termios; os.setsid(); fcntl.ioctl({other}, termios.TIOCSCTTY, 0); {code}"
    with subprocess.Popen(
        [sys.executable, "-c", command], cwd=HOUSE, pass_fds=(other,), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        shown = b""
        while b"press Enter" not in shown:
            shown += os.read(main, 1000)
        os.write(main, b"\n")
        out, _ = process.communicate(timeout=30)
    os.close(main)
    os.close(other)
    assert shown.startswith(b"here: press Enter")
    assert out == b"went on\n"
