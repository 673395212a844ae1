import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import categorical, continuous, integer

from noisegate.errors import DataError
from noisegate.schema import Boolean, Schema, pixel_schema
from noisegate_evaluate import NetworkOptions, Training, downstream_scores, twelve
from noisegate_evaluate.tables import LabelledTables

FEATURES = (
    continuous("x", -4.0, 4.0, missing=True),
    categorical("c", ("low", "high"), missing=True),
)
SCHEMA = Schema(
    columns=(*FEATURES, categorical("y", ("no", "yes"), missing=True)), label="y"
)


def people(seed, rows=300, flip=False):
    """Rows where a large x and a high c make y likely."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=rows)
    high = generator.random(rows) < 0.5
    yes = (x + high + 0.5 * generator.normal(size=rows) > 0.5) != flip
    return pa.table(
        {"x": x, "c": np.where(high, "high", "low"), "y": np.where(yes, "yes", "no")}
    )


def with_label(table, labels):
    return table.set_column(table.column_names.index("y"), "y", [labels])


def test_a_table_that_holds_the_relation_scores_high_and_a_flipped_one_low():
    test = people(0)
    good, flipped = (
        downstream_scores(people(1, flip=flip), test, SCHEMA) for flip in (False, True)
    )
    assert list(good.models) == [
        "logistic regression",
        "random forest",
        "gradient boosting",
    ]
    for model in good.models:
        assert good.models[model].roc_auc > 0.85
        assert good.models[model].f1 > 0.75
        assert flipped.models[model].roc_auc < 0.15
    assert good.mean.roc_auc == pytest.approx(
        np.mean([one.roc_auc for one in good.models.values()])
    )
    assert good.averaging == "positive class 'yes'"
    assert good.notes == ()


def test_the_same_seed_gives_the_same_scores():
    first, again, other = (
        downstream_scores(people(1), people(0), SCHEMA, seed=seed) for seed in (3, 3, 4)
    )
    assert first == again
    assert first.models["random forest"] != other.models["random forest"]


@pytest.mark.parametrize("only", ["yes", "no"])
def test_a_training_table_with_one_class_gives_constant_scores_and_a_note(only):
    test = people(0)
    report = downstream_scores(
        with_label(people(1), pa.array([only] * 300)), test, SCHEMA
    )
    share = np.mean([label == "yes" for label in test["y"].to_pylist()])
    for scores in report.models.values():
        assert scores.roc_auc == 0.5
        assert scores.average_precision == pytest.approx(share)
        assert scores.f1 == pytest.approx(
            2 * share / (1 + share) if only == "yes" else 0.0
        )
    assert any(f"only the class {only!r}" in note for note in report.notes)


def test_rows_without_a_known_label_are_left_out_and_counted():
    test = people(0)
    labels = test["y"].to_pylist()
    spoilt = with_label(test, pa.array([None, "?", "perhaps", *labels[3:]]))
    report = downstream_scores(people(1), spoilt, SCHEMA)
    assert report.models == downstream_scores(people(1), test.slice(3), SCHEMA).models
    assert report.notes == (
        "3 rows of the test table have no known 'y' and were left out",
    )


def test_unseen_levels_and_missing_values_do_not_crash():
    test = people(0)
    odd = test.set_column(
        1, "c", [pa.array(["?", "unheard-of", *test["c"].to_pylist()[2:]])]
    )
    odd = odd.set_column(0, "x", [pa.array([None, *test["x"].to_pylist()[1:]])])
    assert downstream_scores(people(1), odd, SCHEMA).mean.roc_auc > 0.85


def test_many_classes_with_one_that_training_never_saw():
    schema = Schema(columns=(integer("n", 0, 3), categorical("y", "abcd")), label="y")
    numbers = np.tile([0, 1, 2], 60)
    train = pa.table({"n": numbers, "y": np.array(["a", "b", "d"])[numbers]})
    report = downstream_scores(train, train, schema)
    assert report.mean.roc_auc == 1.0
    assert "macro" in report.averaging
    wider = np.tile([0, 1, 2, 3], 30)
    test = pa.table({"n": wider, "y": np.array(["a", "b", "d", "c"])[wider]})
    # "c" gets probability 0 everywhere: its ranking is a coin toss, and it pulls the mean down.
    assert 0.5 < downstream_scores(train, test, schema).mean.f1 <= 0.75


def test_scores_as_papers_print_them_stand_beside_those_of_the_twelve():
    report = downstream_scores(
        people(1), people(0), SCHEMA, classifiers="twelve", jobs=1
    )
    assert (
        set(report.printed)
        == set(report.models)
        == {recipe.name for recipe in twelve("tables").recipes}
    )
    # One point of a curve has no more area than the curve.
    assert all(
        one.roc_auc <= report.models[name].roc_auc + 0.02
        for name, one in report.printed.items()
    )


IMAGES = pixel_schema(8, 8, labels=(3, 5))
BRIEF = NetworkOptions(repeats=2, training=Training(epochs=30, device="cpu"))


def digits(seed, rows=60):
    """The upper half is brighter for a 3, the lower half for a 5."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, rows)
    bright = np.where(np.arange(8)[None, :] // 4 == labels[:, None], 150, 50)[
        :, :, None
    ]
    pixels = (
        np.clip(bright + generator.normal(0, 30, (rows, 8, 8)), 0, 255)
        .astype(int)
        .reshape(rows, 64)
    )
    return pa.table(
        {name: pixels[:, place] for place, name in enumerate(IMAGES.names[:-1])}
        | {"label": 3 + 2 * labels}
    )


