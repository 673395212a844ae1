"""Settings are checked in one dialect, go through JSON, and keep the names that they had."""

import json
import re
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import pytest

from noisegate.errors import ModelError, OptionError
from noisegate.settings import (
    Count,
    Fraction,
    ImageSize,
    Names,
    Options,
    Positive,
    Seed,
    Settings,
    Share,
    Widths,
    Within,
    derived,
    settings,
)


@settings
class Base(Settings):
    steps: Count = 10
    seed: Seed = 0


@settings
class Example(Base):
    """An example."""

    name = "example"
    renamed: ClassVar = {"rate": "sampling_probability"}

    kind: Literal["few", "many"] = "few"
    widths: Widths = derived(
        lambda values: (8,) if values["kind"] == "few" else (64, 64)
    )
    rank: Count | None = None
    share: Share = 1.0
    sampling_probability: Fraction = 0.5
    scale: Positive = 1.0
    image: ImageSize | None = None
    names: Names = ()
    flag: bool = True
    scales: Mapping[str, Share] = field(default_factory=dict)
    fit_options: Options = field(default_factory=dict)
    text: str = "a"
    cells: Annotated[int, Within(ge=2), "a whole number, 2 or more"] = 4

    def __post_init__(self):
        if self.rank is not None and self.rank > self.steps:
            raise OptionError(f"rank={self.rank} is above steps={self.steps}.")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "steps=0 must be a positive whole number."),
        (
            {"seed": -1},
            "seed=-1 must be a whole number, 0 or more, at most 9,223,372,036,854,775,807.",
        ),
        ({"kind": "some"}, "kind='some' is not known; choose one of few, many."),
        (
            {"widths": [8, 0]},
            "widths=[8, 0] must be positive whole numbers, as in (32, 64).",
        ),
        ({"rank": 0}, "rank=0 must be a positive whole number, or None."),
        ({"rank": 11}, "rank=11 is above steps=10."),
        ({"share": 0}, "share=0 must be a positive number, at most 1000."),
        ({"share": 10**400}, "must be a positive number, at most 1000."),
        (
            {"sampling_probability": 1.5},
            "sampling_probability=1.5 must be a number above 0, at most 1.",
        ),
        (
            {"image": (28, 28)},
            "image=(28, 28) must be (height, width, channels) of the images",
        ),
        ({"names": [1]}, "names=[1] must be a list of names."),
        ({"flag": 1}, "flag=1 must be true or false."),
        (
            {"scales": {"x": 0}},
            "scales['x']=0 must be a positive number, at most 1000.",
        ),
        ({"scales": 3}, "scales=3 must be names, each with"),
        ({"fit_options": 3}, "fit_options=3 must be names with values."),
        ({"text": 3}, "text=3 must be text."),
        ({"cells": 1}, "cells=1 must be a whole number, 2 or more."),
        (
            {"stepps": 3},
            "stepps=3: example has no such setting; it has steps, seed, kind, widths, rank",
        ),
    ],
)
def test_an_unusable_setting_is_named_with_its_value_and_what_was_expected(
    values, message
):
    with pytest.raises(OptionError) as refused:
        Example(**values)
    assert message in str(refused.value)
    with pytest.raises(
        ModelError, match="settings of example in the certificate are broken"
    ):
        Example.from_json(values)


def test_what_is_usable_is_kept():
    example = Example(
        steps=3, widths=[1, 2], image=[8, 8, 1], share=2, scales={"x": 1}, rank=3
    )
    assert example.steps == 3
    assert example.widths == (1, 2)
    assert example.image == (8, 8, 1)
    assert example.rank == 3
    assert type(example.share) is float
    assert type(example.scales["x"]) is float
    assert Example.steps == 10  # a default can be read off the class
    example = Example(
        share=np.float32(0.5), scales={"x": np.int64(1)}, names=(name for name in "ab")
    )
    assert example.share == 0.5
    assert type(example.share) is float
    assert type(example.scales["x"]) is float
    assert example.names == ("a", "b")
    with pytest.raises(FrozenInstanceError):
        example.steps = 4
    with pytest.raises(TypeError):
        Example(3)


def test_what_was_given_is_named_before_what_follows_from_it_or_is_missing():
    @settings
    class Two(Settings):
        first: Count = derived(lambda values: -values["second"])
        second: Count
        third: Count = 1

    for values, message in (
        ({"second": 0, "third": 0}, "second=0 must be a positive whole number."),
        ({"third": 0}, "third=0 must be a positive whole number."),
        (
            {"other": 0},
            "other=0: Two has no such setting; it has first, second, third.",
        ),
        ({}, "first=None must be a positive whole number."),
        ({"first": 1}, "second is missing; it must be a positive whole number."),
    ):
        with pytest.raises(OptionError, match=re.escape(message)):
            Two(**values)


def test_a_type_with_a_bound_that_nothing_reads_is_refused_at_once():
    @settings
    class Foreign(Settings):
        cells: Annotated[int, {"ge": 2}] = 4

    with pytest.raises(AttributeError, match="holds"):
        Foreign(cells=3)


def test_a_default_may_follow_from_another_setting():
    assert Example().widths == (8,)
    assert (
        Example(kind="many").widths
        == Example(kind="many", widths=None).widths
        == (64, 64)
    )
    assert Example(kind="many", widths=(3,)).widths == (3,)
    assert replace(Example(kind="many"), steps=3).widths == (64, 64)


def test_settings_go_through_json():
    example = Example(
        kind="many",
        image=(8, 8, 1),
        scales={"x": 0.5},
        names=("a", "b"),
        fit_options={"steps": 4},
    )
    assert Example.from_json(json.loads(json.dumps(example.to_json()))) == example
    assert example.to_json()["widths"] == [64, 64]
    # Under the name that it had first.
    assert list(example.to_json()) == [
        "rate" if field.name == "sampling_probability" else field.name
        for field in fields(Example)
    ]


def test_a_stored_setting_with_an_old_name_is_still_read():
    assert Example.from_json({"rate": 0.25}) == Example(sampling_probability=0.25)
    with pytest.raises(
        OptionError, match=r"has no such setting; it has .*sampling_probability"
    ):
        Example(rate=0.25)
