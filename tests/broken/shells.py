"""Open shells on node containers, for commands without start-up delay."""

import contextlib
import subprocess
import threading

END = "esipp-broken-end"
"""The line that follows what a script says; with its exit code."""


class Shell:
    """A shell in a container; starting one takes seconds where the machine is busy, writing to it does not.

    It ends when this process does, however that comes about: its input is closed then.
    """

    def __init__(self, container: str) -> None:
        self._lock = threading.Lock()
        command = ["docker", "exec", "--interactive", container, "sh"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    @property
    def ended(self) -> bool:
        """Whether it is gone, as with its container."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Forget one that has ended; what it was not told any more is lost."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()

    def run(self, script: str) -> None:
        """Run a script, and wait for its end.

        Raises:
            AssertionError: it failed, with what it said; or the shell is gone.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        said = ""
        with self._lock:
            # what reads its input must not read the next script
            stdin.write(f"( {script}\n) 2>&1 </dev/null; printf '\\n{END} %s\\n' $?\n")
            stdin.flush()
            while f"\n{END} " not in said:
                line = stdout.readline()
                assert line, f"the shell is gone: {script}: {said}"
                said += line
        assert said.endswith(f"\n{END} 0\n"), f"{script}: {said}"


_SHELLS = dict[str, Shell]()
_BY_ONE = threading.Lock()


def shell(container: str) -> Shell:
    """The one shell of this process in a container; another one if a container was restarted."""
    with _BY_ONE:
        if container in _SHELLS and _SHELLS[container].ended:
            _SHELLS.pop(container).close()
        if container not in _SHELLS:
            _SHELLS[container] = Shell(container)
        return _SHELLS[container]
