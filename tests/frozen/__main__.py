"""``python -m tests.frozen``: write the snapshots anew, or cut a ledger."""

import argparse
import sys
from pathlib import Path

from tests.frozen.cut import CannotCutError, cut
from tests.frozen.snapshots import FACTS, HERE, PARTS, in_repository, keep, kept, on_disk


def main() -> int:
    """Do what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the texts anew; refuse if a fact changes")
    parser.add_argument("--facts", action="store_true", help="with --write: write the facts anew, too")
    parser.add_argument(
        "--render", metavar="DIR", type=Path, help="write there all that is snapshot, whole, to compare two commits"
    )
    parser.add_argument("--cut", nargs=2, metavar=("RUN", "NAME"), help="cut the ledger of a run to a frozen one")
    options = parser.parse_args()
    if options.cut:
        return _cut(Path(options.cut[0]), options.cut[1])
    if not options.write and not options.render:
        parser.error("name --write, --render or --cut")
    made = everything()
    if options.render:
        for path, text in made.items():
            keep(path.removesuffix(".xz"), text, options.render)
    return write(in_repository(made), facts=options.facts) if options.write else 0


def everything() -> dict[str, str]:
    """Every snapshot as it is made now, whole."""
    return {path: text for make in PARTS.values() for path, text in make().items()}


def anew(facts: bool) -> int:
    """Write the snapshots that changed; the exit code."""
    return write(in_repository(everything()), facts=facts)


def _cut(run: Path, name: str) -> int:
    try:
        to = cut(run, name)
    except CannotCutError as broken:
        print(broken, file=sys.stderr)
        return 1
    print(f"{to.relative_to(HERE)}: {to.stat().st_size // 1000} kB; next: python -m tests.frozen --write --facts")
    return 0


def write(made: dict[str, str], *, facts: bool) -> int:
    """Write the snapshots that changed; facts only where that is asked for."""
    changed = [path for path in {*made, *on_disk()} if made.get(path) != kept(path)]
    refused = [path for path in changed if path.startswith(FACTS) and not facts]
    for path in sorted({*changed} - {*refused}):
        print(path)
        if path in made:
            keep(path, made[path])
        else:
            (HERE / path).unlink()
    for path in sorted(refused):
        print(f"a fact changes, so it is not written (--facts writes it): {path}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
