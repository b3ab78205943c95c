"""A made run, and its page as a browser without scripts sees it."""

import json
import re
from functools import cache
from html.parser import HTMLParser

from esipp.checks.check import Fact, Feature, Verdict
from esipp.checks.model import AddressClass
from esipp.judging.observation import Witness
from esipp.ledger.reading import Component, Phase, Probe, RecordedRun
from esipp.report.html import render
from tests.unit.recorded_world import recorded
from tests.unit.verdicts import judge
from tests.unit.world import SAMPLES, by_id, changed_evidence, show
from tests.unit.world import SOURCE_IP as CHECKS

LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
EVIL = "</script><img src=x onerror=alert(1)>\"'&<!--"
VOID = {"meta", "link", "br", "input", "img", "rect", "path", "line", "circle"}


class Page(HTMLParser):
    """The elements of a page, in order, as a browser without scripts sees them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[int, str] = {}
        self._open: list[str] = []
        self.unclosed: list[str] = []
        self.feed(text)
        self.close()
        self.unclosed += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass
        else:
            self.unclosed.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        number = len(self.elements) - 1
        self.texts[number] = self.texts.get(number, "") + data

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.elements if name == tag]

    def text_of(self, tag: str, **wanted: str) -> str:
        return next(
            self.texts.get(number, "")
            for number, (name, attrs) in enumerate(self.elements)
            if name == tag and wanted.items() <= attrs.items()
        )


def probes(path: str, count: int = 2) -> list[Probe]:
    client, entry, node = ("192.0.2.1", 40000), ("172.18.0.4", 30080), ("10.244.3.1", 5)
    return [
        Probe(seq, 1, "answered", client, entry, node, "backend", "worker", 10.0 + seq, 10.1 + seq, "")
        for seq in range(count)
    ]


@cache
def verdicts() -> dict[str, Verdict]:
    path = by_id(LOCAL).subject.path
    seen = {path.key: [show(path, AddressClass.NODE, seq) for seq in range(SAMPLES)]}
    made = changed_evidence(seen)
    return {path_check.id: judge(path_check, made) for path_check in CHECKS}


def the_run() -> RecordedRun:
    """A run with a failure, its evidence, and all that a head tells."""
    run = recorded(CHECKS, verdicts(), samples=SAMPLES, at=1795262654.1, lane="a-lane", suite="0.1.0", run="r-1")
    words = "at the node:      192.0.2.1:40000 -> 172.18.0.4:30080 on worker in eth0"
    change = "worker, between eth0 and veth1: 192.0.2.1 became 10.244.3.1"
    run.probes[LOCAL] = probes(LOCAL)
    run.witnesses[LOCAL] = [Witness(LOCAL, 0, True, words, ("10.244.3.1", 5), change)]
    run.facts = {"kubernetes": Fact("v1.36.3", "asked"), "odd-thing": Fact("yes", "looked")}
    run.features = {"family.ipv4": Feature(True, "every node has one"), "sctp": Feature(False, "no module")}
    run.components = [Component("kube-proxy", "service-proxy", "example/kube-proxy:1", "sha256:abc", "1", "its pods")]
    run.phases = [Phase("set-up", 2.0, 12.0), Phase("observe", 5.0, 17.0)]
    run.topology = {
        "nodes": {"worker": {"internal": {"IPv4": "172.18.0.4"}, "addresses": ["172.18.0.4", "10.244.3.1"]}},
        "roles": {"endpoint-node": "worker"},
        "clients": {"outside-1": {"node": None, "addresses": ["192.0.2.1"]}},
        "balancers": {"one": ["192.0.2.77"]},
    }
    assert run.end is not None
    run.end |= {"sha256": "d1935", "at": 1795262954.0, "records": 9}
    return run


@cache
def page() -> str:
    return render(the_run())


def data_of(text: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    data: dict[str, object] = json.loads(found[1])
    return data
