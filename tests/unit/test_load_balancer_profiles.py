"""The profiles of load balancers: what they predict, what the loader refuses, the page, the listing."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from esipp.app.cli import check_run, main
from esipp.app.load_balancers import as_text, figures_of, in_full
from esipp.base.errors import PreflightError
from esipp.checks import profile as model
from esipp.checks.catalog import HOUSE
from esipp.checks.endpoint_change import What
from esipp.checks.model import AddressClass
from esipp.checks.profile import Class, Grade, HealthCheck, LoadBalancer
from esipp.ledger.run import Settings
from esipp.loadbalancers.profiles.loading import FOLDER, all_profiles, named, names, provider, read_file
from esipp.loadbalancers.profiles.page import SECTIONS, render
from esipp.loadbalancers.profiles.words import bound, span, takes

PAGE = HOUSE / "docs" / "load-balancers.md"


# ------------------------------------------------------------------------------------------------------ what they say
@pytest.mark.parametrize(
    ("name", "local", "cluster", "rise"),
    [
        ("cloud-provider-kind", 6, 6, 2),
        ("gke-rbs", 9, 32, 3),
        ("gke-subsetting", 9, 32, 63),
        ("gke-legacy", 32, 32, 8),
        ("gce", 32, 32, 8),
        ("aks", 15, 15, None),
        ("aks-multi-slb", 15, 15, 30),
        ("aws-nlb", 30, 120, 20),
        ("eks-nlb-instance", 30, 40, 20),
        ("aws-clb", 70, 70, 20),
        ("octavia-amphora-monitor", 20, 20, 5),
        ("haproxy", 8, 8, 4),
        ("metallb-l2", None, None, None),
        ("cilium-bgp", None, None, None),
    ],
)
def test_the_bounds_are_n_plus_1_periods(name: str, local: float, cluster: float, rise: float) -> None:
    profile = named(name)
    assert (profile.local.bound, profile.cluster.bound, profile.rise) == (local, cluster, rise)


def test_a_node_that_is_silent_or_idle_may_take_longer() -> None:
    kind = named("cloud-provider-kind").local
    assert (kind.bound, kind.idle_bound, kind.silent_bound) == (6, 9, 12)
    assert bound(kind) == "6 s (9 s while idle)"


def test_octavia_has_no_bound_unless_its_monitor_is_on() -> None:
    off, on = named("octavia-amphora").local, named("octavia-amphora-monitor").local
    assert (off.there, off.on, on.on) == (True, False, True)
    assert bound(off) == "none; with a monitor 20 s"
    assert bound(on) == "20 s"


def test_every_system_of_the_design_has_its_check() -> None:
    assert {"GCE", "AWS", "Azure", "OpenStack"} <= {profile.system for profile in all_profiles()}


@pytest.mark.parametrize("profile", all_profiles(), ids=lambda profile: profile.name)
def test_a_profile_fits_together(profile: LoadBalancer) -> None:
    seen = profile.datapath.local.value
    own = {AddressClass.LOAD_BALANCER}
    assert (seen == own) if profile.kind is Class.PROXY else (AddressClass.CLIENT in seen)
    assert profile.datapath.out_of_band is None or profile.kind is Class.PROXY or "proxy-v2" in profile.name
    assert profile.probes is not None or not profile.local.there
    known = {what.value for what in What}
    assert all(limit.what <= known for limit in profile.limits)
    for result in figures_of(profile):
        assert result.sources
        assert result.grade in (Grade.DOCUMENTED, Grade.REPORTED)
    usual, created = profile.times.usual, profile.times.created
    assert usual is None or created is None or usual.value[1] <= created.value


def test_of_each_platform_there_is_one_default() -> None:
    defaults = [platform for each in all_profiles() if each.found.default for platform in each.found.platforms]
    assert sorted(defaults) == ["aks", "aws", "azure", "eks", "gce", "gke", "k3s", "openstack"]


def test_a_variant_takes_over_what_it_does_not_say() -> None:
    base, variant = named("eks-nlb-instance"), named("aws-nlb")
    assert variant.times == base.times
    assert variant.found != base.found
    assert variant.local.path is not None
    assert variant.local.path.sources == (variant.sources["code"],), "its own source is of its own figures"
    assert {each.purpose for each in variant.annotations} == {"controller", "internal", "tags"}, "without the base's"
    values = [each.value for each in named("eks-nlb-ip").annotations if each.purpose == "targets"]
    assert values == ["ip"]


def test_how_long_one_takes_is_a_sentence() -> None:
    assert takes(named("eks-nlb-instance")) == "an NLB takes 3 to 5 minutes"
    assert takes(named("octavia-amphora")) == "an Octavia load balancer takes 107 to 138 s"
    assert takes(named("metallb-l2")) == ""
    assert (span((0, 300)), span((30, 90))) == ("up to 5 minutes", "30 to 90 s")


# ------------------------------------------------------------------------------------------------ a file of one's own
OWN = """
name = "ours"
title = "ours"
system = "ours"
noun = "one of ours"
like = "octavia-amphora"
without = ["limits"]

