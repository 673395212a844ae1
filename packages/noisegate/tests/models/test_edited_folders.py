"""A model folder that somebody edited is refused by name, or still claims what it did; it never breaks a reader.

Thousands of seeded edits: fields of the JSON files deleted, retyped, changed or nested; bytes flipped and files cut;
files renamed, removed, added and linked; arrays renamed, reshaped, retyped, added and removed. Some are tried as they
are, and some with every hash made to fit, as whoever may write the folder can do.
"""

import hashlib
import json
import math
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file, save_file
from tests.shared.columns import boolean, continuous
from typer.testing import CliRunner

from noisegate import Gate, Pairwise, Synthesizer
from noisegate.app.cli.main import app
from noisegate.errors import ModelError, NoisegateError
from noisegate.models.folder import (
    GENERATOR_FILE,
    HASHED,
    MODEL_FILE,
    PAGE_FILE,
    description_digest,
    verify_model,
)
from noisegate.privacy.certificate import Certificate, canonical_json, render
from noisegate.privacy.release import CERTIFICATE_FILE, VALUES_FILE, array_hashes
from noisegate.schema import Schema

SCHEMA = Schema((continuous("x"), boolean("y")), label="y")
OTHERS = (
    None,
    True,
    0,
    -1,
    1e-9,
    1e300,
    10**400,
    "",
    "x",
    "\n",
    "\ud800",
    "seeded 0",
    [],
    {},
    [[]],
    {"a": {"b": []}},
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    random = np.random.default_rng(0)
    table = pa.table({"x": random.random(200), "y": random.random(200) < 0.5})
    fitted = Pairwise().fit(Gate(table, schema=SCHEMA, epsilon=1.0), device="cpu")
    return fitted.save(tmp_path_factory.mktemp("models") / "model")


def copied(saved, folder):
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(saved, folder))


