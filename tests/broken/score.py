"""The score table: for each break, which checks noticed it, and whether the diagnosis named the cause."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from esipp.base import markdown
from esipp.base.json import Json
from esipp.checks.catalog import all_checks
from tests.broken.breakage import Break, Group, Score, Unnoticed

TITLES = {
    Group.SOURCE: "Source rewritten",
    Group.DELIVERY: "Delivery",
    Group.HEALTH: "Health checks",
    Group.BALANCERS: "Load balancers",
    Group.COMPATIBILITY: "Compatibility",
    Group.NODES: "Single nodes, addresses and endpoints",
    Group.CHANGES: "Changes of Services and pods",
    Group.HARMLESS: "Must not fail",
}


def keep(score: Score, folder: Path) -> None:
    """Write one score for the table."""
    (folder / f"{score.name}.score.json").write_text(json.dumps(asdict(score), indent=1), encoding="utf-8")


def kept(folder: Path) -> list[Score]:
    """All scores of a session."""
    return [Score(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.score.json"))]


def lines(breaks: Sequence[Break], scores: Iterable[Score]) -> list[str]:
    """The table for the terminal; each break is followed by its wrong and missed checks."""
    by_name = {score.name: score for score in scores}
    tried = [each for each in breaks if each.name in by_name]
    if not tried:
        return []
    wide = max(len(each.name) for each in tried)
    text_lines = [f"{'broken data plane':{wide}}  noticed  right checks  wrong checks  asked  diagnosis  seconds"]
    for group in Group:
        for each in (each for each in tried if each.group is group):
            score = by_name[each.name]
            checks = f"{score.right} of {score.must}"
            amiss = "" if score.good else "  <-- not as required"
            text_lines.append(
                f"{each.name:{wide}}  {noticed(each, score):7}  {checks:>10}  {len(score.wrong):10}  "
                f"{score.asked:5}  {named(each, score):9}  {score.seconds:7.0f}{_longer(score)}{amiss}"
            )
            text_lines += [f"  repeated, as the first run does not count: {score.repeated}"] if score.repeated else []
            text_lines += [f"  {amiss}" for amiss in score.amiss()[1:]]
    return [*text_lines, summary(tried, by_name)]


def _longer(score: Score) -> str:
    """How many times as long as the same run on the healthy cluster it took."""
    return f", {score.seconds / score.healthy:.1f} x healthy" if score.healthy else ""


def noticed(broken: Break, score: Score) -> str:
    """Whether checks noticed the break; for a harmless difference, whether no check failed."""
    if broken.group is Group.HARMLESS:
        return "no fail" if score.exit_code == 0 else "FAIL"
    return "yes" if score.right and score.exit_code == 1 else "NO"


def named(broken: Break, score: Score) -> str:
    """Whether the diagnosis names the cause."""
    if not broken.names or not score.must:
        return "-"
    return "named" if score.named else "NOT NAMED"


def summary(tried: Sequence[Break], by_name: dict[str, Score]) -> str:
    """The summary, one line."""
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
    """The records for records/broken.jsonl: each break's last run, including those in ``before``."""
    known = {each.name for each in breaks}
    by_name = {each["name"]: each for each in before} | {score.name: _brief(score) | about for score in scores}
    return [by_name[name] for name in sorted(by_name) if name in known]


def _brief(score: Score) -> Json:
    kept = ("name", "asked", "must", "right", "named", "exit_code", "said", "good")
    values = {name: getattr(score, name) for name in kept}
    values |= {"repeated": score.repeated} if score.repeated else {}
    values |= {"healthy": round(score.healthy)} if score.healthy else {}
    return values | {"seconds": round(score.seconds), "wrong": score.wrong, "missed": score.missed}


def page(breaks: Sequence[Break], unnoticed: Sequence[Unnoticed], records: Iterable[Json]) -> str:
    """docs/broken.md, from the breaks and the record of each one's last run."""
    total = len(all_checks())
    names = {each.name for each in fields(Score)}
    # Records without ``asked`` are older: other options made their checks binding.
    kept = {record["name"]: record for record in records if record.get("asked")}
    scores = {
        name: Score(**{key: value for key, value in record.items() if key in names}) for name, record in kept.items()
    }
    where = Counter((record["date"], record["cluster"], record["cores"]) for record in kept.values())
    tried = [each for each in breaks if each.name in scores]
    text_lines = [
        "# Broken data planes",
        "",
        "Generated by `./ci/test --broken all`, from each break's last run. Each break changes a real cluster in one",
        "precise way. Then `esipp run` judges the cluster with the default command: no option changes which checks are",
        "binding. *noticed* means exit code 1, with at least one of the right checks failing. All other checks of "
        "that run",
        "must have the same verdict as on the healthy cluster, and the diagnosis must name the cause.",
        "",
        f"**{summary(tried, scores)}.** {len(tried)} of {len(breaks)} breaks have a run.",
        "",
        *(f"- {date}, {cluster}, {cores} cores: {count}" for (date, cluster, cores), count in sorted(where.items())),
        "",
        "*right checks*: the checks that noticed, of those that must. *wrong checks*: other checks with a changed "
        "verdict.",
        f"*asked*: the checks of that run, of the catalogue's {total:,}. A run covers whole suites if that takes a "
        f"minute,",
        "else the part of a suite that the break concerns. *diagnosis*: whether the report of the checks that noticed",
        "names the cause. Every `.ci/run` includes the breaks in **bold**.",
        "",
        "*as own*: during that run, the reference load balancer serves Services without a class, as the cluster's "
        "default.",
        "On other clusters it is a measuring instrument, and its behaviour does not affect their verdict.",
    ]
    for group in Group:
        ours = [each for each in breaks if each.group is group]
        if ours:
            text_lines += ["", f"## {TITLES[group]}", ""]
            text_lines += markdown.table(
                HEADS, (_cells(each, scores.get(each.name), _where(each, kept)) for each in ours)
            )
    text_lines += ["", "## Breaks that no check can notice", ""]
    text_lines += markdown.table(
        ("break", "description", "reason"), ((each.name, each.what, each.why) for each in unnoticed)
    )
    text_lines += ["", "## Diagnoses", ""]
    text_lines += [f"- **{each.name}**: {_plain(scores[each.name].said)}" for each in tried if scores[each.name].said]
    if anew := [each for each in tried if scores[each.name].repeated]:
        text_lines += [
            "",
            "## Repeated runs",
            "",
            "The first run with these breaks does not count, for this reason. In the second one nothing else ran.",
            "",
        ]
        text_lines += [f"- **{each.name}**: {_plain(scores[each.name].repeated)}" for each in anew]
    return "\n".join(text_lines) + "\n"


def _where(broken: Break, kept: Json) -> str:
    """The lane of the last run, or of a future one; and whether the reference load balancer was the default."""
    cluster = kept.get(broken.name, {}).get("cluster") or f"with {' or '.join(broken.data_planes)}"
    return f"{cluster}, as own" if broken.run.own else str(cluster)


HEADS = ("break", "description", "noticed", "right checks", "wrong checks", "asked", "diagnosis", "cluster")


def _cells(broken: Break, score: Score | None, where: str) -> tuple[object, ...]:
    name = f"**{broken.name}**" if broken.fixed else broken.name
    if score is None:
        return name, broken.what, "not run", "", "", "", "", where
    right = f"{score.right} of {score.must}"
    return (
        name, broken.what, noticed(broken, score), right, len(score.wrong), f"{score.asked:,}", named(broken, score),
        where,
    )  # fmt: skip


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
