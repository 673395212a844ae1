"""Registries find classes by name, of ours and of installed packages."""

import sys
import textwrap

import pytest

from noisegate.errors import OptionError
from noisegate.methods.registry import METHODS
from noisegate.registry import Registry, extensions

PACKAGE = {
    "shapes/__init__.py": "from noisegate.registry import Registry\nSHAPES = Registry('shapes', 'shape')\n",
    "shapes/square.py": "from . import SHAPES\n@SHAPES.register('big-square', 'block')\nclass Square: pass\n",
    "shapes/round.py": "class Circle: pass\n",
    "shapes-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: shapes\nVersion: 1.0\n",
    "shapes-1.0.dist-info/entry_points.txt": "[shapes]\nbig-square = shapes.square:Square\n"
    "block = shapes.square:Square\ncircle = shapes.round:Circle\n",
    "other/__init__.py": "class Star: pass\n",
    "other-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n",
    "other-1.0.dist-info/entry_points.txt": "[shapes]\nstar = other:Star\nlost = other:Lost\n",
}
CLASHING = {
    "third-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: third\nVersion: 1.0\n",
    "third-1.0.dist-info/entry_points.txt": "[shapes]\ncircle = third:Circle\n",
}


def installed(folder, package):
    for name, text in package.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(textwrap.dedent(text))
    return folder


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(installed(tmp_path, PACKAGE))
    from shapes import SHAPES

    yield SHAPES
    for name in [
        name for name in sys.modules if name.split(".")[0] in ("shapes", "other")
    ]:
        del sys.modules[name]


def test_a_class_is_imported_when_it_is_looked_for(shapes):
    assert shapes["big-square"].__name__ == "Square"
    assert "shapes.round" not in sys.modules
    assert shapes["block"] is shapes["big-square"]
    assert shapes["block"].name == "big-square"
    assert shapes["circle"].name == "circle"


def test_installed_packages_add_classes(shapes):
    assert list(shapes) == ["big-square", "block", "circle", "lost", "star"]
    assert shapes["star"].__module__ == "other"
    assert shapes["star"].name == "star"
    with pytest.raises(
        OptionError, match="shape='lost' of an installed package cannot be loaded"
    ):
        shapes["lost"]


def test_duplicates_are_refused(shapes, tmp_path, monkeypatch):
    assert shapes["block"]
    with pytest.raises(
        OptionError, match=r"shape='block' is shapes\.square\.Square already"
    ):

        @shapes.register("cube", "block")
        class Cube:
            pass

    monkeypatch.syspath_prepend(installed(tmp_path / "third", CLASHING))
    with pytest.raises(OptionError, match="two installed packages add 'circle'"):
        shapes["circle"]


def test_an_unknown_name_is_refused_with_the_choices(shapes):
    for name in ("sphere", "", None, ["circle"]):
        with pytest.raises(
            OptionError,
            match="is not known; choose one of any, big-square, block, circle",
        ):
            shapes.find(name, "any")
    assert "sphere" not in shapes


def test_every_method_has_the_name_that_it_is_found_by():
    assert isinstance(METHODS, Registry)
    for name, method in METHODS.items():
        assert method.name == name or (name, method.name) == ("mepf", "dp-mepf")


GROUPS = "demos methods models names pages pictures readers verbs"


@pytest.mark.parametrize("group", GROUPS.split())
def test_whatever_an_entry_point_names_is_there(group):
    points = extensions(f"noisegate.{group}")
    assert points
    assert all(callable(point.load()) for point in points.values())
