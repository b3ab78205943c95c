"""The figures that head a report: of the cluster's own load balancer, and of the reference one only if it has none."""

import re
from dataclasses import replace

from esipp.checks.continuity import Phase
from esipp.checks.model import Balancer
from esipp.report.sections import figures
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.endpoint_change.evidence import Moved
from tests.unit import continuity_world
from tests.unit.continuity_world import lost, moment
from tests.unit.drawings_world import Evidence, convergence, recorded

OF_REFERENCE = "(reference load balancer)"


def said(evidence: Evidence) -> dict[str, str]:
    return dict(figures(recorded(evidence)))


def measured(*balancers: Balancer) -> Evidence:
    """Endpoint changes; others than these load balancers could not be measured."""
    moved: Moved = convergence()["convergence"]
    results = {
        of: each if of in balancers else replace(each, obstacle="it has no address")
        for of, each in moved.results.items()
    }
    return {"convergence": replace(moved, results=results)}


def test_what_the_reference_load_balancer_does_changes_no_figure_of_the_cluster() -> None:
    found = said(measured(Balancer.DEFAULT, Balancer.ECMP))
    assert list(found) == ["slowest convergence", "longest black hole", "requests lost"]
    assert found == said(measured(Balancer.DEFAULT))
    assert not [words for words in found.values() if "reference" in words]


def test_where_only_the_reference_load_balancer_was_measured_the_words_say_so() -> None:
    found = said(measured(Balancer.ECMP))
    assert len(found) == 3
    assert [words for words in found.values() if not words.endswith(OF_REFERENCE)] == []
    assert " of 3.00 s allowed" in found["longest black hole"]


def test_both_directions_of_convergence_are_in_one_line() -> None:
    words = said(measured(Balancer.DEFAULT))["slowest convergence"]
    assert re.fullmatch(r"pod added \d+\.\d\d s \(IPv\d\), pod removed \d+\.\d\d s \(IPv\d\)", words)


def test_a_direction_that_was_never_seen_is_said_to_be_missing() -> None:
    evidence = measured(Balancer.DEFAULT)
    moved: Moved = evidence["convergence"]
    result = moved.results[Balancer.DEFAULT]
    removals = replace(result, changes=[each for each in result.changes if not each.up])
    evidence["convergence"] = replace(moved, results={Balancer.DEFAULT: removals})
    assert re.match(r"pod added never seen, pod removed \d", said(evidence)["slowest convergence"])


# ------------------------------------------------------------------------------------------------------ steady traffic
def losing(count: int, phase: Phase, slug: str, seen: ContinuityEvidence) -> ContinuityEvidence:
    return continuity_world.changed(seen, slug, moment(phase, 2.0), lost, count)


def counts(seen: ContinuityEvidence) -> dict[str, tuple[int, int]]:
    """Lost and all requests, by what went on meanwhile."""
    words = said({"continuity": seen})["requests lost"]
    found = {}
    for part in words.split("; "):
        matched = re.fullmatch(r"([\d,]+) of ([\d,]+) (.*)", part)
        assert matched, part
        found[matched[3]] = (int(matched[1].replace(",", "")), int(matched[2].replace(",", "")))
    return found


def test_losses_of_the_rolling_update_stand_apart() -> None:
    healthy = counts(continuity_world.world())
    assert list(healthy) == ["in the rolling update", "in all steady traffic"]
    seen = losing(3, Phase.ROLLING_UPDATE, "default.local", continuity_world.world())
    found = counts(losing(4, Phase.DELETED, "nodeport.cluster", seen))
    assert {what: lost - healthy[what][0] for what, (lost, _) in found.items()} == {
        "in the rolling update": 3,
        "in all steady traffic": 7,
    }
    assert found["in the rolling update"][1] < found["in all steady traffic"][1]


def test_losses_behind_the_reference_load_balancer_do_not_count() -> None:
    seen = losing(9, Phase.ROLLING_UPDATE, "reference-ecmp.local", continuity_world.world())
    assert counts(seen) == counts(continuity_world.world())


def test_without_a_way_of_the_cluster_it_is_the_reference_load_balancers_traffic() -> None:
    seen = continuity_world.world()
    ways = {of: stream for of, stream in seen.streams.items() if of[0].by.startswith("reference-")}
    assert {what.partition(" (")[2] for what in counts(replace(seen, streams=ways))} == {OF_REFERENCE[1:]}


def test_without_a_rolling_update_there_are_no_losses_of_one() -> None:
    seen = continuity_world.world()
    windows = [window for window in seen.windows if window.phase is not Phase.ROLLING_UPDATE]
    assert list(counts(replace(seen, windows=windows))) == ["in all steady traffic"]
