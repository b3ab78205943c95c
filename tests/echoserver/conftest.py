"""An echo server and a prober for all tests of a module; a module may have others of these names."""

from collections.abc import Iterator

import pytest

from tests.echoserver.harness import EchoServer, Prober


@pytest.fixture(scope="module")
def server() -> Iterator[EchoServer]:
    with EchoServer(env={"POD_NAME": "echo-1"}) as running:
        yield running
        running.check()


@pytest.fixture(scope="module")
def prober() -> Iterator[Prober]:
    with Prober() as running:
        yield running
        assert [line for line in running.lines if "not json" in line] == []
