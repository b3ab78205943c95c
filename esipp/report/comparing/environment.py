"""The environment of several runs compared: cluster, components, suite version and options."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from esipp.checks.check import PROXY_SKEW, PROXY_VERSION
from esipp.ledger.reading import RecordedRun

CHECKS = "checks"
"""The property with the number of checks."""

NOTHING = "none"
"""Replaces a value that a run does not have."""

_DIGEST = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]+")

_OPTIONS = ("samples", "moves", "without", "outside", "fail_on", "allow_disruptive", "redact_cloud_ids", "image",
            "provider")  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One property of the environment with its value in each run, in the order of the runs."""

    group: str
    name: str
    values: tuple[str, ...]

    @property
    def short(self) -> tuple[str, ...]:
        """The values with shortened digests, unless that makes different values equal."""
        cut = tuple(_DIGEST.sub(r"\1…", value) for value in self.values)
        return cut if len(set(cut)) == len(set(self.values)) else self.values

    @property
    def differs(self) -> bool:
        """Whether the values differ."""
        return len(set(self.values)) > 1


def environment(runs: Sequence[RecordedRun]) -> list[Setting]:
    """All properties of the runs and their clusters."""
    groups: dict[str, list[Mapping[str, str]]] = {
        "run": [_of_run(run) for run in runs],
        "fact": [{name: fact.value for name, fact in run.facts.items()} for run in runs],
        "feature": [
            {name: "present" if each.present else "missing" for name, each in run.features.items()} for run in runs
        ],
        "component": [_components(run) for run in runs],
        "option": [_options(run) for run in runs],
    }
    found = []
    for group, values in groups.items():
        names = dict.fromkeys(name for each in values for name in each)
        found += [Setting(group, name, tuple(each.get(name, NOTHING) for each in values)) for name in names]
    return found


def when(run: RecordedRun) -> str:
    """The start of a run in UTC."""
    at = run.header.get("at")
    return f"{datetime.fromtimestamp(float(at), UTC):%Y-%m-%d %H:%M} UTC" if at is not None else "?"


def name_of(run: RecordedRun) -> str:
    """A short name of a run."""
    words = ", ".join([str(run.header.get("lane", "?")), *versions_of(run)])
    return f"{words} (run {run.header.get('run', '?')}, {when(run)})"


def versions_of(run: RecordedRun) -> list[str]:
    """The versions of Kubernetes, and of kube-proxy if it is another one; and the proxy mode."""
    found = {name: run.facts[name].value for name in ("kubernetes", PROXY_VERSION, "proxy-mode") if name in run.facts}
    its = found.pop(PROXY_VERSION, "")
    if PROXY_SKEW in run.facts:
        found["proxy-mode"] = f"kube-proxy {its} {found.get('proxy-mode', '')}".strip()
    return list(found.values())


def _of_run(run: RecordedRun) -> Mapping[str, str]:
    return {
        "suite version": str(run.header.get("suite", NOTHING)),
        "lane": str(run.header.get("lane", NOTHING)),
        "context": str(run.header.get("context", NOTHING)),
        CHECKS: str(len(run.checks)),
        "core checks not selected": str(run.header.get("left_out_core_rows", NOTHING)),
    }


def _components(run: RecordedRun) -> Mapping[str, str]:
    """The components by name, each with all its images."""
    found: dict[str, dict[str, None]] = {}
    for each in run.components:
        words = " ".join(part for part in (each.image, each.version, each.digest) if part)
        found.setdefault(each.name, {})[words or NOTHING] = None
    return {name: "; ".join(sorted(words)) for name, words in found.items()}


def _options(run: RecordedRun) -> Mapping[str, str]:
    options = {name: run.header[name] for name in (*_OPTIONS, "created_with") if name in run.header}
    return {name.replace("_", "-"): _plain(value) for name, value in options.items()}


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(each) for each in value) or NOTHING
    return str(value)
