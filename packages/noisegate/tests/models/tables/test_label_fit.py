"""The label of a mixture: effects are found, noise gives none, and interactions are left to the mixture."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, integer
from tests.shared.noisy_tables import numbered_domain, numbered_table

from noisegate import Gate, Pairwise, Schema
from noisegate.models.labelled import LabelledMixture
from noisegate.models.linked.fit import with_start
from noisegate.models.mixture import Mixture
from noisegate.models.tables.label_fit import LabelFit
from noisegate.models.tables.packed_tables import PackedTables, pack_tables, split
from noisegate.schema.linked.links import STEPS, LinkColumns
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable

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
    random, tables = np.random.default_rng(seed), []
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


# The fit of a link sets out from what is known of its steps.

PEOPLE = LinkedTable(name="people", key="id", schema=Schema([boolean("ill")]))
PAIN = Schema([integer("pain", 0, 2, missing=True)])
LINK = LinkedSchema(
    [PEOPLE, LinkedTable(name="visits", schema=PAIN, parent="people", most=3)]
).links[0]
COLUMNS = LinkColumns.of(LINK)
LINK_START_SIZES = [
    4,
    4,
    4,
    2,
    3,
]  # number, pain before and now with missing, ill, step
NUMBERS = np.array([400.0, 200.0, 0.0, 400.0])  # none, one, and three children
NONE, FIRST, NEXT = (STEPS.index(step) for step in ("none", "first", "next"))


def tables(pair: np.ndarray | None = None, noise_std: float = 1.0) -> PackedTables:
    """Tables of 1,000 parents, of pain before and now."""
    now = np.array(
        [200.0, 200.0, 100.0, 500.0]
    )  # of the 500 missing ones 400 are of no child
    before = np.append(
        800 / 3 * np.array([0.2, 0.2, 0.4]), 1000 - 640 / 3
    )  # of 800 / 3 next ones 0.2 are missing
    noisy_tables = [
        numbered_table(columns=(COLUMNS.children[0],), counts=now, noise_std=1.0),
        numbered_table(columns=(COLUMNS.previous[0],), counts=before, noise_std=1.0),
    ]
    if pair is not None:
        noisy_tables.append(
            numbered_table(
                columns=(COLUMNS.previous[0], COLUMNS.children[0]),
                counts=pair,
                noise_std=noise_std,
            )
        )
    packed = pack_tables(noisy_tables, numbered_domain(LINK_START_SIZES), None)
    return with_start(packed, COLUMNS, NUMBERS, np.arange(4))


def test_the_steps_come_as_often_as_the_numbers_say() -> None:
    start = tables().start
    assert start is not None
    expected = {NONE: 0.4, FIRST: 0.2 + 0.4 / 3, NEXT: 0.4 * 2 / 3}
    assert start.weights.tolist() == pytest.approx(
        [expected[step] for step in range(3)]
    )
    spans = tables().column_slices
    number = start.cells[:, spans[COLUMNS.number]]
    assert number[NONE].tolist() == pytest.approx([1, 0, 0, 0], abs=1e-6)
    assert number[FIRST].tolist() == pytest.approx([0, 0.6, 0, 0.4], abs=1e-6)
    assert number[NEXT].tolist() == pytest.approx([0, 0, 0, 1], abs=1e-6)


def test_what_is_not_there_is_missing_and_what_is_there_as_often_as_its_column_says() -> (
    None
):
    packed = tables()
    assert packed.start is not None
    now, before = (
        packed.column_slices[column]
        for column in (COLUMNS.children[0], COLUMNS.previous[0])
    )
    for step, child, previous in ((NONE, 0, 0), (FIRST, 1, 0), (NEXT, 1, 1)):
        of_now, of_before = [1 / 3, 1 / 3, 1 / 6, 1 / 6], [0.2, 0.2, 0.4, 0.2]
        for span, there, present in (
            (now, of_now, child),
            (before, of_before, previous),
        ):
            row = packed.start.cells[step, span].tolist()
            assert row == pytest.approx(there if present else [0, 0, 0, 1], abs=0.005)


def test_a_pair_that_drowns_is_as_the_start_has_it_and_a_clear_one_as_released() -> (
    None
):
    drowned = tables(np.zeros((4, 4)), noise_std=1e9)
    assert drowned.start is not None
    expected = (
        drowned.class_counts[0]
        * (drowned.start.cells.T * drowned.start.weights)
        @ drowned.start.cells
    )
    block = (
        drowned.column_slices[COLUMNS.previous[0]],
        drowned.column_slices[COLUMNS.children[0]],
    )
    assert drowned.pair_counts[0][block] == pytest.approx(expected[block], rel=1e-3)
    clear = np.diag([100.0, 100.0, 50.0, 500.0])
    assert tables(clear, noise_std=0.01).pair_counts[0][block] == pytest.approx(
        clear, abs=0.1
    )
