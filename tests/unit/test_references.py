"""References: links of checks, known differences, versions and profiles, and what ledgers keep of them."""

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from esipp.checks.catalog import all_checks
from esipp.checks.check import Level, Status, Verdict
from esipp.checks.expiry import all_claims
from esipp.checks.explain import explain_check, say_since
from esipp.checks.reference import Reference, read_reference, titles, with_urls
from esipp.ledger.codec import read_record, record_of
from esipp.ledger.older import Older
from esipp.ledger.reading import LEDGER
from esipp.ledger.recorded_checks import read_check
from esipp.ledger.records import fault_of
from esipp.report.escaping import links
from tests.unit.report_world import made, some_checks

HOUSE = Path(__file__).parents[2]
SEED = re.compile(r"\bseeds?\b", re.IGNORECASE)
CITED_SEED = re.compile(r"\(seeds? \d|\bseeds? \d{3}\b", re.IGNORECASE)
UNREAD = "no document confirms it"
ISSUE = Reference("an issue", "https://github.com/a/b/issues/1")


@cache
def references() -> frozenset[Reference]:
    """Every reference that a user can meet."""
    return frozenset(_references())


def _references() -> Iterator[Reference]:
    for check in all_checks():
        yield from check.references
        yield from filter(None, [check.since_why])
    for claim in all_claims():
        yield from claim.references


def test_every_check_and_every_known_difference_has_references() -> None:
    assert [check.id for check in all_checks() if not check.references] == []
    assert [claim.reason for claim in all_claims() if not claim.references] == []


def test_no_check_cites_a_document_twice() -> None:
    assert [check.id for check in all_checks() if len(set(check.references)) < len(check.references)] == []


def test_each_reference_is_a_link_with_a_title() -> None:
    for each in references():
        assert each.title.strip() == each.title != ""
        assert re.fullmatch(r"https://[a-z0-9.-]+/\S*", each.url), each
        assert links([each]).startswith("["), f"{each.url} cannot stand in Markdown"


def test_an_address_has_one_title_and_a_title_one_address() -> None:
    by_url, by_title = defaultdict(set), defaultdict(set)
    for each in references():
        by_url[each.url].add(each.title)
        by_title[each.title].add(each.url)
    assert {key: found for key, found in (by_url | by_title).items() if len(found) > 1} == {}


def test_issues_and_proposals_lead_to_their_numbers() -> None:
    result = {each for each in references() if re.match(r"\S+#\d+: |KEP-\d+: ", each.title)}
    assert len(result) > 30
    for each in result:
        number = re.search(r"(\d+)$", each.title.partition(": ")[0])
        assert number
        assert re.search(rf"/0*{number[0]}(-|$)", each.url), each


def test_no_reference_names_a_seed() -> None:
    assert [each for each in references() if SEED.search(each.title)] == []
    assert [check.id for check in all_checks() if CITED_SEED.search(explain_check(check))] == []


@pytest.mark.parametrize("folder", ["esipp", "suites", "fixtures", "images"])
def test_no_text_or_docstring_cites_a_seed(folder: str) -> None:
    files = [path for kind in ("*.py", "*.toml", "*.md") for path in (HOUSE / folder).rglob(kind)]
    found = [path for path in files if re.search(r"\(?\bseeds? 00\d|\bseeds?' design", path.read_text(), re.IGNORECASE)]
    assert found == []


def test_every_source_of_a_profile_is_a_link_or_says_that_it_is_none() -> None:
    files = sorted((HOUSE / "esipp" / "loadbalancers" / "profiles").glob("*.toml"))
    assert len(files) > 20
    for file in files:
        for source in tomllib.loads(file.read_text()).get("sources", {}).values():
            text, url = source["text"], source.get("url", "")
            assert text
            assert not SEED.search(text)
            own, unread = (HOUSE / text).is_file(), source["grade"] == "reported" and UNREAD in text
            assert url.startswith("https://") or own or unread, (file.name, text)


def test_explain_tells_title_and_address() -> None:
    check = next(check for check in all_checks() if check.id == "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node")
    result = " ".join(explain_check(check).split())
    for each in check.references:
        assert each.title in result
        assert each.url in result
    assert say_since(check) == f"Kubernetes {check.since} ({check.since_why})"


# -------------------------------------------------------------------------------------------------------- as text, JSON
def test_titles_and_addresses_in_a_line() -> None:
    assert titles([ISSUE, Reference("a text")]) == "an issue; a text"
    assert with_urls([ISSUE, Reference("a text")]) == f"an issue <{ISSUE.url}>; a text"
    assert links([ISSUE, Reference("a text")]) == f"[an issue]({ISSUE.url}); `a text`"


@pytest.mark.parametrize("url", ["javascript:alert(1)", "https://x/)", "https://x/ y", "https://x/<b>", "https://x/|"])
def test_an_address_that_is_not_safe_is_no_link_in_markdown(url: str) -> None:
    assert links([Reference("a @b", url)]) == "`a @b`"


def test_both_forms_of_a_ledger_are_read() -> None:
    assert read_reference(ISSUE.as_json()) == ISSUE
    assert read_reference("KEP-1: a title") == Reference("KEP-1: a title")


def test_a_verdict_of_either_form_is_read() -> None:
    said = Verdict("a", Level.CORE, Status.KNOWN, "", "", references=(ISSUE,))
    result = record_of(said) | {"record": "verdict"}
    assert read_record(result, Verdict) == said
    old = {name: value for name, value in result.items() if name != "references"}
    for text, references in (("an issue", (Reference("an issue"),)), ("", ())):
        today = Older().today(old | {"reference": text})
        assert read_record(today, Verdict).references == references


def test_the_checks_of_a_ledger_have_either_form(tmp_path: Path) -> None:
    run = made(tmp_path / "run")
    header = json.loads((run.folder / LEDGER).read_text().splitlines()[0])
    assert [read_check(result).references for result in header["rows"]] == [check.references for check in some_checks()]
    for result in header["rows"]:
        result["references"] = [each["title"] for each in result["references"]]
    assert fault_of(header) == ""
    for result, check in zip(header["rows"], some_checks(), strict=True):
        assert read_check(result).references == tuple(Reference(each.title) for each in check.references)


@pytest.mark.parametrize(
    ("references", "right"),
    [
        ([ISSUE.as_json()], True),
        ([Reference("a title of an older ledger").as_json()], True),
        ([{"title": "x"}], False),
        ([{"title": "x", "url": "javascript:alert(1)"}], False),
        ([5], False),
    ],
)
def test_a_ledger_has_no_other_form(references: list[object], right: bool) -> None:
    result = record_of(Verdict("a", Level.CORE, Status.PASS, "", "")) | {"record": "verdict", "at": 1.0}
    assert (fault_of(result | {"references": references}) == "") is right
