import numpy as np
import pytest

from noisegate_papers.models.locally_linear import answers, reasons


@pytest.mark.parametrize("k", [0, 1, 2])
def test_what_columns_add_is_the_score_above_the_others(trained, unseen, k):
    found = reasons(trained, unseen, of=np.full(6, k))
    assert found.columns == ("u", "v", "c", "flag")
    scores = trained.scores(unseen)
    above = scores[:, k] - np.delete(scores, k, axis=1).mean(axis=1)
    assert found.adds.sum(axis=1) + found.rest == pytest.approx(above, abs=1e-5)


def test_a_column_answers_for_all_of_its_inputs_and_for_no_other(trained, unseen):
    """By hand for one record: v is missing, so its input says so; c has three levels."""
    inputs, record = trained.inputs, unseen.rows(slice(2, 3))
    assert inputs.names == (
        *("u", "v", "v is missing", "c = r", "c = g", "c is missing", "flag = False", "flag = True"),
    )
    # Of the numbers in the record only these are not 0, each in units of `scale`.
    seen = {"u": 2 * (record.numeric[0, 0] - 0.25), "v": 1.0, "c": 1.0, "flag": 1.0}
    place = {"u": 0, "v": 2, "c": 3 + record.codes[0, 0], "flag": 6 + record.codes[0, 1]}
    adds = np.zeros((3, 4))
    for k in range(3):
        weights = trained.importance(record, of=np.array([k]))[0]
        for j, name in enumerate(seen):
            adds[k, j] = weights @ trained.weights[:, k, place[name]] * seen[name] * inputs.scale
    found = reasons(trained, record, of=np.array([1]))
    assert found.adds[0] == pytest.approx(adds[1] - (adds[0] + adds[2]) / 2, abs=1e-5)


def test_what_a_class_answers_to_is_the_mean_of_its_maps_above_the_others(trained):
    weights, spread = answers(trained, "yes")
    no, yes, other = (trained.filters(label) for label in trained.classes)
    assert weights == pytest.approx(yes.mean(axis=0) - (no.mean(axis=0) + other.mean(axis=0)) / 2, abs=1e-5)
    assert spread == pytest.approx(yes.std(axis=0), abs=1e-5)
