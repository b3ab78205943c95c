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
from esipp.report.causes import TROUBLE, Group, causes_of_others, causes_of_paths

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
    paths = [check for check in run.qualified if check.place]
    others = [check for check in run.qualified if not check.place]
    groups = [*causes_of_paths(paths, run.verdicts), *causes_of_others(others, run.verdicts)]
    groups.sort(key=lambda group: _rank(group, run))
    lines = [_annotation(group, run) for group in groups[:MOST_ANNOTATIONS]]
    rest = groups[MOST_ANNOTATIONS:]
    if rest:
        checks = sum(len(group) for group in rest)
        level = "error" if any(_level(group, run) == "error" for group in rest) else "warning"
        text = f"{counted(len(rest), 'more cause')} ({counted(checks, 'check')}): see the job summary and the report"
        lines.append(command(level, text, title="esipp"))
    said = run.conclusion
    only_known = said.result == KNOWN_DEFECTS and said.exit_code is not ExitCode.CONFORMANT  # no check fails
    return [*lines, command("error" if only_known else "notice", said.sentence, title="esipp")]


def _level(group: Group, run: RecordedRun) -> str:
    """``error`` for binding failures and for suite errors; ``warning`` for all else."""
    verdicts = [run.verdicts[check.id] for check in group]
    wrong = any(run.scale.binds(each) and each.status is not Status.INCONCLUSIVE for each in verdicts)
    return "error" if wrong or verdicts[0].status is Status.ERROR else "warning"


def _rank(group: Group, run: RecordedRun) -> tuple[int, int]:
    status = run.verdicts[group[0].id].status
    return (0 if _level(group, run) == "error" else 1, TROUBLE.index(status))


def _annotation(group: Group, run: RecordedRun) -> str:
    first, *others = group
    verdict = run.verdicts[first.id]
    counts = verdict.status is not Status.INCONCLUSIVE  # no observation of it counts
    details = {
        "": first.requirement,
        "expected": verdict.expected if counts else "",
        "observed": verdict.observed if counts else "",
        "reason": verdict.reason,
        "likely": verdict.likely,
        "also": counted(len(others), "more check") if others else "",
        "repeat": f"{run.header['command']} {first.id}",
    }
    text = "\n".join(f"{label}: {said}" if label else said for label, said in details.items() if said)
    title = f"{verdict.status.value} ({first.level.value}) {first.id}"
    return command(_level(group, run), text[:LONGEST_MESSAGE], title=title)


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
