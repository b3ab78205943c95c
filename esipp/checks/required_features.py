"""``--require FEATURE``: features that the cluster must have; without one, the run is refused."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from esipp.base.errors import PreflightError, did_you_mean
from esipp.checks.check import HOST_NETWORK, Check, Feature, Level

PACKETS = "packets"
"""The feature of packet capture, the second witness. Only comparisons with a load balancer's profile
need it; path checks have less evidence without."""

NOT_LOOKED_FOR = "this run did not check for it"


def add_require(add: Any) -> None:
    """Add ``--require`` to argparse or pytest."""
    add(
        "--require",
        action="append",
        default=[],
        metavar="FEATURE|FILE",
        help="exit with code 4 if the cluster lacks this feature, instead of skipping checks that need it; a file has "
        "one feature per line; repeatable ('esipp list --features' lists them)",
    )


def counts(checks: Iterable[Check]) -> dict[str, Counter[Level]]:
    """Return every feature that a check needs, with the number of checks of each level; and packet capture."""
    found: dict[str, Counter[Level]] = {PACKETS: Counter()}
    for check in checks:
        for name in check.features | ({HOST_NETWORK} if check.on_host_network else set()):
            found.setdefault(name, Counter())[check.level] += 1
    return dict(sorted(found.items()))


def read_required(words: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the features that these words name, each once, in their order.

    Args:
        words: features, or files with one feature per line; a # in a file begins a comment.
        known: all features of the suite.

    Raises:
        PreflightError: there is neither such a feature nor such a file.
    """
    names: list[str] = []
    for word in words:
        names += [word] if word in known else _of_file(word)
    for name in names:
        if name not in known:
            hint = f"{did_you_mean(name, known)}'esipp list --features' lists all."
            raise PreflightError(f"--require {name}: there is no such feature.", hint)
    return tuple(dict.fromkeys(names))


def _of_file(word: str) -> list[str]:
    """Return the lines of a file, or the word itself if there is no such file."""
    try:
        lines = Path(word).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return [word]
    except (OSError, UnicodeDecodeError) as broken:
        raise PreflightError(
            f"--require {word}: cannot read the file: {broken}.", "use one feature per line."
        ) from None
    return [name for line in lines if (name := line.partition("#")[0].strip())]


def lacking(required: Iterable[str], features: Mapping[str, Feature]) -> dict[str, str]:
    """Return the features that are known to be missing, each with the reason."""
    return {name: features[name].why for name in required if name in features and not features[name].present}


def check_required(required: Iterable[str], features: Mapping[str, Feature]) -> None:
    """Refuse a cluster that lacks a required feature.

    Raises:
        PreflightError: it does; the message names all missing features.
    """
    if missing := lacking(required, features):
        raise refusal(missing)


def refusal(missing: Mapping[str, str]) -> PreflightError:
    """Return the error with the missing features and the reasons."""
    lacks = "; ".join(f"{name}, but: {why}" for name, why in missing.items())
    return PreflightError(
        f"This run requires {lacks}.",
        "add the missing features to the cluster, or omit --require: the report then lists the skipped checks.",
    )
