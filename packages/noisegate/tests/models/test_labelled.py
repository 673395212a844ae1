"""A label on top of a mixture: p(x) p(k | x), drawn, asked, conditioned, saved."""

import itertools

import numpy as np
import pytest

from noisegate.models.labelled import LabelledMixture, LabelModel

from .test_mixture import SCHEMA, assert_close_to, drawn, joint, mixture, shares

LABEL = 3  # age, rate, job, member with 4, 2, 4 and 2 cells


def labelled(weight=0.0, seed=0):
    numbers = np.random.default_rng(seed)
    effects = tuple(numbers.normal(size=(2, size)) for size in (4, 2, 4))
    return LabelledMixture(
        mixture=mixture(),
        label=LabelModel(
            column=LABEL,
            bias=np.array([0.3, -0.3]),
            effects=effects,
            mixture_weight=weight,
        ),
    )


def by_definition(model):
    """p(x) p(k | x) of every combination of cells, (4, 2, 4, 2)."""
    whole = joint(model.mixture)
    label = model.label
    axis = label.column
    scores = np.zeros(whole.shape)
    for cells in itertools.product(*map(range, whole.shape)):
        others = cells[:axis] + cells[axis + 1 :]
        scores[cells] = label.bias[cells[axis]] + sum(
            effects[cells[axis], cell]
            for effects, cell in zip(label.effects, others, strict=True)
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.exp(scores) * np.where(whole > 0, whole, 0) ** label.mixture_weight
        conditional = odds / odds.sum(axis=axis, keepdims=True)
    return whole.sum(axis=axis, keepdims=True) * np.nan_to_num(conditional)


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_what_is_drawn_and_what_is_said_is_the_definition(weight):
    model = labelled(weight)
    expected = by_definition(model)
    assert expected.sum() == pytest.approx(1)
    records = drawn(model)
    assert_close_to(shares(model.mixture, records), expected, len(records))
    with pytest.raises(AssertionError):
        assert_close_to(
            shares(model.mixture, records), joint(model.mixture), len(records)
        )


def test_marginals_of_the_label_follow_its_model_and_others_the_mixture():
    model = labelled(0.4)
    expected = by_definition(model)
    np.testing.assert_array_equal(
        model.marginal([2, 0]), model.mixture.marginal([2, 0])
    )
    np.testing.assert_allclose(
        model.marginal([LABEL]), expected.sum(axis=(0, 1, 2)), atol=0.01
    )
    np.testing.assert_allclose(
        model.marginal([LABEL, 2]), expected.sum(axis=(0, 1)).T, atol=0.01
    )


@pytest.mark.parametrize(
    "where",
    [{"member": True}, {"member": True, "age": (0, 3)}, {"age": None}, {"job": "b"}],
)
def test_conditions_hold_whether_they_name_the_label_or_not(where):
    model = labelled(0.4)
    region = SCHEMA.region(where)
    records = drawn(model, rows=60_000)
    inside = region.contains(records)
    assert model.probability(region) == pytest.approx(inside.mean(), abs=0.01)
    conditioned = drawn(model.given(region), rows=60_000, seed=1)
    conditioned = conditioned.rows(region.contains(conditioned))
    assert len(conditioned) > 5000
    expected = shares(model.mixture, records.rows(inside))
    np.testing.assert_allclose(shares(model.mixture, conditioned), expected, atol=0.025)
    assert np.abs(shares(model.mixture, records) - expected).max() > 0.03


def test_a_numeric_label_is_drawn_as_a_cell_and_a_value_in_it():
    numbers = np.random.default_rng(3)
    effects = tuple(numbers.normal(size=(4, size)) for size in (2, 4, 2))
    label = LabelModel(column=0, bias=np.zeros(4), effects=effects, mixture_weight=0.0)
    model = LabelledMixture(mixture=mixture(), label=label)
    records = drawn(model)
    expected = by_definition(model)
    assert_close_to(shares(model.mixture, records), expected, len(records))
    region = SCHEMA.region({"age": (0, 1), "job": "b"})
    inside = region.contains(records)
    assert model.probability(region) == pytest.approx(inside.mean(), abs=0.01)
    assert np.isnan(records.numeric[:, 0]).mean() == pytest.approx(
        model.marginal([0])[-1], abs=0.01
    )
    conditioned = drawn(model.given(region), seed=1)
    assert (conditioned.codes[:, 0] == 1).all()
    assert region.contains(conditioned).mean() == pytest.approx(
        inside.sum() / (records.codes[:, 0] == 1).sum(), abs=0.03
    )
