"""esipp.yaml: options of a run in a file, its JSON schema, and ``esipp init``; the current context; similar words."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
import yaml

from esipp.app import cli, config_file
from esipp.app.completion import SHELLS
from esipp.app.in_cluster import credentials
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.catalog import HOUSE
from tests.warm import run_module

CHECK = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def expanded(keys: Mapping[str, Any], *arguments: str) -> Namespace:
    Path("esipp.yaml").write_text(yaml.safe_dump(dict(keys)))
    parser = cli._parser()
    return parser.parse_args(config_file.expanded(list(arguments), cli._commands(parser)))


def test_options_of_the_file_are_those_of_the_command_line() -> None:
    keys = {"context": "home", "samples": 20, "bound": 7.5, "allow-disruptive": True, "internal": False}
    options = expanded({**keys, "label": ["a=b", "c=d"], "suite": ["nodes"]}, "run", "--label", "e=f")
    assert (options.context, options.samples, options.bound) == ("home", 20, 7.5)
    assert (options.allow_disruptive, options.internal) == (True, False)
    assert (options.label, options.suite) == (["a=b", "c=d", "e=f"], ["nodes"])


def test_the_command_line_goes_before_the_file() -> None:
    options = expanded({"context": "home", "checks": [CHECK]}, "run", "--context=away", "nodeport")
    assert (options.context, options.checks) == ("away", ["nodeport"])
    assert expanded({"context": "home", "checks": [CHECK]}, "run").checks == [CHECK]


def test_a_lane_adds_its_keys() -> None:
    keys = {"samples": 20, "lanes": {"nightly": {"samples": 200, "context": "big"}}}
    options = expanded(keys, "run", "--lane", "nightly")
    assert (options.samples, options.context, options.lane) == (200, "big", "nightly")
    assert expanded(keys, "run").samples == 20


def test_a_misspelt_lane_is_not_run_without_its_keys(capsys: pytest.CaptureFixture[str]) -> None:
    Path("esipp.yaml").write_text("lanes: {nightly: {samples: 200}, 1.34: {samples: 20}}")
    for given, meant in (("nigthly", "nightly"), ("1.35", "1.34")):
        assert cli.main(["doctor", "--context", "x", "--lane", given]) == ExitCode.USAGE
        said = capsys.readouterr().err
        assert f"esipp.yaml has no lane '{given}'.\n  hint: did you mean {meant}? " in said


def test_a_lane_that_the_file_lacks_is_a_name_and_esipp_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    keys = {"samples": 20, "lanes": {"nightly": {"samples": 200}, 1.34: {"samples": 30}}}
    options = expanded(keys, "run", "--lane", "kind-iptables")
    assert (options.lane, options.samples) == ("kind-iptables", 20)
    assert "esipp.yaml has no lane 'kind-iptables': it is only this run's name.\n" in capsys.readouterr().err
    assert expanded(keys, "run", "--lane", "1.34").samples == 30
    expanded({"samples": 20}, "run", "--lane", "kind-iptables")
    expanded({**keys, "lane": "home"}, "run")
    assert "only this run's name" not in capsys.readouterr().err, "a lane of the file, or of a file without lanes"


def test_a_plan_takes_what_it_knows() -> None:
    options = expanded({"context": "home", "provider": "metallb-l2", "samples": 20}, "plan")
    assert (options.provider, options.samples) == ("metallb-l2", 20)


def test_other_commands_do_not_read_it() -> None:
    Path("esipp.yaml").write_text("no: such option")
    assert cli.main(["list", CHECK]) == ExitCode.CONFORMANT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("provder: x", "there is no option 'provder'.\n  hint: did you mean provider?"),
        ("- a list", "expected keys and values"),
        ("lanes: [a]", "expected keys and values"),
        ("a: [", "is not YAML"),
        ("internal: maybe", "internal: expected true or false"),
        ("samples: [1]", "samples: expected a value"),
        ("label: {a: b}", "label: expected a list"),
        ("checks: some", "checks: expected a list of texts"),
        ("yes: true", "there is no option"),  # who confirms is who types it
    ],
)
def test_a_wrong_file_is_reported(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text(text)
    assert cli.main(["doctor", "--context", "x", "--config", "mine.yaml"]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--config", "none.yaml"]) == ExitCode.USAGE
    assert "cannot read none.yaml" in capsys.readouterr().err


def test_the_schema_knows_every_option_and_its_kind() -> None:
    schema = json.loads(config_file.SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    good = {"context": "x", "samples": 3, "label": ["a=b"], "allow-disruptive": True, "lanes": {"n": {"samples": 1}}}
    jsonschema.validate(good, schema)
    for wrong in ({"samples": "many"}, {"provder": "x"}, {"suite": ["none"]}, {"lanes": {"n": {"x": 1}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


# ------------------------------------------------------------------------------------------------------- esipp init
def found(*profiles: str) -> SimpleNamespace:
    facts = {"kubernetes": "v1.36.4", "service-proxy": "kube-proxy"}
    features = {"family.ipv6": SimpleNamespace(present=False), "packets": SimpleNamespace(present=True)}
    balancer = SimpleNamespace(profiles=tuple(SimpleNamespace(name=name) for name in profiles))
    return SimpleNamespace(facts=facts, features=features, balancer=balancer)


@pytest.mark.parametrize("profiles", [(), ("metallb-l2",), ("aks", "aks-basic")])
def test_init_writes_a_file_that_a_run_reads(profiles: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esipp.cluster.client.Cluster", SimpleNamespace(of=lambda _: None))
    monkeypatch.setattr("esipp.preflight.preflight.examine", lambda *_: found(*profiles))
    assert cli.main(["init", "--context", "home"]) == ExitCode.CONFORMANT
    text = Path("esipp.yaml").read_text()
    keys = yaml.safe_load(text)
    jsonschema.validate(keys, json.loads(config_file.SCHEMA.read_text()))
    assert keys == {"context": "home", **({"provider": profiles[0]} if len(profiles) == 1 else {})}
    assert "family.ipv6" in text
    assert expanded(keys, "run").context == "home"
    assert cli.main(["init", "--context", "home"]) == ExitCode.USAGE, "nothing is overwritten"
    assert cli.main(["init", "--context=home", "--samples=20", "--label=a=b", "--file=b.yaml"]) == ExitCode.CONFORMANT
    assert {"samples": 20, "label": ["a=b"]}.items() <= yaml.safe_load(Path("b.yaml").read_text()).items()


# ------------------------------------------------------------------------------------------------ the current context
@pytest.fixture
def kubeconfig(here: Path) -> str:
    (here / "config").write_text("apiVersion: v1\nkind: Config\ncurrent-context: mine\n")
    return str(here / "config")


def test_the_current_context_is_never_taken_silently(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "is_pod", lambda: False)
    with pytest.raises(PreflightError) as refused:
        credentials.named(None, kubeconfig, in_cluster=False)
    assert "--yes for the current context, mine" in str(refused.value)
    assert credentials.named(None, kubeconfig, in_cluster=False, yes=True) == ("mine", kubeconfig)


@pytest.mark.parametrize(
    ("answer", "taken"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_a_terminal_is_asked(answer: str, taken: bool, kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "is_pod", lambda: False)
    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: answer, write=lambda _: None, flush=lambda: None)
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("sys.stderr", terminal)
    if taken:
        assert credentials.named(None, kubeconfig, in_cluster=False)[0] == "mine"
    else:
        with pytest.raises(PreflightError):
            credentials.named(None, kubeconfig, in_cluster=False)


def test_yes_does_not_help_without_a_current_context(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "is_pod", lambda: False)
    (here / "empty").write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(PreflightError, match="No cluster is named"):
        credentials.named(None, str(here / "empty"), in_cluster=False, yes=True)


# --------------------------------------------------------------------------------------------------------- completion
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("esipp ru", {"run"}),
        ("esipp run --provider metallb", {"metallb-l2", "metallb-bgp"}),
        ("esipp run --profile q", {"quick"}),
        (f"esipp explain {CHECK[:-5]}", {CHECK}),
        ("esipp load-balancers kube-", {"kube-vip", "kube-vip-election"}),
        ("esipp plan --without family.ipv", {"family.ipv4", "family.ipv6"}),
        ("esipp run --require load-balancer.without", {"load-balancer.without-node-ports"}),
        ("esipp doctor --kubeconfig kubeconfig --context kind-", {"kind-a", "kind-b"}),
        ("esipp completion b", {"bash"}),
    ],
)
def test_a_shell_is_offered_what_fits(line: str, offered: set[str], tmp_path: Path) -> None:
    """As bash asks argcomplete."""
    (tmp_path / "kubeconfig").write_text("contexts: [{name: kind-b}, {name: kind-a}, {name: other}]")
    answer = tmp_path / "answer"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SHELL": "bash", "COMP_LINE": line}
    asked |= {"COMP_POINT": str(len(line)), "COMP_TYPE": "9", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    done = run_module("esipp", cwd=tmp_path, env={**os.environ, **asked})
    assert done.returncode == 0, done.stderr
    assert {each.strip() for each in answer.read_text().split("\n")} == offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [(["run", "--profile", "q"], ["quick"]), (["ru"], ["run"]), (["run", "--provider", "none-such"], [])],
)
def test_kubectl_is_offered_what_fits(words: list[str], offered: list[str], tmp_path: Path) -> None:
    """As kubectl asks kubectl_complete-esipp."""
    program = "import sys; from esipp.app.cli import kubectl_complete; sys.exit(kubectl_complete())"
    environment = {**os.environ, "PYTHONPATH": str(HOUSE)}
    line = [sys.executable, "-c", program, *words]
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [*offered, ":0"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_gets_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == ExitCode.CONFORMANT
    script = capsys.readouterr().out
    assert "COMP_LINE" in script
    assert "esipp" in script
    if shell == "bash":
        subprocess.run(["bash", "-euc", f"{script}\ncomplete -p esipp"], check=True, capture_output=True, timeout=20)


def test_without_argcomplete_that_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert cli.main(["completion", "bash"]) == ExitCode.USAGE
    assert "needs the package argcomplete.\n  hint: pipx inject" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-esipp", "ru"])
    assert cli.kubectl_complete() == ExitCode.USAGE
    assert capsys.readouterr().out == "", "kubectl completes nothing"


# ------------------------------------------------------------------------------------------------------ similar words
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "nodeport.locl.tcp.ipv4.outside-1-to-endpoint-node"], f"did you mean {CHECK}"),
        (["run", "--suite", "sorce_ip"], "did you mean source_ip?"),
        (["run", "--provder", "x"], "did you mean --provider"),
        (["lst"], "did you mean list"),
        (["list", "-q"], "-q is an option of run, doctor, summary."),
        (["explain", "nodport.local"], "did you mean nodeport.local"),
        (["run", "--context", "x", "--exclude", "helth=why"], "did you mean health"),
        (["plan", "--provider", "metallb-l2", "--without", "load-balancr"], "did you mean load-balancer or"),
        (["plan", "--provider", "metalb-l2"], "did you mean metallb-l2"),
        (["run", "--context", "x", "--require", "load-balancr"], "did you mean load-balancer"),
        (["run", "--profile", "quik"], "did you mean quick? 'esipp run --help' lists all options."),
        (["run", "-n", "here"], "a run creates a namespace of its own, esipp-RUN"),
        (["doctor", "--namespace", "here"], "a run creates a namespace of its own, esipp-RUN"),
    ],
)
def test_a_wrong_word_is_answered_with_similar_ones(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main(words)
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == ExitCode.USAGE
    assert said in capsys.readouterr().err
