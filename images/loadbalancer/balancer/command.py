"""Puts the parts together, and takes everything back at the end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from functools import partial
from typing import Any

from .admin import Admin
from .api import Api, Follower, StatusWriter
from .balancer import Balancer
from .decisions import Decisions
from .haproxy import HAProxy
from .icmp import ignore_refusals
from .kernel import Kernel
from .naming import Resolver
from .own_ports import give_each_its_own
from .settings import parse

VIEW_SECONDS = 10


def main(arguments: list[str]) -> int:
    """Run until SIGTERM or SIGINT."""
    settings = parse(arguments)
    give_each_its_own()
    loop = asyncio.new_event_loop()
    decisions = Decisions()
    kernel = Kernel(settings.interface)
    kernel.set_up()
    ignore_refusals()
    own = kernel.own_addresses()
    proxies = HAProxy(settings, own, decisions)
    api = Api(settings.server, settings.ca, settings.token)
    writer = StatusWriter(api)
    balancer = Balancer(settings, loop, (kernel, proxies, writer), decisions)

    def view() -> Any:
        """Ask in the loop, where the state is whole."""
        proxies.refresh()

        async def ask() -> Any:
            return balancer.view()

        return asyncio.run_coroutine_threadsafe(ask(), loop).result(VIEW_SECONDS)

    resolver = Resolver(list(own.values()), lambda: balancer.names) if settings.hostnames else None
    admin = Admin(["127.0.0.1", *own.values()], settings.admin, view, decisions)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, loop.stop)
    try:
        admin.start()
        if resolver:
            resolver.start()
        writer.start()
        Follower(api, "/api/v1/nodes", partial(balancer.sink, "nodes")).start()
        Follower(api, "/api/v1/services", partial(balancer.sink, "services")).start()
        print(f"serving: admin port {settings.admin} on {', '.join(own.values())}", flush=True)
        loop.run_forever()
    finally:
        decisions.close()
        balancer.close()
        proxies.close()
        kernel.tear_down()
        with contextlib.suppress(OSError):
            admin.close()
        if resolver:
            resolver.close()
    return 0
