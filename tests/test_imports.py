"""Every module can be imported on its own, and the public names are the ones that are promised."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

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
    if "_old_names" not in module.module_finder.path
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
        (public_names.METHODS_PAGE, public_names.methods_page),
    ],
    ids=["stub", "what tries it", "page of methods"],
)
def test_type_checkers_read_the_public_names_that_there_are(file, written):
    again = "write it again with: python tests/house/public_names.py"
    assert file.read_text(encoding="utf-8") == written(), again


OLD_NAMES = Path(noisegate.__file__).parent / "_old_names"


@pytest.mark.parametrize(
    "path", sorted(OLD_NAMES.rglob("*.py")), ids=lambda path: path.stem
)
def test_modules_that_were_moved_are_found_by_their_old_names(path):
    old_name = ".".join(
        ("noisegate", *path.relative_to(OLD_NAMES).with_suffix("").parts)
    )
    new_name = re.search(r"from (noisegate\.[\w.]+) import", path.read_text("utf-8"))[1]
    with pytest.warns(DeprecationWarning, match=re.escape(f"now {new_name};")):
        old = importlib.import_module(old_name)
    new = importlib.import_module(new_name)
    names = getattr(new, "__all__", vars(new))
    public = [name for name in names if not name.startswith("_")]
    assert public
    assert all(getattr(old, name) is getattr(new, name) for name in public)


# With these rooms gone, what does not need them goes on working.
BLOCKED = """
import sys
from pathlib import Path
for room in sys.argv[1].split():
    sys.modules["noisegate." + room] = None
"""
FIT = """
import pyarrow as pa
from noisegate import Schema, synthesize
from noisegate.schema import Boolean
table = pa.table({"ill": [True, False] * 100})
model = synthesize(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0)
assert len(model.sample(5)) == 5
model.save(sys.argv[2])
"""
SAMPLE = """
from noisegate.models.folder import verify
from noisegate.models.synthesizer import Synthesizer
assert verify(sys.argv[2]).certificate.epsilon == 1.0
assert len(Synthesizer.load(sys.argv[2]).sample(5)) == 5
"""


@pytest.mark.parametrize(
    ("rooms", "program"),
    [
        ("answers.infer answers.evidence answers.worth", FIT),
        ("gate.streams gate.silos gate.discovery gate.engines", FIT),
        ("app.cli app.drafts app.start app.streams app.silos app.signature", FIT),
        ("methods.linked models.linked schema.linked sources.linked", FIT),
        ("app gate methods sources ledger", SAMPLE),
    ],
)
def test_what_does_not_need_a_room_works_without_it(tmp_path, rooms, program):
    fit = [sys.executable, "-W", "ignore", "-c", BLOCKED + FIT, "", str(tmp_path / "m")]
    tried = [sys.executable, "-W", "ignore", "-c", BLOCKED + program, rooms]
    if program is SAMPLE:
        subprocess.run(fit, check=True)
    ended = subprocess.run(
        [*tried, str(tmp_path / "m")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
