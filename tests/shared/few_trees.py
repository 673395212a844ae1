"""Evaluations whose ensembles have ten trees instead of a hundred, where a test is not about their scores."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from noisegate_evaluate.utility import suites


@contextmanager
def few_trees():
    whole = suites.three()
    recipes = [replace(one, settings={**one.settings, **_fewer(one.settings)}) for one in whole.recipes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suites, "three", lambda: replace(whole, recipes=tuple(recipes)))
        yield


def _fewer(settings):
    return {name: 10 for name, count in settings.items() if count == 100}
