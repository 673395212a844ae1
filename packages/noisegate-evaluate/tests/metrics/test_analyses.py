"""What an analyst finds: against scipy and statsmodels' kind of answer, and on copies that are known to be wrong."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import spearmanr
from tests.shared.columns import boolean, categorical, continuous
from tests.shared.few_trees import LOGISTIC

from noisegate.answers.verdict import Verdict
from noisegate.schema import Schema
from noisegate_evaluate import evaluate_tables
from noisegate_evaluate.metrics.analyses import (
    Associations,
    EqualMass,
    Quantiles,
    Regressions,
    TwoSample,
)

SCHEMA = Schema(
    (
        *(continuous(name, -5, 5, missing=True) for name in ("x", "w", "u")),
        boolean("g"),
        categorical("c", "abc"),
    ),
    label="g",
)


def records(rows, seed, *, slope=0.6, sign=1):
    random = np.random.default_rng(seed)
    x, u = random.standard_normal((2, rows))
    w = sign * slope * x + np.sqrt(1 - slope**2) * random.standard_normal(rows)
    g = random.random(rows) < 1 / (1 + np.exp(-1.5 * x))
    c = np.array(["a", "b", "c"])[np.clip(np.rint(u + 1), 0, 2).astype(int)]
    return pa.table(
        {
            "x": np.clip(x, -5, 5),
            "w": np.clip(w, -5, 5),
            "u": np.clip(u, -5, 5),
            "g": g,
            "c": c,
        }
    )


def shuffled(table, seed=0):
    random = np.random.default_rng(seed)
    return pa.table(
        {
            name: table[name].take(random.permutation(table.num_rows))
            for name in table.column_names
        }
    )


def measured(kind, synthetic, real=None):
    return kind.measured(
        synthetic, records(6000, 1) if real is None else real, schema=SCHEMA, seed=0
    )


def test_strong_associations_are_those_of_scipy():
    real = records(6000, 1)
    found = measured(Associations, records(6000, 2), real)
    told = {pair: (truth, made) for pair, truth, made in found.strong}
    assert found.pairs == 10
    assert "x × w" in told
    assert "u × c" in told
    assert "x × u" not in told
    assert told["x × w"][0] == pytest.approx(
        spearmanr(real["x"], real["w"]).statistic, abs=1e-9
    )
    assert found.kept > 0.95
    assert found.lost == []


@pytest.mark.parametrize(
    "wrong", [shuffled(records(6000, 2)), records(6000, 2, sign=-1)]
)
def test_associations_that_are_lost_or_turned_round_count_as_nothing(wrong):
    found = measured(Associations, wrong)
    assert "x × w" in [pair for pair, _, _ in found.lost]
    assert found.kept < 0.75


def test_coefficients_have_the_size_and_the_sign_of_the_truth():
    right = measured(Regressions, records(6000, 2))
    turned = measured(Regressions, records(6000, 2, sign=-1))
    assert right.signs == 1.0
    assert turned.signs < 1
    assert right.error < 0.1 < turned.error


def test_quantiles_count_by_rank_and_ties_are_right():
    assert measured(Quantiles, records(6000, 2)).largest < 0.03
    real = records(6000, 1)
    moved = real.set_column(0, "x", pa.array(np.full(6000, 4.9)))
    found = measured(Quantiles, moved, real)
    assert found.column == "x"
    assert found.at == 0.05
    assert found.largest > 0.9
    atom = real.set_column(0, "x", pa.array(np.where(np.arange(6000) < 4000, 0.0, 2.0)))
    assert measured(Quantiles, atom, atom).largest == 0.0


def test_cells_of_equal_mass_see_what_crowds_and_what_is_shuffled():
    same = measured(EqualMass, records(6000, 2))
    apart = measured(EqualMass, shuffled(records(6000, 2)))
    assert same.singles < 1.3 * same.sampling[0]
    assert same.pairs < 1.1 * same.sampling[1] < apart.pairs
    real = records(6000, 1)
    narrow, wider = (
        real.set_column(0, "x", pa.array(np.asarray(real["x"]) * scale))
        for scale in (0.01, 0.03)
    )
    assert measured(EqualMass, wider, narrow).singles > 0.05


def test_trees_tell_shuffled_columns_from_real_records_and_not_others():
    assert abs(measured(TwoSample, records(6000, 2)).roc_auc - 0.5) < 0.03
    assert measured(TwoSample, shuffled(records(6000, 2))).roc_auc > 0.6


@pytest.fixture(scope="module")
def good():
    return evaluate_tables(records(3000, 5), records(3000, 3), SCHEMA, records(3000, 4))


def test_a_verdict_is_not_good_where_an_analyst_is_misled(good):
    test = records(3000, 3)
    train = records(3000, 4)

    def verdict(synthetic):
        return evaluate_tables(
            synthetic, test, SCHEMA, train, classifiers=LOGISTIC
        ).verdict

    assert good.verdict.word == "good"
    lost = verdict(shuffled(records(3000, 5)))
    assert lost.word in ("rough", "noise")
    assert any("weakened or lost" in reason for reason in lost.reasons)
    # One column in the wrong place, among cells of equal width that hardly see it.
    narrow = records(3000, 5)
    column = pa.array(np.asarray(narrow["u"]) * 0.05 + 0.3)
    assert verdict(narrow.set_column(2, "u", column)).word in ("rough", "noise")
    few = verdict(records(5, 5))
    assert few.word == "noise"
    assert any(
        reason.startswith("5 synthetic records for 3,000") for reason in few.reasons
    )


def test_a_weaker_regression_and_a_tail_out_of_place_make_a_copy_usable_at_most():
    real = records(6000, 1)
    same = records(6000, 2)
    wide = same["u"].to_numpy().copy()
    wide[np.argsort(wide)[-150:]] = np.linspace(3.5, 5, 150)
    weak = records(6000, 2, slope=0.4)
    wide = same.set_column(2, "u", pa.array(wide))
    assert (
        measured(Regressions, same).kept
        > 0.9
        > 0.8
        > measured(Regressions, weak).kept
        > 0.4
    )
    assert measured(Quantiles, same).stretched < 0.1
    assert (
        measured(Quantiles, wide).stretched > 0.4,
        measured(Quantiles, wide).reaching,
    ) == (True, "u")
    for copy, figure in ((weak, "coefficients_kept"), (wide, "tail_error")):
        found = evaluate_tables(
            copy, records(6000, 3), SCHEMA, real, classifiers=LOGISTIC
        ).verdict
        assert found.word != "good"
        assert figure in found.figures


def test_few_records_and_one_column_have_no_such_figures():
    alone = Schema((boolean("g"),), label="g")
    table = pa.table({"g": [True, False, True]})
    for kind in (Associations, Quantiles, Regressions, TwoSample):
        assert kind.measured(table, table, schema=alone, seed=0) is None


def test_the_same_model_is_no_better_by_figures_than_by_its_fit(good):
    fitted = Verdict(word="rough", source="fit", reasons=("amounts lie in one cell",))
    told = replace(good, fitted=fitted).verdict
    assert good.verdict.word == "good"
    assert told.word == "rough"
    assert (
        told.reasons[-1]
        == "by the figures alone the verdict is good; the fit's is rough, because amounts lie in one cell"
    )
    assert replace(good, fitted=replace(fitted, word="good")).verdict == good.verdict


def test_a_constant_is_left_out_of_regressions():
    # In positions of [0, 1], 701 of 300 to 1,100 varies by rounding alone.
    names = ("x", "w", "site")
    schema = Schema([continuous(name, -5, 1100) for name in names])
    random = np.random.default_rng(3)
    x = random.standard_normal(900)
    real = {"x": x, "w": 0.6 * x + random.standard_normal(900)}
    real["site"] = np.full(900, 701.1)
    drifted = {**real, "site": 701.1 + random.standard_normal(900)}
    result = Regressions.measured(
        pa.table(drifted), pa.table(real), seed=0, schema=schema
    )
    assert result.coefficients == 2
    assert result.error < 1e-9
