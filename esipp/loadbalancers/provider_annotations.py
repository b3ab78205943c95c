"""Provider annotations: what the named load balancer needs on Services, from its profile. Pure.

Only a provider that the user names counts. A detected one may be wrong. If its annotation then means nothing, load
balancers would be open to everybody without notice.
"""

from dataclasses import replace

from esipp.base.customisation import Customisation, On, Pairs
from esipp.base.errors import PreflightError
from esipp.checks.profile import Annotation, LoadBalancer

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
    tags = of_purpose(profile, TAGS) if profile else ()
    customisation = replace(customisation, tags=tuple((each.key, each.value) for each in tags))
    if not internal:
        return customisation
    pairs: Pairs = tuple((each.key, each.value) for each in internal_of(profile))
    given = {each.key.lower(): each.value for each in customisation.annotations if each.on is On.SERVICE}
    for key, value in pairs:
        if given.get(key.lower(), value) != value:
            raise PreflightError(
                f"--internal sets {key}={value}, but --annotation sets {given[key.lower()]}.", "use one of them."
            )
    return replace(customisation, internal=pairs)
