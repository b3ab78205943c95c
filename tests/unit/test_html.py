"""report.html: loads nothing, says all, escapes every text, and is the same each time."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from esipp.base.document import Link
from esipp.checks.check import Fact, Feature, Level, Status
from esipp.checks.reference import Reference, read_reference
from esipp.judging.observation import Witness
from esipp.ledger.reading import Component, Phase, Probe, RecordedEvent, RecordedRun
from esipp.report.html import render, script_of_the_page
from esipp.report.html.embedded import MOST_PROBES
from esipp.report.html.head import head_of
from esipp.report.html.trouble import troubles_of
from esipp.report.rendering.html import HERE as PAGE
from esipp.report.rendering.html import inline
from tests.unit.html_world import EVIL, LOCAL, Page, data_of, page, probes, the_run, verdicts
from tests.unit.recorded_world import recorded
from tests.unit.world import SOURCE_IP as CHECKS
from tests.unit.world import by_id

JAVASCRIPT = "javascript:alert(1)"


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
    assert not re.search(r"url\(|@import", (PAGE / "page.css").read_text())
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
            assert link == "ledger.jsonl" or link.startswith(("https://", "#"))


def test_every_check_can_be_reached_with_and_without_scripts() -> None:
    read = Page(page())
    anchors = {attrs["id"] for attrs in read.all("tr") if "id" in attrs}
    assert anchors == {f"row={path_check.id}" for path_check in CHECKS}
    shown = {int(n) for attrs in read.all("a") for n in attrs.get("data-rows", "").split()}
    asked = {n for n, path_check in enumerate(CHECKS) if verdicts()[path_check.id].status is not Status.UNSUPPORTED}
    assert shown == asked
    data = data_of(page())
    assert isinstance(data["rows"], list)
    assert len(data["rows"]) == len(CHECKS)


def test_without_scripts_a_check_that_is_only_recorded_is_not_said_to_be_as_required() -> None:
    run = recorded([by_id(LOCAL)], {LOCAL: replace(verdicts()[LOCAL], status=Status.RECORDED)})
    run.checks = [replace(check, level=Level.RECORD) for check in run.checks]
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


def test_the_timeline_shows_what_ran_side_by_side() -> None:
    run = the_run()
    run.phases = [Phase("set-up", 10.0, 10.0), Phase("health scenarios", 80.0, 90.0), Phase("cordon", 10.0, 100.0)]
    run.events = [
        RecordedEvent("health scenarios", "placement", "own Services", 12.0, 78.0),
        RecordedEvent("health scenarios", "lifecycle", "own Services", 10.0, 20.0),
        RecordedEvent("cordon", "cordoned", "a node", 91.0, 9.0),
    ]
    spans = [(each.name, each.touches, each.start, each.width) for each in head_of(run)["spans"]]
    assert spans == [
        ("set-up", "", 0.0, 100.0), ("health scenarios", "", 100.0, 800.0), ("lifecycle", "own Services", 100.0, 200.0),
        ("placement", "own Services", 120.0, 780.0), ("cordon", "", 900.0, 100.0), ("cordoned", "a node", 910.0, 90.0),
    ]  # fmt: skip
    assert "in 3 phases" in render(run)


def test_a_failure_is_reported_with_where_to_look_and_how_to_repeat_it() -> None:
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
    assert "; expected " in head
    assert "192.0.2.1 became 10.244.3.1" not in head  # what the judge was not given stands in no verdict
    for link in re.findall(r'href="#(cause-\d+)"', head):
        assert f'id="{link}"' in text
    assert "cause-1" in head


def test_causes_that_bind_most_come_first() -> None:
    run = recorded([by_id(LOCAL)], {LOCAL: verdicts()[LOCAL]})
    core = next(check for check in run.checks if check.id == LOCAL)
    other = replace(core, id="other", path="other", level=Level.EXTENDED)
    found = replace(verdicts()[LOCAL], likely="another cause")
    run.checks, run.verdicts = [other, core], {"other": found, LOCAL: verdicts()[LOCAL]}
    assert [each.first.id for each in troubles_of(run, run.checks)] == [LOCAL, "other"]


def test_an_incomplete_ledger_is_reported_loudly_and_nothing_is_green() -> None:
    run = the_run()
    run.verdicts = {name: each for name, each in run.verdicts.items() if each.status is Status.PASS}
    run.trouble, run.end = ["line 7 is cut off"], None
    read = Page(render(run))
    assert any(attrs.get("role") == "alert" for _, attrs in read.elements)
    assert any("banner bad" in attrs.get("class", "") for attrs in read.all("header"))
    text = render(run)
    assert "INCOMPLETE" in text
    assert "line 7 is cut off" in text
    profiles = text[text.index('class="profiles"') : text.index("What was tested")]
    assert "v-pass" not in profiles
    assert "holds" not in profiles


def test_a_whole_conformant_run_is_green_and_has_no_banner() -> None:
    good = {name: each for name, each in verdicts().items() if each.status is Status.PASS}
    checks = [path_check for path_check in CHECKS if path_check.id in good]
    text = render(recorded(checks, good))
    assert 'class="banner good"' in text
    assert 'role="alert"' not in text
    assert "No check of the cluster failed" in text


def test_a_check_without_a_verdict_is_reported_as_such() -> None:
    run = recorded(CHECKS[:3], {CHECKS[0].id: verdicts()[CHECKS[0].id]})
    run.trouble = ["2 checks have no verdict"]
    assert "no verdict" in render(run)


def test_what_was_seen_is_at_hand_for_the_drawer() -> None:
    data = data_of(page())
    strings = data["strings"]
    assert isinstance(strings, list)
    assert isinstance(data["paths"], list)
    path = next(each for each in data["paths"] if strings[each[0]] == LOCAL)
    assert len(path[1]) == 2
    assert strings[path[1][0][5]] == "10.244.3.1:5"
    assert strings[path[2][0][3]].startswith("worker, between eth0 and veth1")
    assert data["addresses"]["10.244.3.1"] == "node worker"
    assert data["addresses"]["192.0.2.77"] == "load balancer one"


def test_many_probes_that_show_the_same_are_one() -> None:
    run = the_run()
    odd = probes(LOCAL, 500)
    odd[250] = replace_probe(odd[250])
    run.probes[LOCAL] = odd
    data = data_of(render(run))
    strings, paths = data["strings"], data["paths"]
    assert isinstance(strings, list)
    assert isinstance(paths, list)
    seen = next(each for each in paths if strings[each[0]] == LOCAL)[1]
    assert [each[1] for each in seen] == [250, 1, 249]
    assert len(seen) <= MOST_PROBES


def replace_probe(probe: Probe) -> Probe:
    return probe._replace(outcome="timeout", seen=None, backend="")


def test_files_of_a_check_are_linked(tmp_path: Path) -> None:
    run = replace(the_run(), folder=tmp_path)
    kept = tmp_path / "rows" / LOCAL / "packets of it.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("x")
    assert f"rows/{LOCAL}/packets%20of%20it.txt" in data_of(render(run))["strings"]


def test_references_are_links_where_their_address_is_safe() -> None:
    def linked(title: str, url: str = "") -> str:
        return inline(Link(title, Reference(title, url).link))

    url = "https://github.com/kubernetes/kubernetes/issues/74383"
    assert linked("k/k#74383: <b>", url) == f'<a href="{url}" rel="noreferrer">k/k#74383: &lt;b&gt;</a>'
    assert linked("KEP-1669 & <b>") == "KEP-1669 &amp; &lt;b&gt;", "a title of an older ledger is no link"
    assert linked("x", JAVASCRIPT) == "x"


def test_a_page_of_an_older_ledger_has_titles_without_links() -> None:
    run = the_run()
    run.checks = [replace(check, references=(read_reference("KEP-1"),)) for check in run.checks]
    assert ["KEP-1", ""] in references_of(render(run))


def references_of(text: str) -> list[list[str]]:
    """Title and address of each reference that the page's script knows."""
    data = data_of(text)
    strings, cited = data["strings"], data["references"]
    assert isinstance(strings, list)
    assert isinstance(cited, list)
    return [[strings[title], strings[url]] for title, url in cited]


