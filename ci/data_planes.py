"""records/data-planes.jsonl and docs/data-planes.md: how runs on other data planes differ from kube-proxy's iptables.

`ci/matrix --record` keeps what its runs show, a record a data plane, which is what was found on the cluster and not
the lane's name: a new run of it takes the old one's place. ``python -m ci.data_planes --record RUN…`` keeps runs made
otherwise, ``--expired`` names known differences that are claimed for a data plane there and were not seen on it; the
exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ci import records
from ci.data_planes_page import render
from ci.expiry import Record, expired_kept, facts_of, sights_of, told_sight
from ci.places import ROOT
from esipp.base.errors import EsippError, PreflightError
from esipp.checks.known_differences import all_claims
from esipp.checks.reference import titles
from esipp.ledger.reading import RecordedRun, read_run
from esipp.report.comparing.data_planes import Differing, Plane, differing, plane_of, reference_for

KEPT = records.FOLDER / "data-planes.jsonl"
PAGE = ROOT / "docs" / "data-planes.md"
FACTS = ("kubernetes", "kube-proxy-version", "service-proxy", "proxy-mode", "network-add-on", "detect-local",
         "node-port-addresses", "families.services", "pod-to-node.ipv4", "pod-to-node.ipv6", "load-balancer.profile",
         "load-balancer.ingress", "kernel", "runtime")  # fmt: skip
"""What is kept of what was found, beside all that is told of the service proxy in particular."""
MOST_PATTERNS = 6
"""Patterns of ids that are kept of one difference; their number is told."""


def load(kept: Path = KEPT) -> list[Record]:
    """All records, in the order in which the page tells them."""
    return [*records.read(kept)]


def add(
    runs: Sequence[RecordedRun],
    lanes: Mapping[str, Mapping[str, Any]] | None = None,
    kept: Path = KEPT,
    page: Path = PAGE,
) -> str:
    """Keep what runs show, and render the page.

    Args:
        runs: a whole one on kube-proxy's iptables must be among them; those that are not whole are passed over.
        lanes: of each lane where and when it was run: ``at``, ``commit``, ``cores``, ``seconds``.
        kept, page: where to.

    Returns:
        What was kept, what was not, and which runs met the same data plane, a line each.

    Raises:
        PreflightError: there is nothing to hold them against.
    """
    planes: dict[Plane, RecordedRun] = {}
    alike: dict[Plane, list[str]] = {}
    for run in (each for each in runs if each.whole):
        plane = plane_of(facts_of(run))
        planes[plane] = run
        alike.setdefault(plane, []).append(str(run.header["lane"]))
    if not any(plane.is_reference for plane in planes):
        raise PreflightError(
            "None of the whole runs is on kube-proxy in iptables mode, which others are held against.",
            "run that lane together with these (kind-iptables).",
        )
    made = {
        plane.name: tell(plane, planes, (lanes or {}).get(str(run.header["lane"]), {})) | {"alike": alike[plane][:-1]}
        for plane, run in planes.items()
    }
    by_plane: dict[str, Record] = {record["plane"]: record for record in load(kept)}
    ordered = sorted((by_plane | made).values(), key=_order)
    records.write(kept, ordered)
    page.write_text(render(load(kept)), encoding="utf-8")
    told = [f"kept: {'; '.join(made)}"]
    told += [
        f"{', '.join(names)} met the same data plane: the last one counts" for names in alike.values() if len(names) > 1
    ]
    told += [f"not whole, and not kept: the run in {run.folder}" for run in runs if not run.whole]
    return "\n".join(told)


def _order(record: Record) -> tuple[Any, ...]:
    plane = plane_of(record["facts"])
    return (
        not plane.is_reference,
        plane.proxy,
        plane.families != "dual-stack",
        *(-each for each in plane.minor),
        plane.name,
    )


def tell(plane: Plane, planes: Mapping[Plane, RecordedRun], lane: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a run, held against that of its reference."""
    run = planes[plane]
    facts = facts_of(run)
    reference = reference_for(plane, list(planes))
    claims = all_claims()
    shown = differing(planes[reference], run, claims) if reference else []
    proxy = f"{facts.get('service-proxy', '')}."
    wanted = [name for name in facts if name in FACTS or name.startswith(proxy)]
    return {
        "plane": plane.name,
        "facts": {name: facts[name] for name in sorted(wanted)},
        "decided": {name: run.facts[name].decided for name in ("service-proxy", "proxy-mode") if name in run.facts},
        "lane": str(run.header["lane"]),
        "run": str(run.header["run"]),
        "suite": str(run.header["suite"]),
        **{name: lane.get(name) for name in ("at", "commit", "cores", "seconds")},
        "result": run.conclusion.result,
        "why": run.conclusion.why,
        "counts": dict(sorted(Counter(each.status.value for each in run.verdicts.values()).items())),
        "against": reference.name if reference else None,
        "differences": [_told(each) for each in shown],
        "claims": [told_sight(each) for each in sights_of(run, claims) if each.asked],
    }


def _told(each: Differing) -> dict[str, Any]:
    checks = each.checks
    return {
        "what": each.what.value,
        "rows": checks[:MOST_PATTERNS],
        "more_patterns": max(0, len(checks) - MOST_PATTERNS),
        "number": len(each.ids),
        "levels": list(each.levels),
        "before": each.before,
        "after": each.after,
        "reason": each.reason,
        "reference": titles(each.references),
    }


def _matrixs_word(folder: Path) -> dict[str, Any]:
    """When, from what and on how many cores a run was made, if a matrix made it: it lies beside the run."""
    word = folder.absolute().parent / f"{folder.absolute().name}.json"
    told: dict[str, Any] = json.loads(word.read_text(encoding="utf-8")) if word.is_file() else {}
    return told


# -------------------------------------------------------------------------------------------------------- the command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ci.data_planes", description="What data planes differ in.")
    parser.add_argument("--record", nargs="+", type=Path, metavar="RUN", help="keep what these runs show, too")
    parser.add_argument("--expired", action="store_true", help="name known differences that are not seen any more")
    options = parser.parse_args(arguments)
    try:
        if options.record:
            runs = [read_run(path) for path in options.record]
            print(add(runs, {str(run.header["lane"]): _matrixs_word(run.folder) for run in runs}))
    except EsippError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    told = expired_kept(load()) if options.expired else []
    print("".join(f"expired: {line}\n" for line in told), end="")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
