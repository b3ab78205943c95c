"""Checks that a user leaves out: each with a reason, which is their verdict's, and never as if they had passed."""

from pathlib import Path

import pytest

from esipp.app.cli import _parser
from esipp.app.options import settings_of
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.catalog import all_checks
from esipp.checks.check import CARRIES, Check, Feature, Level, Status, Verdict, missing_features
from esipp.checks.exclusions import as_words, features_of, read_exclusions
from esipp.judging.frame import Known, give_verdict
from esipp.judging.topology import Topology
from esipp.ledger.conclusion import conclude
from esipp.ledger.run import Run
from esipp.report.profiles import missing
from esipp.scenarios.paths.evidence import Evidence
from tests.unit.report_world import made, some_checks
from tests.unit.verdicts import judge
from tests.unit.world import CHECKS

IDS = [path_check.id for path_check in CHECKS]
CHECK = next(
    path_check for path_check in CHECKS if path_check.id == "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
)
OTHER = next(
    path_check for path_check in CHECKS if path_check.id == "nodeport.local.udp.ipv4.outside-1-to-endpoint-node"
)


def decided(check: Check, *words: str) -> Verdict:
    def look() -> None:
        raise AssertionError("it was looked at")

    has = {name: Feature(True, "there") for name in check.features}
    return give_verdict(check, Known({}, has | features_of(read_exclusions(words, IDS))), look)


@pytest.mark.parametrize("word", [CHECK.id, "nodeport.local.tcp", "outside-1-to-endpoint-node"])
def test_a_check_is_left_out_by_its_id_or_a_part_of_it(word: str) -> None:
    verdict = decided(CHECK, f"{word}=our firewall")
    assert verdict.status is Status.UNSUPPORTED
    assert verdict.reason == "excluded by --exclude: our firewall"
    assert verdict.left_out


@pytest.mark.parametrize("word", [OTHER.id, "nodeport.cluster"])
def test_others_are_asked(word: str) -> None:
    with pytest.raises(AssertionError, match="it was looked at"):
        decided(CHECK, f"{word}=our firewall")


def test_a_whole_id_means_that_check_only() -> None:
    short = "a.b"
    found = features_of(read_exclusions([f"{short}=x"], [short, "a.b-2"]))
    assert [name.removeprefix("excluded.") for name in found] == [short]
    parts = features_of(read_exclusions(["a.=x"], [short, "a.b-2"]))
    assert [name.removeprefix("excluded.") for name in parts] == ["*a.*"]


def test_the_users_word_goes_before_what_is_missing_besides() -> None:
    given = features_of(read_exclusions([f"{CHECK.id}=our firewall"], IDS))
    verdict = judge(CHECK, Evidence(observations={}, topology=Topology(), features=given, samples=20))
    assert len(missing_features(CHECK, given)) > 1
    assert verdict.reason == "excluded by --exclude: our firewall"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nodeport.local"], "has no reason"),
        (["nodeport.local="], "has no reason"),
        (["nodeport.local= "], "has no reason"),
        (["=because"], "has no reason"),
        (["nodeport.lokal=because"], "no check matches 'nodeport.lokal'"),
        (["*=because"], "no check matches"),
        (["nodeport.local=because", "nodeport.local=also"], "twice"),
    ],
)
def test_an_exclusion_without_a_check_or_a_reason_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(PreflightError, match=said) as refused:
        read_exclusions(words, IDS)
    assert refused.value.hint


def test_a_core_check_that_is_left_out_makes_the_result_partial() -> None:
    assert CHECK.level is Level.CORE
    said = conclude([decided(CHECK, f"{CHECK.id}=why"), Verdict(OTHER.id, Level.CORE, Status.PASS, "c", "c")], 0)
    assert (said.result, said.exit_code) == ("partial", ExitCode.CONFORMANT)


def test_it_comes_from_the_command_line_and_goes_into_the_one_that_repeats_the_run() -> None:
    words = [f"{CHECK.id}=our firewall", "nodeport.cluster=no = sign is lost"]
    options = ["run", "--context", "c", "--image", "e:1", *(f"--exclude={word}" for word in words)]
    settings = settings_of(_parser().parse_args(options))
    assert as_words(settings.exclude) == words
    assert f"--exclude '{words[0]}' --exclude '{words[1]}'" in settings.repeat


def test_a_report_tells_the_checks_by_the_reason(tmp_path: Path) -> None:
    checks = some_checks()[:3]
    given = features_of(read_exclusions([f"{check.id}={why}" for check, why in zip(checks, "aab", strict=True)], IDS))

    def tell(run: Run) -> None:
        for name, feature in given.items():
            run.record("feature", name=name, present=False, why=feature.why, ours=feature.ours)

    said = {check.id: give_verdict(check, Known({}, given), lambda: pytest.fail("asked")) for check in checks}
    found = missing(made(tmp_path, checks, said, more=tell))
    answer = {check: (each.why, each.ours) for each in found for check in each.checks}
    assert answer == {
        check.id: (f"excluded by --exclude: {why}", True) for check, why in zip(checks, "aab", strict=True)
    }


def test_a_report_says_what_a_named_load_balancer_does_not_carry(tmp_path: Path) -> None:
    check = next(check for check in all_checks() if check.subject.balanced >= {"udp", "ipv4"})
    given = {name: Feature(True, "there") for name in check.features}
    given[f"{CARRIES}udp"] = Feature(False, "x carries no UDP")

    def tell(run: Run) -> None:
        for name, feature in given.items():
            run.record("feature", name=name, present=feature.present, why=feature.why, ours=feature.ours)

    said = {check.id: give_verdict(check, Known({}, given), lambda: pytest.fail("asked"))}
    (found,) = missing(made(tmp_path, [check], said, more=tell))
    assert (found.name, found.why, found.ours, found.checks) == (f"{CARRIES}udp", "x carries no UDP", False, [check.id])
