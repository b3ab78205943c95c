"""Clients of all suites: two outside the cluster, pods and host processes on each kind of node."""

from esipp.checks.model import Client, Role, Vantage

OUTSIDE_1 = Client("outside-1", Vantage.OUTSIDE)
OUTSIDE_2 = Client("outside-2", Vantage.OUTSIDE)
POD_ON_ENDPOINT_NODE = Client("pod-on-endpoint-node", Vantage.POD, Role.ENDPOINT_NODE)
POD_ON_BARE_NODE = Client("pod-on-bare-node", Vantage.POD, Role.BARE_NODE)
POD_ON_OTHER_NODE = Client("pod-on-other-node", Vantage.POD, Role.OTHER_NODE)
HOST_ON_ENDPOINT_NODE = Client("host-on-endpoint-node", Vantage.NODE, Role.ENDPOINT_NODE)
HOST_ON_BARE_NODE = Client("host-on-bare-node", Vantage.NODE, Role.BARE_NODE)
HOST_ON_OTHER_NODE = Client("host-on-other-node", Vantage.NODE, Role.OTHER_NODE)
BACKEND = Client("backend", Vantage.POD, Role.ENDPOINT_NODE)

OUTSIDE = (OUTSIDE_1, OUTSIDE_2)
PODS = (POD_ON_ENDPOINT_NODE, POD_ON_OTHER_NODE)
HOSTS = (HOST_ON_ENDPOINT_NODE, HOST_ON_OTHER_NODE)
ON_BARE_NODE = (POD_ON_BARE_NODE, HOST_ON_BARE_NODE)
INSIDE = (*PODS, *HOSTS)
EVERYONE = (*OUTSIDE, *INSIDE)
