"""Options that customise the objects of a run. They are validated as the API server would validate them."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from esipp.base.customisation import FILE, Annotation, Customisation, On, Pairs, Toleration
from esipp.base.errors import PreflightError
from esipp.base.labels import MOST_ANNOTATIONS, check_key, check_value, is_subdomain
from esipp.testbed.images import at_registry, check_registry, this_version
from esipp.testbed.manifests import PRIVILEGED, SECURITY_LEVEL, given_by_checks

ANNOTATION = "--annotation"

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
"""Effects of taints (``v1.TaintEffect``)."""

SERVERS_OWN = "kubernetes.io/metadata.name"
NAMESPACES_ONLY = "pod-security.kubernetes.io/"
CHANGES_SERVICES = "service.kubernetes.io/"
"""Prefix of labels that take a Service away from kube-proxy or make it headless; no check is about such Services."""

DEPLOYMENTS = "pod-template-hash"
NODE_STATES = "node.kubernetes.io/"
"""Prefix of taints that state a node's condition. A pod that tolerates them would run where checks expect none."""


def add_deploying_options(add: Callable[..., Any]) -> None:
    """Add the options to an argparse parser or a pytest option group."""
    add(
        "--label",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="label for every object that the run creates in the cluster, including the namespace; repeatable",
    )
    add(
        ANNOTATION,
        action="append",
        default=[],
        metavar="[pod:|namespace:]KEY=VALUE",
        help="annotation for Services of the cluster's own load balancer (such as a cloud's internal, subnet or type), "
        "for pods, or for the namespace; repeatable",
    )
    add(
        "--internal",
        action="store_true",
        help="make the cluster's own load balancers internal, with the annotation from the profile of --provider "
        "('esipp load-balancers NAME' shows it)",
    )
    add(
        "--namespace-labels",
        action="append",
        default=[],
        metavar="KEY=VALUE[,…]",
        help="label for the run's namespace only, such as istio-injection=disabled; repeatable",
    )
    add(
        "--image-registry",
        default="",
        metavar="HOST[:PORT][/PATH]",
        help="pull all images from this registry; 'esipp images --registry HOST' lists them (without --image: the "
        "image of this version)",
    )
    add(
        "--node-selector",
        action="append",
        default=[],
        metavar="KEY=VALUE[,…]",
        help="use only nodes with these labels; repeatable",
    )
    add(
        "--toleration",
        action="append",
        default=[],
        metavar="KEY[=VALUE][:EFFECT]",
        help="also use nodes with this taint; repeatable",
    )
    add(
        "--image-pull-secret",
        default="",
        metavar="NAMESPACE/NAME|file:PATH",
        help="pull secret for the images: an existing Secret that esipp copies into the run's namespace, or a docker "
        "config file that it creates one from; it is deleted with the namespace, and reports contain only its name",
    )


