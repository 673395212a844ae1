"""Every method that allows streams: four periods, of few records and of many, each fitted to its queries alone."""

import json

import numpy as np
import pyarrow.csv
import pytest
from tests.contracts.blind_noise import IMAGES, MANY, of_method, table
from tests.shared.cli_room import cli  # noqa: F401

from noisegate import fit_period, plan_stream, verify
from noisegate.errors import OptionError
from noisegate.methods.registry import METHODS

FEW = (20, 0, 1, 2)  # records of the four periods
STREAMED = (
    "dp-hp",
    "dp-mepf",
    "dp-merf",
    "dp-mge",
    "dp-ntk",
    "joint",
    "mepf",
    "pairwise",
)
LABELS = IMAGES.layout.coded[0].levels
REFUSED = sorted(set(METHODS) - set(STREAMED))


def stream_of(name, folder):
    """Returns the schema and the settings of a method, whose public files lie in the folder."""
    (files := folder / "public").mkdir()
    _, schema, settings, _ = of_method(name, files, None)
    return schema, settings


def pictures(count, seed=0):
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (count, 8, 8), dtype=np.uint8)
    return images, np.array([LABELS[index % 2] for index in range(count)], dtype="<U9")


@pytest.mark.parametrize("name", STREAMED)
def test_four_periods_of_few_records_are_fitted_to_their_queries(
    name, tmp_path, monkeypatch
):
    fitted = []
    fitting = METHODS[name].fitting

    def watched(method, release, **options):
        fitted.append((sorted(release.values), sorted(release.noise_std)))
        return fitting(method, release, **options)

    monkeypatch.setattr(METHODS[name], "fitting", watched)
    schema, settings = stream_of(name, tmp_path)
    plan_stream(
        tmp_path / "s.json",
        schema=schema,
        epsilon=3.0,
        periods=4,
        method=name,
        **settings,
    )
    after = None
    for period, count in enumerate(FEW, 1):
        data = pictures(count, period) if schema is IMAGES else table(0, count)
        out = tmp_path / f"m{period}"
        model = fit_period(data, stream=tmp_path / "s.json", after=after, out=out)
        queries = sorted(event.name for event in model.certificate.events)
        assert fitted[-1] == (queries, queries)
        assert len(model.sample(5)) == 5
        after = out
    assert len(fitted) == 4
    assert model.release.by_period["counts"].shape[1] == 4
    assert verify(after).recomputed_epsilon <= 3


@pytest.mark.parametrize("name", REFUSED)
def test_other_methods_refuse_a_stream_before_anything_is_written(name, tmp_path):
    schema, settings = stream_of(name, tmp_path)
    with pytest.raises(
        OptionError,
        match=r"does not ask in rounds of sums|of linked tables there are no streams",
    ):
        plan_stream(
            tmp_path / "s.json", schema=schema, epsilon=3.0, method=name, **settings
        )
    assert [path.name for path in tmp_path.iterdir()] == ["public"]


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMED)
def test_four_periods_of_many_records_through_the_command_line(name, tmp_path, cli):  # noqa: F811
    (schema, settings) = stream_of(name, tmp_path)
    plan = tmp_path / "stream.json"
    schema.to_toml(tmp_path / "schema.toml")
    settings = [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
    command = [
        "--schema",
        tmp_path / "schema.toml",
        "--epsilon",
        1,
        "--method",
        name,
        *settings,
    ]
    ended = cli("plan", *command, "--periods", 4, "--save", plan)
    assert ended.code == 0, ended.err
    for period in range(1, 5):
        if schema is IMAGES:
            data = tmp_path / f"{period}.npz"
            images, labels = pictures(MANY, period)
            np.savez(data, images=images, labels=labels)
        else:
            data = tmp_path / f"{period}.csv"
            pyarrow.csv.write_csv(
                table(0, MANY + period).slice(period), data
            )  # each other ones
        arguments = (
            ["--stream", plan]
            if period == 1
            else ["--continue", tmp_path / f"m{period - 1}"]
        )
        ended = cli("fit", data, *arguments, "--out", tmp_path / f"m{period}")
        assert ended.code == 0, ended.err
        assert f"Period {period} of 4; {4 - period} are left" in " ".join(
            (ended.out + ended.err).split()
        )
    assert cli("verify", tmp_path / "m4").code == 0
