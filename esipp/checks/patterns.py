"""Compact patterns for ids of checks, with braces for the parts that differ. Pure."""

from collections.abc import Sequence

_TO = "./to/."
_Parts = tuple[tuple[str, ...], ...]


def patterns(ids: Sequence[str]) -> list[str]:
    """Return as few patterns as possible that match exactly these ids; braces list the values of one part."""
    apart = [one.replace("-to-", _TO).split(".") for one in ids]
    order = list(dict.fromkeys(part for parts in apart for part in parts))
    found: list[_Parts] = [tuple((part,) for part in parts) for parts in apart]
    while True:
        before = len(found)
        for place in range(max(len(parts) for parts in found)):
            alike: dict[tuple[int, _Parts, _Parts], list[str]] = {}
            for parts in found:
                alike.setdefault((len(parts), parts[:place], parts[place + 1 :]), []).extend(
                    parts[place] if place < len(parts) else ()
                )
            found = [
                (*start, tuple(sorted(values, key=order.index)), *end) if values else start
                for (_, start, end), values in alike.items()
            ]
        if len(found) == before:
            break
    braced = (".".join(f"{{{','.join(part)}}}" if len(part) > 1 else part[0] for part in parts) for parts in found)
    return [pattern.replace(_TO, "-to-") for pattern in braced]
