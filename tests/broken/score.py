"""The score table: for each break whether it was noticed, by which checks, and whether the cause was named."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from esipp.checks.catalog import all_checks
from tests.broken.breakage import Break, Group, Score, Unnoticed

Json = dict[str, Any]

TITLES = {
    Group.SOURCE: "Source rewritten",
    Group.DELIVERY: "Delivery",
    Group.HEALTH: "Health checks",
    Group.BALANCERS: "Load balancers",
    Group.COMPATIBILITY: "Compatibility",
    Group.HARMLESS: "Must not fail",
}


def keep(score: Score, folder: Path) -> None:
    """Write one score where the table looks for it."""
    (folder / f"{score.name}.score.json").write_text(json.dumps(asdict(score), indent=1), encoding="utf-8")


def kept(folder: Path) -> list[Score]:
    """All scores of a session."""
    return [Score(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.score.json"))]


def lines(breaks: Sequence[Break], scores: Iterable[Score]) -> list[str]:
    """The table as the terminal shows it, with what went wrong below its check."""
    by_name = {score.name: score for score in scores}
    tried = [each for each in breaks if each.name in by_name]
    if not tried:
        return []
    wide = max(len(each.name) for each in tried)
    told = [f"{'broken data plane':{wide}}  noticed  right checks  wrong checks  asked  diagnosis  seconds"]
    for group in Group:
        for each in (each for each in tried if each.group is group):
            score = by_name[each.name]
            checks = f"{score.right} of {score.must}"
            amiss = "" if score.good else "  <-- not as it must be"
            told.append(
                f"{each.name:{wide}}  {noticed(each, score):7}  {checks:>10}  {len(score.wrong):10}  "
                f"{score.asked:5}  {named(each, score):9}  {score.seconds:7.0f}{amiss}"
            )
            told += [f"  run anew, for the first run came to no verdict: {score.unjudged}"] if score.unjudged else []
            told += [f"  wrong   {name}: {before} -> {said}" for name, (before, said) in list(score.wrong.items())[:8]]
            told += [f"  missed  {name}: {said}" for name, said in list(score.missed.items())[:8] if not score.good]
    return [*told, summary(tried, by_name)]


def noticed(broken: Break, score: Score) -> str:
    """Whether it was noticed; for what must not fail, whether nothing did."""
    if broken.group is Group.HARMLESS:
        return "no fail" if score.exit_code == 0 else "FAIL"
    return "yes" if score.right and score.exit_code == 1 else "NO"


def named(broken: Break, score: Score) -> str:
    """Whether what a reader is told names the cause."""
    if not broken.names or not score.must:
        return "-"
    return "named" if score.named else "NOT NAMED"


def summary(tried: Sequence[Break], by_name: dict[str, Score]) -> str:
    """One line."""
    red = [each for each in tried if each.group is not Group.HARMLESS]
    seen = sum(noticed(each, by_name[each.name]) == "yes" for each in red)
    calm = [each for each in tried if each.group is Group.HARMLESS]
    kept_calm = sum(by_name[each.name].exit_code == 0 for each in calm)
    wrong = sum(len(by_name[each.name].wrong) for each in tried)
    return (
        f"{seen} of {len(red)} broken data planes noticed, {kept_calm} of {len(calm)} harmless differences without a "
        f"failure, {wrong} wrong checks"
    )


def as_records(
    breaks: Sequence[Break], scores: Iterable[Score], about: Json, before: Iterable[Json] = ()
) -> list[Json]:
    """What records/broken.jsonl keeps: a record of each break's last run, those of ``before`` included."""
    known = {each.name for each in breaks}
    told = {each["name"]: each for each in before} | {score.name: _brief(score) | about for score in scores}
    return [told[name] for name in sorted(told) if name in known]


