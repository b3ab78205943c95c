"""What the commands say of the frozen ledgers, of all checks and of themselves.

``facts`` hold ids, levels, statuses, numbers and exit codes: they stay. ``texts`` hold the words, which may change.
``whole`` is what they keep only a digest of; it is not in the repository. What ends in ``.xz`` is kept compressed.
"""

import contextlib
import hashlib
import io
import json
import lzma
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

from esipp import __version__
from esipp.app.cli import main
from esipp.checks.catalog import all_checks
from esipp.ledger.recorded_checks import check_record
from tests.frozen.cut import names, packed, unpack

HERE = Path(__file__).parent
FACTS, TEXTS, WHOLE = "facts", "texts", "whole"
COLUMNS = "100"
"""The width of the terminal for --help."""

SMALL = ("summary.txt", "report.md", "conformance.yaml")
LARGE = ("report.json", "report.html", "junit.xml", "ctrf-report.json", "statement.json")
"""Reports that are kept whole, and those that are kept as digests."""

TWO = ("kind-cilium", "kind-cilium-disrupted")
"""The runs of one lane that ``esipp diff`` compares. The second one is also judged without names."""

FOR_ALLURE = "kind-iptables"
"""The run with the fewest checks."""

WORDS = ("expected", "observed", "reason", "ports", "change", "witnesses", "likely", "sees")
"""Fields of a verdict that are words."""

Snapshots = dict[str, str]
"""Texts by their paths below this folder."""


