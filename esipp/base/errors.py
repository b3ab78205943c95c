"""What can go wrong that is not the product's fault: a sentence, a hint, an exit code (docs/architecture.md, law 8)."""

from enum import IntEnum

from esipp.base.redaction import redact


class ExitCode(IntEnum):
    """The exit codes of every esipp command."""

    CONFORMANT = 0
    NOT_CONFORMANT = 1
    INTERRUPTED = 2
    HARNESS = 3
    USAGE = 4
    NOTHING_SELECTED = 5


class EsippError(Exception):
    """A failure of ours or of the surroundings, told as one sentence and a hint, neither of which holds a secret.

    Args:
        sentence: what is wrong, in one sentence a user can act on.
        hint: what to do about it.
    """

    exit_code = ExitCode.HARNESS

    def __init__(self, sentence: str, hint: str = "") -> None:
        self.sentence = redact(sentence)
        self.hint = redact(hint)
        super().__init__(self.sentence)

    def __str__(self) -> str:
        return f"{self.sentence}\n  hint: {self.hint}" if self.hint else self.sentence


class PreflightError(EsippError):
    """Found before anything was created: bad input, missing rights, an unfit cluster."""

    exit_code = ExitCode.USAGE


class HarnessError(EsippError):
    """Found while running: the verdict on the product is open, not negative."""

    exit_code = ExitCode.HARNESS
