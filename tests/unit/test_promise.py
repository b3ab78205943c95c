"""Who says how fast a load balancer has to follow: the user, the profile, and nobody else."""

from dataclasses import replace
from pathlib import Path

import pytest

from esipp.app.options import MOST_BOUND, check_numbers
from esipp.base.errors import PreflightError
from esipp.checks.profile import Figure, Grade, LoadBalancer, Target
from esipp.checks.timing import (
    AS_STARTED,
    BY_USER,
    GIVES_UP,
    Bound,
    Threshold,
    fail_over_of,
    probe_timeout_of,
    promise_of,
    promise_of_reference,
    threshold_of,
    threshold_of_reference,
)
from esipp.ledger.run import Settings
from esipp.loadbalancers.profiles.loading import all_profiles, named, read_file
from esipp.loadbalancers.timeouts import USUAL, slowest, steering_of, timeouts_of


def reported(profile: LoadBalancer) -> LoadBalancer:
    """The same, with figures that others reported."""
    check = profile.local
    assert check.period is not None
    sources = tuple(replace(each, grade=Grade.REPORTED) for each in check.period.sources)
    local = replace(check, period=Figure(check.period.value, sources))
    return replace(profile, check=replace(profile.check, local=local))


def test_the_user_goes_before_the_profile() -> None:
    gke = named("gke-legacy")
    assert gke.bound is not None
    assert (promise_of([gke], sure=True, bound=7.5).seconds, promise_of([gke], sure=True).seconds) == (7.5, gke.bound)
    assert promise_of([gke], sure=True, bound=7.5).words == f"bound 7.50 s from {BY_USER}"
    assert "profile gke-legacy (--provider): (N+1) x period, N=" in promise_of([gke], sure=True).words


def test_what_was_only_found_promises_documented_figures_alone() -> None:
    gke = named("gke-legacy")
    assert promise_of([gke], sure=False).seconds == gke.bound
    assert promise_of([reported(gke)], sure=True).seconds == gke.bound
    assert promise_of([reported(gke)], sure=False).seconds is None


def test_where_several_fit_all_of_them_promise_and_the_longest_counts() -> None:
    both = [named("gke-legacy"), named("aks")]
    assert promise_of(both, sure=False).seconds == max(each.bound or 0.0 for each in both)
    none = promise_of([*both, named("metallb-l2")], sure=False)
    assert none.seconds is None
    assert "has no bound, and --bound is not set" in none.source
    assert promise_of([], sure=False).seconds is None
    assert not promise_of([], sure=False).known


def test_a_fail_over_is_promised_where_every_profile_that_fits_documents_it() -> None:
    metallb = named("metallb-l2")
    found = fail_over_of([metallb], sure=False)
    assert found is not None
    assert (found.seconds, found.source) == (10.0, "profile metallb-l2 (detected): fail-over")
    assert fail_over_of([metallb, named("aks")], sure=False) is None
    assert fail_over_of([], sure=True) is None
    figure = metallb.steering.fail_over
    assert figure is not None
    heard = Figure(figure.value, tuple(replace(each, grade=Grade.REPORTED) for each in figure.sources))
    hearsay = replace(metallb, steering=replace(metallb.steering, fail_over=heard))
    assert fail_over_of([hearsay], sure=False) is None
    assert fail_over_of([hearsay], sure=True) is not None


def test_an_instrument_is_held_to_what_it_was_started_with() -> None:
    promise = promise_of_reference({"period": 1.0, "unhealthy": 2})
    assert promise.seconds == 3.0
    assert promise.source.startswith(AS_STARTED)
    assert promise_of_reference({}).seconds is None


def test_one_node_at_a_time_is_distinguished_from_all_at_once() -> None:
    assert {name: promise_of([named(name)], sure=True).spreads for name in ("aks", "kube-vip", "metallb-bgp")} == {
        "aks": True,
        "kube-vip": False,
        "metallb-bgp": None,  # its routers decide
    }


