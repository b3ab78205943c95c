"""Compact data of all checks for the page's script: every text once, and only the evidence that the page draws.

``strings`` has every text; all other fields hold numbers of texts. ``rows`` are the checks, with the columns of
``COLUMNS``; empty columns at the end are cut. ``paths`` are the observations of each path: its probes and its packets.
The ledger has the whole evidence.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from esipp.checks.reference import Reference
from esipp.judging.observation import Witness
from esipp.ledger.reading import LEDGER, Probe, RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.causes import TROUBLE
from esipp.report.html.marks import MARKS, WORDS, letters, said_of

COLUMNS = (
    "id", "suite", "level", "profile", "verdict", "requirement", "expect", "expected", "observed", "letters",
    "protocol", "family", "client", "path", "witnesses", "ports", "change", "reason", "likely", "asked",
    "fails", "sees", "nature", "references", "difference", "controls", "tally", "files",
)  # fmt: skip
"""The columns of a check, in this order; the last five are lists."""

MOST_PROBES = 60
"""How many probes of a path are drawn; equal ones in a row count as one."""

FAMILIES = {"family.ipv4": "IPv4", "family.ipv6": "IPv6"}
PROTOCOLS = {"tcp": "TCP", "udp": "UDP", "sctp": "SCTP"}


class Strings:
    """Texts by number, each stored once."""

    def __init__(self) -> None:
        self._numbers = {"": 0}

    def __call__(self, text: object) -> int:
        """The number of a text."""
        return self._numbers.setdefault(str(text), len(self._numbers))

    def all(self) -> list[str]:
        """The texts in the order of their numbers; characters that UTF-8 cannot hold are replaced."""
        return [text.encode("utf-8", "replace").decode() for text in self._numbers]


def embedded(run: RecordedRun) -> dict[str, Any]:
    """The data for the script."""
    text = Strings()
    cited = _cited(run)
    checks = [_check(run, check, text, cited) for check in run.checks]
    wanted = dict.fromkeys(path for check in run.checks for path in _paths(check))
    first = min((probe.started for path in wanted for probe in run.probes.get(path, ())), default=0.0)
    observed = (path for path in wanted if path in run.probes or path in run.witnesses or path in run.obstacles)
    paths = [_path(run, path, first, text) for path in observed]
    return {
        "command": str(run.header["command"]),
        "ledger": LEDGER,
        "columns": COLUMNS,
        "marks": MARKS,
        "words": WORDS,
        "addresses": _address_book(run.topology),
        "homes": _homes(run.topology),
        "references": [[text(each.title), text(each.link)] for each in cited],
        "rows": checks,
        "paths": paths,
        "strings": text.all(),
    }


def _paths(check: RecordedCheck) -> list[str]:
    """The paths that a check needs: its own and its controls'."""
    return [check.path, *(path for path, _ in _controls(check))] if check.path else []


def _controls(check: RecordedCheck) -> list[tuple[str, str]]:
    """The paths of the check's positive controls, each with the reason."""
    return [(str(each["path"]), str(each.get("why", ""))) for each in check.data.get("controls", ())]


def _cited(run: RecordedRun) -> dict[Reference, int]:
    """Every reference of the run with its number."""
    references = [each for check in run.checks for each in check.references]
    references += [each for verdict in run.verdicts.values() for each in verdict.references]
    return {each: number for number, each in enumerate(dict.fromkeys(references))}


def _check(run: RecordedRun, check: RecordedCheck, text: Strings, cited: dict[Reference, int]) -> list[Any]:
    verdict = run.verdicts.get(check.id)
    family, protocol = _family(check), _protocol(check)
    words = [
        check.id, check.suite, check.level.value, check.profile, said_of(verdict), check.requirement, check.expect,
        verdict.expected if verdict else "", verdict.observed if verdict else "", letters([verdict]),
        protocol, family, check.place.client if check.place else "", check.path,
        *((verdict.witnesses, verdict.ports, verdict.change, verdict.reason, verdict.likely)
          if verdict else ("",) * 5),
        check.asked, check.fails_if, verdict.sees if verdict else "", verdict.nature if verdict else "",
    ]  # fmt: skip
    lists = [
        [cited[each] for each in check.references],
        [cited[each] for each in verdict.references] if verdict else [],
        [[text(path), text(why)] for path, why in _controls(check)],
        [[text(what), count] for what, count in verdict.tally.items()] if verdict else [],
        [text(each) for each in _files(run, check)],
    ]
    made: list[Any] = [*(text(word) for word in words), *lists]
    while not made[-1]:
        made.pop()
    return made


def _family(check: RecordedCheck) -> str:
    if check.place:
        return check.place.family
    own = [name for name in FAMILIES if name in check.features]
    return FAMILIES[own[0]] if len(own) == 1 else ""


