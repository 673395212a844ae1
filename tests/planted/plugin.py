"""The pytest plugin that plants a bug: `pytest -p tests.planted.plugin --plant NAME tests/…`, from the repository root.

It sees to it that every test that is named on the command line finds the bug, and that it does so by a failing check:
a test that stops at code that cannot be run has found nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.planted.all_bugs import ALL
from tests.planted.finders import located
from tests.planted.patches import CannotPlantError, Plant

BROKEN = (ImportError, NameError, AttributeError, SyntaxError, TypeError)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--plant",
        metavar="NAME",
        default=None,
        help="break the library on purpose (tests/planted)",
    )


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--plant")
    if name is None:
        return
    try:
        bug = ALL[name]
        plant = Plant()
        bug.apply(plant)
    except (KeyError, CannotPlantError) as error:
        raise pytest.UsageError(f"bug {name!r} cannot be planted: {error}") from error
    config.add_cleanup(lambda: plant.__exit__(None, None, None))
    config.pluginmanager.register(
        _Witness({located(test) for test in bug.tests}), "planted-witness"
    )


class _Witness:
    """Which of the named tests found the bug, and how."""

    def __init__(self, wanted: set[str]) -> None:
        self._open = wanted
        self._skipped: dict[str, str] = {}
        self._said: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if not self._target(item):
            pytest.skip("found already")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        report = yield
        target = self._target(item)
        if target and call.excinfo and report.skipped:
            self._skipped[target] = str(call.excinfo.value)
        elif target and call.excinfo and report.failed:
            kind = call.excinfo.typename
            broken = call.excinfo.errisinstance(BROKEN) or call.when != "call"
            self._said.append(
                f"planted: {'BROKEN' if broken else 'found'} {item.nodeid} {call.when} {kind}"
            )
            if not broken:
                self._open.discard(target)
        return report

    def _target(self, item: pytest.Item) -> str | None:
        return next(
            (
                test
                for test in (item.nodeid, item.nodeid.partition("[")[0])
                if test in self._open
            ),
            None,
        )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for test in sorted(self._open):
            why = self._skipped.get(test)
            self._said.append(
                f"planted: MISSED {test}"
                if why is None
                else f"planted: SKIPPED {test}: {why}"
            )

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        for line in self._said:
            terminalreporter.write_line(line)