def _brief(score: Score) -> Json:
    kept = ("name", "asked", "must", "right", "named", "exit_code", "said", "good")
    told = {name: getattr(score, name) for name in kept}
    told |= {"unjudged": score.unjudged} if score.unjudged else {}
    return told | {"seconds": round(score.seconds), "wrong": score.wrong, "missed": score.missed}


def page(breaks: Sequence[Break], unnoticed: Sequence[Unnoticed], records: Iterable[Json]) -> str:
    """docs/broken.md, from the table of breaks and the record of each one's last run."""
    total = len(all_checks())
    names = {each.name for each in fields(Score)}
    # What does not tell how much was asked is of before: other options made it bind.
    kept = {told["name"]: told for told in records if told.get("asked")}
    scores = {name: Score(**{key: value for key, value in told.items() if key in names}) for name, told in kept.items()}
    where = Counter((told["date"], told["cluster"], told["cores"]) for told in kept.values())
    tried = [each for each in breaks if each.name in scores]
    told = [
        "# Broken data planes",
        "",
        "Generated by `./ci/test --broken all`, of each break's last run. A real cluster is broken in one precise way",
        "at a time. Then `esipp run` judges it, by the default command: no option changes what binds. *Noticed* means",
        "exit code 1, by at least one of the right checks. All other checks of that run must stay as they were on the",
        "healthy cluster, and what a reader is told must name the cause.",
        "",
        f"**{summary(tried, scores)}.** {len(tried)} of {len(breaks)} have been run.",
        "",
        *(f"- {date}, {cluster}, {cores} cores: {count}" for (date, cluster, cores), count in sorted(where.items())),
        "",
        "*right checks*: those that notice, of those that must. *wrong checks*: others that changed, of all that it",
        f"asked: *asked*, of the catalogue's {total:,} checks. A break is held against whole suites where that takes a",
        "minute, and against the part of a suite that it concerns where it takes longer. *diagnosis*: whether what is",
        "told of the checks that notice names the cause. Breaks in **bold** are tried by every `.ci/run`.",
        "",
        "*as own*: the reference load balancer serves Services that name no class meanwhile: it is the cluster's own.",
        "On other clusters it is an instrument, and what it does counts neither for nor against them.",
    ]
    for group in Group:
        ours = [each for each in breaks if each.group is group]
        if ours:
            told += ["", f"## {TITLES[group]}", ""]
            told += ["| break | what | noticed | right checks | wrong checks | asked | diagnosis | cluster |"]
            told += ["|---|---|---|---|---|---|---|---|"]
            told += [_line(each, scores.get(each.name), _where(each, kept)) for each in ours]
    told += ["", "## Not to be noticed here", "", "| break | what | why |", "|---|---|---|"]
    told += [f"| {each.name} | {each.what} | {each.why} |" for each in unnoticed]
    told += ["", "## What the diagnosis says", ""]
    told += [f"- **{each.name}**: {_plain(scores[each.name].said)}" for each in tried if scores[each.name].said]
    if anew := [each for each in tried if scores[each.name].unjudged]:
        told += ["", "## Run anew", "", "The first run on these came to no verdict at all, and said why:", ""]
        told += [f"- **{each.name}**: {_plain(scores[each.name].unjudged)}" for each in anew]
    return "\n".join(told) + "\n"


def _where(broken: Break, kept: Json) -> str:
    """On which lane's cluster it was tried last, or is to be; and whether with our load balancer as its own."""
    told = kept.get(broken.name, {}).get("cluster") or f"with {' or '.join(broken.data_planes)}"
    return f"{told}, as own" if broken.asked.own else str(told)


def _line(broken: Break, score: Score | None, where: str) -> str:
    name = f"**{broken.name}**" if broken.fixed else broken.name
    if score is None:
        return f"| {name} | {broken.what} | not run | | | | | {where} |"
    return (
        f"| {name} | {broken.what} | {noticed(broken, score)} | {score.right} of {score.must} | {len(score.wrong)} | "
        f"{score.asked:,} | {named(broken, score)} | {where} |"
    )


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
