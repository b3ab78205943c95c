"""Generated tables between two comments in hand-written pages; `ci/generate` renders them.

The first comment names the table and its arguments. In guides these are profiles and options of ``esipp plan``:
``<!-- planned: haproxy --without load-balancer -->`` … ``<!-- end -->``.
"""

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

from ci import lane_lists, records
from esipp.app.plan.assumed_cluster import Asked
from esipp.app.plan.document import minutes
from esipp.app.plan.plan import Plan, plan
from esipp.base import markdown
from esipp.checks.catalog import HOUSE, all_checks
from esipp.checks.check import Check, Level
from esipp.checks.profile import Source
from esipp.loadbalancers.profiles.loading import named
from esipp.loadbalancers.profiles.words import bound, seconds
from tests.large import page as large
from tests.unit import objects_world

DOCS = HOUSE / "docs"
BLOCK = re.compile(r"<!-- (?P<table>[a-z ]+): (?P<words>[^>]*) -->\n(?P<body>.*?)<!-- end -->", re.DOTALL)

Table = Callable[[Sequence[str], tuple[str, ...]], Iterable[str]]
"""The lines of a table, from the names and excluded features in its comment."""

FEATURES = {
    "sctp": "SCTP, which takes raw sockets",
    "disruptive": "disruptions",
    "rights.services-status": "writing a load balancer's status, as its controller does",
}
"""Features that an account may lack, with their descriptions in docs/rights.md."""

PARTS = ("checks", "endpoint changes", "load balancers")
"""The parts of a plan's time."""


def pages() -> list[Path]:
    """The pages with generated tables."""
    written = sorted([*DOCS.rglob("*.md"), HOUSE / "ci" / "README.md"])
    return [page for page in written if BLOCK.search(page.read_text(encoding="utf-8"))]


@cache
def planned_at(name: str, without: tuple[str, ...]) -> Plan:
    """The plan of all checks, as ``esipp plan --provider NAME --without FEATURE`` makes it."""
    return plan(Asked(named(name), all_checks(), without=without))


def rewritten(text: str) -> str:
    """A page with its tables rendered anew."""
    return BLOCK.sub(_block, text)


def _block(found: re.Match[str]) -> str:
    parser = argparse.ArgumentParser(prog=found["table"], exit_on_error=False)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--without", action="append", default=[])
    options = parser.parse_args(shlex.split(found["words"]))
    lines = "\n".join(TABLES[found["table"]](options.names, tuple(options.without)))
    return f"<!-- {found['table']}: {found['words']} -->\n\n{lines}\n\n<!-- end -->"


def _of_plans(lines: Callable[[Sequence[Plan]], Iterator[str]]) -> Table:
    return lambda names, without: lines([planned_at(name, without) for name in names])


def _planned(plans: Sequence[Plan]) -> Iterator[str]:
    """Numbers of checks and objects, and times."""
    yield from _head("planned, not measured", plans)
    yield _check("checks asked", (f"{len(each.asked)} of {each.checks}, {_core(each.asked)} core" for each in plans))
    yield _check("**load balancers**, at most at once", (f"**{each.made.balancers}**" for each in plans))
    yield _check("other Services, pods", (_others(each) for each in plans))
    yield _check("**time** in total, about", (f"**{minutes(each.seconds)}**" for each in plans))
    yield _check(f"of that {', '.join(PARTS)}", (_parts(each) for each in plans))
    yield _check("timeouts for a VIP, an answer, removal", (_waits(each) for each in plans))
    yield _check("black hole under Local, at most", (bound(each.profile.local) for each in plans))
    rises = (each.profile.rise for each in plans)
    yield _check("traffic to a new pod's node within", (seconds(rise) if rise else "-" for rise in rises))


def _others(made: Plan) -> str:
    return f"{made.made.services + made.made.unserved + made.made.reference}, {made.made.pods}"


def _parts(made: Plan) -> str:
    took = {part.name: minutes(part.seconds) for part in made.parts}
    return ", ".join(took.get(name, "-") for name in PARTS)


def _waits(made: Plan) -> str:
    patience = made.patience
    return ", ".join(map(seconds, (patience.assigned, patience.answering, patience.removed)))