def read_customisation(options: argparse.Namespace) -> Customisation:
    """Read the customisation from the options.

    Raises:
        PreflightError: a value is invalid in Kubernetes, reserved by esipp, or what a check is about.
    """
    labels = _pairs("--label", options.label)
    namespace_labels = _pairs("--namespace-labels", _split(options.namespace_labels))
    for key, _ in labels:
        _refuse_label("--label", key)
        if key.startswith(NAMESPACES_ONLY):
            raise PreflightError(f"--label: {key} applies to namespaces only.", f"use --namespace-labels {key}=….")
    for key, value in namespace_labels:
        _refuse_label("--namespace-labels", key)
        if key == SECURITY_LEVEL and value != PRIVILEGED:
            raise PreflightError(
                f"--namespace-labels: a namespace that enforces {value} admits no pods on the host network.",
                "--without host-network makes the namespace a restricted one.",
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
    """The echo image's reference, at the given registry if there is one (there, the default is this version's image).

    Raises:
        PreflightError: the registry is invalid.
    """
    image, registry = str(options.image), str(options.image_registry)
    return at_registry(image or this_version(), check_registry(registry)) if registry else image


def _split(values: Iterable[str]) -> list[str]:
    """Split comma-separated pairs. Labels contain no commas."""
    return [each for value in values for each in value.split(",")]


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise PreflightError(f"{option}: '{text}' has no value.", f"use {option} KEY=VALUE; the value may be empty.")
    check_key(option, key.lower() if option == ANNOTATION else key)  # the API server lowers these too
    return key, value


def _pairs(option: str, values: Iterable[str]) -> Pairs:
    """Labels, each key once."""
    found: dict[str, str] = {}
    for pair in values:
        key, value = _pair(option, pair)
        check_value(option, key, value)
        if found.setdefault(key, value) != value:
            raise PreflightError(f"{option} sets {key} twice, to different values.", "use one of them.")
    return tuple(found.items())


def _refuse_label(option: str, key: str) -> None:
    """Refuse a label that would change what checks test.

    Raises:
        PreflightError: the label is reserved.
    """
    if key in (SERVERS_OWN, DEPLOYMENTS) or key.startswith(CHANGES_SERVICES):
        raise PreflightError(f"{option}: {key} is reserved by Kubernetes.", "choose another key.")
    if check := given_by_checks("labels").get(key):
        raise PreflightError(f"{option}: the check {check} sets the label {key} itself.", "choose another key.")


def _annotations(values: Iterable[str]) -> tuple[Annotation, ...]:
    found: dict[tuple[On, str], Annotation] = {}
    for pair in values:
        where, colon, rest = pair.partition(":")
        on = On(where) if colon and where in (On.POD.value, On.NAMESPACE.value) else On.SERVICE
        key, value = _pair(ANNOTATION, rest if on is not On.SERVICE else pair)
        if found.setdefault((on, key), made := Annotation(on, key, value)) != made:
            raise PreflightError(f"{ANNOTATION} sets {key} twice, to different values.", "use one of them.")
        if on is On.SERVICE and (check := given_by_checks("annotations").get(key)):
            raise PreflightError(
                f"{ANNOTATION}: the check {check} sets {key} itself.",
                "--source-ranges limits who may use the VIPs; the old annotations have no effect.",
            )
    size = sum(len(f"{each.key}{each.value}".encode()) for each in found.values())
    if size > MOST_ANNOTATIONS:
        raise PreflightError(
            f"{ANNOTATION}: {size} bytes are more than an object may have.", f"use at most {MOST_ANNOTATIONS}."
        )
    return tuple(found.values())


def _toleration(text: str) -> Toleration:
    """A toleration in the syntax of ``kubectl taint``. Without a value or an effect it matches all of them."""
    rest, colon, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    check_key("--toleration", key)
    check_value("--toleration", key, value)
    if colon and effect not in EFFECTS:
        raise PreflightError(
            f"--toleration {text}: '{effect}' is not a taint effect.", f"use one of {', '.join(EFFECTS)}."
        )
    if key.startswith(NODE_STATES):
        raise PreflightError(
            f"--toleration: {key} marks a node as cordoned or unhealthy; esipp does not use such nodes.",
            "uncordon the node, or leave out the toleration.",
        )
    return Toleration(key, value if equals else None, effect)


def _source(text: str) -> str:
    """The source of the pull secret as the user gives it; empty if there is none.

    Raises:
        PreflightError: it is neither a Secret's name nor a file.
    """
    if not text or (text.startswith(FILE) and len(text) > len(FILE)):
        return text
    namespace, _, name = text.partition("/")
    if not (is_subdomain(namespace) and "." not in namespace and is_subdomain(name)):
        raise PreflightError(
            f"--image-pull-secret: '{text}' does not name a Secret.",
            "use NAMESPACE/NAME of a Secret in the cluster, or file:PATH of a docker config file.",
        )
    return text
