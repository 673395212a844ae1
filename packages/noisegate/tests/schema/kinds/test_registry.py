"""Kinds of column are found by their names, and pickles of before by the modules that had them."""

import abc
import dataclasses
import inspect
import pickle
import pickletools
import re
import sys
import warnings

import pytest
from tests.house.inheritance import concrete_overrides

from noisegate import Schema
from noisegate.errors import SchemaError
from noisegate.schema import kinds
from noisegate.schema.kinds.registry import COLUMN_KINDS

# The module that a kind stood in until 0.3, by its name.
OLD_MODULES = dict.fromkeys(("boolean", "categorical", "ordinal"), "values")


def test_every_kind_of_the_project_is_found_by_its_name():
    classes = [getattr(kinds, name) for name in kinds.__all__]
    assert {kind.kind: kind for kind in classes} == dict(COLUMN_KINDS)
    for kind in classes:
        assert kind.__module__ == f"noisegate.schema.kinds.{kind.kind}"
        assert next(iter(dataclasses.fields(kind))).name == "name"


def test_a_class_is_abstract_or_a_kind_and_replaces_no_method_of_its_bases():
    for kind in COLUMN_KINDS.values():
        bases = [base for base in kind.__mro__[1:] if inspect.isabstract(base)]
        assert kind.__mro__[1:] == (*bases, abc.ABC, object)
        assert not inspect.isabstract(kind)
        assert not concrete_overrides([kind, *bases])


def test_an_unknown_kind_is_refused_with_those_that_there_are():
    with pytest.raises(SchemaError, match=r"unknown kind 'durations'.*duration"):
        Schema.loads('[columns.stay]\nkind = "durations"\n')


@pytest.mark.parametrize("name", sorted(set(COLUMN_KINDS) - {"duration"}))
def test_pickles_of_before_load(name):
    fields = {
        "boolean": {},
        "categorical": {"levels": ("a", "b")},
        "ordinal": {"levels": (1, 2)},
        "date": {"lower": "2020-01-01", "upper": "2020-12-31"},
        "datetime": {"lower": "2020-01-01T00:00:00", "upper": "2020-12-31T00:00:00"},
        "decimal": {"lower": 0, "upper": 1, "step": 0.1},
    }.get(name, {"lower": 0, "upper": 1})
    column = COLUMN_KINDS[name](name="x", **fields)
    # Protocol 0 is text, with the name of the module on a line of its own.
    module = f"noisegate.schema.{OLD_MODULES.get(name, 'numeric')}"
    old = re.sub(
        rb"noisegate\.schema\.kinds\.\w+\n",
        f"{module}\n".encode(),
        pickle.dumps(column, 0),
    )
    assert module in "".join(str(part) for _, part, _ in pickletools.genops(old))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert pickle.loads(old) == column
    del sys.modules[module]  # the next import warns again
