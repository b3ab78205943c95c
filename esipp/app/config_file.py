"""``esipp.yaml``: options of ``esipp run``, ``doctor`` and ``plan`` in a file, and ``esipp init``, which writes one.

A key is an option without its dashes. ``checks`` has ids, and ``lanes`` has named sets of keys: ``--lane NAME`` adds
one to the others. Options of the command line go before those of the file; options that may be repeated add up.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from esipp.app.exit_codes import OF_INIT
from esipp.app.options import add_run_options, settings_of
from esipp.base.errors import ExitCode, PreflightError, did_you_mean, if_not_writable
from esipp.base.json import Json

NAME = "esipp.yaml"
SCHEMA = Path(__file__).with_name("esipp.schema.json")
COMMANDS = ("run", "doctor", "plan")
NOT_IN_A_FILE = ("config", "help", "yes", "dry_run", "format")
HINT = "docs/running.md#a-file-of-options describes it; 'esipp init' writes one."


# --------------------------------------------------------------------------------------------------------- the file
def options_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The options that a file may have, by key."""
    named = {
        action.option_strings[-1].removeprefix("--"): action
        for action in parser._actions
        if action.option_strings and action.dest not in NOT_IN_A_FILE
    }
    return dict(sorted(named.items()))


def schema(parser: argparse.ArgumentParser) -> Json:
    """The JSON schema of the file, for editors, from the options of ``esipp run``."""
    keys: Json = {
        "checks": {"type": "array", "items": {"type": "string"}, "description": "ids of checks, or parts of some"}
    }
    keys |= {name: _schema_of(action) for name, action in options_of(parser).items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{NAME}: options of esipp run",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **keys,
            "lanes": {
                "type": "object",
                "description": "sets of options, each chosen by --lane NAME",
                "additionalProperties": {"type": "object", "additionalProperties": False, "properties": keys},
            },
        },
    }


def _schema_of(action: argparse.Action) -> Json:
    kinds = {int: "integer", float: "number"}
    kind = kinds.get(action.type, "string")  # type: ignore[call-overload]  # argparse allows any callable as a type
    made: Json = {"type": "boolean" if action.nargs == 0 else kind}
    if action.choices:
        made["enum"] = sorted(map(str, action.choices))
    if isinstance(action, argparse._AppendAction):
        made = {"type": "array", "items": made}
    return made | {"description": " ".join(str(action.help).split())}


def expanded(arguments: Sequence[str], parsers: Mapping[str, argparse.ArgumentParser]) -> list[str]:
    """A command line with the options of the file put before its own.

    Args:
        arguments: the command line.
        parsers: the parsers of all commands.

    Raises:
        PreflightError: the file cannot be read, has a key or a value that is no option's, or has a lane whose name is
            nearly the one of the command line.
    """
    words = list(arguments)
    if not words or words[0] not in COMMANDS:
        return words
    finding = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finding.add_argument("--config")
    finding.add_argument("--lane", default="")
    found, _ = finding.parse_known_args(words[1:])
    if found.config is None and not Path(NAME).is_file():
        return words
    file = found.config or NAME
    print(f"esipp: options from {file}", file=sys.stderr)
    keys = _read(file, found.lane)
    parser, known = parsers[words[0]], options_of(parsers["run"])
    more = [
        word
        for name, value in keys.items()
        if name in _known(name, known, file) and name in options_of(parser)
        for word in _words(name, value, known[name], file)
    ]
    checks = [] if parser.parse_args([*words[1:], *more]).checks else keys.get("checks", [])
    if not isinstance(checks, list) or not all(isinstance(each, str) for each in checks):
        raise PreflightError(f"{file}: checks: expected a list of texts, not {checks!r}.", HINT)
    return [words[0], *more, *words[1:], *checks]


def _read(file: str, lane: str) -> Json:
    """The keys of the file, with those of the lane."""
    try:
        keys = yaml.safe_load(Path(file).read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError) as broken:
        raise PreflightError(f"--config: cannot read {file}: {getattr(broken, 'strerror', broken)}.", HINT) from None
    except yaml.YAMLError as wrong:
        raise PreflightError(f"{file} is not YAML: {' '.join(str(wrong).split())}.", HINT) from None
    lanes = keys.pop("lanes", None) or {} if isinstance(keys, dict) else None
    if not isinstance(lanes, dict) or not all(isinstance(each, dict) for each in lanes.values()):
        raise PreflightError(f"{file}: expected keys and values, and in 'lanes' the same by name.", HINT)
    lanes = {str(name): chosen for name, chosen in lanes.items()}  # 1.34 is a number to YAML
    _check_lane(lane, lanes, file)
    return {**keys, **lanes.get(lane or str(keys.get("lane", "")), {})}


