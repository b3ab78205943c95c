"""The options about what a run creates: read, and refused in a sentence where the API server would refuse them."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from esipp.base.customisation import FILE, Annotation, Customisation, On, Pairs, Toleration
from esipp.base.errors import PreflightError
from esipp.base.object_syntax import MOST_ANNOTATIONS, check_key, check_value, is_subdomain
from esipp.testbed.check_metadata import given_by_checks
from esipp.testbed.images import at_registry, check_registry, this_version
from esipp.testbed.manifests import PRIVILEGED, SECURITY_LEVEL

ANNOTATION = "--annotation"

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
"""Of taints (``v1.TaintEffect``)."""

SERVERS_OWN = "kubernetes.io/metadata.name"
NAMESPACES_ONLY = "pod-security.kubernetes.io/"
CHANGES_SERVICES = "service.kubernetes.io/"
"""Labels that take a Service away from kube-proxy, or make it headless: not the Services that checks are about."""

DEPLOYMENTS = "pod-template-hash"
NODE_STATES = "node.kubernetes.io/"
"""Taints that say how a node is: a pod that bears them would run where checks want none."""


def add_deploying_options(add: Callable[..., Any]) -> None:
    """The options, for argparse and pytest alike."""
    add(
        "--label",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="on everything that is created in the cluster, the namespace included; repeatable",
    )
    add(
        ANNOTATION,
        action="append",
        default=[],
        metavar="[pod:|namespace:]KEY=VALUE",
        help="on Services that the cluster's own load balancer serves (what a cloud wants there: internal, subnet, "
        "type), or on pods, or on the namespace; repeatable",
    )
    add(
        "--internal",
        action="store_true",
        help="have the cluster's own load balancers made internal, by the annotation that the profile of --provider "
        "names ('esipp load-balancers NAME' shows it)",
    )
    add(
        "--namespace-labels",
        action="append",
        default=[],
        metavar="KEY=VALUE[,…]",
        help="on the run's namespace only, such as istio-injection=disabled; repeatable",
    )
    add(
        "--image-registry",
        default="",
        metavar="HOST[:PORT][/PATH]",
        help="take all images from there: 'esipp images --registry HOST' names them (without --image: this version's)",
    )
    add(
        "--node-selector",
        action="append",
        default=[],
        metavar="KEY=VALUE[,…]",
        help="only nodes with these labels take part; repeatable",
    )
    add(
        "--toleration",
        action="append",
        default=[],
        metavar="KEY[=VALUE][:EFFECT]",
        help="nodes with this taint take part, too; repeatable",
    )
    add(
        "--image-pull-secret",
        default="",
        metavar="NAMESPACE/NAME|file:PATH",
        help="what images are pulled with: a Secret that is copied into the run's namespace, or made there of a docker "
        "config file; goes with the namespace, and only its name is ever told",
    )


def read_customisation(options: argparse.Namespace) -> Customisation:
    """What the options say.

    Raises:
        PreflightError: a value makes no sense to Kubernetes, is the suite's own, or what a check is about.
    """
    labels = _pairs("--label", options.label)
    namespace_labels = _pairs("--namespace-labels", _split(options.namespace_labels))
    for key, _ in labels:
        _refuse_label("--label", key)
        if key.startswith(NAMESPACES_ONLY):
            raise PreflightError(f"--label: {key} is for namespaces.", f"--namespace-labels {key}=…")
    for key, value in namespace_labels:
        _refuse_label("--namespace-labels", key)
        if key == SECURITY_LEVEL and value != PRIVILEGED:
            raise PreflightError(
                f"--namespace-labels: a namespace that enforces {value} takes no pods on the host network.",
                "--without host-network makes it a restricted one.",
            )
    return Customisation(
        labels,
        _annotations(options.annotation),
        namespace_labels,
        _pairs("--node-selector", _split(options.node_selector)),
        tuple(dict.fromkeys(_toleration(text) for text in options.toleration)),
        _source(options.image_pull_secret),
    )


def read_image(options: argparse.Namespace) -> str:
    """The echo image's reference, at the registry that was named; there it is this version's, where no other is.

    Raises:
        PreflightError: it is no registry.
    """
    image, registry = str(options.image), str(options.image_registry)
    return at_registry(image or this_version(), check_registry(registry)) if registry else image


def _split(words: Iterable[str]) -> list[str]:
    """Several pairs in a word, with commas between them; labels have none in them."""
    return [each for word in words for each in word.split(",")]


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise PreflightError(f"{option}: '{text}' has no value.", f"{option} KEY=VALUE; the value may be empty.")
    check_key(option, key.lower() if option == ANNOTATION else key)  # as the API server folds those
    return key, value


def _pairs(option: str, words: Iterable[str]) -> Pairs:
    """Labels, each key once."""
    found: dict[str, str] = {}
    for word in words:
        key, value = _pair(option, word)
        check_value(option, key, value)
        if found.setdefault(key, value) != value:
            raise PreflightError(f"{option} gives {key} twice, with different values.", "one of them.")
    return tuple(found.items())


def _refuse_label(option: str, key: str) -> None:
    """Make sure that a label changes nothing of what checks are about.

    Raises:
        PreflightError: it does.
    """
    if key in (SERVERS_OWN, DEPLOYMENTS) or key.startswith(CHANGES_SERVICES):
        raise PreflightError(f"{option}: {key} is Kubernetes' own, and not a user's to set.", "choose another key.")
    if check := given_by_checks("labels").get(key):
        raise PreflightError(f"{option}: the check {check} sets the label {key} itself.", "choose another key.")


def _annotations(words: Iterable[str]) -> tuple[Annotation, ...]:
    found: dict[tuple[On, str], Annotation] = {}
    for word in words:
        where, colon, rest = word.partition(":")
        on = On(where) if colon and where in (On.POD.value, On.NAMESPACE.value) else On.SERVICE
        key, value = _pair(ANNOTATION, rest if on is not On.SERVICE else word)
        if found.setdefault((on, key), made := Annotation(on, key, value)) != made:
            raise PreflightError(f"{ANNOTATION} gives {key} twice, with different values.", "one of them.")
        if on is On.SERVICE and (check := given_by_checks("annotations").get(key)):
            raise PreflightError(
                f"{ANNOTATION}: the check {check} sets {key} itself.",
                "--source-ranges limits who may use VIPs; the annotations of old are inert.",
            )
    size = sum(len(f"{each.key}{each.value}".encode()) for each in found.values())
    if size > MOST_ANNOTATIONS:
        raise PreflightError(
            f"{ANNOTATION}: {size} bytes are more than an object may have.", f"{MOST_ANNOTATIONS} at most."
        )
    return tuple(found.values())


def _toleration(text: str) -> Toleration:
    """A toleration as ``kubectl taint`` writes taints; without a value it is of every one, without effect of each."""
    rest, colon, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    check_key("--toleration", key)
    check_value("--toleration", key, value)
    if colon and effect not in EFFECTS:
        raise PreflightError(f"--toleration {text}: '{effect}' is no effect of a taint.", f"{', '.join(EFFECTS)}.")
    if key.startswith(NODE_STATES):
        raise PreflightError(
            f"--toleration: {key} says that a node is cordoned, or not well; such nodes take no part.",
            "uncordon the node, or leave it out.",
        )
    return Toleration(key, value if equals else None, effect)


def _source(text: str) -> str:
    """Where the secret comes from, as the user says it; or nothing.

    Raises:
        PreflightError: it is neither an object's name nor a file's.
    """
    if not text or (text.startswith(FILE) and len(text) > len(FILE)):
        return text
    namespace, _, name = text.partition("/")
    if not (is_subdomain(namespace) and "." not in namespace and is_subdomain(name)):
        raise PreflightError(
            f"--image-pull-secret: '{text}' names no Secret.",
            "NAMESPACE/NAME of a Secret in the cluster, or file: and the path of a docker config file.",
        )
    return text
