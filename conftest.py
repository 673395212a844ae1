"""Options and fixtures that every test may use."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from tests import shapes

# As `make test` has it: the suite is parallel already, and small products on many threads
# take ten times as long where others work. It is read where torch is first imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

shapes.install()

from tests.randomness import Randomness, room  # noqa: E402 - it imports the package, whose shapes are checked from here on

# No deadline and no check of how fast examples come: a busy machine is no failure. The same examples every time, as all
# other randomness of a test follows from its name.
hypothesis.settings.register_profile(
    "noisegate",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("noisegate")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Randomness())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--data",
        default=None,
        help="folder with the data sets adult/, mnist/, cifar10/",
    )
    parser.addoption(
        "--shapes",
        action="store_true",
        help="check the shapes of arrays and tensors in every test",
    )
    parser.addoption(
        "--kernels-by-place",
        action="store_true",
        help="matrix products round by the place of a row",
    )


@pytest.fixture(autouse=True, scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the ledger and the runs of whoever runs the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name)))
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, one in a process: Playwright begins no second time beside itself."""
    program = next(
        filter(
            None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
        ),
        None,
    )
    if program is None:
        pytest.skip(
            "needs Chromium on PATH; continuous integration installs it with .ci/chromium"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(autouse=True)
def _shapes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    everywhere = request.config.getoption("--shapes")
    monkeypatch.setattr(
        shapes,
        "checking",
        everywhere or room(request.node.nodeid).startswith(shapes.ROOMS),
    )


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Puts signals back in order after each test: the program ignores them at its end, and so would what is started."""
    before = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _no_runs_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no test be warned of the runs of those before it."""
    if "noisegate.gate.unbooked" in sys.modules:
        monkeypatch.setattr("noisegate.gate.unbooked._RUNS", [])


@pytest.fixture(autouse=True)
def _kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    if not request.config.getoption("--kernels-by-place"):
        yield
        return
    from tests.kernels import ByPlace

    with ByPlace():
        yield


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    folder = request.config.getoption("--data")
    if folder is None:
        pytest.skip("needs the data sets; give their folder with --data=DIR")
    return Path(folder)
