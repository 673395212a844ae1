"""What rows of a copy are worth: by simulation, in the metadata of files and in words; rows that are independent."""

import json
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from tests.shared.columns import boolean, categorical, integer

import noisegate as ng
from noisegate import Gate, Pairwise, Synthesizer, synthesize
from noisegate.answers.worth import guard
from noisegate.app import analyses
from noisegate.app.analyses import EPSILONS, Want, price, read_want
from noisegate.errors import FitWarning, OptionError
from noisegate.schema import Schema

from .conftest import argv

SCHEMA = Schema((boolean("ill"), categorical("job", ("cook", "nurse", "smith"))))
SHARES = [0.5, 0.3, 0.2]


def fitted_model(rows, seed=0, epsilon=0.2, **settings):
    random = np.random.default_rng(seed)
    job = random.choice(["cook", "nurse", "smith"], rows, p=SHARES)
    ill = random.random(rows) < np.where(job == "nurse", 0.4, 0.2)
    table = pd.DataFrame({"ill": ill, "job": job})
    return synthesize(
        table, schema=SCHEMA, epsilon=epsilon, method=Pairwise(**settings)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("worth") / "model"
    fitted_model(2_000).save(path)
    return path


@pytest.mark.slow
def test_effective_n_is_what_a_simulation_finds():
    truth = {"ill": 0.26, "nurse": 0.3}
    expected = []
    off = {"ill": [], "nurse": []}
    for seed in range(60):
        model = fitted_model(1_000, seed=seed, fit_options={"steps": 60})
        expected.append([effective.records for effective in model.effective_n()])
        for name, question in (
            ("ill", "share(ill = true)"),
            ("nurse", "share(job = nurse)"),
        ):
            off[name].append(model.infer(question)[0].value - truth[name])
    ill, job, both = np.mean(expected, axis=0)
    assert 0 < both < min(ill, job) < max(ill, job) < 1_000
    simulated = {
        name: share * (1 - share) / np.mean(np.square(off[name]))
        for name, share in truth.items()
    }
    # 60 squares have a relative standard error of .18; of levels the figure is of all three together.
    assert ill == pytest.approx(simulated["ill"], rel=0.45)
    assert job == pytest.approx(simulated["nurse"], rel=0.45)


def test_a_pair_that_was_not_measured_is_worth_nothing():
    model = fitted_model(1_000, pairs="none")
    assert [effective.records > 0 for effective in model.effective_n()] == [
        True,
        True,
        False,
    ]
    guard_text = guard(model, 10)
    assert "pair" not in guard_text.summary
    assert "1 column or pair: 0, as it was not measured" in guard_text.sentence


@pytest.mark.parametrize(
    ("independent", "least", "most"), [(True, 0.6, 1.6), (False, 0.0, 0.5)]
)
def test_independent_rows_vary_as_draws_do_and_others_less(
    folder, independent, least, most
):
    model = Synthesizer.load(folder)
    shares = [
        (
            np.asarray(model.sample(8_000, seed=seed, independent=independent)["job"])
            == "nurse"
        ).mean()
        for seed in range(120)
    ]
    share = np.mean(shares)
    assert least < np.var(shares) / (share * (1 - share) / 8_000) < most


def test_files_say_what_their_rows_are_worth(folder, tmp_path, cli):
    def sample(name, n, *more):
        return cli(f"sample {folder} -n", n, "-o", tmp_path / name, *more)

    result = sample("copy.csv", 5_000)
    assert result.code == 0, result.err
    text = " ".join((result.out + result.err).split())
    assert "5,000 rows were drawn from a release of about" in text
    assert (
        "P-values and standard errors computed from the rows are wrong; `noisegate infer`"
        in text
    )
    page = json.loads((tmp_path / "copy.csv-metadata.json").read_text("utf-8"))
    assert page["url"] == "copy.csv"
    assert [effective["columns"] for effective in page["notes"][0]["effective_n"]] == [
        ["ill"],
        ["job"],
        ["ill", "job"],
    ]
    result = sample("copy.parquet", 100, "--independent", "--json")
    assert json.loads(result.out)["effective_n"]["released"] == pytest.approx(
        2_000, abs=300
    )
    metadata = pyarrow.parquet.read_schema(tmp_path / "copy.parquet").metadata
    assert (
        json.loads(metadata[b"noisegate.effective_n"])
        == page["notes"][0]["effective_n"]
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "copy.csv",
        "copy.csv-metadata.json",
        "copy.parquet",
    ]


def test_a_page_that_is_in_the_way_stops_before_anything_is_written(
    folder, tmp_path, cli
):
    (tmp_path / "copy.csv-metadata.json").write_text("mine")
    ended = cli(f"sample {folder} -n 5 -o {tmp_path}/copy.csv")
    assert ended.code == 2
    assert "copy.csv-metadata.json exists" in " ".join(ended.err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["copy.csv-metadata.json"]
    (tmp_path / "copy.csv").write_text("mine")
    for name, why in (
        ("copy.csv", "copy.csv exists"),
        ("nowhere/copy.csv", "nowhere/copy.csv cannot be written"),
    ):
        ended = cli(f"sample {folder} -n 5 -o", tmp_path / name)
        assert ended.code == 2
        assert why in "".join(ended.err.split("\n")), (
            "the file that was asked for is named"
        )


# `plan --want`: the least ε for answers as exact as they are wanted, from public facts alone.

WANTS_SCHEMA = Schema(
    (
        *(integer("age", 0, 100), boolean("ill")),
        categorical("job", ("cook", "nurse")),
    ),
    label="ill",
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            "mean(age) by job ±2 % at 90 %",
            Want(text="", question="mean(age) by job", half=2.0, level=0.9),
        ),
        (
            "share(ill = true) +- 3%",
            Want(text="", question="share(ill = true)", half=0.03),
        ),
        ("age ~ job+-0.5", Want(text="", question="age ~ job", half=0.5)),
    ],
)
def test_a_want_is_a_question_and_half_a_width(text, want):
    planned_like = read_want(text, WANTS_SCHEMA)
    assert planned_like.question == want.question
    assert planned_like.half == pytest.approx(want.half)
    assert planned_like.level == want.level


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean(age)", "must be a query and the half-width"),
        ("mean(age) ± 0", "the width must be above 0"),
        ("mean(age) ± 1e-300 %", "the width must be from 1e-12 to"),
        ("mean(age) ± 1e300", "the width must be from 1e-12 to"),
        ("count(ill = true) ± 2 %", "percent are of a share"),
        ("mean(job) ± 2 %", "'job' is not numeric"),
        ("what ± 2", "is not understood"),
    ],
)
def test_what_is_no_want_is_refused(text, message):
    with pytest.raises(OptionError, match=message):
        read_want(text, WANTS_SCHEMA)