def _left_out(plans: Sequence[Plan]) -> Iterator[str]:
    """Unsupported checks by reason; features that share a reason are listed together."""
    counts: dict[str, dict[str, list[Check]]] = {}
    features: dict[str, set[str]] = {}
    for each in plans:
        for reason, checks in each.unsupported.items():
            needs = re.fullmatch(r"needs ([\w.-]+)(?:: (.*))?", reason)
            why = (needs[2] or f"needs {needs[1]}") if needs else reason
            why = why.removeprefix(f"{each.profile.name} ")
            counts.setdefault(why, {}).setdefault(each.profile.name, []).extend(checks)
            features.setdefault(why, set()).update({needs[1]} if needs else ())
    yield from _head("`unsupported`, because", plans)
    for why, by in sorted(counts.items(), key=lambda each: -max(map(len, each[1].values()))):
        yield _check(why + _features(sorted(features[why])), (_count(by.get(each.profile.name, [])) for each in plans))


def _features(names: Sequence[str]) -> str:
    """Features in brackets; of more than two, their common prefix."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    labels = names if len(names) < 3 else ["".join(letters[0] for letters in same) + "…"]
    return f" (`{'`, `'.join(labels)}`)" if labels else ""


def _known(plans: Sequence[Plan]) -> Iterator[str]:
    """Limits and traps of the profiles, with their profiles and sources."""
    limits: dict[tuple[str, str], list[str]] = {}
    traps: dict[str, list[str]] = {}
    sources: dict[str, tuple[Source, ...]] = {}
    for each in plans:
        for limit, checks in each.limited:
            why = limit.why.removeprefix(f"{each.profile.name} ")
            limits.setdefault((limit.outcome.value, why), []).append(f"`{each.profile.name}` {_count(checks)}")
            sources[why] = (*sources.get(why, ()), *limit.sources)
        for trap in each.profile.traps:
            traps.setdefault(trap.text, []).append(f"`{each.profile.name}`")
            sources[trap.text] = (*sources.get(trap.text, ()), *trap.sources)
    rows = [(f"**{outcome}**", why, ", ".join(by), _cited(sources[why])) for (outcome, why), by in limits.items()]
    rows += [
        ("trap", text, "all" if len(by) == len(plans) else ", ".join(by), _cited(sources[text]))
        for text, by in traps.items()
    ]
    return markdown.table(("outcome", "description", "profiles, with number of checks", "source, grade"), rows)


def _lacking(features: Sequence[str], _: tuple[str, ...]) -> Iterator[str]:
    """Number of unsupported checks without each feature, and without all of them."""
    rows: list[tuple[object, ...]] = []
    for name in features:
        checks = [check for check in all_checks() if name in check.features]
        rows.append((f"{FEATURES[name]} (`{name}`)", len(checks), _core(checks)))
    checks = [check for check in all_checks() if check.features & set(features)]
    rows.append(("all of them", f"{len(checks)} of {len(all_checks())}", _core(checks)))
    return markdown.table(("missing", "unsupported checks", "of these core"), rows)


def _measured(names: Sequence[str], _: tuple[str, ...]) -> Iterable[str]:
    """A table of records, by the name of their file."""
    (name,) = names
    return large.table(records.read(records.FOLDER / f"{name}.jsonl"))


def _created(*_: object) -> Iterator[str]:
    """What a run of all checks creates."""
    services = objects_world.services().values()
    yield f"* {len(objects_world.pods()) - 2} pods, and a Deployment of two more;"
    served = sum(map(objects_world.is_served, services))
    yield f"* {len(services)} Services, {served} of them served by the cluster's own load balancer;"


def _cited(sources: Iterable[Source]) -> str:
    def one(source: Source) -> str:
        name = source.text.partition(": ")[0]
        return f"{f'[{name}]({source.url})' if source.url else name}, {source.grade.value}"

    return "; ".join(dict.fromkeys(map(one, sources)))


def _core(checks: Iterable[Check]) -> int:
    return sum(check.level is Level.CORE for check in checks)


def _count(checks: Sequence[Check]) -> str:
    return f"{len(checks)} ({_core(checks)} core)" if checks else "-"


def _head(what: str, plans: Sequence[Plan]) -> Iterator[str]:
    yield _check(what, (f"`{each.profile.name}`" for each in plans))
    yield "|---" * (len(plans) + 1) + "|"


def _check(name: str, path_checks: Iterable[str]) -> str:
    return f"| {' | '.join([name, *path_checks])} |"


TABLES: dict[str, Table] = {
    "planned": _of_plans(_planned),
    "left out": _of_plans(_left_out),
    "known": _of_plans(_known),
    "lacking": _lacking,
    "measured": _measured,
    "created": _created,
    "lanes": lambda patterns, _: lane_lists.table(patterns),
}
"""Tables by name."""
