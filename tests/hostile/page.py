"""docs/surroundings.md, of what the tests here saw."""

from collections.abc import Mapping, Sequence
from typing import Any

HEAD = """# Bad input and hostile surroundings

What a run says, and how it ends, when it is asked wrongly or something happens around it. Each was tried on a kind
cluster by `tests/hostile` (`./ci/enter python -m pytest tests/hostile --context kind-esipp`), which also keeps what is
told here, in `records/surroundings.jsonl`; `ci/generate` renders this page. `RUN` is a run's id. That a check fails, or
is flaky because of any of this, would be our mistake.
"""

GROUPS = {
    "input": (
        "Before a run",
        "Exit code 4: nothing was created. 3: it was noticed once pods were wanted. 0: no harm done.",
    ),
    "policies": ("What the cluster forbids", ""),
    "beside": ("Beside another run", ""),
    "midway": (
        "While a run goes on",
        "A run outlives what it can. What it observed is judged only if its own pods and probers were whole meanwhile. "
        "Results are PARTIAL as few checks were asked for here.",
    ),
}

TAIL = """
## What is not on this page

* **A folder that cannot be written**: unit tests (`tests/unit/test_ledger.py`).
* **An engine that does not start** is told by `ci/conformance`, not by `esipp`.
* **A clock that is stepped for the whole machine** was not tried, as it is everybody's: the run's own process was told
  other times. It waits, and compares with its probers, by monotonic clocks only.
* **NetworkPolicies that are enforced**: the network add-on of the cluster here (`ci/hermetic/node/network_addon.py`)
  enforces none; kind's own does, since kind v0.24, and was not at hand. That one of ours is made beside one that denies
  everything was tried; that it lifts the other is the API's promise, as policies only add up. Those of add-ons for the
  whole cluster (ClusterNetworkPolicy, Calico's, Cilium's) cannot be lifted so, and what they forbid looks like the data
  plane's silence.
"""


def render(tried: Sequence[Mapping[str, Any]]) -> str:
    """The page."""
    parts = [HEAD]
    for group, (title, words) in GROUPS.items():
        checks = [each for each in tried if each["group"] == group]
        parts += [f"\n## {title}\n", f"\n{words}\n" if words else ""]
        parts += [
            "\n| what happens | what is said | exit code | what is left | how it was tried |\n|---|---|---|---|---|\n"
        ]
        parts += [_check(each) for each in checks]
    return "".join(parts) + TAIL


def _check(told: Mapping[str, Any]) -> str:
    said = _table_cell(told["message"]) + (f"<br>hint: {_table_cell(told['hint'])}" if told["hint"] else "")
    left = told["left"] + (f"; {told['then']}" if told["then"] else "")
    what, how = _table_cell(told["what"]), _table_cell(told["how"])
    return f"| {what} | {said} | {told['code']} | {_table_cell(left)} | {how} |\n"


def _table_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