def _protocol(check: RecordedCheck) -> str:
    """The protocol of a path check; for another check the protocol in its id, if any."""
    if check.place:
        return check.place.protocol
    return next((PROTOCOLS[part] for part in check.id.split(".") if part in PROTOCOLS), "")


def _files(run: RecordedRun, check: RecordedCheck) -> list[str]:
    """Links to the files of a check; only checks that failed or were undecided have any."""
    verdict = run.verdicts.get(check.id)
    if verdict is None or verdict.status not in TROUBLE or not re.fullmatch(r"[\w-][\w.-]*", check.id):
        return []
    return [quote(each.as_posix()) for each in run.files(check.id)]


# --------------------------------------------------------------------------------------------------- what was seen
def _path(run: RecordedRun, path: str, first: float, text: Strings) -> list[Any]:
    """A path: its probes, its packets, why it could not be dialled, and how many probes are left out.

    A probe: seq, count, outcome, source, dialled, seen, pod, node, start and length in milliseconds, detail.
    Packets: seq, words, source delivered, change, contradiction, number of similar connections.
    """
    probes = _fold(sorted(run.probes.get(path, ()), key=lambda probe: (probe.started, probe.seq)))
    made = [
        [
            probe.seq, probe.times, text(probe.outcome), text(_end(probe.source)), text(_end(probe.dialled)),
            text(_end(probe.seen)), text(probe.backend), text(probe.node), round(1000 * (probe.started - first)),
            round(1000 * (probe.ended - probe.started)), text(probe.detail),
        ]
        for probe in probes[:MOST_PROBES]
    ]  # fmt: skip
    more = len(probes) - len(made)
    return [text(path), made, _witnesses(run.witnesses.get(path, ()), text), text(run.obstacles.get(path, "")), more]


def _fold(probes: list[Probe]) -> list[Probe]:
    """The probes; if there are more than can be drawn, equal ones in a row become one."""
    if len(probes) <= MOST_PROBES:
        return probes
    folded: list[Probe] = []
    for probe in probes:
        last = folded[-1] if folded else None
        if last and _shown(last) == _shown(probe):
            folded[-1] = last._replace(times=last.times + probe.times, ended=max(last.ended, probe.ended))
        else:
            folded.append(probe)
    return folded


def _shown(probe: Probe) -> tuple[object, ...]:
    own = probe.seen is not None and probe.source is not None and probe.seen[0] == probe.source[0]
    return (probe.outcome, own, probe.seen[0] if probe.seen and not own else "", probe.backend, probe.detail)


def _witnesses(witnesses: Iterable[Witness], text: Strings) -> list[list[Any]]:
    """The packets of each connection; connections that differ only in ports and interfaces are counted."""
    alike: dict[tuple[object, ...], list[Any]] = {}
    for each in witnesses:
        shape = (re.sub(r":\d+\b|\bveth\w+", "", each.words), each.delivered and each.delivered[0], each.contradiction)
        if shape in alike:
            alike[shape][-1] += 1
        else:
            words = (each.words, _end(each.delivered), each.change, each.contradiction)
            alike[shape] = [each.seq, *map(text, words), 1]
    return list(alike.values())


def _end(end: tuple[str, int] | None) -> str:
    """Address and port in the usual notation."""
    if end is None:
        return ""
    return f"[{end[0]}]:{end[1]}" if ":" in end[0] else f"{end[0]}:{end[1]}"


def _address_book(topology: Mapping[str, Any]) -> dict[str, str]:
    """The owner of each address; a shared address belongs to the node."""
    book: dict[str, str] = {}
    kinds = (("nodes", "node"), ("clients", "client"), ("backends", "pod"))
    for kind, word in kinds:
        named = topology.get(kind)
        for name, owner in named.items() if isinstance(named, Mapping) else ():
            own = owner.get("addresses", ()) if isinstance(owner, Mapping) else ()
            for address in own:
                book.setdefault(_plain(address), f"{word} {name}")
    balancers = topology.get("balancers")
    for name, addresses in balancers.items() if isinstance(balancers, Mapping) else ():
        for address in addresses:
            book.setdefault(_plain(address), f"load balancer {name}")
    return book


def _homes(topology: Mapping[str, Any]) -> dict[str, str]:
    """The node of each client that runs on a node."""
    clients = topology.get("clients")
    found = {}
    for name, client in clients.items() if isinstance(clients, Mapping) else ():
        node = client.get("node") if isinstance(client, Mapping) else None
        if node:
            found[str(name)] = str(node)
    return found


def _plain(address: object) -> str:
    """An address in the notation of the witnesses."""
    try:
        return str(ipaddress.ip_address(str(address)))
    except ValueError:
        return str(address)
