"""The options about what a run creates: what they mean, and what is refused in a sentence before anything is made."""

import argparse
import shlex
from typing import Any, cast

import pytest

from esipp.app.customisation_options import EFFECTS
from esipp.app.options import settings_of
from esipp.app.plan.assumed_cluster import Asked
from esipp.app.plan.document import as_json, document
from esipp.app.plan.plan import plan
from esipp.base.customisation import INTERNAL, Annotation, Customisation, On, Toleration
from esipp.base.errors import ExitCode, PreflightError
from esipp.base.labels import LONGEST_NAME, LONGEST_PREFIX, MOST_ANNOTATIONS, labels_of
from esipp.checks.catalog import all_checks
from esipp.checks.profile import Grade
from esipp.ledger.run import Settings
from esipp.loadbalancers.profiles.loading import named
from esipp.loadbalancers.provider_annotations import TAGS, internal_of
from esipp.report.rendering.terminal import as_text
from esipp.testbed.images import this_version
from esipp.testbed.manifests import given_by_checks

NAME, PREFIX = "n" * LONGEST_NAME, ".".join(["p" * 62] * 4)


def options(*words: str) -> argparse.Namespace:
    """As they are parsed; with pytest the same, by a test of the command line."""
    from esipp.app.cli import _parser

    return _parser().parse_args(["run", "--context", "home", "--image", "example.com/echo:1", *words])


def settings(*words: str) -> Settings:
    return settings_of(options(*words))


def customisation(*words: str) -> Customisation:
    return settings(*words).customisation


def test_without_options_nothing_is_wished() -> None:
    found = settings()
    assert found.customisation == Customisation()
    assert found.customisation.words() == []
    assert found.customisation.facts() == {}
    assert found.image == "example.com/echo:1"


ALL = [
    "--label", "cost-centre=4711", "--label", "example.com/owner=", "--label", "cost-centre=4711",
    "--annotation", "cloud.example.com/tags=a=b, c=d", "--annotation", "pod:sidecar.istio.io/inject=false",
    "--annotation", "namespace:openshift.io/node-selector=",
    "--namespace-labels", "istio-injection=disabled,pod-security.kubernetes.io/audit=privileged",
    "--namespace-labels", "pod-security.kubernetes.io/enforce=privileged",
    "--node-selector", "pool=test,zone=a",
    "--toleration", "dedicated=qualification:NoSchedule", "--toleration", "gpu", "--toleration", "empty=",
    "--toleration", "gone:NoExecute",
    "--image-pull-secret", "there/pull",
]  # fmt: skip
MEANT = Customisation(
    labels=(("cost-centre", "4711"), ("example.com/owner", "")),
    annotations=(
        Annotation(On.SERVICE, "cloud.example.com/tags", "a=b, c=d"),
        Annotation(On.POD, "sidecar.istio.io/inject", "false"),
        Annotation(On.NAMESPACE, "openshift.io/node-selector", ""),
    ),
    namespace_labels=(
        ("istio-injection", "disabled"),
        ("pod-security.kubernetes.io/audit", "privileged"),
        ("pod-security.kubernetes.io/enforce", "privileged"),
    ),
    node_selector=(("pool", "test"), ("zone", "a")),
    tolerations=(
        Toleration("dedicated", "qualification", "NoSchedule"),
        Toleration("gpu"),
        Toleration("empty", ""),
        Toleration("gone", None, "NoExecute"),
    ),
    pull_secret="there/pull",  # noqa: S106 - a name, no password
)


def test_what_they_mean() -> None:
    assert customisation(*ALL) == MEANT


def test_their_words_mean_the_same_again() -> None:
    """The command that repeats a run, and the pytest session that esipp starts, are made of them."""
    assert customisation(*MEANT.words()) == MEANT
    words = shlex.split(settings(*ALL).repeat)
    assert settings_of(options(*words[2:])).customisation == MEANT


def test_reports_have_them_as_facts() -> None:
    assert MEANT.facts() == {
        "created.labels": "cost-centre=4711, example.com/owner=",
        "created.annotations": "cloud.example.com/tags=a=b, c=d, pod:sidecar.istio.io/inject=false, "
        "namespace:openshift.io/node-selector=",
        "created.namespace-labels": "istio-injection=disabled, pod-security.kubernetes.io/audit=privileged, "
        "pod-security.kubernetes.io/enforce=privileged",
        "created.tolerations": "dedicated=qualification:NoSchedule, gpu, empty=, gone:NoExecute",
        "created.pulls-with": "there/pull",
        "nodes.selected-by": "pool=test, zone=a",
    }


