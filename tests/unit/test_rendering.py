"""Renderers of documents: each says everything, none is taken over by text from outside."""

import json
import re
from collections.abc import Callable

import pytest

from esipp.base.document import (
    WIDTH,
    Code,
    Command,
    Document,
    Fold,
    Item,
    Items,
    Link,
    Pairs,
    Section,
    Strong,
    Table,
    Text,
    rewritten,
)
from esipp.report.rendering import render
from esipp.report.rendering.html import as_html
from esipp.report.rendering.json import as_json
from esipp.report.rendering.markdown import as_markdown
from esipp.report.rendering.terminal import as_text
from tests.unit.html_world import Page
from tests.unit.report_world import HOSTILE

FORMS = ("text", "markdown", "html")


def document(text: Callable[[str], str] = str) -> Document:
    """Every kind of block, each with a text of its own."""
    item = Item(text("a head"), (("label", text("a detail")), ("", text("more of it")), ("repeat", Code(text("cmd")))),
                (text("an.id"),))  # fmt: skip
    table = Table((text("first"), "number"), ((Code(text("a.cell")), 1.5), (Strong(text("loud"), "fail"), 7),
                  ("", None)), text("a caption"), text("a remark"))  # fmt: skip
    blocks = (
        Text(
            (
                text("a paragraph"),
                " with ",
                Strong(text("emphasis")),
                " and ",
                Link(text("a link"), "https://x.example"),
            )
        ),
        Command(text("a command")),
        Pairs(((text("a pair"), text("its text")),)),
        Items((item,)),
        Section(text("an inner section"), (table,)),
        Fold(text("a fold"), (Text(text("folded")),)),
    )
    return Document(text("a title"), text("a sentence"), (text("an alarm"),), (Section(text("a section"), blocks),))


@pytest.mark.parametrize("form", FORMS)
def test_every_text_is_shown(form: str) -> None:
    shown = " ".join(re.sub(r"\\", "", render(document(), form)).split())
    texts = {"a title", "a sentence", "an alarm", "a section", "a paragraph", "emphasis", "a link", "a command",
             "a pair", "its text", "a head", "a detail", "more of it", "an.id", "cmd", "an inner section", "a.cell",
             "loud", "a caption", "a remark", "1.50", "7", "a fold", "folded"}  # fmt: skip
    left_out = {"text": {"a title", "a fold", "folded"}, "markdown": {"a fold", "folded"}, "html": set[str]()}[form]
    assert {text for text in texts if text not in shown} == left_out


def test_json_has_the_tree_with_plain_texts_and_numbers() -> None:
    shown = json.dumps(as_json(document().blocks))
    texts = ("a section", "a paragraph with emphasis and a link", "a command", "a pair", "an.id", "a remark", "folded")
    assert all(json.dumps(text)[1:-1] in shown for text in texts)
    table = as_json([Table(("a", "b", "c"), (("x", 1.5, None), (Code("y"), 7, Strong("z"))))])[0]
    assert table == {"kind": "table", "caption": "", "head": ["a", "b", "c"], "more": "",
                     "rows": [["x", 1.5, None], ["y", 7, "z"]]}  # fmt: skip


def test_what_only_a_page_shows_of_an_item_is_on_the_page() -> None:
    item = Item(Strong("fail", "fail"), blocks=(Command("again"),), tone="fail", id="cause-1")
    page, rest = as_html(Document("t", blocks=(Items((item,)),))), Document("t", blocks=(Items((item,)),))
    assert '<article id="cause-1" class="trouble t-fail">' in page
    assert "again" in page
    assert "again" not in as_text(rest) + as_markdown(rest)


def test_the_page_is_well_formed_and_its_policy_has_no_hole() -> None:
    page = as_html(document(lambda text: f"{text} {HOSTILE}"))
    read = Page(page)
    assert read.unclosed == []
    assert not {tag for tag, _ in read.elements} & {"script", "img", "iframe", "object", "form"}
    assert not any(name.startswith("on") or name == "style" for _, attrs in read.elements for name in attrs)
    policy = next(attrs["content"] for attrs in read.all("meta") if "http-equiv" in attrs)
    assert "unsafe" not in policy
    assert "script-src 'none'" in policy
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert levels == [1, 2, 3, 3]


def test_only_safe_addresses_are_links() -> None:
    for url in ("javascript:alert(1)", "http://x.example", "https://x.example/) [y](z", "//x.example"):
        of = Document("t", blocks=(Text((Link("words", url),)),))
        assert "words" in as_html(of)
        assert 'href="javascript' not in as_html(of)
        assert "](" not in as_markdown(of)


@pytest.mark.parametrize("environment", [{"FORCE_COLOR": "1"}, {"COLUMNS": "40"}, {"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_the_terminal_changes_no_byte(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = as_text(document())
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert as_text(document()) == expected


def test_text_fits_its_columns_and_holds_no_control_characters() -> None:
    shown = as_text(document(lambda text: f"{text} {HOSTILE} " + "long " * 60 + "x" * 300))
    commands = [line for line in shown.splitlines() if line.lstrip().startswith("repeat")]
    assert all(len(line) <= WIDTH for line in shown.splitlines() if line not in commands)
    assert len(commands) == 1, "a command to copy is not wrapped"
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert "\033" not in as_text(document(lambda text: f"{text}\033[31m"))


def test_square_brackets_and_colons_stay_what_they_are() -> None:
    text = "[bold]x[/bold] :smile: [link=y]z"
    assert as_text(Document("t", blocks=(Text(text),))) == f"{text}\n"
    inner = Items((Item(text, (("label", Code(text)),), (text,)),))
    assert as_text(Document("t", blocks=(Section(text, (inner,)),))).count(text) == 4


def test_a_paragraph_never_begins_a_list() -> None:
    for text in ("- x", "+ x", "1. x", "12) x", "= x"):
        assert as_markdown(Document("t", blocks=(Text(text),))).splitlines()[2].startswith(("\\", "1"))
        assert not re.search(r"^(?:[-+=]|\d+[.)])", as_markdown(Document("t", blocks=(Text(text),))).splitlines()[2])


def test_a_document_is_rewritten_before_its_lines_are_wrapped() -> None:
    secret = "secret " * 3
    found = rewritten(document(lambda text: text + " " + secret), lambda text: text.replace(secret.strip(), "x"))
    assert "secret" not in as_text(found) + as_markdown(found) + as_html(found)
