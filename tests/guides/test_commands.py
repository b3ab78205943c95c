"""Each command of the guides runs on a kind cluster, or is listed with the reason why not."""

import re
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from ci import lane_file
from esipp.app.cli import check_run, main, understood
from esipp.app.config_file import NAME as OPTIONS_FILE
from esipp.app.config_file import expanded
from esipp.checks.catalog import HOUSE
from tests.guides.commands import Command, name_of, of_esipp, of_page
from tests.guides.here import (
    BREAKS,
    BROKEN,
    ENDS,
    MENDS,
    NOT_HERE,
    PAGES,
    REPLACED,
    Step,
    steps,
    why_not,
    write_folder,
)
from tests.guides.running import Done, run

FORWARDER, HOSTNAME, METALLB = (lane_file.load(name) for name in ("as-aks", "as-eks-nlb", "kind-iptables"))
LANES = (FORWARDER, HOSTNAME, METALLB)
PROGRAMS = {"esipp", "kubectl", "docker", "umask", "file", "was", "CONTEXT", "CLIENTS", "GROUP", "ACCOUNT", "PROJECT",
            "NETWORK", "REGISTRY"}  # fmt: skip
"""What commands that run here begin with: programs, and variables that are assigned."""
WITHOUT_CLUSTER = ("plan", "list", "explain", "load-balancers")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder, in which the test is."""
    write_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def on(lane: lane_file.Lane, page: Path) -> list[Step]:
    return steps(of_page(page), lane)


# ------------------------------------------------------------------------------------------------------- the tables
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_command_runs_here_or_has_a_reason_why_not(page: Path) -> None:
    for step in chain.from_iterable(on(lane, page) for lane in LANES):
        if not step.text:
            assert step.why, step.command.where
            continue
        first = re.match(r"\w+", step.text)
        assert first, step.command.where
        assert first[0] in PROGRAMS, f"{step.command.where}: {first[0]} runs here, or is in NOT_HERE"
        left = re.search(r"…|my-cluster|\bNAME\b|registry\.example|\$\{?REGISTRY\b", step.text)
        assert not left, f"{step.command.where}: {left and left[0]} stands for something, see REPLACED"
        assert not re.search(r"\\\s*$", step.text), f"{step.command.where}: nothing follows its last line"


@pytest.mark.usefixtures("folder")
def test_no_row_of_a_table_is_unused() -> None:
    texts = [command.text for page in PAGES for command in of_page(page)]
    for row in (*NOT_HERE, *REPLACED, *ENDS):
        assert any(re.search(row.pattern, text, re.MULTILINE) for text in texts), row
        assert row.reason
    assert sum(bool(re.search(BREAKS, text)) for text in texts) == 1
    added = next(text for text in texts if re.search(BREAKS, text))
    assert added.replace(" -I ", " -D ") == MENDS, "what the page adds goes again"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("lane", "guides"), [(FORWARDER, ("gke", "aks", "openstack", "your-own-provider")),
                                              (HOSTNAME, ("eks",)), (METALLB, ("bare-metal",))])  # fmt: skip
def test_each_guide_has_a_lane_on_which_its_doctor_and_its_run_are_run(
    lane: lane_file.Lane, guides: tuple[str, ...]
) -> None:
    for name in guides:
        own = on(lane, HOUSE / "docs" / "guides" / f"{name}.md")
        ran = [words[0] for step in own for words in of_esipp([replace(step.command, text=step.text)])]
        assert {"doctor", "run", "plan"} <= {*ran}, f"{name} on {lane.name}"
        assert all(step.provider for step in own if re.match(r"esipp (run|doctor)", step.text))


def test_a_load_balancer_that_a_lane_cannot_stand_for_is_named() -> None:
    assert why_not(FORWARDER, "gke-rbs") == why_not(METALLB, "metallb-l2") == why_not(HOSTNAME, "aws-clb") == ""
    assert why_not(FORWARDER, "eks-nlb-instance") == "eks-nlb-instance announces a hostname, the lane as-aks a ip"
    assert why_not(FORWARDER, "metallb-l2").startswith("metallb-l2 cannot be emulated: ")
    assert why_not(METALLB, "metallb-bgp") == "the lane kind-iptables has metallb-l2, not metallb-bgp"
    assert why_not(FORWARDER, "no-such-one").startswith("no-such-one cannot be emulated: ")


def test_what_a_proxy_cannot_carry_is_left_out_of_its_runs_and_not_of_its_plan() -> None:
    page = HOUSE / "docs" / "guides" / "openstack.md"
    own = [step for step in on(FORWARDER, page) if "octavia-amphora-monitor" in step.text]
    left_out = {step.text.split()[1]: "--without=load-balancer.carries." in step.text for step in own}
    assert left_out == {"plan": False, "doctor": True, "run": True}


def test_exit_codes_other_than_0_are_those_of_the_tables(folder: Path) -> None:
    own = on(METALLB, HOUSE / "docs" / "first-ten-minutes.md")
    at = next(number for number, step in enumerate(own) if re.search(BREAKS, step.text))
    codes = [step.code for step in own if step.text.startswith("esipp run")]
    assert codes == [0, BROKEN.code], "before and after the page breaks the cluster"
    assert own[at].code == 0
    (left,) = [step for step in on(FORWARDER, HOUSE / "docs" / "guides" / "gke.md") if "grep" in step.text]
    assert (left.code, left.why) == (1, (ENDS[0].reason,))
    assert folder.is_dir()


# --------------------------------------------------------------------------------------------------------- of esipp
def words_of(lane: lane_file.Lane) -> list[list[str]]:
    """The command lines of esipp that run on a lane, with a reader's variables."""
    found = []
    for page in PAGES:
        own = [replace(step.command, text=step.text) for step in on(lane, page) if step.text]
        found += of_esipp(own)
    return found


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_runs_are_accepted_with_the_options_of_the_folder(lane: lane_file.Lane) -> None:
    from esipp.app.cli import _commands, _parser

    assert Path(OPTIONS_FILE).is_file()
    parsers = _commands(_parser())
    ran = [words for words in words_of(lane) if words[0] in ("run", "doctor")]
    assert len(ran) > 10
    for words in ran:
        if "--rerun-failed" not in words:
            check_run(expanded(["run", *words[1:]], parsers)[1:])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "words",
    sorted({tuple(words) for page in PAGES for words in of_esipp(of_page(page)) if words[0] in WITHOUT_CLUSTER}),
    ids=" ".join,
)
def test_commands_that_need_no_cluster_run(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out.strip()
    assert understood(words)


# --------------------------------------------------------------------------------------------------------- the shell
def step(number: int, text: str, code: int = 0) -> Step:
    return Step(Command("page.md", number, text), text, (), code)


def ended(tmp_path: Path, *own: Step, seconds: float = 20.0) -> list[Done]:
    assert shutil.which("bash")
    return list(run(own, tmp_path, {"PATH": "/usr/bin:/bin", "WHO": "reader"}, seconds=seconds))


def test_a_page_is_one_shell_with_an_exit_code_for_each_command(tmp_path: Path) -> None:
    own = [
        step(1, "A=one; B=two"),
        step(2, "echo $A $B $WHO   # a comment"),
        step(3, "for each in 1 2; do\n  echo $each; done"),
        step(4, "echo nothing | grep something", code=1),
        step(5, "false"),
        Step(Command("page.md", 6, "gcloud auth login"), "", ("a cloud's own tool",)),
        step(7, "cat; echo last"),
    ]
    found = ended(tmp_path, *own)
    assert [each.code for each in found] == [0, 0, 0, 1, 1, None, 0]
    assert [each.as_wanted for each in found] == [True, True, True, True, False, True, True]
    assert [each.output for each in found[1:3]] == ["one two reader\n", "1\n2\n"]
    assert "page.md:5" in found[4].line
    assert "exit code 1, not 0" in found[4].line
    assert found[5].line.startswith("not here")
    assert found[5].line.endswith("(a cloud's own tool)")
    assert found[6].output == "last\n", "it has no input"


def test_what_must_fail_and_does_not_is_noticed(tmp_path: Path) -> None:
    (found,) = ended(tmp_path, step(1, "echo esipp-left | grep esipp-", code=1))
    assert not found.as_wanted
    assert "esipp-left" in found.last


@pytest.mark.parametrize("text", ["sleep 60", "exit 3"])
def test_a_command_that_does_not_end_or_ends_the_shell_ends_the_page(text: str, tmp_path: Path) -> None:
    found = ended(tmp_path, step(1, text), step(2, "true"), seconds=1.0)
    assert [(each.code, each.as_wanted) for each in found] == [(None, False)]


def test_before_a_command_that_runs_its_load_balancer_is_there(tmp_path: Path) -> None:
    asked = list[str]()
    own = [replace(step(1, "true"), provider="aks"), replace(step(2, ""), provider="gke-rbs"), step(3, "true")]
    list(run(own, tmp_path, {"PATH": "/usr/bin:/bin"}, lambda each: asked.append(each.provider)))
    assert asked == ["aks", ""]


# ---------------------------------------------------------------------------------------------------------- the pages
def test_a_command_has_all_its_lines_and_no_output(tmp_path: Path) -> None:
    page = HOUSE / "docs" / "guides" / "gke.md"
    loops = [each.text for each in of_page(page) if each.text.startswith("for what in")]
    assert [text.splitlines()[-1].strip()[-4:] for text in loops] == ["done"]
    ten = of_page(HOUSE / "docs" / "first-ten-minutes.md")
    assert all(re.match(r"[a-z]", each.text) for each in ten)
    assert not any("CONFORMANT" in each.text for each in ten)
    first = ten[0]
    line = (HOUSE / first.page).read_text().splitlines()[first.line - 1]
    assert line == f"$ {first.text}"
    assert tmp_path.is_dir()
