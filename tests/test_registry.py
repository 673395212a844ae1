"""Registries find classes by name, of ours and of installed packages."""

import sys
import textwrap

import pytest

from noisegate.errors import OptionError
from noisegate.methods.registry import METHODS
from noisegate.registry import Registry

PACKAGE = {
    "shapes/__init__.py": "",
    "shapes/base.py": "from noisegate.registry import Registry\nSHAPES = Registry('shapes', 'shape')\n",
    "shapes/big_square.py": "from .base import SHAPES\n@SHAPES.register('big-square', 'block')\nclass Square: pass\n",
    "shapes/round.py": "from .base import SHAPES\n@SHAPES.register('circle')\nclass Circle: pass\n",
    "other/__init__.py": "from shapes.base import SHAPES\nclass Star: pass\n@SHAPES.register('gem')\nclass Gem: pass\n"
    "class Circle: pass\n",
    "other-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 1.0\n",
    "other-1.0.dist-info/entry_points.txt": "[shapes]\nstar = other:Star\ngem = other:Gem\ncircle = other:Circle\n"
    "lost = other:Lost\n",
}


@pytest.fixture
def shapes(tmp_path, monkeypatch):
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    from shapes.base import SHAPES

    yield SHAPES
    for name in [name for name in sys.modules if name.split(".")[0] in ("shapes", "other")]:
        del sys.modules[name]


def test_a_class_is_imported_when_it_is_looked_for(shapes):
    assert shapes["big-square"].__name__ == "Square"
    assert "shapes.round" not in sys.modules
    assert shapes["block"] is shapes["big-square"]
    assert shapes["block"].name == "big-square"
    # Found by no name of a module, so in any.
    assert shapes["gem"].name == "gem"
    assert "shapes.round" in sys.modules


def test_installed_packages_add_classes(shapes):
    assert list(shapes) == ["big-square", "block", "circle", "gem", "lost", "star"]
    assert shapes["star"].__module__ == "other"
    assert shapes["star"] is shapes["star"]
    with pytest.raises(OptionError, match="shape='lost' of an installed package cannot be loaded"):
        shapes["lost"]


def test_duplicates_are_refused(shapes):
    with pytest.raises(OptionError, match=r"shape='circle' is shapes.round.Circle already; give other.Circle another"):
        shapes["circle"]
    with pytest.raises(OptionError, match=r"shape='block' is shapes\.big_square\.Square already"):

        @shapes.register("cube", "block")
        class Cube:
            pass


def test_an_unknown_name_is_refused_with_the_choices(shapes):
    for name in ("sphere", "", None, ["circle"]):
        with pytest.raises(OptionError, match="is not known; choose one of any, big-square, block, circle"):
            shapes.find(name, "any")
    assert "sphere" not in shapes
    assert "circle-2" not in shapes


def test_every_method_has_the_name_that_it_is_found_by():
    assert isinstance(METHODS, Registry)
    for name, method in METHODS.items():
        assert method.name == name or (name, method.name) == ("mepf", "dp-mepf")