def _check_lane(lane: str, lanes: Json, file: str) -> None:
    """Refuse the name of a lane if it is nearly one of the file's, and say that any other one adds no options."""
    if not lane or not lanes or lane in lanes:
        return
    if near := did_you_mean(lane, lanes):
        raise PreflightError(f"{file} has no lane '{lane}'.", f"{near}A name of your own must differ more.")
    print(f"esipp: {file} has no lane '{lane}': it is only this run's name.", file=sys.stderr)


def _known(name: Any, known: Mapping[str, argparse.Action], file: str) -> Mapping[str, argparse.Action]:
    if name in known or name == "checks":
        return known
    raise PreflightError(f"{file}: there is no option '{name}'.", f"{did_you_mean(str(name), known)}{HINT}")


def _words(name: str, value: Any, action: argparse.Action, file: str) -> list[str]:
    """The words of an option with a value from the file."""
    many = isinstance(action, argparse._AppendAction)
    values = value if many and isinstance(value, list) else [value]
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise PreflightError(f"{file}: {name}: expected true or false, not {value!r}.", HINT)
        return [f"--{name}"] if value else []
    for each in values:
        if not isinstance(each, str | int | float) or isinstance(each, bool):
            raise PreflightError(f"{file}: {name}: expected {'a list' if many else 'a value'}, not {each!r}.", HINT)
    return [f"--{name}={each}" for each in values]


# -------------------------------------------------------------------------------------------------------- esipp init
def add_init(commands: Any) -> None:
    """``esipp init``; the options of a run that are given are written, too."""
    parser = commands.add_parser("init", help=f"write {NAME} with options for the cluster at hand", epilog=OF_INIT)
    add_run_options(parser)
    parser.add_argument("--yes", action="store_true", help="use the kubeconfig's current context and do not ask")
    parser.add_argument("--file", default=NAME, metavar="FILE", help=f"the file to write (default: {NAME})")
    parser.set_defaults(command=lambda options: _init(options, _given(options, parser)))


def _given(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Json:
    """The options that the command line gives, as keys of the file."""
    given = {name: (getattr(options, each.dest), each.default) for name, each in options_of(parser).items()}
    return {name: value for name, (value, usual) in given.items() if value != usual and name != "file"}


def _init(options: argparse.Namespace, given: Json) -> int:
    from esipp.checks.catalog import suite_names
    from esipp.cluster.client import Cluster
    from esipp.preflight.preflight import examine

    file = Path(options.file)
    if file.exists():
        raise PreflightError(f"{file} exists.", "name another with --file, or remove it.")
    settings = settings_of(options)
    found = examine(Cluster.of(settings), settings, suite_names())
    missing = sorted(name for name, feature in found.features.items() if not feature.present)
    profiles = [each.name for each in found.balancer.profiles]
    text = "\n".join(_lines({"context": settings.context, **given}, found.facts, profiles, missing))
    with if_not_writable(f"Cannot write {file}", "name another with --file."):
        file.write_text(text + "\n", encoding="utf-8")
    print(f"{file}: now 'esipp doctor', then 'esipp run'")
    return int(ExitCode.CONFORMANT)


def _lines(keys: Json, facts: Mapping[str, str], profiles: Sequence[str], missing: Sequence[str]) -> list[str]:
    """The text of a new file."""
    cluster = ", ".join(
        f"{name} {facts[name]}" for name in ("kubernetes", "service-proxy", "proxy-mode") if name in facts
    )
    if len(profiles) == 1:
        keys = {"provider": profiles[0], **keys}
    guess = f"# provider: {' or '.join(profiles) or 'NAME'}      # 'esipp load-balancers' lists all"
    provider = [] if "provider" in keys else [guess]
    return [
        f"# yaml-language-server: $schema={SCHEMA}",
        f"# Options of 'esipp run'. When this was written: {cluster}.",
        yaml.safe_dump(keys, sort_keys=False).strip(),
        *provider,
        "# outside: [machine, ssh:user@host]      # where clients outside the cluster stand",
        "# image-registry: registry.example.com/mirror",
        "# waivers: waivers.yaml",
        "# allow-disruptive: true",
        *([f"# Missing here, so their checks are unsupported: {', '.join(missing)}"] if missing else []),
        "# lanes:",
        "#   staging: {context: staging, samples: 40}      # esipp run --lane staging",
    ]