@pytest.fixture
def one_release(monkeypatch):
    """Tries each ε with one release instead of three."""
    monkeypatch.setattr(analyses, "_TRIAL_COUNT", 1)


def test_less_is_asked_for_where_less_is_wanted_and_no_epsilon_where_none_does(
    one_release,
):
    def least(half, records=3_000):
        want = Want(text="", question="share(job = nurse) by ill", half=half)
        return price([want], WANTS_SCHEMA, records, shares=(0.43,))

    loose = least(0.3)
    tight = least(0.1)
    never = least(0.01)
    assert loose.reached
    assert tight.reached
    assert loose.epsilon < tight.epsilon
    assert tight.met[0].half <= 0.1
    assert not never.reached
    assert never.epsilon == EPSILONS[-1]
    # By sampling alone 1.96 sqrt(.25 / (n/2) · 2) is .01, for a difference of two halves.
    assert 1 < never.met[0].records / (1.96**2 / 0.01**2) < 3


def test_the_number_of_records_is_public_where_one_is_replaced(one_release):
    want = Want(text="", question="share(ill = true)", half=0.2)
    assert price(
        [want], WANTS_SCHEMA, 2_000, shares=(0.43,), adjacency="replace-one"
    ).reached


def test_public_records_stand_in_where_they_are_given(desk, cli, tmp_path):
    random = np.random.default_rng(0)
    even = tmp_path / "even.csv"
    narrow = tmp_path / "narrow.csv"
    for path, low, high in ((even, 0, 91), (narrow, 40, 45)):
        rows = [
            f"{age},{job}"
            for age, job in zip(
                random.integers(low, high, 500), ["a", "b"] * 250, strict=True
            )
        ]
        path.write_text("\n".join(["age,job", *rows]) + "\n")
    schema = tmp_path / "two.toml"
    schema.write_text(
        '[columns.age]\nkind = "integer"\nlower = 0\nupper = 90\n'
        '[columns.job]\nkind = "categorical"\nlevels = ["a", "b"]\n'
    )

    def planned_like(like):
        ended = cli(
            *(
                "plan",
                "--schema",
                schema,
                "--records",
                2_000,
                "--want",
                "mean(age) +- 1.5",
                "--like",
                like,
                "--json",
            )
        )
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    assert planned_like(narrow)["epsilon"] < (planned_like(even)["epsilon"] or 100)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--epsilon", 1], "leave out --epsilon"),
        (["--method", "dp-merf"], "one table with method 'pairwise'"),
        ([], "--want needs --records"),
        (["--records", 99_000_000], "at most 2,000,000"),
        (["--set", "cells=4"], "only --set moments_share"),
        (argv("--unit-column job --contributions 3"), "each record as a privacy unit"),
    ],
)
def test_what_does_not_go_with_a_want_is_refused(desk, cli, more, message):
    ended = cli(f"plan --schema {desk.schema} --want", "mean(age) +- 1", *more)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())