def test_networks_leave_out_rows_without_a_label_but_need_every_pixel():
    test = digits(1)
    labels = test.column_names.index("label")
    unlabelled = test.set_column(
        labels, "label", [pa.array([None, *test["label"].to_pylist()[1:]])]
    )
    report = downstream_scores(
        digits(0), unlabelled, IMAGES, classifiers="mlp", networks=BRIEF, jobs=1
    )
    assert report.notes == (
        "1 rows of the test table have no known 'label' and were left out",
    )
    holes = test.set_column(
        3, "pixel_0_3", [pa.array([None, *test["pixel_0_3"].to_pylist()[1:]])]
    )
    with pytest.raises(DataError, match="'pixel_0_3' of the test table"):
        downstream_scores(digits(0), holes, IMAGES, classifiers="mlp", networks=BRIEF)


MIXED = Schema(
    columns=(
        integer("n", 0, 10, missing=True),
        categorical("c", "ab", missing=True),
        categorical("y", ("no", "yes")),
    ),
    label="y",
)


def mixed(n, c):
    return pa.table({"n": n, "c": c, "y": ["no"] * len(n)})


def matrix(train, table):
    return LabelledTables.of(train, table, MIXED).features()["test"]


def test_numbers_are_standardised_and_filled_by_the_training_table():
    train = mixed([0, 2, 10, None], ["a"] * 4)
    found = matrix(train, mixed([4, None], ["a", "a"]))
    unit = np.array([0.0, 0.2, 1.0])
    expected = (
        np.array([0.4, 0.2]) - unit.mean()
    ) / unit.std()  # the median fills the second row
    np.testing.assert_allclose(found[:, 1], expected, rtol=1e-6)
    assert found[:, 2].tolist() == [0.0, 1.0]


def test_levels_are_one_hot_over_the_schema_and_unseen_ones_are_all_zero():
    found = matrix(mixed([1], ["a"]), mixed([1] * 4, ["a", "b", None, "zebra"]))
    assert found[:, 2:].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_a_constant_and_an_all_missing_number_give_finite_features():
    for values in ([3, 3], pa.nulls(2)):
        assert np.isfinite(
            matrix(mixed(values, ["a", "b"]), mixed([10, None], ["a", "b"]))
        ).all()


def test_the_label_is_no_feature():
    flipped = pa.table({"n": [1], "c": ["a"], "y": ["yes"]})
    train = mixed([1], ["a"])
    np.testing.assert_array_equal(matrix(train, train), matrix(train, flipped))


def test_of_large_tables_some_rows_are_scored_and_a_remark_says_so(monkeypatch):
    monkeypatch.setattr("noisegate_evaluate.tables.MAX_SCORED_ROWS", 100)
    schema = Schema([Boolean(name="ill"), Boolean(name="old")], label="ill")
    table = pa.table({"ill": [True, False] * 150, "old": [False, True] * 150})
    rows = LabelledTables.of(table, table.slice(0, 60), schema)
    assert {name: part.num_rows for name, part in rows.tables.items()} == {
        "training": 100,
        "test": 60,
    }
    assert rows.remarks == ("100 rows of the training table were drawn from its 300",)
