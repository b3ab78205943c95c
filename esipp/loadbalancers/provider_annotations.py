"""Provider annotations: what the named load balancer needs on Services, from its profile. Pure.

Only a provider that the user names counts. A detected one may be wrong. If its annotation then means nothing, load
balancers would be open to everybody without notice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from esipp.base.customisation import Customisation, On, Pairs
from esipp.base.errors import PreflightError
from esipp.checks.check import REPORTS, Feature
from esipp.checks.model import Claim
from esipp.checks.profile import Annotation, LoadBalancer
from esipp.loadbalancers.detection import Detected

INTERNAL = "internal"
"""The purpose of an annotation (``profiles/*.toml``): the load balancer gets no public address."""

TAGS = "tags"
"""The purpose of an annotation: the cloud tags what it creates for a Service with the run, as ``KEY=RUN,KEY=RUN``."""


def of_purpose(profile: LoadBalancer, purpose: str) -> tuple[Annotation, ...]:
    """The annotations of a profile that serve a purpose."""
    return tuple(each for each in profile.annotations if each.purpose == purpose)


def internal_of(profile: LoadBalancer | None) -> tuple[Annotation, ...]:
    """The annotations that make load balancers internal.

    Raises:
        PreflightError: no profile is named, or it has no such annotation.
    """
    if profile is None:
        raise PreflightError(
            "--internal needs a provider: the annotation for internal load balancers depends on it.",
            "set --provider NAME ('esipp load-balancers' lists them), or the annotation with --annotation KEY=VALUE.",
        )
    found = of_purpose(profile, INTERNAL)
    if not found:
        raise PreflightError(
            f"--internal: the profile {profile.name} has no annotation for internal load balancers.",
            f"use --annotation KEY=VALUE, if {profile.noun} has one; or name it in a profile of your own, with the "
            f'purpose "{INTERNAL}".',
        )
    return found


def provided(customisation: Customisation, profile: LoadBalancer | None, *, internal: bool) -> Customisation:
    """The user's customisation with the annotations that it implies, and those that tag the run's cloud resources.

    Args:
        customisation: what the user chose.
        profile: the load balancer that the user named, if any.
        internal: whether load balancers must be internal.

    Raises:
        PreflightError: no annotation for internal load balancers is known, or a given one contradicts it.
    """
    customisation = replace(customisation, tags=_pairs(of_purpose(profile, TAGS) if profile else ()))
    if not internal:
        return customisation
    pairs = _pairs(internal_of(profile))
    given = {each.key.lower(): each.value for each in customisation.annotations if each.on is On.SERVICE}
    for key, value in pairs:
        if given.get(key.lower(), value) != value:
            raise PreflightError(
                f"--internal sets {key}={value}, but --annotation sets {given[key.lower()]}.", "use one of them."
            )
    return replace(customisation, internal=pairs)


HEADERS = tuple(each for each in Claim if each is not Claim.NOTHING)
"""The headers in which load balancers report clients; each is also the purpose of the annotation that asks for it."""


PROXY_PROTOCOL = "proxy-protocol"
"""The purpose of an annotation for headers that clients of a VIP do not cause, such as those of a private endpoint."""


def headers_of(profile: LoadBalancer) -> dict[Claim, Pairs]:
    """The headers that a load balancer sends at its VIPs, each with the annotations that ask for it.

    A header without an annotation is sent to every Service; then it is the only one.
    """
    spoken = profile.datapath.out_of_band.value if profile.datapath.out_of_band else ()
    asked = {each: of_purpose(profile, each.value) for each in HEADERS if each.value in spoken}
    found: dict[Claim, Pairs] = {each: _pairs(annotations) for each, annotations in asked.items() if annotations}
    if not found and len(spoken) == 1 and not of_purpose(profile, PROXY_PROTOCOL):
        return dict.fromkeys(asked, ())
    return found


def _pairs(annotations: Iterable[Annotation]) -> Pairs:
    return tuple((each.key, each.value) for each in annotations)


def speaker(detected: Detected) -> LoadBalancer | None:
    """The cluster's own load balancer if it is certain: the user named it, or it reported itself."""
    return detected.profiles[0] if detected.certain else None


def headers_asked(
    detected: Detected, known: Iterable[LoadBalancer], customisation: Customisation
) -> dict[Claim, Pairs]:
    """The headers in which the cluster's own load balancer reports clients, with the annotations that ask for them.

    Args:
        detected: the cluster's own load balancer. One that is not certain counts only with an annotation of the user
            that asks for a header.
        known: all profiles; variants of these load balancers speak a header by an annotation.
        customisation: what the user chose.
    """
    given = {each.key: each.value for each in customisation.annotations if each.on is On.SERVICE}
    certain = speaker(detected)
    found = headers_of(certain) if certain else {}
    names = {name for each in detected.profiles for name in (each.name, each.like) if name}
    for variant in known:
        if names & {variant.name, variant.like}:
            for header, pairs in headers_of(variant).items():
                if pairs and all(given.get(key) == value for key, value in pairs):
                    found.setdefault(header, pairs)
    return found


def header_features(named: LoadBalancer | None, headers: Mapping[Claim, Pairs]) -> dict[str, Feature]:
    """Whether the cluster's own load balancer reports clients in each header, as features of checks."""
    return {f"{REPORTS}{each.value}": _header_feature(named, each, headers) for each in HEADERS}


def _header_feature(named: LoadBalancer | None, header: Claim, headers: Mapping[Claim, Pairs]) -> Feature:
    if header in headers:
        how = ", ".join(f"{key}={value}" for key, value in headers[header])
        return Feature(True, f"by the annotation {how}" if how else f"{named.name if named else 'it'} always sends it")
    if named is None:
        return Feature(False, "no --provider and no --annotation says that the load balancer sends this header")
    return Feature(False, f"{named.name} does not send this header to Services")
