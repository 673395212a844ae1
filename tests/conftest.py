"""Options and fixtures that every test may use."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--data", default=None, help="folder with the data sets adult/, mnist/, cifar10/")


@pytest.fixture(scope="session")
def data_dir(request: pytest.FixtureRequest) -> Path:
    folder = request.config.getoption("--data")
    if folder is None:
        pytest.skip("needs the data sets; give their folder with --data=DIR")
    return Path(folder)