def places(value, at=()):
    """Yields where each value of a JSON document stands."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def edited(document, chance):
    """Returns a JSON document with one value deleted, replaced, nested or joined by another."""
    where = chance.choice([path for path in places(document) if path])
    parent = document
    for key in where[:-1]:
        parent = parent[key]
    key = where[-1]
    kind = chance.choice(["delete", "replace", "retype", "nest", "number", "add"])
    if kind == "delete":
        del parent[key]
    elif kind == "nest":
        parent[key] = [parent[key]]
    elif kind == "retype":
        value = parent[key]
        parent[key] = (
            float(value)
            if isinstance(value, int)
            else str(value)
            if value != str(value)
            else {value: 1}
        )
    elif (
        kind == "number"
        and isinstance(parent[key], int | float)
        and not isinstance(parent[key], bool)
    ):
        parent[key] *= chance.choice([0, -1, 0.5, 2, 1e9, 1 + 1e-7])
    elif kind == "add" and isinstance(parent, dict):
        parent[chance.choice(["extra", "seed", "noise"])] = chance.choice(OTHERS)
    else:
        parent[key] = chance.choice(OTHERS)
    return document


def edit_json(folder, chance):
    path = folder / chance.choice([CERTIFICATE_FILE, CERTIFICATE_FILE, MODEL_FILE])
    document = edited(json.loads(path.read_text("utf-8")), chance)
    path.write_text(json.dumps(document), encoding="utf-8")


def edit_text(folder, chance):
    """Changes a JSON file below what a JSON writer would write."""
    path = folder / chance.choice([CERTIFICATE_FILE, MODEL_FILE])
    text = path.read_text("utf-8")
    kind = chance.choice(["nan", "deep", "digits", "twice", "list", "huge"])
    number = "1e-05" if "1e-05" in text else "1"
    text = {
        "nan": lambda: text.replace(
            number, chance.choice(["NaN", "Infinity", "-Infinity"]), 1
        ),
        "deep": lambda: "[" * 100_000,
        "digits": lambda: text.replace(number, "9" * 5000, 1),
        "twice": lambda: text.replace("{", '{"format": 1, ', 1),
        "list": lambda: f"[{text}]",
        "huge": lambda: text.replace(number, "1e999", 1),
    }[kind]()
    path.write_text(text, encoding="utf-8")


def edit_bytes(folder, chance):
    path = folder / chance.choice([*HASHED, MODEL_FILE])
    content = bytearray(path.read_bytes())
    if chance.random() < 0.3:
        del content[chance.randrange(len(content)) :]
    for _ in range(chance.choice([1, 1, 3]) if content else 0):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(content))


def edit_files(folder, chance):
    one, other = (folder / name for name in chance.sample([*HASHED, MODEL_FILE], 2))
    kind = chance.choice(
        [
            "remove",
            "swap",
            "rename",
            "link",
            "folder",
            "copy",
            "add",
            "add-folder",
            "pipe",
        ]
    )
    if kind == "swap":
        first = one.read_bytes()
        second = other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)
    elif kind == "copy":
        one.write_bytes(other.read_bytes())
    elif kind == "add":
        (
            folder / chance.choice(["private.csv", ".hidden", "[red]x", "a\nb"])
        ).write_text("x")
    elif kind == "add-folder":
        (folder / "more").mkdir()
    elif kind == "rename":
        one.rename(folder / f"{one.name}.old")
    elif kind == "link":
        one.rename(folder.parent / "elsewhere")
        one.symlink_to(folder.parent / "elsewhere")
    else:
        one.unlink()
        if kind == "folder":
            one.mkdir()
        elif kind == "pipe":
            os.mkfifo(one)


def edit_arrays(folder, chance):
    path = folder / chance.choice([VALUES_FILE, VALUES_FILE, GENERATOR_FILE])
    arrays = dict(load_file(path))
    name = chance.choice(sorted(arrays))
    array = arrays[name]
    metadata = None
    kinds = (
        "add add-std remove rename reshape longer retype nan zero value metadata empty"
    )
    kind = chance.choice(kinds.split())
    if kind == "add":
        arrays["secret"] = np.arange(1000.0).reshape(-1, 1)
    elif kind == "add-std":
        arrays["noise_std/secret"] = np.arange(1.0, 1001.0)
    elif kind == "remove":
        del arrays[name]
    elif kind == "rename":
        arrays[chance.choice(["other", f"noise_std/{name}", f"{name}/0"])] = arrays.pop(
            name
        )
    elif kind == "reshape":
        arrays[name] = array.reshape(chance.choice([(-1,), (1, -1), (1, 1, -1)]))
    elif kind == "longer":
        arrays[name] = np.concatenate([array.reshape(-1), np.arange(100.0)]).astype(
            array.dtype
        )
    elif kind == "retype":
        arrays[name] = array.astype(
            chance.choice([np.float32, np.int64, np.uint8, np.bool_])
        )
    elif kind in ("nan", "zero", "value"):
        arrays[name] = (
            array.astype(np.float64)
            * {"nan": math.nan, "zero": 0.0, "value": 1.5}[kind]
        )
    elif kind == "empty":
        arrays[name] = array.reshape(-1)[:0]
    else:
        metadata = {"secret": "x" * 100}
    save_file(
        {key: np.ascontiguousarray(value) for key, value in arrays.items()},
        path,
        metadata=metadata,
    )


EDITS = (
    edit_json,
    edit_json,
    edit_json,
    edit_text,
    edit_bytes,
    edit_files,
    edit_arrays,
    edit_arrays,
)


def rewritten_to_fit(folder, values_changed):
    """Redoes every hash, as far as what is there allows it."""
    try:
        certificate = json.loads((folder / CERTIFICATE_FILE).read_text("utf-8"))
        if values_changed:
            certificate["hashes"] = array_hashes(load_file(folder / VALUES_FILE))
            (folder / CERTIFICATE_FILE).write_text(
                json.dumps(certificate), encoding="utf-8"
            )
        description = json.loads((folder / MODEL_FILE).read_text("utf-8"))
        try:
            understood = Certificate.from_json(certificate)
            (folder / PAGE_FILE).write_text(render(understood), encoding="utf-8")
        except Exception:
            pass
        description["certificate"] = hashlib.sha256(
            canonical_json(certificate)
        ).hexdigest()
        description["files"] = {
            name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
            for name in HASHED
        }
        description["digest"] = description_digest(description)
        (folder / MODEL_FILE).write_text(json.dumps(description), encoding="utf-8")
    except Exception:
        return  # beyond repair, which is an edit too


def claim(found):
    """What is believed after verifying: the guarantee, and what was computed."""
    stated = found.certificate.to_json()
    return {name: stated[name] for name in ("guarantee", "events", "noise_source")}


def attempt(saved, folder, seed):
    """Makes one edit and reads the folder in every way; returns whether it was refused."""
    chance = random.Random(seed)
    copied(saved, folder)
    (folder.parent / "elsewhere").unlink(missing_ok=True)
    edit = chance.choice(EDITS)
    edit(folder, chance)
    refitted = chance.random() < 0.6 and not any(
        path.is_fifo() for path in folder.iterdir()
    )
    if refitted:
        rewritten_to_fit(folder, edit is edit_arrays)
    refused = False
    try:
        verified = verify_model(folder)
        assert verified.recomputed_epsilon <= verified.certificate.epsilon * (1 + 1e-9)
        if not refitted:
            assert claim(verified) == claim(verify_model(saved))
        assert "secret" not in str(sorted(load_file(folder / VALUES_FILE)))
        extra = {path.name for path in folder.iterdir()} - {*HASHED, MODEL_FILE}
        stored = json.loads((folder / MODEL_FILE).read_text("utf-8"))
        assert set(verified.others) == (
            extra if "digest" in stored else {*extra, MODEL_FILE}
        )
    except NoisegateError as error:
        assert error.exit_code == 2
        refused = True
    try:
        Synthesizer.load(folder).sample(2, seed=1)
    except NoisegateError as error:
        assert error.exit_code == 2
    return refused


@pytest.mark.parametrize(
    "block",
    [
        *range(10),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 110)),
    ],
)
def test_a_hundred_edits_are_refused_or_harmless(saved, tmp_path, block):
    refused = 0
    for seed in range(100 * block, 100 * (block + 1)):
        try:
            refused += attempt(saved, tmp_path / "model", seed)
        except Exception as error:
            raise AssertionError(
                f"edit {seed}: {type(error).__name__}: {error}"
            ) from error
    assert refused > 50


def refit(saved, folder, change=None, arrays=None):
    copied(saved, folder)
    certificate = json.loads((folder / CERTIFICATE_FILE).read_text("utf-8"))
    if change:
        change(certificate)
        (folder / CERTIFICATE_FILE).write_text(
            json.dumps(certificate), encoding="utf-8"
        )
    if arrays:
        stored = dict(load_file(folder / VALUES_FILE))
        arrays(stored)
        save_file(stored, folder / VALUES_FILE)
    rewritten_to_fit(folder, arrays is not None)
    return folder


# Far below one record on the grid: what only a discovery has, and there beside the kinds of its columns.
THRESHOLDED = {
    "kind": "thresholded-gaussian",
    "sensitivity": 1.0,
    "weight": 1,
    "keys": 1,
    "threshold": 10**15,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(noise_source="seeded 0"), r"noise_source='seeded 0'"),
        (lambda c: c.update(secret=[1, 2]), "'secret' holds something"),
        (lambda c: c["guarantee"].update(alpha=2), "'guarantee' holds something"),
        (lambda c: c["events"][0].update(secret=1), "unusable fields"),
        (lambda c: c["guarantee"].update(epsilon="1.0"), "'guarantee' holds something"),
        (lambda c: c["guarantee"].update(contributions=1), "names no unit column"),
        (lambda c: c.update(ledger=[1]), "ledger is not a table"),
        (
            lambda c: c.update(ledger={"dataset": "a\nreviewed_by: somebody"}),
            "ledger is not a table",
        ),
        (
            lambda c: c["public"].update({"a\nreviewed_by": 1}),
            "public knowledge is not a table",
        ),
        (lambda c: c.update(method="a\nb"), "method is not a line"),
        (lambda c: c["public"].pop("schema"), "states no schema"),
        (lambda c: c["public"].update(schema=[]), "JSON object with columns"),
        (
            lambda c: [event.update(THRESHOLDED) for event in c["events"]],
            "other releases",
        ),
    ],
)
def test_what_a_certificate_may_not_say(saved, tmp_path, change, message):
    with pytest.raises(NoisegateError, match=message):
        verify_model(refit(saved, tmp_path / "model", change))


def test_what_arrays_may_not_be(saved, tmp_path):
    name = sorted(
        name
        for name in load_file(saved / VALUES_FILE)
        if not name.startswith("noise_std/")
    )[0]
    std = f"noise_std/{name}"
    changes = {
        "missing deviation": lambda arrays: arrays.pop(std),
        "deviation that hides data": lambda arrays: arrays.update(
            {std: np.append(arrays[std], np.arange(1000.0))}
        ),
        "deviation of nothing": lambda arrays: arrays.update(
            {"noise_std/secret": np.arange(1000.0)}
        ),
        "values of no event": lambda arrays: arrays.update(
            {"secret": np.ones((3, 1)), "noise_std/secret": np.ones(1)}
        ),
        "no noise": lambda arrays: arrays.update({std: np.zeros(1)}),
        "other type": lambda arrays: arrays.update(
            {name: arrays[name].astype(np.float32).astype(np.float16)}
        ),
    }
    for label, change in changes.items():
        with pytest.raises(ModelError):
            verify_model(refit(saved, tmp_path / "model", arrays=change))
            pytest.fail(label)


GOLDEN = Path(__file__).parents[4] / "tests" / "golden" / "models"


@pytest.mark.parametrize("factor", [1 + 1e-7, 1.5, 2, 3])
@pytest.mark.parametrize("model", ["pairwise", "sgd", "llm", "gs-wgan"])
def test_an_event_with_other_noise_than_the_release_is_refused(tmp_path, model, factor):
    def more(certificate):
        event = max(certificate["events"], key=lambda event: event["coordinates"])
        event["noise_std"] *= factor

    assert verify_model(refit(GOLDEN / model, tmp_path / "same")).recomputed_epsilon > 0
    with pytest.raises(
        ModelError, match=r"which is not the .* of the release in the units"
    ):
        verify_model(refit(GOLDEN / model, tmp_path / "model", more))


@pytest.mark.parametrize("factor", [1 + 1e-7, 0.5, 2 / 3])
@pytest.mark.parametrize(
    ("model", "name"),
    [("pairwise", "pairs"), ("sgd", "network"), ("discovered", "one-way")],
)
def test_a_release_with_other_noise_than_its_event_is_refused(
    tmp_path, model, name, factor
):
    with pytest.raises(
        ModelError, match=r"which is not the .* of the release in the units"
    ):
        verify_model(
            refit(
                GOLDEN / model,
                tmp_path / "model",
                arrays=lambda arrays: arrays.update(
                    {f"noise_std/{name}": arrays[f"noise_std/{name}"] * factor}
                ),
            )
        )


@pytest.mark.parametrize(
    "change",
    [{}, {"network": {}}, {"network": {"norm": "x"}}, {"network": {"norm": -1.0}}],
)
def test_trained_numbers_need_the_norm_that_their_noise_is_for(tmp_path, change):
    with pytest.raises(ModelError, match="norm"):
        verify_model(
            refit(
                GOLDEN / "sgd",
                tmp_path / "model",
                lambda c: c["public"].update(gradients=change),
            )
        )


@pytest.mark.parametrize("name", [VALUES_FILE, GENERATOR_FILE])
def test_text_beside_arrays_is_refused(saved, tmp_path, name):
    folder = copied(saved, tmp_path / "model")
    save_file(load_file(folder / name), folder / name, metadata={"secret": "x"})
    rewritten_to_fit(folder, values_changed=False)
    with pytest.raises(ModelError, match="text beside its arrays"):
        verify_model(folder)


def test_what_else_lies_in_the_folder_is_named_as_not_covered(saved, tmp_path):
    folder = copied(saved, tmp_path / "model")
    (folder / "private.csv").write_text("x")
    assert verify_model(folder).others == ("private.csv",)
    run = CliRunner().invoke(app, ["verify", str(folder)])
    assert run.exit_code == 0
    assert "Not covered" in run.output
    assert "private.csv" in run.output
    shown = CliRunner().invoke(app, ["verify", str(folder), "--json"])
    assert json.loads(shown.stdout)["not_covered"] == ["private.csv"]


@pytest.mark.parametrize("name", [*HASHED, MODEL_FILE])
def test_a_link_in_the_folder_is_refused(saved, tmp_path, name):
    folder = copied(saved, tmp_path / "model")
    (folder / name).unlink()
    (folder / name).symlink_to(saved / name)
    with pytest.raises(ModelError, match="link"):
        verify_model(folder)