# ----------------------------------------------------------------------------------------------------------- a command
def said(*arguments: str) -> tuple[int, str]:
    """The exit code of a command, and its standard output."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out), mock.patch.dict(os.environ, {"COLUMNS": COLUMNS}):
        try:
            code = main(list(arguments))
        except SystemExit as over:  # argparse ends --help in this way
            code = int(over.code or 0)
    out.flush()
    return code, out.buffer.getvalue().decode()


@contextlib.contextmanager
def _in_new_folder() -> Iterator[Path]:
    """A new working directory: what is printed names no other place."""
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        yield Path(place)


def _frame(text: str) -> str:
    """What ``esipp judge`` says first and last, without its version: what it says of each check is elsewhere."""
    first, *_, counted, concluded, written = text.splitlines()
    return _lines([first.replace(f"esipp {__version__}", "esipp (any)"), counted, concluded, written])


def _digest(text: str | bytes) -> str:
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


# ------------------------------------------------------------------------------------------------------- words apart
def _distinct(texts: Iterable[tuple[str, str, str]]) -> str:
    """Each text once: its field, how many checks have it, a digest of their ids, the text.

    The digest stays where only the words of a line change.
    """
    of: dict[tuple[str, str], list[str]] = {}
    for identity, name, text in texts:
        if text:
            of.setdefault((name, text), []).append(identity)
    ordered = sorted(of.items(), key=lambda item: (item[0][0], min(item[1]), _digest(_lines(sorted(item[1])))))
    return _lines(f"{name} x{len(ids)} {_digest(_lines(sorted(ids)))[:8]} {text}" for (name, text), ids in ordered)


def _numbers(value: Any) -> Any:
    """A JSON value without words; lists in an order that does not rest on words."""
    if isinstance(value, dict):
        return {name: _numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted((_numbers(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return "" if isinstance(value, str) else value


# ------------------------------------------------------------------------------------------------------ frozen ledgers
def ledger(name: str) -> Snapshots:
    """A frozen ledger, judged again, and each of its reports."""
    with _in_new_folder() as place:
        unpack(name, place / "run")
        header, *rest = _records(place / "run")
        ids = [check["id"] for check in header["rows"]]
        then = {each["id"]: each["status"] for each in rest if each["record"] == "verdict"}
        judged, judge_says = said("judge", "run", *ids, "--out", "again")
        now = {each["id"]: each for each in _records(place / "again") if each["record"] == "verdict"}
        reported, _ = said("report", "run", "--out", "reports")
        summarised, short = said("summary", "run")
        _, summary = said("summary", "--full", "run")
        reports = {path.name: path.read_text(encoding="utf-8") for path in (place / "reports").iterdir()}
    assert reports.keys() == {*SMALL, *LARGE}, "a report is new, or gone"
    assert summary == reports["summary.txt"]
    document = json.loads(reports["report.json"])
    codes = f"exit codes: judge {judged}, report {reported}, summary {summarised}"
    texts = {f"{TEXTS}/{name}/{file}": reports[file] for file in SMALL}
    texts[f"{TEXTS}/{name}/ending.txt"] = short
    texts[f"{TEXTS}/{name}/judge.txt"] = _frame(judge_says)
    texts[f"{TEXTS}/{name}/verdicts.txt"] = _distinct(_words(now.values()))
    texts[f"{TEXTS}/{name}/digests.txt"] = _lines(f"{_digest(reports[file])}  {file}" for file in LARGE)
    whole = {f"{WHOLE}/{name}/{file}": reports[file] for file in LARGE}
    facts = [codes, *_of_document(document), *_of_junit(reports["junit.xml"])]
    return {
        f"{FACTS}/{name}.txt": _lines([*facts, *(_fact(each, then[each["id"]]) for each in now.values())]),
        **texts,
        **whole,
    }


def _records(run: Path) -> list[Any]:
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]


def _fact(verdict: Mapping[str, Any], recorded: str = "") -> str:
    """What may not change of a verdict; and the status that the run recorded, where it is another."""
    parts = [verdict["status"], verdict["level"], verdict["nature"], ",".join(verdict["shown"])]
    parts.append("+".join(map(str, sorted(verdict["tally"].values(), reverse=True))))
    flags = [f"needs {name}" for name in verdict["missing"]]
    flags += [name for name in ("left_out", "instrument") if verdict[name]]
    flags += [f"recorded as {recorded}"] if recorded not in ("", verdict["status"]) else []
    return " ".join([verdict["id"], *(each or "-" for each in parts), *flags])


def _words(verdicts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for verdict in verdicts:
        yield from ((verdict["id"], name, verdict[name]) for name in WORDS)
        yield from ((verdict["id"], "tally", text) for text in verdict["tally"])
        yield from ((verdict["id"], "reference", each["title"]) for each in verdict["references"])


def _of_document(document: Mapping[str, Any]) -> Iterator[str]:
    said = {name: value for name, value in document["conclusion"].items() if name not in ("why", "lines", "power")}
    yield f"format: {document['format']}"
    yield f"conclusion: {json.dumps(said)}"
    yield f"features: {json.dumps({each['name']: each['present'] for each in document['features']})}"
    for name, value in document.items():
        if isinstance(value, dict | list) and name not in ("conclusion", "features", "rows", "sections"):
            yield f"numbers of {name}: {_digest(json.dumps(_numbers(value), sort_keys=True))[:16]}"


def _of_junit(report: str) -> Iterator[str]:
    found = Counter(
        (case.get("classname"), *sorted({each.tag for each in case} & {"failure", "error", "skipped"}))
        for case in ElementTree.fromstring(report).iter("testcase")  # noqa: S314 - our own
    )
    yield from (f"junit: {count} {' '.join(map(str, kind))}" for kind, count in sorted(found.items()))


def judged() -> Snapshots:
    """``esipp judge`` without names over one frozen ledger: also checks that the run did not have."""
    with _in_new_folder() as place:
        unpack(TWO[1], place / "run")
        code, text = said("judge", "run", "--out", "again")
        found = [each for each in _records(place / "again") if each["record"] == "verdict"]
    statuses = Counter(each["status"] for each in found)
    facts = [f"exit code: {code}", *(f"{count} {status}" for status, count in sorted(statuses.items()))]
    facts.append(f"all: {_digest(_lines(_fact(each) for each in found))}")
    return {f"{FACTS}/judged.txt": _lines(facts), f"{TEXTS}/judged.txt": _frame(text)}


def compared() -> Snapshots:
    """The runs side by side: what changed from one to another, and all in a matrix."""
    with _in_new_folder() as place:
        for name in names():
            unpack(name, place / name)
        diffed, diff = said("diff", *TWO)
        merged, merge = said("merge", *names(), "--only-differences")
    codes = f"exit codes: diff {diffed}, merge {merged}"
    return {f"{FACTS}/compared.txt": _lines([codes]), f"{TEXTS}/diff.txt": diff, f"{TEXTS}/merge.txt": merge}


def allure() -> Snapshots:
    """The results for Allure of one frozen ledger, without the names that are drawn anew each time."""
    with _in_new_folder() as place:
        unpack(FOR_ALLURE, place / "run")
        code, _ = said("report", "run", "--format", "allure", "--out", "results")
        files = {path.name: path.read_text(encoding="utf-8") for path in (place / "results").iterdir()}
    results = [json.loads(text) for name, text in files.items() if name.endswith("-result.json")]
    facts = Counter(each["status"] for each in results)
    drawn = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    texts = sorted((drawn.sub("", name), drawn.sub("", text)) for name, text in files.items())
    return {
        f"{FACTS}/allure.txt": _lines([f"exit code: {code}", *(f"{n} {name}" for name, n in sorted(facts.items()))]),
        f"{TEXTS}/allure.txt": _lines([f"{_digest(json.dumps(texts))}  {len(files)} files"]),
        f"{WHOLE}/allure.txt": _lines(f"{name} {text}" for name, text in texts),
    }


# ---------------------------------------------------------------------------------------------------------- the checks
def checks() -> Snapshots:
    """All checks as ``esipp list --format json`` and ``esipp explain`` tell them."""
    listed, text = said("list", "--format", "json")
    explained, explanation = said("explain", ".")
    checks = [json.loads(line) for line in text.splitlines()]
    _, features = said("list", "--features", "--format", "json")
    words = ("requirement", "references")
    facts, texts = [], []
    for check in checks:
        own = [*words, *([] if isinstance(check["expect"], list) else ["expect"])]
        facts.append(json.dumps({name: value for name, value in check.items() if name not in own}))
        texts.append(json.dumps({name: check[name] for name in ("id", *own)}))
    codes = f"exit codes: list {listed}, explain {explained}"
    return {
        f"{FACTS}/checks.txt": _lines([codes, *_counted(checks)]),
        f"{FACTS}/checks.jsonl.xz": _lines(facts),
        f"{FACTS}/features.jsonl": features,
        f"{TEXTS}/checks.jsonl.xz": _lines(texts),
        f"{TEXTS}/checks.txt": _distinct(_checks_words()),
        f"{TEXTS}/explain.txt": f"{_digest(explanation)}  esipp explain .\n",
        f"{WHOLE}/explain.txt": explanation,
    }


def _counted(checks: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for (suite, level), count in sorted(Counter((check["suite"], check["level"]) for check in checks).items()):
        yield f"{suite} {level} {count}"


def _checks_words() -> Iterator[tuple[str, str, str]]:
    """What many checks have in common; docs/cells.md has their requirements."""
    for check in map(check_record, all_checks()):
        yield from ((check["id"], name, check[name]) for name in ("asked", "fails_if"))
        yield from ((check["id"], "reference", f"{each['title']} <{each['url']}>") for each in check["references"])
        if isinstance(check["expect"], str):
            yield check["id"], "expect", check["expect"]


# -------------------------------------------------------------------------------------------------------------- --help
def helps() -> Snapshots:
    """``--help`` of each command; as facts its options, their choices and its exit codes."""
    code, top = said("--help")
    commands = re.findall(r"^    ([a-z-]+)(?:\s|$)", top.partition("\noptions:")[0], re.MULTILINE)
    assert {"run", "judge"} <= {*commands}, "the commands are not found in --help"
    texts = {"esipp": top} | {f"esipp-{each}": said(each, "--help")[1] for each in commands}
    facts = [line for name, text in texts.items() for line in _of_help(name, text)]
    facts.append(f"exit codes: --help {code}, no command {_misused()}, no such command {_misused('nonsense')}")
    return {f"{FACTS}/help.txt": _lines(facts)} | {f"{TEXTS}/help/{name}.txt": text for name, text in texts.items()}


def _of_help(name: str, text: str) -> Iterator[str]:
    for line in re.findall(r"^  (-.+?)(?: {2,}|$)", text, re.MULTILINE):
        choices = "".join(re.findall(r"\{.*\}", line)[:1])
        options = " ".join(re.findall(r"(?<!\w)--?[a-z][a-z-]*", line))
        yield f"{name} {options} {choices}".rstrip()
    codes = re.findall(r"(?:^|\s{2,})(\d)  \S", text.partition("exit codes")[2], re.MULTILINE)
    yield f"{name} exit codes: {' '.join(sorted(codes))}"


def _misused(*arguments: str) -> int:
    with contextlib.redirect_stderr(io.StringIO()):
        return said(*arguments)[0]


# ------------------------------------------------------------------------------------------------------- kept on disk
PARTS: Mapping[str, Callable[[], Snapshots]] = {
    **{name: lambda name=name: ledger(name) for name in names()},
    "judged": judged,
    "compared": compared,
    "allure": allure,
    "checks": checks,
    "help": helps,
}
"""What makes the snapshots of each part."""


def in_repository(made: Snapshots) -> dict[str, str]:
    """The snapshots that are kept."""
    return {path: text for path, text in made.items() if not path.startswith(WHOLE)}


def kept(path: str) -> str:
    """A snapshot as it is in the repository; empty if there is none."""
    file = HERE / path
    if not file.exists():
        return ""
    return lzma.decompress(file.read_bytes()).decode() if path.endswith(".xz") else file.read_text(encoding="utf-8")


def keep(path: str, text: str, folder: Path | None = None) -> None:
    """Write a snapshot."""
    file = (folder or HERE) / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(packed(text.encode()) if path.endswith(".xz") else text.encode())


def on_disk() -> set[str]:
    """All snapshots in the repository."""
    files = [path for kind in (FACTS, TEXTS) for path in (HERE / kind).rglob("*") if path.is_file()]
    return {path.relative_to(HERE).as_posix() for path in files}
