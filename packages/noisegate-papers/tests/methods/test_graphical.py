"""AIM and MST as methods: what they plan from public facts, and one run from records to a saved model."""

import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate import Gate
from noisegate.errors import MissingExtraError, ModelError
from noisegate.features.contingency import tables_up_to
from noisegate.models.folder import verify_model
from noisegate.schema import Schema
from noisegate_papers.methods.graphical import AIM, MST

SCHEMA = Schema(
    columns=(categorical("a", "pqr"), integer("b", 10, 12), continuous("x", missing=True), boolean("y")), label="y"
)


def test_all_tables_up_to_a_degree_are_proposed_but_for_columns_of_one_cell():
    assert tables_up_to((2, 3, 1, 4, 5), degree=2) == tuple(combinations((0, 1, 3, 4), 2))
    assert tables_up_to((2, 3), degree=3) == ((0, 1),)


def test_where_a_table_is_too_large_its_parts_are_proposed():
    tables = tables_up_to((10, 10, 10, 200), degree=3, most_cells=1000)
    assert tables == ((0, 1, 2), (3,))
    assert tables_up_to((10, 10, 10, 50), degree=3, most_cells=1000) == ((0, 1, 2), (0, 3), (1, 3), (2, 3))


def test_without_the_extra_the_cure_is_named_before_anything_is_spent(monkeypatch):
    monkeypatch.setitem(sys.modules, "mbi", None)  # makes the import fail
    with pytest.raises(MissingExtraError, match=r"mbi is missing.*pip install 'noisegate\[marginals\]'"):
        MST().check_fit("cpu")


# One run: needs the extra, and takes a quarter of a minute.


# Few columns: OpenDP looks for its noise for a second with each, in every round.
RUN_SCHEMA = Schema(columns=(SCHEMA.column("a"), SCHEMA.column("x"), SCHEMA.column("y")), label="y")
RUN = AIM(bins=6, degree=2, rounds=2, iterations=300)


def people(rows):
    random = np.random.default_rng(0)
    a = random.integers(0, 3, rows)
    x = np.where(random.random(rows) < 0.1, np.nan, (a + random.random(rows)) / 3)
    y = np.where(random.random(rows) < 0.9, a == 2, random.random(rows) < 0.5)
    return pd.DataFrame({"a": np.array(["p", "q", "r"])[a], "x": x, "y": y})


@pytest.fixture(scope="module")
def synthesizer():
    pytest.importorskip("mbi", reason="needs the extra noisegate[marginals]")
    return RUN.fit(Gate(people(2000), schema=RUN_SCHEMA, epsilon=50.0))


@pytest.mark.slow
def test_a_run_keeps_what_columns_have_to_do_with_each_other(synthesizer):
    table = synthesizer.sample(5000, seed=0).to_pandas()
    real = people(2000)
    there = pd.crosstab(real.a, real.y, normalize=True)
    here = pd.crosstab(table.a, table.y, normalize=True).reindex_like(there).fillna(0)
    assert np.abs(here - there).to_numpy().sum() / 2 < 0.06
    assert table.x.isna().mean() == pytest.approx(0.1, abs=0.03)
    assert (table.x[table.a == "r"] > 0.6).mean() > 0.8
    assert synthesizer.summary.step == RUN.iterations


@pytest.mark.slow
def test_a_model_with_values_that_no_event_paid_for_is_refused(synthesizer, tmp_path):
    from dataclasses import replace

    from noisegate.privacy.release import Release, array_hashes, release_arrays

    release = synthesizer.release
    values = {**release.values, "more": np.ones((2, 1))}
    stds = {**release.noise_std, "more": 1.0}
    certificate = replace(release.certificate, hashes=array_hashes(release_arrays(values, stds)))
    forged = replace(synthesizer, release=Release(values=values, noise_std=stds, certificate=certificate))
    with pytest.raises(ModelError, match="speaks of other releases"):
        verify_model(forged.save(tmp_path / "model"))
