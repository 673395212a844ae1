"""Evaluations by fewer trees, where a test is not about their scores."""

from dataclasses import replace
from unittest.mock import patch

from noisegate_evaluate.utility import suites

THREE = suites.three()
LOGISTIC = replace(THREE, recipes=THREE.recipes[:1])


def few_trees():
    """Has ten trees in an ensemble of a hundred, and the rest as it is."""
    fewer = [
        {name: 10 if value == 100 else value for name, value in recipe.settings.items()}
        for recipe in THREE.recipes
    ]
    small = tuple(
        replace(recipe, settings=settings)
        for recipe, settings in zip(THREE.recipes, fewer, strict=True)
    )
    return patch.object(suites, "three", lambda: replace(THREE, recipes=small))