# --------------------------------------------------------------------------------------------------------- hostile text
def hostile() -> RecordedRun:
    """A run whose every text would like to be markup."""
    run = the_run()
    bad = {
        name: replace(each, expected=EVIL, observed=EVIL, reason=EVIL, change=EVIL, witnesses=EVIL, ports=EVIL,
                      references=(Reference(EVIL, JAVASCRIPT),), likely=EVIL, tally={EVIL: 2})
        for name, each in run.verdicts.items()
    }  # fmt: skip
    bad[LOCAL] = replace(bad[LOCAL], status=Status.FAIL)
    run.verdicts = bad
    run.checks = [
        replace(check, requirement=EVIL, asked=EVIL, fails_if=EVIL, references=(Reference(EVIL, JAVASCRIPT),))
        for check in run.checks
    ]
    run.header |= {"command": EVIL, "lane": EVIL, "run": EVIL, "without": [EVIL], "image": EVIL}
    run.facts = {EVIL: Fact(EVIL, EVIL)}
    run.features = {EVIL: Feature(False, EVIL)}
    run.components = [Component(*[EVIL] * 6)]
    run.notes = [(EVIL, EVIL)]
    run.phases = [Phase(EVIL, 1.0, 2.0)]
    run.events = [RecordedEvent(EVIL, EVIL, EVIL, 1.0, 1.0)]
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
    assert [EVIL, ""] in references_of(text)
    assert JAVASCRIPT not in text


