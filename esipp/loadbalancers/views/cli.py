"""Queries with a cloud's own command-line tool: read-only commands with JSON output, no shell, each with a timeout.

The tool has its own configuration and login. esipp does not read them.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.judging.health_view import Unavailable, Why

SECONDS = 60.0
"""Timeout of one command. The tools start slowly, and retry by themselves when throttled."""

AFTER_KILL = 5.0
PAUSES = (2.0, 4.0, 8.0)
"""Seconds before each retry of a throttled command."""

MOST_PAGES = 50
MOST_SHOWN = 300

Command = tuple[str, ...]

_SIGNS: tuple[tuple[Why, str], ...] = (
    # first: GCE answers 403 to too many requests
    (
        Why.THROTTLED,
        r"\bThrottling|Throttled\b|\bThrottledException|Rate exceeded|RequestLimitExceeded|rate_?limit_?exceeded"
        r"|Quota exceeded for quota|Too ?Many ?Requests|OverLimit|(?:HTTP|status|code|error)\W{1,3}429\b|\(429\)",
    ),
    (
        Why.LOGIN,
        r"az login|AADSTS\d+|Unable to locate credentials|Expired ?Token|token.{0,40}\bexpired\b|SSO session"
        r"|InvalidClientTokenId|UnrecognizedClientException|gcloud auth|active account|invalid_grant|Reauthenticat"
        r"|HTTP 401|requires authentication|Missing value \S+ required for auth|auth plugin|No subscription found",
    ),
    (
        Why.RIGHTS,
        r"AccessDenied|not authorized to perform|UnauthorizedOperation|AuthorizationFailed|LinkedAuthorizationFailed"
        r"|does not have authorization|Required '[\w.]+' permission|PERMISSION_DENIED|HTTP 403|Forbidden"
        r"|Policy does(?: not|n't) allow|does not have permission",
    ),
    (
        Why.UNSUPPORTED,
        r"is not an? \w+ command|endpoint for load-balancer service|misspelled or not recognized|[Ii]nvalid choice"
        r"|unrecognized arguments",
    ),
    (
        Why.NOT_FOUND,
        r"(?:LoadBalancer|TargetGroup|Resource|ResourceGroup|AccessPoint)NotFound|was not found|could not be found"
        r"|\bNo \w+ found\b|HTTP 404|\bnotFound\b",
    ),
)


@dataclass(frozen=True)
class Tool:
    """A command-line tool, and the commands that esipp may run.

    Args:
        program: its name on PATH.
        reads: the allowed commands, as words; all of them only read.
        login: how its user logs in.
        rights: the permissions that its user needs.
        ending: arguments at the end of every command.
        environment: more environment variables: no prompts, no pager.
    """

    program: str
    reads: frozenset[Command]
    login: str
    rights: str
    ending: Command = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Cli:
    """Runs commands of a tool, and explains failures in one sentence.

    ``throttled`` counts how often the provider throttled a command.
    """

    def __init__(
        self,
        tool: Tool,
        *,
        seconds: float = SECONDS,
        pause: Callable[[float], object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``pause`` waits for a number of seconds, or less if the answer is no longer needed."""
        self.tool = tool
        self.throttled = 0
        self._seconds = seconds
        self._pause = pause or threading.Event().wait
        self._environment = dict(os.environ if environment is None else environment) | dict(tool.environment)

    def ask(self, *arguments: str, bare: bool = False) -> Any:
        """The JSON output of a command; a throttled command is retried.

        Args:
            arguments: the words of the command, then its arguments.
            bare: without the tool's usual last arguments, for a command that does not support them.

        Raises:
            Unavailable: the tool gave no answer; says why.
        """
        self._check(arguments)
        command = (*arguments, *(() if bare else self.tool.ending))
        for seconds in PAUSES:
            try:
                return self._once(command)
            except Unavailable as failed:
                if failed.why is not Why.THROTTLED:
                    raise
            self.throttled += 1
            self._pause(seconds)
        return self._once(command)

    def pages(self, *arguments: str) -> Iterator[Any]:
        """All pages of a command's answer. AWS's tool pages by itself, unless its user disabled that.

        Raises:
            Unavailable: it did not answer, or not to the end.
        """
        more: Command = ()
        for _ in range(MOST_PAGES):
            page = self.ask(*arguments, *more)
            yield page
            token, marker = (page.get(name) if isinstance(page, dict) else None for name in ("NextToken", "NextMarker"))
            if not token and not marker:
                return
            more = ("--starting-token", str(token)) if token else ("--marker", str(marker))
        raise Unavailable(
            Why.GARBLED, f"'{self._named(arguments)}' has more than {MOST_PAGES} pages of results.", "run it by hand."
        )

    def _check(self, arguments: Command) -> None:
        if not any(arguments[: len(command)] == command for command in self.tool.reads):
            raise AssertionError(f"{self.tool.program} {' '.join(arguments)} is not among the permitted commands")

    def _once(self, command: Command) -> Any:
        program = shutil.which(self.tool.program, path=self._environment.get("PATH"))
        if program is None:
            raise Unavailable(
                Why.NO_TOOL, f"There is no '{self.tool.program}' on PATH.", f"install it, then {self.tool.login}."
            )
        named = self._named(command)
        try:
            out, err, code = _run([program, *command], self._environment, self._seconds)
        except OSError as broken:
            raise Unavailable(Why.FAILED, f"'{named}' could not be run: {broken}.", "run it by hand.") from None
        except subprocess.TimeoutExpired:
            raise Unavailable(
                Why.TIMEOUT, f"'{named}' did not end within {self._seconds:.0f} s.", "run it by hand."
            ) from None
        if code:
            raise self._refused(named, err or out, code)
        try:
            return json.loads(out)
        except ValueError:
            said = _short(out) or "nothing"
            raise Unavailable(
                Why.GARBLED, f"'{named}' did not answer in JSON: {said}", f"check which {self.tool.program} is on PATH."
            ) from None

    def _refused(self, named: str, said: str, code: int) -> Unavailable:
        why = next((why for why, signs in _SIGNS if re.search(signs, said, re.IGNORECASE)), Why.FAILED)
        hints = {
            Why.THROTTLED: "other clients use the same account: wait, or poll less often.",
            Why.LOGIN: f"{self.tool.login}.",
            Why.RIGHTS: f"it needs {self.tool.rights}.",
            Why.UNSUPPORTED: "this tool or this cloud lacks the command: install a newer version or its plug-in.",
            Why.NOT_FOUND: "set the tool to the cluster's own account, project or subscription.",
        }
        sentence = f"'{named}' failed ({why.value}, exit code {code}): {_short(said) or 'no message'}"
        return Unavailable(why, sentence, hints.get(why, "run it by hand."))

    def _named(self, command: Command) -> str:
        """The command's words, without what it is about."""
        words = next((words for words in self.tool.reads if command[: len(words)] == words), command[:3])
        return " ".join((self.tool.program, *words))


def _run(command: list[str], environment: Mapping[str, str], seconds: float) -> tuple[str, str, int]:
    """Output, errors and exit code. What does not end is killed, with all that it started."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(environment),
        text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException:  # an interrupt as well
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # whoever left the group may hold our pipes
            process.communicate(timeout=AFTER_KILL)
        raise
    return out, err, process.returncode


def _short(said: str) -> str:
    """What was said, on one line, and not all of it."""
    line = " ".join(said.split())
    return line if len(line) <= MOST_SHOWN else f"{line[:MOST_SHOWN]}…"


def as_list(answer: Any, what: str) -> list[dict[str, Any]]:
    """A list of objects.

    Raises:
        Unavailable: it is none.
    """
    if not isinstance(answer, list) or not all(isinstance(each, dict) for each in answer):
        raise Unavailable(Why.GARBLED, f"{what} did not answer with a list.", "try another version of the tool.")
    return answer


def as_object(answer: Any, what: str) -> dict[str, Any]:
    """An object.

    Raises:
        Unavailable: it is none.
    """
    if not isinstance(answer, dict):
        raise Unavailable(Why.GARBLED, f"{what} did not answer with an object.", "try another version of the tool.")
    return answer
