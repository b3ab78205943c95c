"""The generator of docs/load-balancers.md: every figure of the profiles with its footnote."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from esipp.base import markdown
from esipp.checks.profile import Figure, Grade, HealthCheck, LoadBalancer, Marks, Source
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

HEAD = """# Load balancers

Generated from [the profiles](../esipp/loadbalancers/profiles) by `ci/generate`. Do not edit. `esipp load-balancers
NAME` prints one profile in full, `esipp plan --provider NAME` shows what a run would check there, and
`esipp run --provider NAME` uses the profile for the cluster's load balancer.

No figure here is a verdict, and no verdict of a core check depends on one: a run measures. The figures set timeouts and
predictions, and a run reports measurements that contradict them.

A figure is **documented** (by the vendor or project) or **reported** (by others; marked †); its footnote names the
source. Bounds are *derived*: **(N+1) x period** is the design's worst case for the black hole after a node loses its
last local endpoint. It counts from the node's own 503; N is the unhealthy threshold. A node that is silent instead of
answering 503 adds N timeouts. "Up" is healthy threshold x period, plus the time until the target list is updated, if
there is one.
"""

OWN = """## Write your own

`--provider FILE.toml` loads your own profile; its name must match the file's. The shortest profile extends another one:

```toml
name = "our-cloud"
title = "Our cloud's load balancer, health checks every 4 s"
like = "octavia-amphora"    # takes over everything not set here
without = ["limits"]        # except its limits (or traps, or annotations)
system = "OpenStack"
noun = "our load balancer"

[sources.ours]
grade = "documented"        # or "reported"
text = "the operators' handbook, page 12"

[check.local]
source = "ours"             # of all figures of this section without their own source
period = 4
timeout = { value = 2, source = "ours" }
off_by_default = false
```

esipp refuses unknown keys, and figures without a source.

