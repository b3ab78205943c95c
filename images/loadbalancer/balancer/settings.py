"""The command line."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from . import pools
from .faults import FAULTS, Faults
from .objects import Mode


@dataclass(frozen=True)
class Settings:
    """Everything that can be chosen."""

    server: str
    ca: Path | None
    token: Path | None
    pools: tuple[str, ...]
    admin: int
    interface: str
    period: float
    timeout: float
    healthy: int
    unhealthy: int
    state: Path
    faults: Faults
    weigh: bool = False
    default: Mode | None = None
    hostnames: bool = False
    addresses: int = 1
    fail_open: bool = False

    def as_json(self) -> dict[str, float | int | str]:
        """What the admin view says of it."""
        settings: dict[str, float | int | str] = {
            "period": self.period,
            "timeout": self.timeout,
            "healthy": self.healthy,
            "unhealthy": self.unhealthy,
        }
        settings |= {"default": self.default.value} if self.default else {}
        settings |= {"announce": "hostname"} if self.hostnames else {}
        settings |= {"fail-open": "yes"} if self.fail_open else {}
        return settings | ({"addresses": self.addresses} if self.addresses > 1 else {})


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parse(arguments: list[str]) -> Settings:
    """Read the command line; the environment has defaults for how to reach the API server."""
    parser = _Parser(prog="balancer", description="The reference load balancer of esipp.", epilog=_fault_texts())
    env = os.environ.get
    parser.add_argument("--server", default=env("ESIPP_SERVER"), help="URL of the API server (ESIPP_SERVER)")
    parser.add_argument("--ca", type=Path, default=_path(env("ESIPP_CA")), help="its CA's certificate (ESIPP_CA)")
    parser.add_argument("--token", type=Path, default=_path(env("ESIPP_TOKEN")), help="file with a token (ESIPP_TOKEN)")
    parser.add_argument("--pool", action="append", default=[], help="CIDR or FIRST-LAST to take VIPs from; repeatable")
    only = "the same, in place of all --pool of its family"
    parser.add_argument("--only-pool", action="append", default=[], help=only)
    parser.add_argument("--admin", type=int, default=9000, help="port of the admin endpoint (%(default)s)")
    parser.add_argument("--interface", default="eth0", help="towards clients and nodes (%(default)s)")
    parser.add_argument("--period", type=_seconds, default=1.0, help="seconds between two checks (%(default)s)")
    parser.add_argument("--timeout", type=_seconds, default=1.0, help="seconds a check may take (%(default)s)")
    parser.add_argument("--healthy", type=_count, default=1, help="passes in a row that take a node in (%(default)s)")
    parser.add_argument("--unhealthy", type=_count, default=2, help="failures in a row that drop it (%(default)s)")
    weigh = "reference-ecmp splits by the weights of the nodes' health checks, and not equally"
    parser.add_argument("--weigh", action="store_true", help=weigh)
    fails_open = "forwarders send to all nodes while none is healthy"
    parser.add_argument("--fail-open", action="store_true", help=fails_open)
    classes = [mode.value for mode in Mode]
    by_default = "also serve Services that name no class, as this one: " + ", ".join(classes)
    parser.add_argument("--default", choices=classes, metavar="CLASS", help=by_default)
    announce = "how --default announces its Services: ip, or hostname, which its DNS server resolves (%(default)s)"
    parser.add_argument("--announce", choices=("ip", "hostname"), default="ip", help=announce)
    many = "VIPs of each family for a Service that names no class, as of a load balancer in several zones (%(default)s)"
    parser.add_argument("--addresses", type=_count, default=1, help=many)
    parser.add_argument("--state", type=Path, default=Path("/run/balancer"), help="folder for HAProxy (%(default)s)")
    parser.add_argument("--fault", action="append", default=[], choices=sorted(FAULTS), metavar="NAME", help="below")
    given = parser.parse_args(arguments)
    if not given.server:
        parser.error("--server or ESIPP_SERVER is needed")
    for pool in (*given.pool, *given.only_pool):
        try:
            pools.parse(pool)
        except ValueError as error:
            parser.error(f"--pool {pool}: {error}")
    taken = {pools.parse(pool)[0].version for pool in given.only_pool}
    others = [pool for pool in given.pool if pools.parse(pool)[0].version not in taken]
    default = Mode(given.default) if given.default else None
    if given.announce == "hostname" and (default is None or default.unchanged):
        parser.error(
            "--announce hostname needs a --default that translates or proxies: nodes know no VIP of a hostname"
        )
    return Settings(
        server=given.server.rstrip("/"),
        ca=given.ca,
        token=given.token,
        pools=(*given.only_pool, *others),
        admin=given.admin,
        interface=given.interface,
        period=given.period,
        timeout=given.timeout,
        healthy=given.healthy,
        unhealthy=given.unhealthy,
        state=given.state,
        faults=Faults(given.fault),
        weigh=given.weigh,
        default=default,
        hostnames=given.announce == "hostname",
        addresses=given.addresses,
        fail_open=given.fail_open,
    )


def _fault_texts() -> str:
    return "Faults, for tests that break it. " + " ".join(f"{name}: {what}." for name, what in FAULTS.items())


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.01 <= value <= 3600:
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100:
        raise ValueError(text)
    return value
