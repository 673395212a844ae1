"""Blind noise: noise that knows nothing of the sums, and everything that leaves, byte for byte, of two data sets.

Whatever then differs came out past the noise: a number of records in a log, a shape, a divisor, a warning. OpenDP draws
the noise of AIM and MST itself, and chooses by it what it counts: both are stood in for, and what OpenDP chooses is
compared on neighbours in packages/noisegate/tests/gate/sessions/test_marginals_neighbours.py.
"""

import contextlib
import json
import shutil

import pyarrow as pa
import pyarrow.csv
import pytest
from tests.contracts.blind_noise import (
    MANY,
    PICTURES,
    STEPS,
    TABLE,
    TINY,
    Blind,
    StoppedError,
    assert_alike,
    left,
    of_method,
    pictures,
    table,
)

import noisegate
from noisegate.app.cli.main import run as command_line
from noisegate.gate.silos.keys import write_key
from noisegate.methods.registry import METHODS
from noisegate.models import checkpoint
from noisegate_evaluate.auditing.examples import IMAGES


def fitted(name, data, schema, settings, **options):
    """Returns what fits a method and draws records, into a folder."""

    def work(folder):
        model = noisegate.fit(
            data,
            schema=schema,
            epsilon=3.0,
            method=name,
            out=folder / "m",
            device="cpu",
            progress=True,
            **options,
            **settings,
        )
        return model.sample(20, seed=1) if hasattr(model, "sample") else None

    return work


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return [
        pictures(second, tmp_path_factory.mktemp("images") / "x") for second in (0, 1)
    ]


@pytest.mark.parametrize("name", METHODS)
def test_nothing_that_leaves_a_fit_knows_more_than_its_noise(
    name, tmp_path, monkeypatch, images
):
    if name in ("aim", "mst"):
        pytest.importorskip("mbi", reason="needs the extra marginals")
    both, schema, settings, options = of_method(name, tmp_path, images)
    one, other = (
        left(
            monkeypatch,
            tmp_path / "out",
            fitted(name, data, schema, settings, **options),
        )
        for data in both
    )
    assert one["error"] == b"None", one
    assert_alike(one, other)


def test_nothing_that_leaves_a_stream_knows_more_than_its_noise(tmp_path, monkeypatch):
    def of(second):
        def work(folder):
            shutil.rmtree(tmp_path / "owner", ignore_errors=True)
            (plan := tmp_path / "owner" / "s.json").parent.mkdir()
            noisegate.plan_stream(
                plan,
                schema=TABLE,
                epsilon=3.0,
                periods=3,
                corrections=True,
                **TINY["pairwise"],
            )
            for period, count in enumerate((30, 70 if second else 5, 40), 1):
                options = {
                    "out": folder / f"m{period}",
                    "after": folder / f"m{period - 1}" if period > 1 else None,
                }
                options["withdrawn"] = (
                    table(second, 30).slice(0, 1 + 8 * second) if period > 1 else None
                )
                model = noisegate.fit_period(
                    table(second, count), stream=plan, progress=True, **options
                )
            return model.sample(20, seed=1)

        return work

    one, other = (left(monkeypatch, tmp_path / "out", of(second)) for second in (0, 1))
    assert one["error"] == b"None", one
    assert_alike(one, other)


def test_nothing_of_images_is_known_to_methods_of_tables(tmp_path, monkeypatch, images):
    for name, settings in (
        ("dp-merf", PICTURES | {"frequencies": 10}),
        ("dp-sgd", STEPS | {"width": 2, "depth": 1}),
    ):
        options = {"on_error": "skip", "records": 1000}
        both = [
            left(
                monkeypatch,
                tmp_path / "out",
                fitted(name, data, IMAGES, settings, **options),
            )
            for data in images
        ]
        assert both[0]["error"] == b"None", both[0]
        assert_alike(*both)


@pytest.mark.parametrize("name", ["pairwise", "dp-llm"])
def test_nothing_is_known_of_units(name, tmp_path, monkeypatch):
    def of_units(second):
        data = table(second, 150 if second else 60)
        return data.append_column(
            "who",
            pa.array(
                [f"{index % (70 if second else 20)}" for index in range(len(data))]
            ),
        )

    options = {
        "unit_column": "who",
        "contributions": 3 if name == "pairwise" else 1,
        "records": 1000,
    }
    both = [
        left(
            monkeypatch,
            tmp_path / "out",
            fitted(name, of_units(second), TABLE, TINY[name], **options),
        )
        for second in (0, 1)
    ]
    assert both[0]["error"] == b"None", both[0]
    assert_alike(*both)


