"""Clients of all suites: four outside the cluster, pods and host processes on each kind of node."""

from esipp.base.client_places import BEHIND_NAT, BEHIND_ROUTER
from esipp.checks.model import Client, Role, Vantage

OUTSIDE_1 = Client("outside-1", Vantage.OUTSIDE)
OUTSIDE_2 = Client("outside-2", Vantage.OUTSIDE)
OUTSIDE_ROUTED = Client(BEHIND_ROUTER, Vantage.OUTSIDE)
OUTSIDE_NAT = Client(BEHIND_NAT, Vantage.OUTSIDE)
POD_ON_ENDPOINT_NODE = Client("pod-on-endpoint-node", Vantage.POD, Role.ENDPOINT_NODE)
POD_ON_BARE_NODE = Client("pod-on-bare-node", Vantage.POD, Role.BARE_NODE)
POD_ON_OTHER_NODE = Client("pod-on-other-node", Vantage.POD, Role.OTHER_NODE)
HOST_ON_ENDPOINT_NODE = Client("host-on-endpoint-node", Vantage.NODE, Role.ENDPOINT_NODE)
HOST_ON_BARE_NODE = Client("host-on-bare-node", Vantage.NODE, Role.BARE_NODE)
HOST_ON_OTHER_NODE = Client("host-on-other-node", Vantage.NODE, Role.OTHER_NODE)
SECOND_POD_ON_OTHER_NODE = Client("second-pod-on-other-node", Vantage.POD, Role.OTHER_NODE)
POD_ON_CONTROL_PLANE = Client("pod-on-control-plane", Vantage.POD, Role.CONTROL_PLANE)
HOST_ON_CONTROL_PLANE = Client("host-on-control-plane", Vantage.NODE, Role.CONTROL_PLANE)
BACKEND = Client("backend", Vantage.POD, Role.ENDPOINT_NODE)

OUTSIDE = (OUTSIDE_1, OUTSIDE_2)
PODS = (POD_ON_ENDPOINT_NODE, POD_ON_OTHER_NODE)
HOSTS = (HOST_ON_ENDPOINT_NODE, HOST_ON_OTHER_NODE)
ON_BARE_NODE = (POD_ON_BARE_NODE, HOST_ON_BARE_NODE)
INSIDE = (*PODS, *HOSTS)
EVERYONE = (*OUTSIDE, *INSIDE)
