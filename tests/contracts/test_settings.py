"""What a setting refuses, for every setting of every method and fit: values made from its annotation."""

import math
from dataclasses import fields
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from noisegate.errors import ModelError, OptionError
from noisegate.methods.registry import METHODS
from noisegate.settings import Within

CLASSES = {name: METHODS[name] for name in METHODS}
CLASSES |= {
    kind.__name__: kind
    for kind in (METHODS[name].fit_class for name in METHODS)
    if kind is not None
}
OF_TYPE = {int: (True, 1.5, "1"), float: (True, "1"), bool: (1, "yes"), str: (3,)}


def out_of_bounds(metadata, number):
    """Values beside each bound of an annotation; "not a number" where it has one."""
    bounds = [bound.bounds for bound in metadata if isinstance(bound, Within)]
    step = 1 if number is int else 1e-9
    for bound in bounds:
        for kind, away in (("ge", -step), ("gt", 0), ("le", step), ("lt", 0)):
            if math.isfinite(bound.get(kind, math.inf)):
                yield number(bound[kind] + away * max(1, abs(bound[kind])))
    if bounds and number is float:
        yield math.nan


def unusable(hint):
    """Values that an annotation does not allow."""
    kind = get_origin(hint)
    parts = get_args(hint)
    if kind is Annotated:
        inner = parts[0]
        yield from unusable(inner)
        if inner in (int, float):
            yield from out_of_bounds(hint.__metadata__, inner)
    elif kind is Literal:
        yield from ("no such choice", ["no such choice"])
    elif kind in (Union, UnionType):
        every = [list(unusable(part)) for part in parts if part is not NoneType]
        yield from every[0] if len(every) == 1 else ()
    elif kind is tuple:
        yield "no list"
        yield from ((value,) for value in unusable(parts[0]) if value != "1")
    elif kind is not None:  # a mapping
        yield 3
        yield from (
            {"x": value} for value in (() if parts[1] is Any else unusable(parts[1]))
        )
    else:
        yield from OF_TYPE.get(hint, ())


def cases(kind):
    """Returns the settings of a class, each with values that it refuses."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: list(unusable(hints[field.name]))
        for field in fields(kind)
        if field.init
    }


@pytest.mark.parametrize("name", CLASSES)
def test_a_setting_refuses_what_its_annotation_does_not_allow(name):
    kind = CLASSES[name]
    for setting, value in (
        (setting, value) for setting, values in cases(kind).items() for value in values
    ):
        with pytest.raises(OptionError) as refused:
            kind(**{setting: value})
        text = str(refused.value)
        assert text.startswith((f"{setting}={value!r} ", f"{setting}['x']=")), text
        assert " must be " in text or " is not known; choose one of " in text, text
        with pytest.raises(ModelError, match="settings of"):
            kind.from_json({setting: value})


def test_nearly_every_setting_has_values_that_it_refuses():
    """Else the test above would say nothing."""
    every = [
        (name, *case) for name, kind in CLASSES.items() for case in cases(kind).items()
    ]
    without = [(name, setting) for name, setting, values in every if not values]
    assert len(without) < 0.1 * len(every), without
