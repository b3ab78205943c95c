"""``--require FEATURE``: features that the cluster must have, so that a run of it is refused where one is missing."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from esipp.base.errors import PreflightError
from esipp.checks.check import HOST_NETWORK, Check, Feature, Level

MOST_SIMILAR = 5
"""Names that are told of those that are like one that there is not."""

PACKETS = "packets"
"""The feature that stands for the second witness: no check needs it, and all that are paths rest on less without it."""

NOT_LOOKED_FOR = "nothing in this run looked for it"


def add_require(add: Any) -> None:
    """``--require``, for argparse and pytest alike."""
    add(
        "--require",
        action="append",
        default=[],
        metavar="FEATURE|FILE",
        help="end with exit code 4 where the cluster lacks this feature, instead of leaving out what needs it; a file "
        "has one a line; repeatable ('esipp list --features' names them)",
    )


def counts(checks: Iterable[Check]) -> dict[str, Counter[Level]]:
    """Every feature that a check needs, by name, with how many checks of each level need it; and the second witness."""
    found: dict[str, Counter[Level]] = {PACKETS: Counter()}
    for check in checks:
        for name in check.features | ({HOST_NETWORK} if check.on_host_network else set()):
            found.setdefault(name, Counter())[check.level] += 1
    return dict(sorted(found.items()))


def read_required(words: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """The features that these words name, each once, in their order.

    Args:
        words: features, or files that have one a line; what follows a # in a file is a comment.
        known: all features of the suite.

    Raises:
        PreflightError: there is no such feature, and no such file.
    """
    names: list[str] = []
    for word in words:
        names += [word] if word in known else _of_file(word)
    for name in names:
        if name not in known:
            similar = get_close_matches(name, known, MOST_SIMILAR) or [each for each in known if name in each]
            hint = f"similar ones: {', '.join(similar[:MOST_SIMILAR])}; " if similar else ""
            raise PreflightError(
                f"--require {name}: there is no such feature.", f"{hint}'esipp list --features' names all."
            )
    return tuple(dict.fromkeys(names))


def _of_file(word: str) -> list[str]:
    """The lines of a file; of what is no file, the word itself."""
    try:
        lines = Path(word).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return [word]
    except (OSError, UnicodeDecodeError) as broken:
        raise PreflightError(f"--require {word}: the file cannot be read: {broken}.", "one feature a line.") from None
    return [name for line in lines if (name := line.partition("#")[0].strip())]


def lacking(required: Iterable[str], features: Mapping[str, Feature]) -> dict[str, str]:
    """Those that are known to be missing, each with why."""
    return {name: features[name].why for name in required if name in features and not features[name].present}


def check_required(required: Iterable[str], features: Mapping[str, Feature]) -> None:
    """Refuse a cluster that lacks a required feature.

    Raises:
        PreflightError: it does; all that are missing are named.
    """
    if missing := lacking(required, features):
        raise refusal(missing)


def refusal(missing: Mapping[str, str]) -> PreflightError:
    """The error that tells which required features are missing, and why."""
    told = "; ".join(f"{name}, but: {why}" for name, why in missing.items())
    return PreflightError(
        f"This run requires {told}.",
        "give the cluster what it lacks, or leave out --require: the run then says what it did not ask.",
    )
