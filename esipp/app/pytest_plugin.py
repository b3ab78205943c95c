"""pytest's entry point (``pytest11``): ``pytest --pyargs esipp.suites --context NAME`` is the run of ``esipp run``.

Every pytest session of the environment loads this module. It adds nothing to one that does not name the suites.
"""

import pytest

SUITES = "esipp.suites"


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Put the suites' file in the place of their name, and load the plugin with their options and hooks.

    ``esipp.suites.source_ip`` means one suite.
    """
    named = [number for number, word in enumerate(args) if _means_suites(word)]
    if not named:
        return
    from esipp.base.errors import EsippError, did_you_mean
    from esipp.checks import catalog

    try:
        known = catalog.suite_names()
    except EsippError as error:
        raise pytest.UsageError(str(error)) from None
    for number in named:
        name, colons, test = args[number].partition("::")
        suite = name.removeprefix(SUITES).removeprefix(".")
        if suite and suite not in known:
            hint = f"{did_you_mean(suite, known)}use one of {', '.join(known)}."
            raise pytest.UsageError(f"There is no suite '{suite}'.\n  hint: {hint}")
        file = str(catalog.SUITES / "test_suites.py")
        args[number] = f"{file}::test_{suite}" if suite else f"{file}{colons}{test}"
    catalog.make_importable()
    early_config.pluginmanager.import_plugin("fixtures.plugin")


def _means_suites(word: str) -> bool:
    return word.partition("::")[0] == SUITES or word.startswith(f"{SUITES}.")
