"""No ICMP errors from the network: HAProxy makes a busy loop of them.

A node may refuse a SYN by ICMP, as Cilium does where a Service has no backend. On kind the refusal arrives while
connect() still holds the socket. The kernel then keeps it in the socket's error queue and goes on to connect
(tcp_v4_err in net/ipv4/tcp_ipv4.c). From then on the socket is reported as faulty each time it is polled. HAProxy 2.6
does not read that queue: it polls again at once, for as long as the connection lasts. On kind-cilium-dsr it took more
than one core for minutes, API servers lost their leases, and 1,218 checks were undecided (2026-11-27).

Without the error, HAProxy waits until its connection is accepted or its own time is over.
"""

from __future__ import annotations

from .nat import load

RULES = """table inet esipp_icmp
delete table inet esipp_icmp
table inet esipp_icmp {
  chain arriving {
    type filter hook input priority filter; policy accept;
    iifname "lo" accept
    icmp type destination-unreachable icmp code != 4 drop
    icmpv6 type destination-unreachable drop
  }
}
"""
"""Code 4 says that a packet is too large. Over the loopback, the kernel says that a neighbour does not answer."""


def ignore_refusals(program: str = "nft") -> None:
    """Drop what says that a node or a port cannot be reached; what the kernel refuses is logged."""
    load(RULES, program)
