"""pytest options and hooks, shared by the suites in suites/ and the unit tests in tests/."""

import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

from esipp.base.errors import EsippError, PreflightError
from esipp.base.interrupt import ENDING
from esipp.checks.catalog import SUITES, all_checks
from esipp.checks.check import Check, left_out_of
from esipp.ledger.reading import read_run
from esipp.ledger.run import Run
from esipp.report import junit
from esipp.report.allure import live as allure
from esipp.report.ending import Detail
from esipp.report.formats import write_reports
from fixtures import display
from fixtures.session import RUN, prepared_by

pytest_plugins = [f"fixtures.{name}" for name in ("run", "cluster", "testbed", "clients", "verdicts")]

ONE_PROCESS = PreflightError(
    "The suites run in one process, which runs their checks in parallel.", "run pytest without -n, --tx and --dist."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run, which are those of ``esipp run``."""
    from esipp.app.options import add_run_options

    add_run_options(parser.getgroup("esipp", "qualify a cluster"))


def pytest_configure(config: pytest.Config) -> None:
    """Create the run if a cluster is named. SIGTERM and SIGHUP end it as Ctrl-C does, so that teardown runs."""
    prepared = prepared_by(config)
    named = prepared or config.getoption("context") is not None or config.getoption("in_cluster")
    spread = hasattr(config, "workerinput") or getattr(config.option, "tx", None)
    if config.option.collectonly or not (named or (spread and _wants_suites(config))):
        return
    from esipp.app.options import settings_of

    try:
        with junit.promised(config.option.junit):
            if spread:
                raise ONE_PROCESS
            settings = prepared.settings if prepared else settings_of(config.option)
            config.stash[RUN] = Run(settings, say=lambda text: display.say(config, text))
    except EsippError as error:
        raise pytest.UsageError(str(error)) from None
    run = config.stash[RUN]
    run.asked = prepared.words if prepared else ()
    allure.attend(config, run)

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        run.interrupted = True
        raise KeyboardInterrupt

    for name in ENDING:
        signal.signal(name, interrupt)


def _wants_suites(config: pytest.Config) -> bool:
    """Whether the command line names something in suites/, or a folder that contains it."""
    paths = [Path(config.invocation_params.dir, argument.partition("::")[0]).resolve() for argument in config.args]
    return any(path.is_relative_to(SUITES) or SUITES.is_relative_to(path) for path in paths)


def _check(item: pytest.Item) -> Check | None:
    """The check of a collected test; tests in tests/ have none."""
    if not isinstance(item, pytest.Function) or not item.path.is_relative_to(SUITES) or not hasattr(item, "callspec"):
        return None
    given = item.callspec.params.get("check")
    return given if isinstance(given, Check) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort checks in the order of the catalogue, so that disruptive ones run last."""
    if any(map(_check, items)):
        place = {check.id: number for number, check in enumerate(all_checks())}
        items.sort(key=lambda item: place[check.id] if (check := _check(item)) else -1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Open the ledger, now that the selected checks are known."""
    run = session.config.stash.get(RUN, None)
    checks = [check for check in map(_check, session.items) if check]
    if not checks or session.config.option.collectonly:
        return
    if run is None:
        raise pytest.UsageError("the suites need --context NAME; there is no default cluster")
    selected = {check.id for check in checks}
    try:
        run.begin(checks, left_out_of(all_checks(), selected))
    except EsippError as error:
        junit.refuse(session.config.option.junit, error)
        raise pytest.UsageError(str(error)) from None
    display.show(session.config, run)


@pytest.hookimpl(wrapper=True)
def pytest_report_teststatus(config: pytest.Config) -> Generator[None, Any, Any]:
    """Hide pytest's dots beside the live display and with ``-q``; with -v, each check has a line above the display."""
    category, letter, label = yield
    quiet = display.without_dots(config) and config.get_verbosity() <= 0
    return (category, "", "") if quiet else (category, letter, label)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End the session if the harness failed: the other checks would fail the same way."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, EsippError):
        report.longrepr = str(call.excinfo.value)
    run = item.config.stash.get(RUN, None)
    if run is not None and run.trouble is not None:
        item.session.shouldfail = "the harness failed, not the product"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Say what the run came to before the last test's teardown removes everything."""
    if nextitem is None:
        display.announce(item.config)


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Set the exit code after teardown; it follows from the verdicts (docs/architecture.md, law 8)."""
    try:
        yield
    finally:
        run = session.config.stash.get(RUN, None)
        if run is not None and run.ledger is not None:
            session.exitstatus = int(run.end().exit_code)
        display.hide(session.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give the terminal back, whatever happened."""
    display.hide(config)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what the run came to, unless that was said, and where its reports are."""
    run = config.stash.get(RUN, None)
    if run is None or not run.checks:
        return
    if (detail := display.detail_of(config)) is not Detail.SENTENCE:
        terminalreporter.section("source IP qualification", sep="=")
    try:
        recorded = read_run(run.folder)
        reports = write_reports(recorded)
        lines = [
            *display.last_lines(config, recorded),
            *([] if detail is Detail.SENTENCE else reports),
            *junit.write(recorded, config.option.junit),
            *allure.surround(config, recorded),
        ]
    except EsippError as error:  # not even the header could be written
        lines = [str(error)]
    lines += [f"esipp: {each}" for each in (run.trouble, *run.later) if each]
    for line in display.for_github(run.folder, lines):
        terminalreporter.write_line(line)
