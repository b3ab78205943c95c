"""Emulation of a cloud's load balancer: the reference load balancer with the class, period and thresholds of a profile.

A lane's ``emulates`` names the profile. Three things are not emulated: the cloud's own health check under policy
Cluster (the reference has one period for both policies, and checks kube-proxy over HTTP), its addresses, and its API's
times.
"""

from ci.step import SetupError
from esipp.base.errors import EsippError
from esipp.checks.model import Protocol
from esipp.checks.profile import Class, LoadBalancer
from esipp.loadbalancers.profiles.loading import provider

FORWARDER, PROXY = "reference-ecmp", "reference-proxy"
TRANSLATING = "reference-nat"
"""The forwarding class if only a hostname is announced: nodes then do not know the VIP, so it dials nodePorts."""

HOSTNAME = "hostname"
NEEDED = ("--period", "--unhealthy")  # which make the bound; the others have a default of the reference's own
HEADERS = {"proxy-v1": "reference-proxy-v1", "proxy-v2": "reference-proxy-v2"}
"""The class of the reference that sends this PROXY protocol header."""

PROXIED = (Protocol.TCP,)
"""Protocols of the reference load balancer's proxies."""


def options(profile: str) -> list[str]:
    """The options with which the reference load balancer emulates the profile.

    Raises:
        SetupError: the profile is unknown, or its health checks have no period or thresholds.
    """
    found = _profile(profile)
    check = found.local
    figures = {
        "--period": check.period,
        "--timeout": check.timeout or check.period,
        "--healthy": check.healthy,
        "--unhealthy": check.unhealthy,
    }
    unknown = [name.removeprefix("--") for name in NEEDED if figures[name] is None]
    if unknown or not check.on:
        what = f"names no {unknown[0]}" if unknown else "are off"
        raise SetupError(
            f"The reference load balancer cannot emulate {profile}: its health checks under Local {what}.",
            "'esipp load-balancers' lists profiles; a variant with a monitor has a period and thresholds.",
        )
    opened = found.steering.fail_open
    announced = ["--announce", HOSTNAME] if found.status.form.value == HOSTNAME else []
    return [
        "--default",
        class_of(found),
        *announced,
        *(["--fail-open"] if found.kind is Class.FORWARDER and opened and opened.value else []),
        *(f"{name}={figure.value:g}" for name, figure in figures.items() if figure),
    ]


def left_out(profile: str) -> list[str]:
    """Options of a run that exclude what the reference load balancer cannot carry in the profile's place.

    Raises:
        SetupError: the profile is unknown.
    """
    found = _profile(profile)
    if found.kind is Class.FORWARDER:
        return []
    carried = sorted(each.value.lower() for each in found.carries.protocols.value if each not in PROXIED)
    return [f"--without=load-balancer.carries.{each}" for each in carried]


def _profile(name: str) -> LoadBalancer:
    try:
        return provider(name)
    except EsippError as error:
        raise SetupError(error.sentence, error.hint) from None


def class_of(profile: LoadBalancer) -> str:
    """The class of the reference that does with packets as the profile's load balancer does."""
    if profile.kind is Class.FORWARDER:
        return TRANSLATING if profile.status.form.value == HOSTNAME else FORWARDER
    headers = profile.datapath.out_of_band.value if profile.datapath.out_of_band else ()
    return next((HEADERS[each] for each in headers if each in HEADERS), PROXY)
