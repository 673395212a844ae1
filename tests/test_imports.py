"""Every module can be imported on its own, and the public names are the ones that are promised."""

import pkgutil
import subprocess
import sys

import pytest
from tests.house import public_names

import noisegate
import noisegate_evaluate
import noisegate_images
import noisegate_papers

PACKAGES = (noisegate, noisegate_evaluate, noisegate_images, noisegate_papers)
MODULES = [
    module.name
    for package in PACKAGES
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]

# Third-party packages stay loaded; noisegate itself is forgotten before each import, so that none leans on another.
ALONE = """
import importlib, sys, warnings
for name in sys.argv[1:]:
    for loaded in [n for n in sys.modules if n.partition(".")[0].startswith("noisegate")]:
        del sys.modules[loaded]
    importlib.import_module(name)
    print(name)
"""


@pytest.mark.slow
def test_every_module_imports_alone():
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, *MODULES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.split() == MODULES, ended.stderr


@pytest.mark.parametrize(
    ("file", "written"),
    [
        (public_names.STUB, public_names.stub),
        (public_names.TRIED, public_names.tried),
    ],
    ids=["stub", "what tries it"],
)
def test_type_checkers_read_the_public_names_that_there_are(file, written):
    again = "write it again with: python tests/house/public_names.py"
    assert file.read_text(encoding="utf-8") == written(), again
