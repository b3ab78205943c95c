"""What a load balancer itself thinks of the nodes: one small module a provider, chosen by its name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from esipp.checks.profile import LoadBalancer
from esipp.judging.health_view import HealthView, Places
from esipp.judging.topology import Node
from esipp.loadbalancers.views.aws import AmazonView
from esipp.loadbalancers.views.azure import AzureView
from esipp.loadbalancers.views.cli import Cli
from esipp.loadbalancers.views.cloud import CloudView
from esipp.loadbalancers.views.gcloud import GoogleView
from esipp.loadbalancers.views.octavia import OctaviaView

CLOUDS: Mapping[str, type[CloudView[Any]]] = {
    view.provider: view for view in (GoogleView, AzureView, AmazonView, OctaviaView)
}
"""By the scheme of the nodes' providerID."""


NO_TOOL = "no tool is known"
"""Why there is no health view of a profile's load balancer."""


def view_for(
    provider: str,
    nodes: Iterable[Node],
    *,
    pods: Callable[[], Mapping[str, str]] = dict,
    cli: Cli | None = None,
) -> HealthView | None:
    """Who can be asked; None where nobody is known for this provider, as on kind.

    Args:
        provider: ``gce``, ``azure``, ``aws`` or ``openstack``.
        nodes: the cluster's.
        pods: tells the nodes of pods by the pods' addresses, where pods are the targets.
        cli: the cloud's tool, where it is another than on PATH.
    """
    places = Places(nodes, pods)
    return CLOUDS[provider](places, cli) if provider in CLOUDS else None


def provider_of(nodes: Iterable[Node]) -> str:
    """The provider by the scheme of the nodes' providerID; empty where they have none, or differ."""
    schemes = {node.provider_id.partition("://")[0] if "://" in node.provider_id else "" for node in nodes}
    return schemes.pop() if len(schemes) == 1 else ""


def cloud_of(profile: LoadBalancer) -> str:
    """The provider whose tool is asked about a profile's load balancers; empty where there is none."""
    provider = profile.system.lower()
    return provider if provider in CLOUDS else ""


def asked_of(nodes: Iterable[Node], profile: LoadBalancer | None) -> str:
    """Which provider is asked: that of the nodes, unless somebody told that the load balancer is another's."""
    provider = provider_of(nodes)
    return provider if profile is None or cloud_of(profile) == provider else ""