[sources.ours]
grade = "documented"
text = "page 12"

[check.local]
source = "ours"
period = 4
off_by_default = false
"""


def written(folder: Path, text: str, name: str = "ours") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_a_file_of_ones_own_is_like_another(tmp_path: Path) -> None:
    profile = provider(str(written(tmp_path, OWN)))
    assert profile.local.bound == 16
    assert profile.local.on
    assert profile.limits == ()
    assert profile.local.period is not None
    assert profile.local.period.sources[0].text == "page 12"
    assert profile.local.unhealthy is not None
    assert profile.local.unhealthy.sources == (profile.sources["occm"],)


def test_the_example_of_the_page_is_a_profile(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    profile = read_file(written(tmp_path, text, "our-cloud"))
    assert (profile.local.bound, profile.like) == (16, "octavia-amphora")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t + "perod = 3\n", "check.local: unknown key 'perod'"),
        (lambda t: "colour = 1\n" + t, "ours.toml: unknown key 'colour'; known: annotations, carries, check"),
        (lambda t: t.replace('"ours"\ntitle', '"theirs"\ntitle'), "the name must match the file's, 'ours'"),
        (lambda t: t.replace("octavia-amphora", "nothing"), "like: unknown profile 'nothing'"),
        (
            lambda t: t.replace('["limits"]', '["sources"]'),
            "without[1]: expected one of traps, annotations, limits,",
        ),
        (
            lambda t: t.replace('grade = "documented"', 'grade = "derived"'),
            "documented, reported, not 'derived'",
        ),
        (
            lambda t: t.replace('grade = "documented"', 'grade = "sure"'),
            "sources.ours.grade: expected one of",
        ),
        (
            lambda t: t.replace('source = "ours"', 'source = "book"'),
            "period.source[1]: no section [sources.book]",
        ),
        (lambda t: t.replace("period = 4", "period = -4"), "at most 86400, not -4"),
        (lambda t: t.replace("period = 4", "period = true"), "check.local.period: expected a number, not True"),
        (lambda t: t.replace("period = 4", 'period = "4"'), "check.local.period: expected a number, not '4'"),
        (
            lambda t: t.replace("period = 4", "unhealthy = 2.5"),
            "unhealthy: expected a whole number, not 2.5",
        ),
        (lambda t: t.replace("period = 4", "period = { value = 4, from = 1 }"), "unknown key 'from'"),
        (lambda t: t.replace("period = 4", 'path = "healthz"'), "expected a path like '/healthz', or 'none'"),
        (lambda t: t.replace("period = 4", 'target = "none"'), "'none', or neither"),
        (
            lambda t: t + '[datapath]\nsource = "ours"\nclass = "router"\n',
            "expected one of forwarder, proxy, not 'router'",
        ),
        (lambda t: t + '[datapath]\nsource = "ours"\nlocal = []\n', "datapath.local: expected some of client"),
        (
            lambda t: t + '[datapath]\nsource = "ours"\nlocal = ["dropped"]\n',
            "some of client, load_balancer, node, other, pod",
        ),
        (
            lambda t: t + '[probes]\nsource = "ours"\nfrom = ["10.0.0.1/8"]\n',
            "probes.from[1]: 10.0.0.1/8 has",
        ),
        (
            lambda t: t + '[times]\nsource = "ours"\nusual = [5, 2]\n',
            "times.usual: 5 to 2 s: the first is negative or",
        ),
        (lambda t: t + '[found]\nhostnames = ["("]\n', "found.hostnames[1]: '(' is not a valid pattern"),
        (lambda t: t + '[[traps]]\nkind = "x"\ntext = "y"\n', "traps[6].source: missing"),
        (lambda t: t + '[[limits]]\noutcome = "bad"\nwhy = "y"\nsource = "ours"\n', "expected one of unsupported"),
        (lambda t: t.replace('text = "page 12"', 'text = ""'), "sources.ours.text: expected a text"),
        (lambda t: t.replace('text = "page 12"', 'text = "x"\nurl = "http://x"'), "expected an https:// address"),
        (lambda t: t + "[found", "is not valid TOML"),
    ],
)
def test_a_bad_file_is_refused_in_a_sentence(change: Callable[[str], str], said: str, tmp_path: Path) -> None:
    with pytest.raises(PreflightError) as refused:
        read_file(written(tmp_path, change(OWN)))
    assert said in refused.value.sentence
    assert "\n" not in refused.value.sentence
    assert refused.value.hint


def test_a_file_that_is_like_itself_has_no_end(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="a cycle: gke-rbs -> gke-subsetting -> gke-rbs"):
        read_file(written(tmp_path, OWN.replace("ours", "gke-rbs", 1).replace("octavia-amphora", "gke-subsetting"),
                          "gke-rbs"))  # fmt: skip


def test_a_name_that_nobody_has_is_refused_before_the_cluster_is_asked(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="Unknown load balancer 'gkee'"):
        check_run(["--context", "x", "--provider", "gkee"])
    with pytest.raises(PreflightError, match=r"Cannot read the profile .*: No such file"):
        check_run(["--context", "x", "--provider", str(tmp_path / "x.toml")])
    check_run(["--context", "x", "--provider", "aks"])
    assert Settings("x", provider="a b.toml").repeat.endswith("--provider 'a b.toml'")


# ----------------------------------------------------------------------------------------- what the pages say of them
def test_every_footnote_of_the_page_leads_somewhere() -> None:
    page = PAGE.read_text()
    named_, used = set(re.findall(r"^\[\^(\d+)\]:", page, re.MULTILINE)), set(re.findall(r"\[\^(\d+)\](?!:)", page))
    assert named_ == used
    assert len(named_) > 50
    assert {f"#{name}" for name in names()} <= set(re.findall(r"\]\((#[a-z0-9-]+)\)", page))


def test_the_page_names_every_key_that_a_file_may_have() -> None:
    said = " ".join(SECTIONS.values())
    kinds = (model.HealthCheck, model.Trap, model.Annotation, model.Limit, model.Marks, model.Times, model.Status)
    keys = {name for kind in kinds for name in kind.__dataclass_fields__} - {"sources"}
    keys |= {"class", "local", "cluster", "destination", "out_of_band", "by", "membership", "from", "families"}
    assert not {key for key in keys if f"`{key}`" not in said}


def test_a_line_names_each_and_more_is_figures_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(as_text(all_profiles()))
    assert [line.split()[0] for line in lines[1:]] == names()
    assert main(["load-balancers", "aws-clb"]) == 0
    result = capsys.readouterr().out
    assert "black hole at most 70 s: (N+1) x period (derived)" in result
    assert "documented      cloud-provider-aws" in result
    assert main(["load-balancers", "elb"]) == 4
    assert main(["load-balancers", "--format", "markdown"]) == 0
    assert capsys.readouterr().out == render(all_profiles())


@pytest.mark.parametrize("profile", all_profiles(), ids=lambda profile: profile.name)
def test_what_is_figures_of_one_is_whole(profile: LoadBalancer) -> None:
    result = " ".join(" ".join(in_full(profile)).split())
    for trap in profile.traps:
        assert trap.text in result
    assert result.count("(derived)") == sum(1 for check in (profile.local, profile.cluster) if check.bound)


def test_profiles_name_nothing_of_where_they_were_written() -> None:
    for path in FOLDER.glob("*.toml"):
        assert not re.search(r"peers\.md|/work|/tmp|/root", path.read_text()), path.name


def test_a_check_without_figures_has_no_bound() -> None:
    nothing = named("metallb-l2").local
    assert isinstance(nothing, HealthCheck)
    assert (nothing.there, nothing.on, nothing.bound, nothing.silent_bound, nothing.rise) == (False, False) + (
        None,
    ) * 3
