"""The facade. The label column of most tests is told by the first column of X, so that a fit can be seen to learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from noisegate.errors import DataError, OptionError
from noisegate.schema import Boolean, Categorical, Continuous, Schema
from noisegate_papers.estimators.locally_linear_maps import LocallyLinearMaps

QUICK = dict(
    epsilon=50.0,
    records=500,
    maps=2,
    steps=40,
    sampling_probability=0.4,
    temperature=2.0,
    init_std=0.5,
)
BOUNDED = {**QUICK, "classes": [2, 7, 5], "bounds": (0, 10)}
UNTAUGHT = {**BOUNDED, "steps": 2}
SCHEMA = Schema(
    (
        Continuous(name="u", lower=0.0, upper=10.0),
        Categorical(name="c", levels=("r", "g")),
        Boolean(name="y"),
    ),
    label="y",
)


def numbers(rows=500):
    X = np.random.default_rng(0).uniform(0, 10, (rows, 6))
    return X, np.where(X[:, 0] > 5, 7, 2)


def frame(rows=500):
    X, y = numbers(rows)
    return pd.DataFrame({"c": ["r", "g"] * (rows // 2), "u": X[:, 0]}), y == 7


@pytest.fixture(scope="module")
def bounded():
    return LocallyLinearMaps(**BOUNDED, random_state=3).fit(*numbers())


@pytest.fixture(scope="module")
def described():
    X, y = frame()
    return LocallyLinearMaps(**QUICK, schema=SCHEMA).fit(X, y)


def test_it_learns_from_an_array_and_from_a_table(bounded, described):
    X, y = numbers()
    assert (bounded.predict(X) == y).mean() > 0.9 and bounded.classes_.tolist() == [
        2,
        5,
        7,
    ]
    X, y = frame()
    assert (described.predict(X) == y).mean() > 0.9 and described.classes_.tolist() == [
        False,
        True,
    ]


def test_probabilities_are_of_the_classes_in_their_order(bounded):
    X, _ = numbers(20)
    found = bounded.predict_proba(X)
    assert found.shape == (20, 3) and np.allclose(found.sum(axis=1), 1)
    assert np.array_equal(bounded.classes_[found.argmax(axis=1)], bounded.predict(X))


def test_explanations_have_the_shape_of_what_they_explain(bounded):
    X, _ = numbers(20)
    assert bounded.explain(X).shape == X.shape and bounded.explain(X[0]).shape == (6,)
    assert bounded.explain(X[0].reshape(2, 3)).shape == (2, 3)
    assert np.allclose(
        bounded.explain(X[0].reshape(2, 3)).ravel(), bounded.explain(X)[0]
    )
    # The first column tells the classes 2 and 7 apart, in opposite directions.
    explained = bounded.explain(X, label=7)
    assert (
        explained.mean(axis=0).argmax() == 0
        and bounded.explain(X, label=2).mean(axis=0).argmin() == 0
    )
    sigma = bounded.importance(X, label=7)
    assert np.allclose(sigma @ bounded.filters(7), explained, atol=1e-4)


def test_the_label_may_stand_in_the_table():
    X, y = frame()
    model = LocallyLinearMaps(**QUICK, schema=SCHEMA).fit(X.assign(y=y))
    assert model.n_features_in_ == 2 and (model.predict(X) == y).mean() > 0.9


def test_random_state_is_of_public_randomness_only():
    models = [
        LocallyLinearMaps(**UNTAUGHT, random_state=3).fit(*numbers(100))
        for _ in range(2)
    ]
    seeds = [model.certificate_.public["settings"]["seed"] for model in models]
    assert seeds[0] == seeds[1] and not np.array_equal(
        models[0].filters(2), models[1].filters(2)
    )
    assert (
        LocallyLinearMaps(**UNTAUGHT)
        .fit(*numbers(100))
        .certificate_.public["settings"]["seed"]
        not in seeds
    )


def test_texts_and_floats_may_be_classes():
    X, y = numbers(100)
    told = LocallyLinearMaps(**{**UNTAUGHT, "classes": ["low", "high"]}).fit(
        X, np.where(y == 7, "high", "low")
    )
    assert set(told.predict(X)) <= {"low", "high"} and told.filters("low").shape == (
        2,
        6,
    )
    assert LocallyLinearMaps(**{**UNTAUGHT, "classes": [2.0, 7.0]}).fit(
        X, y.astype(float)
    ).classes_.tolist() == [2, 7]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"classes": None}, "classes=None: give every label .* public knowledge"),
        ({"classes": [1]}, "two labels or more"),
        ({"classes": [2, 2, 7]}, "all different"),
        ({"classes": [2, 7.5]}, "all text or all whole numbers"),
        (
            {"bounds": None},
            "bounds=None: give the smallest and the largest value of the 6 columns",
        ),
        ({"bounds": (0, [1, 2])}, "bounds="),
        ({"records": None}, "records=None"),
        ({"schema": Schema(SCHEMA.columns)}, "the schema names no label"),
        ({"maps": 0}, "maps=0"),
    ],
)
def test_what_is_not_public_must_be_told(changed, match):
    with pytest.raises(OptionError, match=match):
        LocallyLinearMaps(**{**BOUNDED, **changed}).fit(*numbers(50))


def test_an_unknown_label_is_refused_without_quoting_it():
    X, y = numbers(50)
    with pytest.raises(
        DataError, match=r"y: record 31 has a label that is none of classes=\[2, 7, 5\]"
    ) as caught:
        LocallyLinearMaps(**BOUNDED).fit(X, np.where(np.arange(50) == 30, 987, y))
    assert "987" not in str(caught.value)


def test_text_is_refused_without_quoting_it(bounded):
    X = numbers(50)[0].astype(object)
    assert np.array_equal(bounded.predict(X), bounded.predict(X.astype(float)))
    X[3, 1] = "secret"
    for ask in (
        lambda: LocallyLinearMaps(**BOUNDED).fit(X, numbers(50)[1]),
        lambda: bounded.predict(X),
    ):
        with pytest.raises(DataError, match="X: a value is not a number") as caught:
            ask()
        assert caught.value.__context__ is None and "secret" not in str(caught.value)


def test_nothing_can_be_asked_before_fit(bounded):
    X, _ = numbers(5)
    unfitted = LocallyLinearMaps(**BOUNDED)
    for ask in (
        unfitted.predict,
        unfitted.predict_proba,
        unfitted.explain,
        unfitted.importance,
        unfitted.filters,
    ):
        with pytest.raises(NotFittedError):
            ask(X)
    with pytest.raises(OptionError, match="label=9 is not a class"):
        bounded.explain(X, label=9)
