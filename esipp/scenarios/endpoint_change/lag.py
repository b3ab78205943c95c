"""The lag of a node's proxy: from the EndpointSlice to its health check and its data path. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from esipp.judging.samples import Stream
from esipp.scenarios.endpoint_change.resolution import Measured
from esipp.scenarios.endpoint_change.timeline import Seen, Timeline


def health_lags(lines: Sequence[Timeline], seen: Seen, blur: float) -> list[tuple[Timeline, Measured]]:
    """The longest lag of any family for each change; ``blur`` is the difference that our clocks may have."""
    found = []
    for line in lines:
        each = [
            measured
            for family, at in line.health.items()
            if (measured := _lag(line, at, seen.health[family][line.change.node], blur)) is not None
        ]
        if each:
            found.append((line, max(each, key=lambda measured: measured.seconds)))
    return found


def path_lags(lines: Sequence[Timeline], seen: Seen, blur: float) -> list[tuple[Timeline, Measured]]:
    """The lag of each change that the nodePort must follow."""
    return list(_paths([line for line in lines if not line.change.graceful], seen.ports, blur))


def _paths(lines: Sequence[Timeline], ports: Mapping[str, Stream], blur: float) -> Iterator[tuple[Timeline, Measured]]:
    for line in lines:
        measured = _lag(line, line.path, ports[line.change.node], blur)
        if measured is not None:
            yield line, measured


def _lag(line: Timeline, at: float | None, stream: Stream, blur: float) -> Measured | None:
    """The time since the node could know; if it never followed, the time for which it was observed."""
    begin = line.slice if line.slice is not None else line.trigger
    if begin is None:
        return None
    end = at if at is not None else line.until
    return Measured(max(0.0, end - begin), stream.gap_around(end, end) + blur)