@pytest.mark.parametrize("key", [NAME, f"{PREFIX}/{NAME}", "a.b-c/x.Y_z-1", "1/1"])
def test_the_longest_and_oddest_keys_are_taken(key: str) -> None:
    assert len(PREFIX) <= LONGEST_PREFIX
    assert customisation(f"--label={key}={NAME}").labels == ((key, NAME),)


def test_a_prefix_has_capitals_with_annotations_only() -> None:
    """The API server folds the keys of annotations before it looks at them (ValidateAnnotations)."""
    assert customisation("--annotation=Example.com/x=v").annotations
    with pytest.raises(PreflightError, match="is not a valid key"):
        settings("--label=Example.com/x=v")
    with pytest.raises(PreflightError, match="is reserved"):
        settings("--annotation=Esipp.dev/owner=v")


KEYS = ["", "/x", "x/", "a/b/c", "-x", "x-", "x y", "ä", f"{NAME}n", f"{PREFIX}.pp/x", "a..b/x", "a_b/x"]
BAD = [
    *(
        (f"--{option}={key}=v", "is not a valid key")
        for key in KEYS
        for option in ("label", "annotation", "node-selector")
    ),
    *((f"--label=x={value}", "is not a valid value of x") for value in ("a b", "-a", "a-", f"{NAME}n", "a/b", "ä")),
    ("--label=x", "'x' has no value"),
    ("--annotation=pod:x", "'x' has no value"),
    ("--annotation=service:x=v", "is not a valid key"),
    ("--node-selector=a=b,c", "'c' has no value"),
    ("--label=esipp.dev/run=x", "esipp.dev/run is reserved"),
    ("--label=more.esipp.dev/x=x", "is reserved"),
    ("--label=app.kubernetes.io/managed-by=me", "is reserved"),
    ("--annotation=esipp.dev/owner=x", "is reserved"),
    ("--annotation=namespace:esipp.dev/owner=x", "is reserved"),
    ("--namespace-labels=esipp.dev/run=x", "is reserved"),
    ("--label=kubernetes.io/metadata.name=x", "is reserved by Kubernetes"),
    ("--namespace-labels=kubernetes.io/metadata.name=x", "is reserved by Kubernetes"),
    ("--label=service.kubernetes.io/service-proxy-name=x", "is reserved by Kubernetes"),
    ("--label=pod-template-hash=x", "is reserved by Kubernetes"),
    ("--label=pod-security.kubernetes.io/audit=restricted", "applies to namespaces only"),
    ("--namespace-labels=pod-security.kubernetes.io/enforce=baseline", "enforces baseline"),
    (f"--annotation=x={'y' * MOST_ANNOTATIONS}", "more than an object may have"),
    ("--toleration=", "'' is not a valid key"),
    ("--toleration=a:Never", "'Never' is not a taint effect"),
    ("--toleration=a:", "'' is not a taint effect"),
    ("--toleration=a=b c", "is not a valid value"),
    ("--toleration=node.kubernetes.io/unschedulable", "as cordoned or unhealthy"),
    ("--image-pull-secret=pull", "does not name a Secret"),
    ("--image-pull-secret=a/b/c", "does not name a Secret"),
    ("--image-pull-secret=A/b", "does not name a Secret"),
    ("--image-pull-secret=a.b/c", "does not name a Secret"),
    ("--image-pull-secret=file:", "does not name a Secret"),
    ("--image-registry=https://example.com", "is not a valid registry"),
    ("--image-registry=registry", "is not a valid registry"),
    ("--image-registry=example.com:0", "is not a valid registry"),
    ("--image-registry=example.com:port", "is not a valid registry"),
    ("--image-registry=example.com/a:tag", "is not a valid registry"),
    ("--image-registry=example.com/A", "is not a valid registry"),
    ("--image-registry=example.com//a", "is not a valid registry"),
]


@pytest.mark.parametrize(("word", "sentence"), BAD, ids=[word[:60] for word, _ in BAD])
def test_bad_input_is_one_sentence_a_hint_and_exit_code_4(word: str, sentence: str) -> None:
    with pytest.raises(PreflightError) as refused:
        settings(word)
    assert sentence in refused.value.sentence
    assert refused.value.sentence.count("\n") == 0
    assert refused.value.hint
    assert refused.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("option", ["--label", "--namespace-labels", "--annotation", "--node-selector"])
def test_two_values_for_one_key_are_refused(option: str) -> None:
    with pytest.raises(PreflightError, match=f"{option} sets x twice"):
        settings(option, "x=1", option, "x=2")
    assert customisation(option, "x=1", option, "x=1") != Customisation()


def test_an_annotation_may_be_on_services_and_on_pods() -> None:
    assert len(customisation("--annotation", "x=1", "--annotation", "pod:x=2").annotations) == 2


