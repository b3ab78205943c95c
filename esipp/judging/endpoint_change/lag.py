"""How long a node's proxy takes from the EndpointSlice to its health check and its data path. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from esipp.judging.endpoint_change.resolution import Measured
from esipp.judging.endpoint_change.samples import Stream
from esipp.judging.endpoint_change.timeline import Seen, Timeline


def health_lags(lines: Sequence[Timeline], seen: Seen, blur: float) -> list[tuple[Timeline, Measured]]:
    """Of each change the longest of its families; ``blur`` is how far our clocks may be apart."""
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
    """Of each change that the nodePort must follow."""
    return list(_paths([line for line in lines if not line.change.graceful], seen.ports, blur))


def _paths(lines: Sequence[Timeline], ports: Mapping[str, Stream], blur: float) -> Iterator[tuple[Timeline, Measured]]:
    for line in lines:
        measured = _lag(line, line.path, ports[line.change.node], blur)
        if measured is not None:
            yield line, measured


def _lag(line: Timeline, at: float | None, stream: Stream, blur: float) -> Measured | None:
    """The time from what the node can know; of what never followed the time for which it was looked at, at least."""
    begin = line.slice if line.slice is not None else line.trigger
    if begin is None:
        return None
    end = at if at is not None else line.until
    return Measured(max(0.0, end - begin), stream.gap_around(end, end) + blur)