def test_hostile_ids_of_checks_lead_to_no_files_and_no_markup(tmp_path: Path) -> None:
    run = replace(the_run(), folder=tmp_path / "run")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_text("x")
    check = run.checks[0]
    for name in ("../../secret", "/etc", EVIL):
        run.checks = [replace(check, id=name)]
        run.verdicts = {name: replace(verdicts()[LOCAL], check_id=name)}
        text = render(run)
        assert Page(text).all("img") == []
        assert "secret/file" not in text


def test_a_text_that_no_file_can_hold_does_no_harm() -> None:
    run = the_run()
    run.verdicts[LOCAL] = replace(run.verdicts[LOCAL], observed="half a pair \ud800 and \u2028")
    render(run).encode()


def test_known_differences_are_counted_by_nature_and_our_instrument_apart() -> None:
    checks = [replace(by_id(LOCAL), id=f"{LOCAL}.{name}") for name in ("a", "b", "c", "d")]
    one = replace(verdicts()[LOCAL], reason="so it is", references=(Reference("issue 1"),))
    said = {
        checks[0].id: replace(one, status=Status.KNOWN, nature="allowed"),
        checks[1].id: replace(one, status=Status.KNOWN, nature="finding"),
        checks[2].id: replace(one, status=Status.PASS, sees="0 of 3 differ"),
        checks[3].id: replace(one, status=Status.FAIL, instrument=True, observed="of our own"),
    }
    run = recorded(checks, {name: replace(each, check_id=name) for name, each in said.items()})
    text = render(run)
    head = text.partition("</header>")[0]
    assert "KNOWN DEFECTS" in head
    assert "of our own" not in head
    verdict = text.partition('<section id="verdict"')[2].partition("</section>")[0]
    assert "1 of 3 as required, 2 known (1 allowed, 1 finding)" in verdict
    profiles = text.partition('<table class="profiles">')[2].partition("</table>")[0]
    assert "1 known difference (allowed)" in profiles
    assert "1 known difference (finding)" in profiles
    assert "known defects" in profiles
    assert "fail" not in profiles
    section = text.partition('<section id="instrument"')[2].partition("</section>")[0]
    assert "of our own" in section
    assert "0 of 3 differ" in text.partition("<noscript>")[2]


def test_the_head_names_two_known_defects_with_their_references_and_counts_the_rest() -> None:
    """Those of core checks first, then those of most checks; no allowed difference, and none of our instrument."""
    urls = {name: f"https://issues.example/{name}" for name in ("core", "many", "single", "allowed", "own")}
    checks, said = [], {}
    for name, of in {"a": "single", "b": "many", "c": "many", "d": "core", "e": "allowed", "f": "own"}.items():
        level = Level.CORE if of == "core" else Level.EXTENDED
        checks.append(replace(by_id(LOCAL), id=f"{LOCAL}.{name}", level=level))
        one = replace(
            verdicts()[LOCAL], check_id=checks[-1].id, level=level, status=Status.KNOWN, instrument=of == "own"
        )
        nature = "allowed" if of == "allowed" else "known defect"
        said[one.check_id] = replace(one, reason=EVIL, nature=nature, references=(Reference(f"{of} issue", urls[of]),))
    head = render(recorded(checks, said)).partition("</header>")[0]
    assert re.findall(r'href="(https[^"]*)"', head) == [urls["core"], urls["many"]]
    assert 'many issue</a>: <a href="#known">2 checks</a> (2 extended)' in head
    assert '<a href="#known">and 1 more known defect</a>' in head
    assert EVIL not in head
