"""What rows of a copy are worth: by simulation, in the metadata of files and in words; rows that are independent."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from noisegate import synthesize
from noisegate.inference.worth import guard
from noisegate.methods.pairwise import Pairwise
from noisegate.models.synthesizer import Synthesizer
from noisegate.schema import Boolean, Categorical, Schema

SCHEMA = Schema((Boolean(name="ill"), Categorical(name="job", levels=("cook", "nurse", "smith"))))
SHARES = [0.5, 0.3, 0.2]


def made(rows, seed=0, epsilon=0.2, **settings):
    random = np.random.default_rng(seed)
    job = random.choice(["cook", "nurse", "smith"], rows, p=SHARES)
    ill = random.random(rows) < np.where(job == "nurse", 0.4, 0.2)
    table = pd.DataFrame({"ill": ill, "job": job})
    return synthesize(table, schema=SCHEMA, epsilon=epsilon, method=Pairwise(**settings))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("worth") / "model"
    made(2_000).save(place)
    return place


def test_effective_n_is_what_a_simulation_finds():
    truth = {"ill": 0.26, "nurse": 0.3}
    expected, off = [], {"ill": [], "nurse": []}
    for seed in range(60):
        model = made(1_000, seed=seed, fit_options={"steps": 60})
        expected.append([one.records for one in model.effective_n()])
        for name, question in (("ill", "share(ill = true)"), ("nurse", "share(job = nurse)")):
            off[name].append(model.infer(question)[0].value - truth[name])
    ill, job, both = np.mean(expected, axis=0)
    assert 0 < both < min(ill, job) < max(ill, job) < 1_000
    simulated = {name: share * (1 - share) / np.mean(np.square(off[name])) for name, share in truth.items()}
    # 60 squares have a relative standard error of .18; of levels the figure is of all three together.
    assert ill == pytest.approx(simulated["ill"], rel=0.45)
    assert job == pytest.approx(simulated["nurse"], rel=0.45)


def test_a_pair_that_was_not_measured_is_worth_nothing():
    model = made(1_000, pairs="none")
    assert [one.records > 0 for one in model.effective_n()] == [True, True, False]
    told = guard(model, 10)
    assert "pair" not in told.told and "nothing for 1 columns or pairs, which were not measured" in told.sentence


@pytest.mark.parametrize(("independent", "least", "most"), [(True, 0.6, 1.6), (False, 0.0, 0.5)])
def test_independent_rows_vary_as_draws_do_and_others_less(folder, independent, least, most):
    model = Synthesizer.load(folder)
    shares = [
        (np.asarray(model.sample(8_000, seed=seed, independent=independent)["job"]) == "nurse").mean()
        for seed in range(120)
    ]
    share = np.mean(shares)
    assert least < np.var(shares) / (share * (1 - share) / 8_000) < most


def test_files_say_what_their_rows_are_worth(folder, tmp_path, cli):
    def sample(name, n, *more):
        return cli("sample", folder, "-n", n, "-o", tmp_path / name, *more)

    result = sample("copy.csv", 5_000)
    assert result.code == 0, result.err
    said = " ".join((result.out + result.err).split())
    assert "5,000 rows were drawn from a release of about" in said
    assert "P-values and standard errors computed from the rows are wrong; `noisegate infer`" in said
    page = json.loads((tmp_path / "copy.csv-metadata.json").read_text("utf-8"))
    assert page["url"] == "copy.csv"
    assert [one["columns"] for one in page["notes"][0]["effective_n"]] == [["ill"], ["job"], ["ill", "job"]]
    result = sample("copy.parquet", 100, "--independent", "--json")
    assert json.loads(result.out)["effective_n"]["released"] == pytest.approx(2_000, abs=300)
    metadata = pyarrow.parquet.read_schema(tmp_path / "copy.parquet").metadata
    assert json.loads(metadata[b"noisegate.effective_n"]) == page["notes"][0]["effective_n"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.csv", "copy.csv-metadata.json", "copy.parquet"]


def test_a_page_that_is_in_the_way_stops_before_anything_is_written(folder, tmp_path, cli):
    (tmp_path / "copy.csv-metadata.json").write_text("mine")
    ended = cli("sample", folder, "-n", 5, "-o", tmp_path / "copy.csv")
    assert ended.code == 2 and "copy.csv-metadata.json exists" in " ".join(ended.err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["copy.csv-metadata.json"]