@pytest.mark.parametrize(
    ("name", "stop"), [("dp-sinkhorn", 1), ("dp-llm", 2), ("pairwise", None)]
)
def test_nothing_is_known_to_a_run_that_stopped_or_to_what_goes_on(
    name, stop, tmp_path, monkeypatch
):
    """A method of sums stops when it is fitted, and one of steps between steps."""
    monkeypatch.setattr(checkpoint, "_SAVE_INTERVAL_SECONDS", 0.0)
    settings = {**METHODS[name].audit_settings, **TINY.get(name, {})}
    options = {"records": 1000}
    both = [table(0, 30), table(1, 70)]

    def stopped(data):
        def work(folder):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(kept_folder)
            try:
                with monkeypatch.context() as patch:
                    if name == "pairwise":
                        patch.setattr(
                            "noisegate.app.runs.work._Execution._finish_step",
                            lambda *_: (_ for _ in ()).throw(StoppedError),
                        )
                    fitted(name, data, TABLE, settings, **options)(folder)
            finally:
                shutil.copytree(folder, kept_folder)

        return work

    kept_folder = tmp_path / "kept"
    seen = []
    for data in both:
        first = left(monkeypatch, tmp_path / "out", stopped(data), Blind(stop))
        assert b"StoppedError" in first["error"], first
        assert any("partial" in name for name in first), first

        def go_on(folder, data=data):
            shutil.copytree(kept_folder, folder, dirs_exist_ok=True)
            return noisegate.fit(
                data, out=folder / "m", resume=True, device="cpu", progress=True
            ).certificate

        second = left(monkeypatch, tmp_path / "out", go_on)
        assert second["error"] == b"None", second
        seen.append((first, second))
    for one, other in zip(*seen, strict=True):
        assert_alike(one, other)


@pytest.mark.parametrize("masked", [False, True])
def test_nothing_is_known_of_a_silo(masked, tmp_path, monkeypatch):
    options = {"silo": "north", "schema": TABLE, "epsilon": 1.0, "method": "pairwise"}
    if masked:
        pytest.importorskip("cryptography", reason="masks need the extra silos")
        (tmp_path / "public").mkdir()
        for name in ("north", "south"):
            shutil.copy(
                write_key(name, tmp_path / f"{name}.key"),
                tmp_path / "public" / f"{name}.pub",
            )
        options |= {
            "secure_sum": tmp_path / "public",
            "key": tmp_path / "north.key",
            "colluding": 1,
        }

    def released(data):
        def work(folder):
            shutil.rmtree(tmp_path / "north.key.used", ignore_errors=True)
            return noisegate.release(data, out=folder / "m", **options).certificate

        return left(monkeypatch, tmp_path / "out", work)

    both = [released(table(second, 70 if second else 30)) for second in (0, 1)]
    assert both[0]["error"] == b"None", both[0]
    assert_alike(*both)


def test_nothing_is_known_to_a_discovery(tmp_path, monkeypatch):
    kinds = {
        "dose": "continuous",
        "ward": "categorical",
        "ill": "boolean",
        "age": "integer",
    }

    def found(data):
        def work(folder):
            discovery = noisegate.discover_schema(
                data, epsilon=1.0, kinds=kinds, label="ill"
            )
            return discovery.toml, discovery.certificate.to_json(), discovery.doubts

        return left(monkeypatch, tmp_path / "out", work)

    assert_alike(*(found(table(second, MANY if second else 30)) for second in (0, 1)))


@pytest.mark.parametrize("kind", ["table", "images"])
def test_nothing_is_known_to_the_command_line(kind, tmp_path, monkeypatch, images):
    schema, name, skip = (
        (TABLE, "pairwise", [])
        if kind == "table"
        else (IMAGES, "dp-sgd", ["--on-error", "skip"])
    )
    schema.to_toml(tmp_path / "schema.toml")
    settings = TINY[name] if kind == "table" else STEPS | {"width": 2, "depth": 1}
    sets = [
        part
        for key, value in settings.items()
        for part in ("--set", f"{key}={json.dumps(value)}")
    ]

    def worked(second):
        path = tmp_path / "data.csv"
        if kind == "table":
            pa.csv.write_csv(table(second, MANY if second else 30), path)
        else:
            shutil.copytree(images[second], path)

        def work(folder):
            arguments = [
                "--schema",
                tmp_path / "schema.toml",
                "--epsilon",
                3,
                "--records",
                1000,
                "--method",
                name,
            ]
            command = [
                "noisegate",
                "fit",
                path,
                *arguments,
                *sets,
                *skip,
                "--out",
                folder / "m",
                "--log",
                folder / "run.log",
                "--device",
                "cpu",
            ]
            monkeypatch.setattr("sys.argv", list(map(str, command)))
            command_line()

        seen = left(monkeypatch, tmp_path / "out", work)
        if kind == "images":
            shutil.rmtree(path)
        return seen

    both = [worked(second) for second in (0, 1)]
    assert both[0]["error"] == b"SystemExit(0)", both[0]
    assert b"The run is done." in both[0]["run.log"]
    assert_alike(*both)
