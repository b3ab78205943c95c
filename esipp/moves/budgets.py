"""Budgets of ours, where Kubernetes promises no figure."""

PROMPT = 5.0
"""Seconds from a change of the EndpointSlice to the node's health check and nodePort: a budget of ours.

Kubernetes promises no figure. kube-proxy waits for its minSyncPeriod between two updates, 1 s by default ("should work
well for most clusters", Virtual IPs and Service Proxies), so a change waits for one period at most and is written with
the next update; a burst of ours may take a second one. Three times that is left for a busy node. Upstream's own test
waits for up to 30 s (KubeProxyEndpointLagTimeout), which tells whether a proxy follows at all: the core checks do that.
"""
