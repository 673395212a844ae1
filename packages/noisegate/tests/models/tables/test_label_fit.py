"""The label of a mixture: effects are found, noise gives none, and interactions are left to the mixture."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical
from tests.shared.noisy_tables import numbered_domain, numbered_table

from noisegate import Gate, Pairwise, Schema
from noisegate.models.labelled import LabelledMixture
from noisegate.models.mixture import Mixture
from noisegate.models.tables.label_fit import LabelFit
from noisegate.models.tables.packed_tables import pack_tables, split

SIZES = (4, 6, 3)
RECORDS = 40_000


def truth(kind, classes=2):
    """p(x, k) as a table of three columns and a label."""
    numbers = np.random.default_rng(5)
    records = np.einsum(
        "a,b,c->abc", *(numbers.dirichlet(np.full(size, 5.0)) for size in SIZES)
    )
    scores = np.zeros((*SIZES, classes))
    if kind == "effects":
        for index, size in enumerate(SIZES[:2]):
            shape = [1, 1, 1, classes]
            shape[index] = size
            scores += 1.5 * numbers.normal(size=(size, classes)).reshape(shape)
    if kind == "interactions":
        sign = np.where(np.arange(4)[:, None] < 2, 1, -1) * np.where(
            np.arange(6) < 3, 1, -1
        )
        scores[..., 1] = 2.5 * sign[:, :, None]
    odds = np.exp(scores)
    return records[..., None] * odds / odds.sum(axis=-1, keepdims=True)


def released(joint, noise_std, seed=0):
    random = np.random.default_rng(seed)
    tables = []
    for columns in [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]:
        counts = RECORDS * joint.sum(
            axis=tuple(axis for axis in range(3) if axis not in columns)
        )
        noisy = counts + random.normal(scale=noise_std, size=counts.shape)
        tables.append(
            numbered_table(columns=(*columns, 3), counts=noisy, noise_std=noise_std)
        )
    return tables


def as_mixture(joint):
    """The table as a mixture of one component for each combination of cells."""
    columns = [
        categorical(f"c{index}", "abcdef"[:size]) for index, size in enumerate(SIZES)
    ]
    layout = Schema(
        [*columns, categorical("y", map(str, range(joint.shape[-1])))], label="y"
    ).layout
    cells = np.indices(joint.shape).reshape(4, -1)
    tables = tuple(
        np.eye(size)[of] for size, of in zip(joint.shape, cells, strict=True)
    )
    return Mixture(
        layout=layout, within=(), weights=joint.ravel(), probabilities=tables
    )


def fitted(joint, tables, weight=0.0):
    fit = LabelFit(
        3, pack_tables(tables, numbered_domain(joint.shape), 3), (0, 0, 0), seed=0
    )
    return fit.model(as_mixture(joint), weight)


def posterior(joint):
    return joint / joint.sum(axis=-1, keepdims=True)


def label_shares(model, joint):
    cells = np.indices(joint.shape[:-1]).reshape(3, -1).T
    cells = np.concatenate([cells, np.zeros((len(cells), 1), int)], axis=1)
    return model.probabilities(cells, as_mixture(joint)).reshape(joint.shape)


@pytest.mark.parametrize("classes", [2, 4])
def test_effects_are_found(classes):
    joint = truth("effects", classes)
    conditional = label_shares(fitted(joint, released(joint, 5.0)), joint)
    np.testing.assert_allclose(conditional, posterior(joint), atol=0.05)
    assert np.abs(posterior(joint) - joint.sum(axis=(0, 1, 2))).max() > 0.3


@pytest.mark.parametrize(
    ("noise_std", "most"), [(50.0, 0.03), (2000.0, 0.25), (1e5, 0.25)]
)
def test_noise_alone_gives_little_effect(noise_std, most):
    joint = truth("nothing")
    conditional = label_shares(fitted(joint, released(joint, noise_std)), joint)[
        0, :, 0, 1
    ]
    # What the noisy counts say by themselves: 0.5 +- 0.2 at the second, and anything at the third.
    assert np.abs(conditional - conditional.mean()).max() < most


@pytest.mark.parametrize(
    ("kind", "weights"),
    [("effects", {0.0}), ("nothing", {0.1}), ("interactions", {0.4, 1.0})],
)
def test_the_mixture_is_asked_where_effects_do_not_say_it(kind, weights):
    joint = truth(kind)
    tables = released(joint, 20.0)
    trial, judge = (
        pack_tables(half, numbered_domain(joint.shape), 3)
        for half in split(tables, np.random.default_rng(0))
    )
    fit = LabelFit(
        3, pack_tables(tables, numbered_domain(joint.shape), 3), (0, 0, 0), seed=0
    )
    assert fit.choose_mixture_weight(trial, judge, as_mixture(joint)) in weights


@pytest.mark.parametrize("levels", [2, 9])
def test_a_fit_of_records_has_a_label_model(levels):
    numbers = np.random.default_rng(0)
    flags = numbers.integers(0, 2, size=(4000, 3)).astype(bool)
    label = (flags[:, 0] * (levels - 1) + (numbers.random(4000) < 0.1)) % levels
    columns = [boolean(f"f{index}") for index in range(3)]
    schema = Schema([*columns, categorical("y", map(str, range(levels)))], label="y")
    table = pa.table(
        {**{f"f{index}": flags[:, index] for index in range(3)}, "y": label.astype(str)}
    )
    method = Pairwise(fit_options={"components": 20, "steps": 50})
    release = method.query(Gate(table, schema=schema, epsilon=5.0))
    fit = method.fitting(release)
    fit.run()
    model = fit.model()
    assert isinstance(model, LabelledMixture)
    shares = model.marginal([0, 3])
    shares /= shares.sum(axis=1, keepdims=True)
    assert shares[0, 0] > 0.8
    assert shares[1, levels - 1] > 0.8