# ------------------------------------------------------------------------------------------- what checks set themselves
GIVEN = {
    "service.beta.kubernetes.io/load-balancer-source-ranges",
    "service.alpha.kubernetes.io/external-traffic",
    "service.beta.kubernetes.io/external-traffic",
    "service.beta.kubernetes.io/healthcheck-nodeport",
    "kubectl.kubernetes.io/last-applied-configuration",
}


def test_the_annotations_that_checks_are_about_are_known() -> None:
    assert given_by_checks("annotations").keys() >= GIVEN


@pytest.mark.parametrize("key", sorted(GIVEN))
def test_an_annotation_that_a_check_sets_is_refused_with_the_check(key: str) -> None:
    with pytest.raises(PreflightError) as refused:
        settings(f"--annotation={key}=x")
    check = given_by_checks("annotations")[key]
    assert f"the check {check} sets {key} itself" in refused.value.sentence
    assert customisation(f"--annotation=pod:{key}=x").annotations, "of pods no check says anything"


def test_a_label_that_a_check_sets_is_refused_with_the_check() -> None:
    ((key, check),) = given_by_checks("labels").items()
    for option in ("--label", "--namespace-labels"):
        with pytest.raises(PreflightError, match=f"the check {check} sets the label {key} itself"):
            settings(f"{option}={key}=x")


# --------------------------------------------------------------------------------------------------------------- images
@pytest.mark.parametrize(
    ("image", "registry", "found"),
    [
        ("localhost/esipp/echoserver:1", "r.example", "r.example/esipp/echoserver:1"),
        ("localhost/esipp/echoserver:1", "r.example:5000/mirror/", "r.example:5000/mirror/esipp/echoserver:1"),
        ("echo:1", "r.example", "r.example/library/echo:1"),
        ("esipp/echo", "localhost", "localhost/esipp/echo"),
        ("docker.io/echo@sha256:ab", "r.example", "r.example/library/echo@sha256:ab"),
        ("r.example/esipp/echoserver:1", "r.example", "r.example/esipp/echoserver:1"),
    ],
)
def test_an_image_at_a_registry(image: str, registry: str, found: str) -> None:
    assert settings("--image", image, "--image-registry", registry).image == found


def test_a_registry_alone_has_this_versions_image(monkeypatch: pytest.MonkeyPatch) -> None:
    given: Any = options("--image-registry", "r.example/mirror")
    given.image = ""
    assert settings_of(given).image == this_version().replace("localhost", "r.example/mirror")


def test_effects_are_those_of_kubernetes() -> None:
    for effect in EFFECTS:
        assert customisation(f"--toleration=x:{effect}").tolerations == (Toleration("x", None, effect),)


# ---------------------------------------------------------------------------------------------- internal load balancers
GCE, AZURE = "networking.gke.io/load-balancer-type", "service.beta.kubernetes.io/azure-load-balancer-internal"
AWS = "service.beta.kubernetes.io/aws-load-balancer-"
OPENSTACK = "service.beta.kubernetes.io/openstack-internal-load-balancer"
BALANCED = {"metadata": {"name": "x"}, "spec": {"type": "LoadBalancer"}}


@pytest.mark.parametrize(
    ("provider", "key", "value"),
    [
        ("gke-legacy", GCE, "Internal"),
        ("gke-subsetting", GCE, "Internal"),
        ("aks", AZURE, "true"),
        ("aks-shared-probe", AZURE, "true"),
        ("aws-clb", f"{AWS}internal", "true"),
        ("eks-nlb-ip", f"{AWS}scheme", "internal"),
        ("octavia-amphora", OPENSTACK, "true"),
        ("octavia-ovn", OPENSTACK, "true"),
    ],
)
def test_load_balancers_are_made_internal_by_the_profiles_annotation(provider: str, key: str, value: str) -> None:
    found = settings("--provider", provider, "--internal")
    assert found.customisation.internal == ((key, value),)
    assert "--internal" in shlex.split(found.repeat)
    assert settings(*shlex.split(found.repeat)[4:]).customisation == found.customisation, (
        "but for the context, which is there twice"
    )
    assert found.customisation.facts()[INTERNAL] == f"yes, by {key}={value}"
    assert found.customisation.customised("services", BALANCED)["metadata"]["annotations"] == {key: value}
    of_nobody = {**BALANCED, "spec": {"type": "LoadBalancer", "loadBalancerClass": "esipp.dev/nobody"}}
    for other in (of_nobody, {**BALANCED, "spec": {"type": "NodePort"}}):
        assert "annotations" not in found.customisation.customised("services", other)["metadata"]
    (annotation,) = internal_of(named(provider))
    assert {source.grade for source in annotation.sources} == {Grade.DOCUMENTED}