"""

SECTIONS = {
    "": '`name`, `title`, `system`, `noun` (as in "an NLB takes 3 to 5 minutes"), `like`, `without`',
    "[sources.ID]": "`grade` (documented, reported), `text`, `url`",
    "[datapath]": "`class` (forwarder, proxy), `local` and `cluster` (the source addresses that a pod may see: client, "
    "node, pod, load_balancer, other), `destination` (vip, node, pod), `out_of_band` (x-forwarded-for, proxy-v1, "
    "proxy-v2)",
    "[check.local], [check.cluster]": "`protocol` (http, tcp, none), `target` (health-check-node-port, kube-proxy, "
    "node-port, pod, none), `path`, `period`, `timeout`, `healthy`, `unhealthy`, `no_traffic_period`, `first_failure`, "
    "`off_by_default`",
    "[steering]": "`by` (health-checks, membership, announcement), `membership` (seconds), `spreads` (whether traffic "
    "goes to all nodes at once), `bound` (seconds until a node gets no more traffic, if not derived from N and "
    "period), `fail_over` (seconds until another node has the VIP of a node that is gone), `fail_open` (whether "
    "traffic goes to all nodes while none is healthy), `follows` (whether the node that announces the VIP of a Local "
    "Service has an endpoint), `lease` (the Lease in kube-system whose holder "
    "announces a Service, with NAMESPACE and SERVICE)",
    "[probes]": "`from`: CIDRs, or a description",
    "[carries]": "`families`, `protocols`",
    "[status]": "`form` (ip, hostname, none), `ip_mode` (VIP, Proxy), `shared` (whether Services share "
    "addresses, and differ in their ports)",
    "[times]": "seconds: `usual` (from, to), `created`, `answering`, `removed` (timeouts of a run), `idle`",
    "[[traps]]": "`kind`, `text`",
    "[[annotations]]": "`purpose` (a run itself uses internal, tags, x-forwarded-for, proxy-v1, proxy-v2), `key`, "
    "`value`",
    "[[limits]]": "`outcome` (unsupported, fails, differs, undecided), `why`; the checks it applies to: `protocols`, "
    "`families`, `policies`, `clients`, `what`",
    "[found]": "`platforms`, `default`, `workloads`, `classes`, `finalizers`, `annotations`, `hostnames`, `ip_modes`, "
    "`conditions`: what identifies it on a cluster; `needs`: annotations that must also be set, for a variant that is "
    "otherwise identified like the profile it extends; `objects`: API collections (`group/version/plural`) that are "
    "not empty where it is in use; `add_ons`: network add-ons beside which objects are looked for",
}
"""The keys of each section; all but the first, ``[sources]`` and ``[found]`` also have ``source``."""


NOTHING = "-"
"""Placeholder where there is no figure."""


@dataclass
class _Notes:
    """The footnotes, numbered in order of first use."""

    numbers: dict[tuple[Grade, str, str], int] = field(default_factory=dict)

    def of(self, sources: Iterable[Source]) -> str:
        return "".join(f"[^{self._number(source)}]" for source in sources)

    def figure(self, figure: Figure[Any] | None, say: Callable[[Any], str] = str) -> str:
        """A figure with its mark; a dash if there is none."""
        if figure is None:
            return NOTHING
        return f"{say(figure.value)}{'†' if figure.grade is Grade.REPORTED else ''}{self.of(figure.sources)}"

    def _number(self, source: Source) -> int:
        key = (source.grade, source.text, source.url)
        return self.numbers.setdefault(key, len(self.numbers) + 1)

    def lines(self) -> list[str]:
        return [
            f"[^{number}]: {grade.value}: " + (f"[{text}]({url})" if url else text)
            for (grade, text, url), number in self.numbers.items()
        ]


def render(profiles: Sequence[LoadBalancer]) -> str:
    """Render the page."""
    notes = _Notes()
    lines = [HEAD, "## What pods see", "", *_datapaths(profiles, notes), ""]
    lines += ["## Health checks, and the bound of the black hole", "", *_checks(profiles, notes), ""]
    lines += ["## How long it takes", "", *_times(profiles, notes), ""]
    for profile in profiles:
        lines += _one(profile, notes)
    keys = ((f"`{name}`" if name else "at the top", keys) for name, keys in SECTIONS.items())
    lines += [OWN.rstrip("\n"), "", *markdown.table(("section", "keys"), keys)]
    return "\n".join([*lines, "", "## Sources", "", *notes.lines(), ""])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [*markdown.table(heads, ((cell.replace("|", "¦") for cell in row) for row in rows))]


def _link(profile: LoadBalancer) -> str:
    return f"[{profile.name}](#{profile.name})"


def _datapaths(profiles: Sequence[LoadBalancer], notes: _Notes) -> list[str]:
    heads = ("load balancer", "system", "class", "under Local", "under Cluster", "destination", "client reported in",
             "announced as", "families", "protocols")  # fmt: skip

    def row(profile: LoadBalancer) -> tuple[str, ...]:
        path, status = profile.datapath, profile.status
        mode = f", ipMode {notes.figure(status.ip_mode)}" if status.ip_mode else ""
        mode += f", shared{notes.of(status.shared.sources)}" if status.shared and status.shared.value else ""
        return (
            _link(profile),
            profile.system,
            notes.figure(path.kind),
            notes.figure(path.local, sources_seen),
            notes.figure(path.cluster, sources_seen),
            notes.figure(path.destination),
            notes.figure(path.out_of_band, ", ".join),
            notes.figure(status.form) + mode,
            notes.figure(profile.carries.families, ", ".join),
            notes.figure(profile.carries.protocols, ", ".join),
        )

    return _table(heads, map(row, profiles))


def _checks(profiles: Sequence[LoadBalancer], notes: _Notes) -> list[str]:
    heads = ("load balancer", "policy", "checks", "period", "timeout", "healthy", "unhealthy", "black hole, at most",
             "if silent", "up", "checked from")  # fmt: skip

    def row(profile: LoadBalancer, policy: str, check: HealthCheck) -> tuple[str, ...]:
        period = notes.figure(check.period, seconds)
        if check.no_traffic_period:
            period += f", {notes.figure(check.no_traffic_period, seconds)} while idle"
        threshold = notes.figure(check.unhealthy)
        if check.first_failure and check.first_failure.value:
            threshold += f", 1 if the answer is clear{notes.of(check.first_failure.sources)}"
        silent, local = check.silent_bound if check.on else None, policy == "Local"
        rise = profile.rise if local else check.rise if check.on else None
        request = asks(check) + notes.of((check.off_by_default or check.protocol).sources)
        return (
            _link(profile), policy, request, period, notes.figure(check.timeout, seconds), notes.figure(check.healthy),
            threshold, f"**{bound(check)}**", seconds(silent) if silent else NOTHING,
            seconds(rise) if rise else NOTHING,
            notes.figure(profile.probes.addresses, ", ".join) if check.there else NOTHING,
        )  # fmt: skip

    each = [(profile, policy, check) for profile in profiles
            for policy, check in (("Local", profile.local), ("Cluster", profile.cluster))]  # fmt: skip
    return _table(heads, (row(*of) for of in each))


def _times(profiles: Sequence[LoadBalancer], notes: _Notes) -> list[str]:
    heads = (
        "load balancer",
        "usually",
        "VIP within",
        "answers within",
        "removed within",
        "idle timeout",
        "nodes chosen by",
        "while none is healthy",
    )

    def row(profile: LoadBalancer) -> tuple[str, ...]:
        times = profile.times
        by = " and ".join(OF_STEERING[each] for each in profile.steering.by.value)
        if (follows := profile.steering.follows) is not None:
            by += f", {notes.figure(follows, OF_FOLLOWING.__getitem__)}"
        by += f", {notes.figure(profile.steering.membership, seconds)}" if profile.steering.membership else ""
        return (
            _link(profile), notes.figure(times.usual, span), notes.figure(times.created, seconds),
            notes.figure(times.answering, seconds), notes.figure(times.removed, seconds),
            notes.figure(times.idle, seconds), by + notes.of(profile.steering.by.sources),
            notes.figure(profile.steering.fail_open, OF_FAIL_OPEN.__getitem__),
        )  # fmt: skip

    said = [
        '"Within" is a timeout of the run; a dash stands for the default (60 s for a VIP).',
        "",
    ]
    return said + _table(heads, map(row, profiles))


def _one(profile: LoadBalancer, notes: _Notes) -> list[str]:
    lines = [f"## {profile.name}", "", f"{profile.title}." + (f" Extends {profile.like}." if profile.like else ""), ""]
    for trap in profile.traps:
        lines.append(f"* **{trap.kind}**: {trap.text}{notes.of(trap.sources)}")
    for limit in profile.limits:
        hits = [
            *sorted(limit.protocols),
            *sorted(limit.families),
            *sorted(limit.policies),
            *sorted(limit.clients),
            *sorted(limit.what),
        ]
        which = f"checks of {', '.join(hits)}" if hits else "checks"
        lines.append(f"* *{which}* — {limit.outcome.value}: {limit.why}{notes.of(limit.sources)}")
    if profile.annotations:
        lines += ["", *_table(("for", "annotation", "value"), (
            (each.purpose, f"`{each.key}`", f"`{each.value}`{notes.of(each.sources)}") for each in profile.annotations
        ))]  # fmt: skip
    known = _known_by(profile.found)
    lines += ["", f"Identified by {known}." if known else "Not identifiable on a cluster: name it with `--provider`."]
    return [*lines, ""]


def _known_by(marks: Marks) -> str:
    """The signs of a profile on a cluster, as text."""
    shown = {
        "pods of": marks.workloads,
        "loadBalancerClass": sorted(marks.classes),
        "the finalizer": sorted(marks.finalizers),
        "the annotation": sorted(marks.annotations),
        "the hostname": marks.hostnames,
        "ipMode": sorted(marks.ip_modes),
        "the condition": sorted(marks.conditions),
    }
    parts = [f"{name} {', '.join(f'`{each}`' for each in values)}" for name, values in shown.items() if values]
    where = " or ".join(sorted(marks.platforms))
    if where and marks.default:
        parts.insert(0, f"default: a Service gets this load balancer on {where}")
    elif where:
        parts = [f"{part} on {where}" for part in parts[:1]] + parts[1:]
    if marks.needs:
        parts.append(f"and also {', '.join(f'`{each}`' for each in marks.needs)}")
    if marks.objects:
        parts.append(f"unless {', '.join(f'`{each}`' for each in marks.objects)} can be read and is empty")
    return "; ".join(parts)