# A fit that ends far from its release is done, kept, and says so: in Python, in the folder, on the command line.

FAR_FIT_SCHEMA = Schema([integer(name, 0, 9) for name in "abc"])
FAR = {"components": 1, "steps": 5}
SAID = (
    r"far from its release: the distance is .* at no cost: noisegate.Pairwise\(seed=1"
)


def alike():
    hidden = np.arange(20_000) % 10
    return pd.DataFrame({name: hidden for name in "abc"})


def test_in_python_it_is_a_warning_and_stands_in_the_model(tmp_path):
    with pytest.warns(FitWarning, match=SAID):
        model = ng.fit(
            alike(),
            schema=FAR_FIT_SCHEMA,
            epsilon=10.0,
            method="pairwise",
            fit_options=FAR,
            out=tmp_path / "model",
        )
    assert model.summary.discrepancy > 2
    summary = Synthesizer.load(tmp_path / "model").summary
    assert summary == model.summary
    assert "far from its release" in summary.notes["warning"]
    with pytest.warns(FitWarning, match=SAID):
        Pairwise(fit_options=FAR).fit(
            Gate(alike(), schema=FAR_FIT_SCHEMA, epsilon=10.0)
        )


def test_where_warnings_are_errors_the_model_is_not_lost():
    with warnings.catch_warnings(action="error"):
        model = ng.synthesize(
            alike(),
            schema=FAR_FIT_SCHEMA,
            epsilon=10.0,
            method="pairwise",
            fit_options=FAR,
        )
    assert "far from its release" in model.summary.notes["warning"]


@pytest.mark.parametrize("json_too", [False, True])
def test_the_command_line_says_it_on_standard_error_and_in_json(
    cli, tmp_path, json_too
):
    alike().to_csv(tmp_path / "data.csv", index=False)
    FAR_FIT_SCHEMA.to_toml(tmp_path / "schema.toml")
    model = tmp_path / "model"
    options = argv(
        f"--schema {tmp_path}/schema.toml --epsilon 10 --method pairwise --out {model}"
    )
    more = ["--json"] if json_too else []
    ended = cli(
        "fit",
        tmp_path / "data.csv",
        *options,
        "--set",
        f"fit_options={json.dumps(FAR)}",
        *more,
    )
    assert ended.code == 0
    assert ended.err.count("far from its release") == 1
    if json_too:
        (message,) = json.loads(ended.out)["warnings"]
        assert message == Synthesizer.load(tmp_path / "model").summary.notes["warning"]
        options[-1] = tmp_path / "near"
        assert (
            json.loads(cli("fit", tmp_path / "data.csv", *options, "--json").out)[
                "warnings"
            ]
            == []
        )


def test_calibrated_rows_agree_with_infer_and_their_file_says_so(tmp_path, cli):
    model = fitted_model(2_000, moments_share=0.43)
    model.save(tmp_path / "model")
    out = tmp_path / "rows.csv"
    ended = cli(f"sample {tmp_path}/model -n 2000 -o {out} --calibrated --json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["calibrated"] == ["ill", "job"]
    (share, *_) = model.infer("share(ill = true)")
    share_of_rows = pd.read_csv(out)["ill"].mean()
    assert share_of_rows == pytest.approx(share.value, abs=1 / 2_000)
    page = json.loads((tmp_path / "rows.csv-metadata.json").read_text("utf-8"))
    assert "regressions of ill, job agree" in page["notes"][0]["calibrated"]


def test_few_calibrated_rows_say_how_far_they_are_off(tmp_path, cli):
    fitted_model(2_000, moments_share=0.43).save(tmp_path / "model")
    ended = cli(f"sample {tmp_path}/model -n 30 -o {tmp_path}/r.csv --calibrated")
    assert ended.code == 0
    assert "the 30 rows agree with infer to" in " ".join(ended.err.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--calibrated", "--even", "job"), "--even does not go with --calibrated"),
        (("--calibrated-for", "height"), "no column 'height'"),
        (("--calibrated",), "no second moments"),
    ],
)
def test_rows_that_cannot_be_calibrated_are_not_written(
    folder, tmp_path, cli, options, message
):
    out = tmp_path / "rows.csv"
    ended = cli(f"sample {folder} -n 10 -o {out}", *options)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
    assert not list(tmp_path.iterdir())
