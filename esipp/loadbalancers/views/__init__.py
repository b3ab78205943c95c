"""Health views: the nodes' health as each cloud's load balancer reports it, one module for each provider."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from esipp.checks.profile import LoadBalancer
from esipp.judging.health_view import HealthView, Places
from esipp.judging.topology import Node
from esipp.loadbalancers.views.aws import AmazonView
from esipp.loadbalancers.views.azure import AzureView
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
    provider: str, nodes: Iterable[Node], *, pods: Callable[[], Mapping[str, str]] = dict
) -> HealthView | None:
    """The view of a provider; None if there is none, as on kind.

    Args:
        provider: ``gce``, ``azure``, ``aws`` or ``openstack``.
        nodes: the nodes of the cluster.
        pods: maps addresses of pods to nodes, for load balancers whose targets are pods.
    """
    places = Places(nodes, pods)
    return CLOUDS[provider](places) if provider in CLOUDS else None


def provider_of(nodes: Iterable[Node]) -> str:
    """The provider, from the scheme of the nodes' providerID; empty if they have none, or differ."""
    schemes = {node.provider_id.partition("://")[0] if "://" in node.provider_id else "" for node in nodes}
    return schemes.pop() if len(schemes) == 1 else ""


def cloud_of(profile: LoadBalancer) -> str:
    """The provider whose tool shows a profile's load balancers; empty if there is none."""
    provider = profile.system.lower()
    return provider if provider in CLOUDS else ""


def asked_of(nodes: Iterable[Node], profile: LoadBalancer | None) -> str:
    """The provider to query: that of the nodes, unless the user named a load balancer of another one."""
    provider = provider_of(nodes)
    return provider if profile is None or cloud_of(profile) == provider else ""
