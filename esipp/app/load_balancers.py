"""``esipp load-balancers``: prints load balancer profiles, for a terminal or as docs/load-balancers.md."""

import argparse
import textwrap
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from esipp.app.exit_codes import OF_LOAD_BALANCERS
from esipp.base.errors import ExitCode
from esipp.checks.profile import Figure, HealthCheck, LoadBalancer, Source
from esipp.loadbalancers.profiles.loading import all_profiles, provider
from esipp.loadbalancers.profiles.page import render
from esipp.loadbalancers.profiles.words import (
    OF_FAIL_OPEN,
    OF_FOLLOWING,
    OF_STEERING,
    asks,
    bound,
    seconds,
    sources_seen,
    span,
)

WIDTH, LABEL = 100, 16


def as_text(profiles: Iterable[LoadBalancer]) -> Iterator[str]:
    """One line per profile."""
    yield f"{'name':<27}{'class':<11}{'black hole':<13}{'creation':<18}description"
    for each in profiles:
        usual = span(each.times.usual.value) if each.times.usual else "unknown"
        hole = bound(each.local).partition(";")[0].partition(" (")[0]
        yield f"{each.name:<27}{each.kind.value:<11}{hole:<13}{usual:<18}{each.title}"


def in_full(profile: LoadBalancer) -> Iterator[str]:
    """A profile in full: each figure with its grade, the sources at the end."""
    yield from (profile.name, "=" * len(profile.name), profile.title, "")
    path = profile.datapath
    yield from _line("class", f"{profile.kind.value}{_mark(path.kind)}")
    yield from _line("pods must see", f"under Local {sources_seen(path.local.value)}{_mark(path.local)}")
    yield from _line("", f"under Cluster {sources_seen(path.cluster.value)}{_mark(path.cluster)}")
    yield from _line("destination", f"{path.destination.value.value}{_mark(path.destination)}")
    if path.out_of_band:
        yield from _line("client known by", f"{', '.join(path.out_of_band.value)}{_mark(path.out_of_band)}")
    yield from _line("nodes chosen by", " and ".join(OF_STEERING[each] for each in profile.steering.by.value))
    if (membership := profile.steering.membership) is not None:
        yield from _line("", f"which takes up to {seconds(membership.value)}{_mark(membership)}")
    if (follows := profile.steering.follows) is not None:
        yield from _line("", f"{OF_FOLLOWING[follows.value]}{_mark(follows)}")
    if (opened := profile.steering.fail_open) is not None:
        yield from _line("", f"while none is healthy, it {OF_FAIL_OPEN[opened.value]}{_mark(opened)}")
    yield from _check("Local", profile.local)
    yield from _check("Cluster", profile.cluster)
    if (probers := profile.probes.addresses) is not None:
        yield from _line("checked from", f"{', '.join(probers.value)}{_mark(probers)}")
    yield from _line(
        "carries", ", ".join(each.value for each in (*profile.carries.protocols.value, *profile.carries.families.value))
    )
    mode = f", ipMode {profile.status.ip_mode.value}" if profile.status.ip_mode else ""
    mode += ", shared by Services" if profile.status.shared and profile.status.shared.value else ""
    yield from _line("announced as", f"{profile.status.form.value}{mode}")
    times = {"created in": profile.times.usual and span(profile.times.usual.value)}
    limits = (("VIP within", "created"), ("answers within", "answering"), ("removed within", "removed"))
    for label, name in (*limits, ("idle timeout", "idle")):
        figure: Figure[float] | None = getattr(profile.times, name)
        times[label] = seconds(figure.value) if figure else None
    for label, text in times.items():
        yield from _line(label, text) if text else ()
    for trap in profile.traps:
        yield from _line("trap", f"{trap.text} ({trap.kind})")
    for limit in profile.limits:
        yield from _line("limit", f"{limit.outcome.value}: {limit.why}")
    for each in profile.annotations:
        yield from _line(each.purpose, f"{each.key}: {each.value!r}")
    yield ""
    for source in _sources(profile):
        yield from _line(source.grade.value, f"{source.text} {source.url}".rstrip())


def _check(policy: str, check: HealthCheck) -> Iterator[str]:
    yield from _line(f"{policy}", asks(check))
    if check.bound is None or check.period is None or check.unhealthy is None:
        return
    parts = [f"period {seconds(check.period.value)}{_mark(check.period)}"]
    parts += [f"timeout {seconds(check.timeout.value)}"] if check.timeout else []
    parts += [f"healthy {check.healthy.value}"] if check.healthy else []
    parts += [f"unhealthy {check.unhealthy.value}"]
    yield from _line("", ", ".join(parts))
    yield from _line("", f"black hole at most {bound(check)}: (N+1) x period (derived)")


def _sources(profile: LoadBalancer) -> list[Source]:
    """The sources that a profile cites, each once."""
    cited = [each.sources for each in figures_of(profile)] + [each.sources for each in profile.traps]
    cited += [each.sources for each in profile.limits] + [each.sources for each in profile.annotations]
    return list(dict.fromkeys(chain.from_iterable(cited)))


def figures_of(profile: LoadBalancer) -> Iterator[Figure[Any]]:
    """Every figure of a profile."""
    parts = (profile.steering, profile.probes, profile.carries, profile.datapath, profile.local, profile.cluster)
    for part in (*parts, profile.status, profile.times):
        yield from (value for value in vars(part).values() if isinstance(value, Figure))


def _mark(figure: Figure[Any]) -> str:
    return f" ({figure.grade.value})"


def _line(label: str, text: str | None) -> Iterator[str]:
    first = f"{label:<{LABEL}}"
    yield from textwrap.wrap(
        first + (text or ""), WIDTH, subsequent_indent=" " * LABEL, break_on_hyphens=False, break_long_words=False
    )


def add_load_balancers(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "load-balancers",
        help="show the profiles of load balancers, in clouds and on bare metal; needs no cluster",
        epilog=OF_LOAD_BALANCERS,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME|FILE.toml", help="show these profiles in full (default: one line each)"
    )
    parser.add_argument(
        "--format",
        choices=["text", "markdown"],
        default="text",
        help="output format (markdown: docs/load-balancers.md; default: text)",
    )
    parser.set_defaults(command=_load_balancers)


def _load_balancers(options: argparse.Namespace) -> int:
    chosen = [provider(name) for name in options.names]
    if options.format == "markdown":
        print(render(chosen or all_profiles()), end="")
        return int(ExitCode.CONFORMANT)
    lines = [line for each in chosen for line in (*in_full(each), "")] if chosen else [*as_text(all_profiles())]
    print("\n".join(lines).rstrip("\n"))
    return int(ExitCode.CONFORMANT)
