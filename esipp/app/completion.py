"""``esipp completion``: the script by which a shell completes command lines; and the completion of ``kubectl esipp``.

argcomplete, an extra package, does the work. For a plugin, kubectl asks the program ``kubectl_complete-esipp``, which
prints the words that fit and a directive for kubectl in the last line
(https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
"""

import argparse
import importlib
import io
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from esipp.app.exit_codes import OF_COMPLETION
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.catalog import all_checks
from esipp.checks.required_features import counts

SHELLS = ("bash", "zsh", "fish", "powershell")
KUBECTL_OFFERS_FILES = ":0"
"""kubectl's directive: complete names of files if no word fits."""

ABOUT = """how to use it:
  bash, zsh       eval "$(esipp completion bash)"
  fish            esipp completion fish | source
  kubectl esipp   works where kubectl's own completion does, as kubectl_complete-esipp is on PATH

"""


def add_completion(commands: Any) -> None:
    """Add ``esipp completion`` to the parser."""
    parser = commands.add_parser(
        "completion", help="print a script for the completion of command lines in a shell", epilog=ABOUT + OF_COMPLETION
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(command=_completion)


def _completion(options: argparse.Namespace) -> int:
    print(_argcomplete().shellcode(["esipp"], shell=options.shell).strip())
    return int(ExitCode.CONFORMANT)


def complete(commands: Mapping[str, argparse.ArgumentParser], parser: argparse.ArgumentParser) -> None:
    """Answer a shell that completes a command line, and end; do nothing otherwise."""
    if "_ARGCOMPLETE" in os.environ:
        _offer(commands)
        _argcomplete().autocomplete(parser)


def complete_for_kubectl(
    commands: Mapping[str, argparse.ArgumentParser], parser: argparse.ArgumentParser, words: Sequence[str]
) -> None:
    """Print what may stand in the place of the last word, as kubectl wants it."""
    made = _argcomplete()
    line = f"{shlex.join(['esipp', *words[:-1]])} {''.join(words[-1:])}"
    os.environ |= {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    os.environ |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
    found = io.StringIO()
    _offer(commands)
    made.autocomplete(
        parser, output_stream=found, exit_method=lambda _: None, default_completer=made.completers.SuppressCompleter()
    )
    print("\n".join([*filter(None, found.getvalue().split("\n")), KUBECTL_OFFERS_FILES]))


def _offer(commands: Mapping[str, argparse.ArgumentParser]) -> None:
    """Name what may follow the options and arguments that have no fixed choices."""
    for each in commands.values():
        for action in each._actions:
            if action.dest in OFFERED:
                action.completer = _completer(OFFERED[action.dest])  # type: ignore[attr-defined]  # argcomplete's own


def _completer(names: Callable[[argparse.Namespace], Iterable[str]]) -> Callable[..., list[str]]:
    return lambda parsed_args, **_: list(names(parsed_args))


def _checks(_options: argparse.Namespace) -> Iterable[str]:
    return (check.id for check in all_checks())


def _features(_options: argparse.Namespace) -> Iterable[str]:
    return counts(all_checks())


def _load_balancers(_options: argparse.Namespace) -> Iterable[str]:
    from esipp.loadbalancers.profiles.loading import names

    return names()


def _contexts(options: argparse.Namespace) -> Iterable[str]:
    from esipp.cluster.client import contexts

    return contexts(getattr(options, "kubeconfig", None))


OFFERED: Mapping[str, Callable[[argparse.Namespace], Iterable[str]]] = {
    "checks": _checks,
    "without": _features,
    "require": _features,
    "provider": _load_balancers,
    "names": _load_balancers,
    "context": _contexts,
}
"""What completes an option or argument, by its name."""


def _argcomplete() -> Any:
    """The package.

    Raises:
        PreflightError: it is not installed.
    """
    try:
        return importlib.import_module("argcomplete")
    except ImportError:
        raise PreflightError(
            "Completion needs the package argcomplete.", "pipx inject esipp argcomplete, or pip install argcomplete."
        ) from None