def test_without_the_option_they_are_as_the_provider_makes_them() -> None:
    assert settings("--provider", "aks").customisation.internal == ()


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["--internal"], "needs a provider", "--provider NAME"),
        (["--internal", "--provider", "metallb-l2"], "metallb-l2 has no annotation", "--annotation KEY=VALUE"),
        (["--internal", "--provider", "gke-rbs"], "gke-rbs has no annotation", "--annotation KEY=VALUE"),
        (["--internal", "--provider", "eks-nlb-ip", "--annotation", f"{AWS}scheme=internet-facing"],
         f"sets {AWS}scheme=internal, but --annotation sets internet-facing", "one of them"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_internal_is_refused(words: list[str], said: str, hint: str) -> None:
    with pytest.raises(PreflightError) as refused:
        settings(*words)
    assert said in refused.value.sentence
    assert hint in refused.value.hint
    assert refused.value.exit_code is ExitCode.USAGE


def test_the_same_annotation_twice_is_fine() -> None:
    found = settings("--internal", "--provider", "aks", "--annotation", f"{AZURE}=true").customisation
    assert found.customised("services", BALANCED)["metadata"]["annotations"] == {AZURE: "true"}


def test_a_plan_says_by_what_they_are_internal_and_who_says_so() -> None:
    checks = [check for check in all_checks() if check.suite == "convergence"]
    made, usual = (plan(Asked(named("aks"), checks, internal=each)) for each in (True, False))
    said = " ".join(as_text(document(made)).split())
    assert f"internal load balancers, by {AZURE}=true: cloud-provider-azure: load balancer annotations" in said
    assert said.endswith("--provider aks --internal")
    assert as_json(made)["internal"] == {AZURE: "true"}
    assert as_json(usual)["internal"] == {}
    with pytest.raises(PreflightError, match="metallb-l2 has no annotation"):
        plan(Asked(named("metallb-l2"), checks, internal=True))


# ---------------------------------------------------------------------------------------------------- tags in the cloud
RESOURCE_TAGS, PIP_TAGS = f"{AWS}additional-resource-tags", "service.beta.kubernetes.io/azure-pip-tags"
OURS = {**BALANCED, "metadata": {"name": "x", "labels": labels_of("0101-000000-abcd")}}


@pytest.mark.parametrize(
    ("provider", "key", "tag"),
    [
        *((each, RESOURCE_TAGS, "esipp.dev/run") for each in ("aws-clb", "aws-nlb", "eks-nlb-instance", "eks-nlb-ip")),
        *((each, PIP_TAGS, "esipp-run") for each in ("aks", "aks-shared-probe", "aks-no-floating-ip")),
    ],
)
def test_what_a_cloud_makes_is_tagged_with_the_run(provider: str, key: str, tag: str) -> None:
    found = settings("--provider", provider)
    wished = found.customisation
    made = cast(dict[str, Any], wished.on("POST", "/api/v1/namespaces/x/services", OURS))
    assert made["metadata"]["annotations"] == {key: f"{tag}=0101-000000-abcd"}
    assert wished.customised("services", made) == made, "a replaced object gets it once"
    assert wished.facts() == {"created.cloud-tags": f"{key}={tag}=RUN"}
    assert key not in found.repeat, "the provider says it again"
    sources = [each.sources for each in named(provider).annotations if each.purpose == TAGS]
    assert [[source.grade for source in each] for each in sources] == [[Grade.DOCUMENTED]]


def test_a_users_own_tags_stay() -> None:
    wished = customisation("--provider", "aws-clb", "--annotation", f"{RESOURCE_TAGS}=purpose=esipp,team=net")
    (value,) = wished.customised("services", OURS)["metadata"]["annotations"].values()
    assert value == "purpose=esipp,team=net,esipp.dev/run=0101-000000-abcd"


@pytest.mark.parametrize("provider", ["", "gke-legacy", "octavia-amphora", "metallb-l2"])
def test_where_no_annotation_tags_nothing_is_tagged(provider: str) -> None:
    words = ["--provider", provider] if provider else []
    assert customisation(*words) == Customisation()


def test_what_no_cloud_serves_is_not_tagged() -> None:
    wished = customisation("--provider", "aws-clb")
    of_nobody = {**OURS, "spec": {"type": "LoadBalancer", "loadBalancerClass": "esipp.dev/nobody"}}
    for other in (of_nobody, {**OURS, "spec": {"type": "ClusterIP"}}, BALANCED):
        assert wished.customised("services", other) == other
