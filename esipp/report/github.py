"""GitHub Actions output of a run: annotations, folded log groups, the job summary.

Workflow commands are lines of the log (https://docs.github.com/actions/reference/workflow-commands-for-github-actions).
Text of a cluster must not become a command. Within a command it is percent-encoded; elsewhere a random token stops the
processing of commands.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from esipp.base.errors import ExitCode
from esipp.base.plural import counted
from esipp.checks.check import Status
from esipp.ledger.conclusion import KNOWN_DEFECTS
from esipp.ledger.reading import RecordedRun
from esipp.report.causes import TROUBLE, Cause, causes

MOST_ANNOTATIONS = 10
"""How many causes are annotated; GitHub shows at most ten errors and ten warnings of a step."""

LONGEST_MESSAGE = 2000
"""Maximum length of an annotation."""

MOST_SUMMARY = 1000 * 1024
"""Maximum size of a job summary in bytes; GitHub refuses more than 1 MiB per step."""


def runs_here(environment: Mapping[str, str]) -> bool:
    """Whether this process runs in a step of a GitHub workflow."""
    return environment.get("GITHUB_ACTIONS") == "true"


# --------------------------------------------------------------------------------------------------- single commands
def command(name: str, message: str, **properties: str) -> str:
    """A workflow command in one line."""
    pairs = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{name}{' ' if pairs else ''}{pairs}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


@dataclass
class Fold:
    """A folded group of the log in which GitHub interprets no line as a command."""

    title: str
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def opening(self) -> list[str]:
        """The lines before the group."""
        return [command("group", self.title), command("stop-commands", self.token)]

    @property
    def closing(self) -> list[str]:
        """The lines after the group."""
        return [f"::{self.token}::", command("endgroup", "")]

    def around(self, lines: Iterable[str]) -> list[str]:
        """The lines as a folded group."""
        return [*self.opening, *lines, *self.closing]


# -------------------------------------------------------------------------------------------------------- annotations
def annotations(run: RecordedRun) -> list[str]:
    """One annotation for each cause of failures, the worst first; then the conclusion."""
    found = sorted(causes(run.qualified, run.verdicts), key=lambda cause: _rank(cause, run))
    lines = [_annotation(cause, run) for cause in found[:MOST_ANNOTATIONS]]
    if rest := found[MOST_ANNOTATIONS:]:
        checks = sum(len(cause.checks) for cause in rest)
        level = "error" if any(_level(cause, run) == "error" for cause in rest) else "warning"
        text = f"{counted(len(rest), 'more cause')} ({counted(checks, 'check')}): see the job summary and the report"
        lines.append(command(level, text, title="esipp"))
    said = run.conclusion
    only_known = said.result == KNOWN_DEFECTS and said.exit_code is not ExitCode.CONFORMANT  # no check fails
    return [*lines, command("error" if only_known else "notice", said.sentence, title="esipp")]


def _level(cause: Cause, run: RecordedRun) -> str:
    """``error`` for binding failures and for suite errors; ``warning`` for all else."""
    verdicts = [run.verdicts[check.id] for check in cause.checks]
    wrong = any(run.scale.binds(each) and each.status is not Status.INCONCLUSIVE for each in verdicts)
    return "error" if wrong or cause.verdict.status is Status.ERROR else "warning"


def _rank(cause: Cause, run: RecordedRun) -> tuple[int, int]:
    return (0 if _level(cause, run) == "error" else 1, TROUBLE.index(cause.verdict.status))


def _annotation(cause: Cause, run: RecordedRun) -> str:
    first = cause.first
    details = {label: cause.details.get(label, "") for label in ("expected", "observed", "reason", "likely")}
    details["also"] = counted(len(cause.others), "more check") if cause.others else ""
    details["repeat"] = f"{run.header['command']} {first.id}"
    text = "\n".join([first.requirement, *(f"{label}: {words}" for label, words in details.items() if words)])
    title = f"{cause.verdict.status.value} ({first.level.value}) {first.id}"
    return command(_level(cause, run), text[:LONGEST_MESSAGE], title=title)


# -------------------------------------------------------------------------------------------------------- job summary
def append_summary(path: Path, text: str) -> None:
    """Append to the job summary; cut a text that is too long for GitHub at the end of a line, with a note.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("a", encoding="utf-8") as file:
        file.write(_cut(text, MOST_SUMMARY - path.stat().st_size))


def _cut(text: str, most: int) -> str:
    raw = text.encode()
    if len(raw) <= most:
        return text if text.endswith("\n") else f"{text}\n"
    note = "\n\nGitHub limits the length of a summary, so the rest is cut. The report of the run has all of it.\n"
    kept = raw[: max(0, most - len(note))].decode(errors="ignore")
    return kept.rpartition("\n")[0] + note
