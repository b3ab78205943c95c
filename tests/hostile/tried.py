"""Records of the tests' results for docs/environments.md, in records/environments.jsonl."""

import fcntl
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ci import records
from tests.hostile.running import Ended

KEPT = records.FOLDER / "environments.jsonl"

SAME = (
    (re.compile(r"\d{4}-\d{6}-[0-9a-f]{4}"), "RUN"),
    (re.compile(r"/\S*/(?=(run|ledger|config|small)\b)"), ".../"),
    (re.compile(r"\bafter \d+(\.\d+)? s"), "after N s"),
    (re.compile(r"(?<=[\d\]]):\d{4,5}\b"), ":PORT"),
    (re.compile(r"\b\d[\d,]* core checks"), "N core checks"),
    (re.compile(r"\b\d+ pods \("), "N pods ("),
    (re.compile(r"\b\d+ Services, \d+ of"), "N Services, N of"),
    (re.compile(r"\btemporarily \d+ more"), "temporarily N more"),
    (re.compile(r"\bagent-[a-z0-9]{5}\b(?!-)"), "agent-XXXXX"),  # of a DaemonSet
    (re.compile(r"\b172\.\d+\.\d+\.\d+|\b10\.\d+\.\d+\.\d+"), "ADDRESS"),
)
"""Parts of messages that differ between runs, and their placeholders on the page."""


def steady(text: str) -> str:
    """A message with placeholders for the parts that differ between runs."""
    for pattern, word in SAME:
        text = pattern.sub(word, text)
    return text


@dataclass(frozen=True)
class Tried:
    """Keeps the record of one test; ``group`` is the part of the page that it belongs to."""

    key: str
    group: str

    def keep(self, ended: Ended, *, what: str, how: str, left: Sequence[str], then: str = "") -> None:
        """Record the situation, the result, and the method.

        Args:
            ended: the run.
            what: what happened around it, in a few words.
            how: how that was brought about here.
            left: what the run left in the cluster.
            then: more that a reader should know.
        """
        sentence, _, hint = ended.message.partition("\n  hint: ")
        for more in ended.messages[1:]:
            later, _, hint = more.partition("\n  hint: ")
            sentence += "" if later in sentence else f" Then: {later}"  # the verdict's line and the message's own
        record: dict[str, Any] = {
            "name": self.key,
            "group": self.group, "what": what, "message": steady(sentence), "hint": steady(hint), "code": ended.code,
            "left": ", ".join(left) or "nothing", "how": how, "then": then,
        }  # fmt: skip
        with KEPT.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two sessions may be at work
            others = [each for each in records.read(KEPT) if each["name"] != self.key]
            records.write(KEPT, sorted([*others, record], key=lambda each: str(each["name"])))
