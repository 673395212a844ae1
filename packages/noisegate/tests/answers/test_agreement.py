"""Sums that were released apart agree in answers, and their errors are as stated."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous

from noisegate import synthesize
from noisegate.answers.evidence import Evidence
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.reading import read_moments
from noisegate.methods.pairwise import Pairwise
from noisegate.queries.moments import moments_of
from noisegate.schema import Schema
from noisegate.schema.encode import encode

NOISE_STD = 20.0
DRAWS = 400


@pytest.fixture(scope="module")
def people():
    """Records, and a model of them; the model is for its schema alone."""
    random = np.random.default_rng(0)
    work = random.choice(["a", "b", "c"], 2_000, p=[0.6, 0.3, 0.1])
    table = pd.DataFrame(
        {
            "x": np.clip(random.normal(size=2_000) + (work == "c"), -3, 3),
            "work": work,
            "ill": random.random(2_000) < 0.2 + 0.3 * (work == "a"),
        }
    )
    table.loc[:200, "x"] = np.nan
    schema = Schema(
        (
            continuous("x", -3, 3, missing=True),
            categorical("work", "abc"),
            boolean("ill"),
        )
    )
    method = Pairwise(fit_options={"steps": 1}, moments_share=0.4)
    return synthesize(table, schema=schema, epsilon=1.0, method=method), table


@pytest.fixture(scope="module")
def exact_moments(people):
    """The exact sums of products, by the names of their terms."""
    model, table = people
    layout = model.schema.layout
    feature_map = moments_of(layout, (0, 1, 2))
    cells = {name: pa.array(table[name], from_pandas=True) for name in table}
    records = encode(cells, model.schema)
    sums = feature_map.products(records).astype(float).sum(axis=0)
    return read_moments(layout, feature_map, sums, NOISE_STD)


@pytest.fixture(scope="module")
def noisy_estimates(people, exact_moments):
    """Estimates by moments and one table, whose noise is drawn many times."""
    model, _ = people
    measurements = Evidence(model).measurements
    (_, _, _, pair) = exact_moments.tables(measurements.domain)
    random = np.random.default_rng(1)
    estimates = []
    for _ in range(DRAWS):
        noise = NOISE_STD * random.normal(size=len(exact_moments.values))
        table_noise = NOISE_STD * random.normal(size=pair.counts.shape)
        evidence = Evidence(
            model,
            replace(
                measurements,
                tables=(
                    NoisyTable.of(
                        pair.domain, pair.counts + table_noise, noise_std=NOISE_STD
                    ),
                ),
                moments=replace(exact_moments, values=exact_moments.values + noise),
            ),
            sample=model.evidence.sample,
        )
        estimates.append(evidence.moments(["x", "work", "ill"]))
    return estimates


def test_levels_add_up_to_the_records_whatever_else_is_asked(people, noisy_estimates):
    moments = noisy_estimates[0]
    sums = moments.matrix(moments.values)
    for levels in moments.level_indices.values():
        others = [index for index in range(len(sums)) if index not in levels]
        assert sums[levels][:, others].sum(axis=0) == pytest.approx(sums[0, others])


def test_estimates_do_not_depend_on_what_else_is_asked(people):
    evidence = people[0].evidence
    of_all = evidence.moments(["x", "work", "ill"])
    of_two = evidence.moments(["x", "ill"])
    indices = [0, *of_all.indices("x"), *of_all.indices("ill")]
    expected = of_all.matrix(of_all.values)[np.ix_(indices, indices)]
    assert of_two.matrix(of_two.values) == pytest.approx(expected)


def test_errors_are_as_large_and_as_correlated_as_stated(
    exact_moments, noisy_estimates
):
    """Mahalanobis' distance of all sums has as many degrees of freedom as is stated."""
    noise = noisy_estimates[0].noise
    covariance = noise @ noise.T
    inverse = np.linalg.pinv(covariance, rcond=1e-9, hermitian=True)
    rank = np.linalg.matrix_rank(covariance, tol=1e-6 * covariance.max())
    exact = exact_moments.values
    distances = [
        (moments.values - exact) @ inverse @ (moments.values - exact)
        for moments in noisy_estimates
    ]
    # Sums of DRAWS·rank squares, whose mean is off by the root of 2/(DRAWS·rank).
    assert np.mean(distances) / rank == pytest.approx(
        1.0, abs=4 * np.sqrt(2 / (DRAWS * rank))
    )


def test_agreement_takes_noise_off_every_sum_and_much_off_those_of_levels(
    exact_moments, noisy_estimates
):
    std_of_moments = np.linalg.norm(noisy_estimates[0].noise, axis=1) / NOISE_STD
    assert std_of_moments.max() <= 1.0
    left, right = exact_moments.factors
    (first_level, *_) = exact_moments.indices("work")
    count_of_level = std_of_moments[(left == 0) & (right == first_level)]
    # By inverse variance alone it is 0.71.
    assert count_of_level < 0.65
