"""Verdicts on scores: what models of synthetic records reach, with and without those of real ones."""

from types import SimpleNamespace

import pytest

from noisegate_evaluate.judging import of_models


def scored(roc_auc):
    return SimpleNamespace(mean=SimpleNamespace(roc_auc=roc_auc))


@pytest.mark.parametrize(("roc_auc", "word"), [(0.387, "rough"), (0.53, "rough")])
def test_models_that_guess_are_rough_at_best_without_a_ceiling(roc_auc, word):
    verdict = of_models("ROC-AUC", "roc_auc", 0.5, scored(roc_auc), None)
    assert verdict.word == word
    assert "hardly better than guessing" in verdict.reasons[0]


def test_nothing_is_claimed_of_models_that_learn_without_a_ceiling():
    verdict = of_models("ROC-AUC", "roc_auc", 0.5, scored(0.8), None)
    assert verdict.word is None
    assert "is not known without real training records" in verdict.reasons[0]
    assert of_models("ROC-AUC", "roc_auc", 0.5, None, None) is None