def test_a_profile_of_the_users_own_may_state_a_bound(tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    text = (
        'name = "ours"\ntitle = "Ours"\nlike = "metallb-l2"\n[steering]\nbound = {}\nspreads = false\nsource = "code"\n'
    )
    file.write_text(text.format("4.5"))
    promise = promise_of([read_file(file)], sure=True)
    assert (promise.seconds, promise.spreads) == (4.5, False)
    assert promise.words == "bound 4.50 s from profile ours (--provider): its own bound"
    file.write_text(text.format("-1"))
    with pytest.raises(PreflightError, match=r"steering\.bound"):
        read_file(file)


def test_waits_grow_with_the_bound_and_never_shrink_by_it() -> None:
    assert timeouts_of([], bound=None) == USUAL
    slow = timeouts_of([], bound=60.0)
    assert (slow.assigned, slow.answering, slow.steering) == (660.0, 270.0, 60.0)
    nlb, small = timeouts_of([named("eks-nlb-instance")]), timeouts_of([named("eks-nlb-instance")], bound=0.5)
    assert (small.assigned, small.answering, small.steering) == (nlb.assigned, nlb.answering, nlb.steering)
    assert steering_of([], {}, 12.0) == 12.0
    assert slowest(all_profiles()) >= 70.0
    assert timeouts_of([]).after(100.0).answering == 100.0, "it took as long to give VIPs"
    assert timeouts_of([]).after(1.0) == USUAL


def test_the_bound_is_part_of_the_command_that_repeats_a_run() -> None:
    assert "--bound 7.5" in Settings("kind", bound=7.5).repeat
    assert "--bound" not in Settings("kind").repeat


@pytest.mark.parametrize("wrong", [0.0, -1.0, MOST_BOUND + 1.0, float("nan")])
def test_a_bound_out_of_range_is_refused(wrong: float) -> None:
    class Options:
        samples, moves, sample_nodes, parallel_load_balancers, bound = 10, 10, 10, None, wrong

    with pytest.raises(PreflightError, match="--bound"):
        check_numbers(Options())


# --------------------------------------------------------------------------------------------------------- thresholds
def test_the_threshold_is_that_of_the_profile_if_it_is_certain_and_documented() -> None:
    gke, metallb = named("gke-legacy"), named("metallb-l2")
    assert gke.local.unhealthy is not None
    assert threshold_of([gke], certain=True) == Threshold((gke.local.unhealthy.value,), "gke-legacy", "")
    detected = threshold_of([gke], certain=False)
    assert detected.unbound == "gke-legacy was only detected (--provider names it)"
    assert threshold_of([metallb], certain=True) == Threshold(
        unbound="metallb-l2 does not probe the health-check node port"
    )
    assert threshold_of([gke, metallb], certain=False).counts == ()
    assert threshold_of([], certain=False).unbound == "no profile fits"
    heard = tuple(replace(each, grade=Grade.REPORTED) for each in gke.local.unhealthy.sources)
    local = replace(gke.local, unhealthy=Figure(gke.local.unhealthy.value, heard))
    only_heard = threshold_of([replace(gke, check=replace(gke.check, local=local))], certain=True)
    assert only_heard.unbound == "the figure of gke-legacy is reported by others, not documented"


def test_a_load_balancer_gives_up_after_its_documented_timeout_or_the_default() -> None:
    port, proxy = Target.HEALTH_CHECK_NODE_PORT, Target.KUBE_PROXY
    gke, nlb = named("gke-legacy"), named("aws-nlb")
    assert probe_timeout_of([gke], port, certain=False) == Bound(1.0, "profile gke-legacy")
    assert probe_timeout_of([gke, nlb], port, certain=False) == Bound(10.0, "profile aws-nlb"), "the longest counts"
    silent = probe_timeout_of([gke, named("aks")], port, certain=True)
    assert silent == Bound(GIVES_UP, "the default, as profile aks does not say it")
    assert probe_timeout_of([named("metallb-l2")], port, certain=True).seconds == GIVES_UP, "it asks nobody"
    assert probe_timeout_of([], port, certain=False) == Bound(GIVES_UP, "the default, as no profile says it")
    assert probe_timeout_of([named("cloud-provider-kind")], proxy, certain=True).seconds == 3.0
    assert probe_timeout_of([named("octavia-ovn")], port, certain=True).seconds == GIVES_UP, "it asks the nodePort"
    assert gke.local.timeout is not None
    heard = tuple(replace(each, grade=Grade.REPORTED) for each in gke.local.timeout.sources)
    local = replace(gke.local, timeout=Figure(gke.local.timeout.value, heard))
    only_heard = replace(gke, check=replace(gke.check, local=local))
    assert probe_timeout_of([only_heard], port, certain=False).seconds == GIVES_UP
    assert probe_timeout_of([only_heard], port, certain=True).seconds == 1.0


def test_where_one_clear_failure_is_enough_one_is_right_and_the_threshold_is() -> None:
    aks = named("aks")
    assert aks.local.unhealthy is not None
    assert threshold_of([aks], certain=True).counts == (1, aks.local.unhealthy.value)


def test_the_threshold_of_the_reference_load_balancer_is_its_setting() -> None:
    assert threshold_of_reference({"unhealthy": 6}) == Threshold((6,), AS_STARTED, "")
    assert not threshold_of_reference({}).counts
