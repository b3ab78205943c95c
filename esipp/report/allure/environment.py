"""Allure's environment, categories and executor files."""

import json
from pathlib import Path

from esipp.ledger.reading import RecordedRun

CATEGORIES = (
    {"name": "Product failure", "matchedStatuses": ["failed"], "messageRegex": r"(?s).*\bfail: expected .*"},
    {"name": "Flaky", "matchedStatuses": ["failed"], "messageRegex": r"(?s).*\bflaky: expected .*"},
    {
        "name": "Inconclusive",
        "matchedStatuses": ["broken"],
        "messageRegex": r"(?s).*\binconclusive: expected .*",
    },
    {
        "name": "Harness error",
        "matchedStatuses": ["broken"],
        "messageRegex": r"(?s)(?!.*\binconclusive: expected ).*",
    },
    {"name": "Known difference", "matchedStatuses": ["skipped"], "messageRegex": r"(?s)XFAIL.*"},
    {"name": "Unsupported", "matchedStatuses": ["skipped"], "messageRegex": r"(?s)(?!XFAIL).*needs .*"},
)
"""They match the messages that a verdict ends its test with (outcome.py)."""


def write_environment(run: RecordedRun, folder: Path) -> None:
    """Write the files into the results' folder; keep an executor.json that CI has written.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    properties = {
        "result": run.conclusion.sentence,
        "esipp": run.header["suite"],
        "run": run.header["run"],
        "lane": run.header["lane"],
        "context": run.header["context"],
        "command": run.command,
        **{name: fact.value for name, fact in sorted(run.facts.items())},
        **{f"component.{each.name}": f"{each.image} {each.digest}".strip() for each in run.components},
    }
    lines = [f"{_escape(name, key=True)} = {_escape(value)}\n" for name, value in properties.items()]
    (folder / "environment.properties").write_text("".join(lines), encoding="ascii")
    (folder / "categories.json").write_text(json.dumps(CATEGORIES, indent=1) + "\n", encoding="utf-8")
    executor = folder / "executor.json"
    if not executor.exists():
        name = {"name": "esipp", "type": "esipp", "buildName": f"{run.header['lane']} {run.header['run']}"}
        executor.write_text(json.dumps(name | {"reportName": "source IP qualification"}, indent=1) + "\n", "utf-8")


def _escape(text: object, key: bool = False) -> str:
    """The text in the format of Java properties: ASCII, one line."""
    characters = []
    for each in str(text).encode("utf-16-be", errors="replace").decode("utf-16-be", errors="replace"):
        if each in "\\\n\r\t" or (key and each in " :=#!"):
            characters.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(each, "\\" + each))
        elif " " <= each <= "~":
            characters.append(each)
        else:
            units = each.encode("utf-16-be")
            characters += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return "".join(characters)
