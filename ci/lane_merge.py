"""A reader of lane files: merges a lane with the lanes it extends, and refuses unknown keys.

``extends: NAME`` takes over all keys of another lane; the lane's own keys replace them. Only ``exclude`` is appended: a
check that the other lane excludes stays excluded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ci import data_plane
from ci.step import SetupError

KEYS: dict[str, type] = {
    "description": str,
    "kind_config": str,
    "kubernetes": str,
    "load_balancers": list,
    "suites": list,
    "fail_on": str,
}
"""Required keys, own or taken over."""

EXTENDS, INCLUDE, EXCLUDE, EMULATES, MOVES = "extends", "include", "exclude", "emulates", "moves"
NEEDS, PUBLISHED = "needs", "published"
MORE = (EXTENDS, INCLUDE, EXCLUDE, EMULATES, MOVES, NEEDS, PUBLISHED, *data_plane.KEYS)
"""Optional keys."""

CHOICE = ("row", "reason")


def merged(name: str, lanes: Path, heirs: tuple[str, ...] = ()) -> dict[str, Any]:
    """All keys of a lane.

    Args:
        name: the name of the lane.
        lanes: the folder of all lanes.
        heirs: the lanes that extend it, in order.

    Raises:
        SetupError: the lane does not exist, is invalid, or extends itself.
    """
    names = sorted(path.stem for path in lanes.glob("*.yaml"))
    if name in heirs:
        way = " extends ".join([*heirs[heirs.index(name) :], name])
        raise SetupError(f"The lane '{name}' extends itself: {way}.", "one of them must not extend another.")
    if name not in names:
        whose = f", which '{heirs[-1]}' extends" if heirs else ""
        raise SetupError(f"There is no lane '{name}'{whose}.", f"lanes in ci/lanes/: {', '.join(names)}")
    own = _read(lanes / f"{name}.yaml")
    if EXTENDS not in own:
        return own
    if not isinstance(own[EXTENDS], str):
        raise SetupError(f"ci/lanes/{name}.yaml: 'extends' is not the name of a lane.", "use one name, not a list.")
    below = merged(own[EXTENDS], lanes, (*heirs, name))
    both = {**below, **own}
    if added := [*below.get(EXCLUDE, []), *own.get(EXCLUDE, [])]:
        both[EXCLUDE] = added
    return both


def _read(path: Path) -> dict[str, Any]:
    known = (*KEYS, *MORE)
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise SetupError(
            f"ci/lanes/{path.name} is not valid YAML: {error}.", "compare it with kind-iptables.yaml"
        ) from error
    if not isinstance(data, dict):
        raise SetupError(f"ci/lanes/{path.name} is not a mapping.", f"its keys are: {', '.join(known)}")
    if unknown := sorted(str(key) for key in set(data) - set(known)):
        raise SetupError(f"ci/lanes/{path.name} has the unknown key '{unknown[0]}'.", f"known keys: {', '.join(known)}")
    for key in (INCLUDE, EXCLUDE):
        if key in data:
            _check_choices(path.name, key, data[key])
    return data


def _check_choices(file: str, key: str, choices: object) -> None:
    """Require a reason for each included or excluded check; lane and report show it."""
    hint = f"{key}: [{{check: nodeport.local, reason: why}}]"
    if not isinstance(choices, list) or not choices:
        raise SetupError(f"ci/lanes/{file}: '{key}' is not a list of checks.", hint)
    for choice in choices:
        if not isinstance(choice, dict) or not str(choice.get("row") or "").strip():
            raise SetupError(f"ci/lanes/{file}: an entry of '{key}' names no check.", hint)
        if not str(choice.get("reason") or "").strip():
            raise SetupError(f"ci/lanes/{file}: '{key}' gives no reason for '{choice['row']}'.", hint)
        if unknown := sorted(str(each) for each in set(choice) - set(CHOICE)):
            raise SetupError(f"ci/lanes/{file}: an entry of '{key}' has the unknown key '{unknown[0]}'.", hint)
