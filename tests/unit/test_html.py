"""report.html: loads nothing, says all, escapes what it is told, and is the same each time."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from esipp.judge import judge
from esipp.model import AddressClass
from esipp.observation import Verdict, Witness
from esipp.report.html import HERE, SCRIPTS, render, script_of_the_page
from esipp.report.html.embedded import MOST_PROBES
from esipp.report.html.references import linked
from esipp.report.html.trouble import troubles_of
from esipp.report.reading import Component, Fact, Phase, Probe, RecordedRun
from esipp.rows import Feature, Level, Status
from tests.unit.recorded_world import recorded
from tests.unit.world import SAMPLES, by_id, changed_evidence, show
from tests.unit.world import SOURCE_IP as CELLS

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
    path = by_id(LOCAL).path
    seen = {path.key: [show(path, AddressClass.NODE, seq) for seq in range(SAMPLES)]}
    made = changed_evidence(seen)
    return {cell.id: judge(cell, made) for cell in CELLS}


def the_run() -> RecordedRun:
    """A run with a failure, its evidence, and all that a head tells."""
    run = recorded(CELLS, verdicts(), samples=SAMPLES, at=1795262654.1, lane="a-lane", suite="0.1.0", run="r-1")
    words = "at the node:      192.0.2.1:40000 -> 172.18.0.4:30080 on worker in eth0"
    change = "worker, between eth0 and veth1: 192.0.2.1 became 10.244.3.1"
    run.probes[LOCAL] = probes(LOCAL)
    run.witnesses[LOCAL] = [Witness(LOCAL, 0, True, words, ("10.244.3.1", 5), change)]
    run.facts = {"kubernetes": Fact("v1.36.3", "asked"), "odd-thing": Fact("yes", "looked")}
    run.features = {"family.ipv4": Feature(True, "every node has one"), "sctp": Feature(False, "no module")}
    run.components = [Component("kube-proxy", "service-proxy", "example/kube-proxy:1", "sha256:abc", "1", "its pods")]
    run.phases = [Phase("arrange", 2.0, 12.0), Phase("observe", 5.0, 17.0)]
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
    told: dict[str, object] = json.loads(found[1])
    return told


# -------------------------------------------------------------------------------------------------- the page as a whole
def test_the_page_is_well_formed_and_its_ids_are_unique() -> None:
    read = Page(page())
    assert read.unclosed == []
    ids = [attrs["id"] for _, attrs in read.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_nothing_is_loaded_from_anywhere() -> None:
    read = Page(page())
    for tag, attrs in read.elements:
        for name in ("src", "srcset", "action", "data", "poster", "background", "xlink:href"):
            assert name not in attrs, (tag, attrs)
        assert tag not in ("iframe", "object", "embed", "img", "base", "form") or tag == "form"
    assert read.all("link") == [{"rel": "icon", "href": "data:,"}]
    assert not re.search(r"url\(|@import", (HERE / "page.css").read_text())
    assert not re.search(r"\b(fetch|XMLHttpRequest|import\(|WebSocket|innerHTML|eval)\b", script_of_the_page())


def test_the_policy_allows_our_script_only() -> None:
    read = Page(page())
    policy = next(attrs["content"] for attrs in read.all("meta") if "http-equiv" in attrs)
    assert policy.startswith("default-src 'none';")
    assert re.search(r"script-src 'sha256-[\w+/=]{44}';", policy)
    assert "onclick" not in page()
    assert not any(name.startswith("on") for _, attrs in read.elements for name in attrs)


def test_headings_go_down_one_by_one() -> None:
    levels = [int(tag[1]) for tag, _ in Page(page()).elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))


def test_links_within_the_page_lead_somewhere() -> None:
    read = Page(page())
    ids = {attrs["id"] for _, attrs in read.elements if "id" in attrs}
    for attrs in read.all("a"):
        link = attrs.get("href", "")
        if link.startswith("#") and "data-filter" not in attrs:
            assert link[1:] in ids, link
        else:
            assert link == "ledger.jsonl" or link.startswith(
                ("https://github.com/", "https://www.rfc-editor.org/", "#")
            )


def test_every_row_can_be_reached_with_and_without_scripts() -> None:
    read = Page(page())
    anchors = {attrs["id"] for attrs in read.all("tr") if "id" in attrs}
    assert anchors == {f"row={cell.id}" for cell in CELLS}
    shown = {int(n) for attrs in read.all("a") for n in attrs.get("data-rows", "").split()}
    asked = {n for n, cell in enumerate(CELLS) if verdicts()[cell.id].status is not Status.UNSUPPORTED}
    assert shown == asked
    told = data_of(page())
    assert isinstance(told["rows"], list)
    assert len(told["rows"]) == len(CELLS)


def test_without_scripts_a_row_that_is_only_recorded_is_not_said_to_be_as_required() -> None:
    run = recorded([by_id(LOCAL)], {LOCAL: replace(verdicts()[LOCAL], status=Status.PASS)})
    run.rows = [replace(row, level=Level.RECORD) for row in run.rows]
    table = render(run).partition("<noscript>")[2].partition("</noscript>")[0]
    assert "r recorded only (record)" in table
    assert "\u2713" not in table


def test_tables_have_heads_with_scope_and_regions_have_names() -> None:
    read = Page(page())
    assert all("scope" in attrs for attrs in read.all("th"))
    regions = [attrs for _, attrs in read.elements if attrs.get("role") == "region"]
    assert regions
    assert all(attrs.get("aria-label") and attrs.get("tabindex") == "0" for attrs in regions)
    for landmark in ("main", "nav", "header", "footer"):
        assert read.all(landmark)
    assert any(attrs.get("aria-live") == "polite" for _, attrs in read.elements)


def test_the_same_run_gives_the_same_bytes() -> None:
    assert render(the_run()) == page()


# --------------------------------------------------------------------------------------------------------- what it says
def test_the_head_says_what_was_qualified_and_how_that_was_decided() -> None:
    text = page()
    assert "NONCONFORMANT" in Page(text).text_of("h1") + text
    for said in ("v1.36.3", "Odd thing", "looked", "every node has one", "sha256:abc", "its pods", "d1935", "r-1",
                 "2026-11-21 12:04:14 UTC", "5 min 0 s", "esipp run --context x", "a-lane"):  # fmt: skip
        assert said in text, said


def test_a_failure_is_told_with_where_to_look_and_how_to_repeat_it() -> None:
    text = page()
    verdict = verdicts()[LOCAL]
    failures = text[text.index('id="failures"') : text.index('id="rows"')]
    assert verdict.status is Status.FAIL
    assert verdict.expected.replace("'", "&#39;") in failures
    assert "that node masquerades" in failures
    assert f"esipp run --context x {LOCAL}" in failures


def test_the_head_names_each_cause_with_a_link_to_it() -> None:
    text = page()
    head = text[text.index("<header") : text.index("</header>")]
    assert "where this is required" in head
    assert "192.0.2.1 became 10.244.3.1" not in head  # what the judge was not told stands in no verdict
    for link in re.findall(r'href="#(cause-\d+)"', head):
        assert f'id="{link}"' in text
    assert "cause-1" in head


def test_causes_that_bind_most_come_first() -> None:
    run = recorded([by_id(LOCAL)], {LOCAL: verdicts()[LOCAL]})
    core = next(row for row in run.rows if row.id == LOCAL)
    other = replace(core, id="other", path="other", level=Level.EXTENDED)
    found = replace(verdicts()[LOCAL], likely="another cause")
    run.rows, run.verdicts = [other, core], {"other": found, LOCAL: verdicts()[LOCAL]}
    assert [each.first.id for each in troubles_of(run)] == [LOCAL, "other"]


def test_an_incomplete_ledger_is_told_loudly_and_nothing_is_green() -> None:
    run = the_run()
    run.verdicts = {name: each for name, each in run.verdicts.items() if each.status is Status.PASS}
    run.trouble, run.end = ["line 7 is cut off"], None
    read = Page(render(run))
    assert any(attrs.get("role") == "alert" for _, attrs in read.elements)
    assert any("banner bad" in attrs.get("class", "") for attrs in read.all("header"))
    text = render(run)
    assert "INCOMPLETE" in text
    assert "line 7 is cut off" in text
    profiles = text[text.index('class="profiles"') : text.index("What was qualified")]
    assert "v-pass" not in profiles
    assert "holds" not in profiles


def test_a_whole_conformant_run_is_green_and_has_no_banner() -> None:
    good = {name: each for name, each in verdicts().items() if each.status is Status.PASS}
    rows = [cell for cell in CELLS if cell.id in good]
    text = render(recorded(rows, good))
    assert 'class="banner good"' in text
    assert 'role="alert"' not in text
    assert "No row fails" in text


def test_a_row_without_a_verdict_is_told_as_such() -> None:
    run = recorded(CELLS[:3], {CELLS[0].id: verdicts()[CELLS[0].id]})
    run.trouble = ["2 rows have no verdict"]
    assert "no verdict" in render(run)


def test_what_was_seen_is_at_hand_for_the_drawer() -> None:
    told = data_of(page())
    strings = told["strings"]
    assert isinstance(strings, list)
    assert isinstance(told["paths"], list)
    path = next(each for each in told["paths"] if strings[each[0]] == LOCAL)
    assert len(path[1]) == 2
    assert strings[path[1][0][5]] == "10.244.3.1:5"
    assert strings[path[2][0][3]].startswith("worker, between eth0 and veth1")
    assert told["addresses"]["10.244.3.1"] == "node worker"  # type: ignore[index]
    assert told["addresses"]["192.0.2.77"] == "load balancer one"  # type: ignore[index]


def test_many_probes_that_show_the_same_are_one() -> None:
    run = the_run()
    odd = probes(LOCAL, 500)
    odd[250] = replace_probe(odd[250])
    run.probes[LOCAL] = odd
    told = data_of(render(run))
    strings, paths = told["strings"], told["paths"]
    assert isinstance(strings, list)
    assert isinstance(paths, list)
    seen = next(each for each in paths if strings[each[0]] == LOCAL)[1]
    assert [each[1] for each in seen] == [250, 1, 249]
    assert len(seen) <= MOST_PROBES


def replace_probe(probe: Probe) -> Probe:
    return probe._replace(outcome="timeout", seen=None, backend="")


def test_files_of_a_row_are_linked(tmp_path: Path) -> None:
    run = replace(the_run(), folder=tmp_path)
    kept = tmp_path / "rows" / LOCAL / "packets of it.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("x")
    assert f"rows/{LOCAL}/packets%20of%20it.txt" in data_of(render(run))["strings"]  # type: ignore[operator]


def test_references_are_linked_only_where_the_address_is_certain() -> None:
    assert 'href="https://github.com/kubernetes/kubernetes/issues/74383"' in linked("see kubernetes/kubernetes#74383.")
    assert 'href="https://github.com/kubernetes/enhancements/issues/1669"' in linked("KEP-1669: proxy")
    assert linked("since 1.7 (#41162), PKEP-1 & <b>") == "since 1.7 (#41162), PKEP-1 &amp; &lt;b&gt;"


# --------------------------------------------------------------------------------------------------------- hostile text
def hostile() -> RecordedRun:
    """A run whose every text would like to be markup."""
    run = the_run()
    bad = {
        name: replace(each, expected=EVIL, observed=EVIL, reason=EVIL, change=EVIL, witnesses=EVIL, ports=EVIL,
                      reference=EVIL, likely=EVIL, tally={EVIL: 2})
        for name, each in run.verdicts.items()
    }  # fmt: skip
    bad[LOCAL] = replace(bad[LOCAL], status=Status.FAIL)
    run.verdicts = bad
    run.rows = [replace(row, requirement=EVIL, asked=EVIL, fails_if=EVIL, references=(EVIL,)) for row in run.rows]
    run.header |= {"command": EVIL, "lane": EVIL, "run": EVIL, "without": [EVIL], "image": EVIL}
    run.facts = {EVIL: Fact(EVIL, EVIL)}
    run.features = {EVIL: Feature(False, EVIL)}
    run.components = [Component(*[EVIL] * 6)]
    run.notes = [(EVIL, EVIL)]
    run.phases = [Phase(EVIL, 1.0, 2.0)]
    run.trouble = [EVIL]
    run.topology = {"nodes": {EVIL: {"internal": {"IPv4": EVIL}, "addresses": [EVIL]}}, "roles": {EVIL: EVIL}}
    run.probes[LOCAL] = [replace_probe(probes(LOCAL)[0])._replace(detail=EVIL, node=EVIL)]
    run.witnesses[LOCAL] = [Witness(LOCAL, 0, True, EVIL, None, EVIL, EVIL)]
    run.obstacles[LOCAL] = EVIL
    return run


def test_hostile_text_stays_text() -> None:
    text = render(hostile())
    read = Page(text)
    assert read.all("img") == []
    assert read.unclosed == []
    assert len(read.all("script")) == 2
    assert not any(name.startswith("on") for _, attrs in read.elements for name in attrs)
    assert "<!--" not in text
    strings = data_of(text)["strings"]
    assert isinstance(strings, list)
    assert EVIL in strings


def test_hostile_ids_of_rows_lead_to_no_files_and_no_markup(tmp_path: Path) -> None:
    run = replace(the_run(), folder=tmp_path / "run")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_text("x")
    row = run.rows[0]
    for name in ("../../secret", "/etc", EVIL):
        run.rows = [replace(row, id=name)]
        run.verdicts = {name: replace(verdicts()[LOCAL], cell=name)}
        text = render(run)
        assert Page(text).all("img") == []
        assert "secret/file" not in text


def test_a_text_that_no_file_can_hold_does_no_harm() -> None:
    run = the_run()
    run.verdicts[LOCAL] = replace(run.verdicts[LOCAL], observed="half a pair \ud800 and \u2028")
    render(run).encode()


# ------------------------------------------------------------------------------------------------------ size and script
def test_a_thousand_rows_stay_below_five_megabytes() -> None:
    rows = CELLS[:1000]
    run = recorded(rows, {cell.id: verdicts()[cell.id] for cell in rows})
    words = "\n".join(["at the node:      192.0.2.1:40000 -> 172.18.0.4:30080 on worker in eth0"] * 7)
    for number, cell in enumerate(rows):
        run.probes[cell.path.key] = probes(cell.path.key, 3)
        run.witnesses[cell.path.key] = [Witness(cell.path.key, seq, True, f"{words} {number}") for seq in range(2)]
    assert len(rows) == 1000
    assert len(render(run).encode()) < 5_000_000


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_script_is_one_that_a_browser_can_read(tmp_path: Path) -> None:
    script = tmp_path / "page.js"
    script.write_text(script_of_the_page())
    checked = subprocess.run(["node", "--check", str(script)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def stops(words: str, change: str, dialled: str, **probe: str) -> list[str]:
    """The stops of a packet's way, as the page's script draws them."""
    seen = {"seq": 0, "times": 1, "outcome": "answered", "source": "10.0.0.9:4000", "pod": "", "node": "", "detail": ""}
    packet = {"seq": 0, "words": words, "change": change, "delivered": ""}
    path = {"probes": [seen | {"dialled": dialled} | probe], "packets": [packet]}
    book = {"192.0.2.2": "node two", "192.0.2.1": "node one", "10.0.0.5": "client backend"}
    data = {"addresses": book, "homes": {"a-pod": "one"}, "rows": [], "paths": [], "strings": [""]}
    stub = f"const document = {{ getElementById: () => ({{ textContent: {json.dumps(json.dumps(data))} }}) }};"
    parts = "\n".join((HERE / name).read_text() for name in ("page.js", "way.js"))
    ask = f"stopsOf({{ client: 'a-pod', path: 'x.a-pod-to-entry' }}, {json.dumps(path)}).stops.map((each) => each.name)"
    script = f"{stub}\n{parts}\nconsole.log(JSON.stringify({ask}));"
    ran = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    return list(json.loads(ran.stdout))


AT_ONE = "at the node:      10.0.0.9:4000 -> 192.0.2.2:30080 on one in veth1"
AT_POD = "at the pod:       10.0.0.9:4000 -> 10.0.0.5:8081 on one"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_way_claims_no_node_that_its_packets_do_not_name() -> None:
    client, own, pod = "client a-pod", "node one (the client\u2019s own)", "pod backend"
    words = f"{AT_ONE}\n{AT_POD} out veth2"
    told = stops(words, "", "192.0.2.2:30080", pod="backend", node="one")
    assert told == [client, "dialled: an address of node two", own, pod]
    change = "two, between eth0 and eth0: 10.0.0.9 became 192.0.2.2"
    told = stops(words, change, "192.0.2.2:30080", pod="backend", node="one")
    assert told == [client, own, "dialled: node two", own, pod]
    last = f"{AT_ONE}\nit was seen to go to no backend; last seen on two in eth0"
    told = stops(last, "", "192.0.2.2:30080", outcome="timeout")
    assert told == [client, own, "dialled: node two", "the client got no answer"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_way_ends_at_no_pod_that_packets_did_not_reach() -> None:
    told = stops(f"{AT_ONE}\n{AT_POD} in eth0", "", "192.0.2.2:30080", outcome="timeout")
    assert told[-2:] == ["towards pod backend, never seen to arrive", "the client got no answer"]


def test_the_script_asks_for_no_element_that_is_not_there() -> None:
    ids = {attrs["id"] for _, attrs in Page(page()).elements if "id" in attrs}
    made = set(re.findall(r"\bid: '([\w-]+)'", script_of_the_page()))
    assert set(re.findall(r"\$\('([\w-]+)'\)", script_of_the_page())) <= ids | made
    assert {each.name for each in HERE.glob("*.js")} == set(SCRIPTS)


# -------------------------------------------------------------------------------------------------------------- colours
def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def palettes() -> list[dict[str, str]]:
    blocks = re.findall(r":root \{(.*?)\}", (HERE / "page.css").read_text(), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks[:2])
    return [light, light | dark]


@pytest.mark.parametrize("colours", palettes(), ids=["light", "dark"])
def test_text_can_be_read_on_its_ground(colours: dict[str, str]) -> None:
    grounds = ("paper", "raised", "faint")
    for name in ("ink", "muted", "accent", "ok", "warn", "bad"):
        for ground in grounds:
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    for name in [each.removesuffix("-bg") for each in colours if each.endswith("-bg")]:
        for text in (name, "ink"):
            assert contrast(colours[text], colours[f"{name}-bg"]) >= 4.5, (text, name)
    assert contrast(colours["muted"], colours["unsupported-bg"]) >= 4.5
