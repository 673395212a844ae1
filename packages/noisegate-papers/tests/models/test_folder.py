"""Every file of a saved model, tampered with in turn, is noticed."""

import hashlib
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.stated import certificate, event_of

from noisegate import DPMERF, Gate, Synthesizer
from noisegate.errors import ModelError, UserError
from noisegate.models.folder import (
    HASHED,
    MODEL_FILE,
    check_new,
    description_digest,
    verify_model,
    write_folder,
    write_model,
)
from noisegate.privacy import accounting, grid
from noisegate.privacy.certificate import render
from noisegate.privacy.events import (
    Adjacency,
    Batched,
    Gaussian,
    Sampled,
    Sampler,
    ZeroConcentrated,
)
from noisegate.privacy.release import (
    CERTIFICATE_FILE,
    Release,
    array_hashes,
    read_certificate,
    release_arrays,
)
from noisegate.schema import Boolean, Categorical, Continuous, Schema

FILES = (*HASHED, MODEL_FILE)
SCHEMA = Schema(
    (
        Continuous(name="x", lower=0.0, upper=1.0),
        Categorical(name="k", levels=("a", "b")),
        Boolean(name="y"),
    ),
    label="y",
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    table = pa.table({"x": [0.2, 0.8], "k": ["a", "b"], "y": [True, False]})
    method = DPMERF(frequencies=8, latent=2, hidden=(4,), fit_options={"steps": 3})
    fitted = method.fit(Gate(table, schema=SCHEMA, epsilon=1.0), device="cpu")
    return fitted.save(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def model(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def refused(folder):
    for read in (Synthesizer.load, verify_model):
        with pytest.raises(ModelError):
            read(folder)


@pytest.mark.parametrize(
    ("umask", "folders", "files"),
    [(0o022, 0o755, 0o644), (0o027, 0o750, 0o640), (0o077, 0o700, 0o600)],
)
def test_the_umask_says_who_can_read_a_folder_but_for_what_is_private(
    umask, folders, files, tmp_path
):
    """A folder without its execute bit locks out everyone but root, as the demo's model once was."""

    def fill(folder):
        (folder / "inner").mkdir()
        (folder / "one").touch()
        for name in ("private.html", "inner/two.safetensors"):
            (folder / name).touch(mode=0o600)

    before = os.umask(umask)
    made = write_folder(tmp_path / "made", fill)
    os.umask(before)
    modes = {
        path.relative_to(made).as_posix(): path.stat().st_mode & 0o777
        for path in [made, *made.rglob("*")]
    }
    shared = {
        ".": folders,
        "inner": folders,
        "one": files,
        "inner/two.safetensors": files,
    }
    assert modes == {**shared, "private.html": 0o600}


def test_an_untouched_model_is_good(model):
    found = verify_model(model)
    assert found.recomputed_epsilon <= 1.0
    assert found.files == FILES
    assert {path.name for path in model.iterdir()} == set(FILES)
    assert Synthesizer.load(model).sample(3).num_rows == 3


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", [0.0, 0.3, 0.6, 0.999])
def test_a_flipped_byte_is_noticed(model, name, where):
    path = model / name
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(bytes(content))
    refused(model)


@pytest.mark.parametrize("name", FILES)
def test_a_removed_an_emptied_and_a_cut_file_are_noticed(model, name):
    path = model / name
    content = path.read_bytes()
    for changed in (b"", content[: len(content) // 2]):
        path.write_bytes(changed)
        refused(model)
    path.unlink()
    refused(model)


def test_changed_hashes_and_digests_are_noticed(model):
    path = model / MODEL_FILE
    text = path.read_text()
    description = json.loads(text)
    for name in HASHED:
        value = description["files"][name]
        described(
            model,
            files={
                **description["files"],
                name: ("0" if value[0] != "0" else "1") + value[1:],
            },
        )
        refused(model)
    described(model, files=description["files"], certificate="0" * 64)
    refused(model)


def described(folder, **change):
    """Changes what `model.json` says, and redoes its digest, as a forger would."""
    path = folder / MODEL_FILE
    description = {**json.loads(path.read_text("utf-8")), **change}
    path.write_text(
        json.dumps({**description, "digest": description_digest(description)}),
        encoding="utf-8",
    )


def changes(value):
    """Yields a JSON value with one of its parts changed, for each part."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            for part in changes(value[key]):
                yield (
                    {**value, key: part}
                    if isinstance(value, dict)
                    else [*value[:key], part, *value[key + 1 :]]
                )
        return
    yield value + (" " if isinstance(value, str) else 1) if value is not None else 1


def test_each_word_of_the_description_is_noticed_when_it_is_changed(model):
    """The verdict too, which a steward relies on and no other file holds."""
    path = model / MODEL_FILE
    description = json.loads(path.read_text("utf-8"))
    assert "verdict" in description["model"]["fit"]
    edited = list(changes(description))
    assert len(edited) > 15
    for one in edited:
        path.write_text(json.dumps(one), encoding="utf-8")
        refused(model)
    path.write_text(json.dumps(description), encoding="utf-8")
    assert verify_model(model).recomputed_epsilon <= 1.0


def test_a_model_of_before_the_digest_of_the_description_is_read(model):
    path = model / MODEL_FILE
    description = json.loads(path.read_text("utf-8"))
    del description["digest"]
    path.write_text(json.dumps(description), encoding="utf-8")
    found = verify_model(model)
    assert (found.files, found.others) == (
        HASHED,
        (MODEL_FILE,),
    )  # what it says of the model is not covered


@pytest.mark.parametrize(
    "change",
    [
        {"format": 99},
        {"files": {}},
        {"model": None},
        {"model": {}},
        {"model": {"kind": "other"}},
        {"files": None},
    ],
)
def test_a_broken_description_is_refused(model, change):
    described(model, **change)
    with pytest.raises(ModelError, match=r"format|broken|cannot be rebuilt|not known"):
        Synthesizer.load(model)


def test_other_network_sizes_than_the_weights_are_refused(model):
    stated = json.loads((model / MODEL_FILE).read_text())["model"]
    described(model, model={**stated, "latent": stated["latent"] + 1})
    with pytest.raises(ModelError, match="cannot be rebuilt"):
        Synthesizer.load(model)


def test_a_lowered_claim_is_noticed_even_with_all_hashes_redone(model):
    """Whoever redoes every hash can claim less than was spent only until someone recomputes it."""
    path = model / CERTIFICATE_FILE
    data = json.loads(path.read_text())
    data["guarantee"]["epsilon"] = 0.5
    path.write_text(json.dumps(data))
    rehash(model)
    with pytest.raises(ModelError, match=r"epsilon=0\.5"):
        verify_model(model)


def test_no_folder_is_no_model(tmp_path):
    refused(tmp_path / "none")
    refused(tmp_path)


def test_a_folder_that_fails_half_way_leaves_nothing(tmp_path):
    def fill(folder):
        (folder / "half").write_text("x")
        raise OSError(28, "No space left on device")

    with pytest.raises(ModelError, match="No space left"):
        write_folder(tmp_path / "model", fill)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path):
    check_new(tmp_path / "new")
    with pytest.raises(ModelError, match="exists"):
        check_new(tmp_path)
    with pytest.raises(ModelError, match="is not a folder"):
        check_new(tmp_path / "a" / "b")


def rehash(folder):
    """Makes all hashes right again, as a forger would."""
    files = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in HASHED
    }
    described(
        folder,
        files=files,
        certificate=read_certificate(folder / CERTIFICATE_FILE).digest(),
    )


def forge(folder, change):
    path = folder / CERTIFICATE_FILE
    stated = json.loads(path.read_text("utf-8"))
    change(stated)
    path.write_text(json.dumps(stated), encoding="utf-8")
    (folder / "certificate.md").write_text(
        render(read_certificate(path)), encoding="utf-8"
    )
    rehash(folder)


def test_forging_nothing_is_good(model):
    forge(model, lambda stated: None)
    verify_model(model)


def test_a_page_that_states_less_is_noticed(model):
    page = model / "certificate.md"
    page.write_text(
        page.read_text("utf-8").replace("**(1, 1e-05)", "**(0.01, 1e-05)"),
        encoding="utf-8",
    )
    rehash(model)
    with pytest.raises(ModelError, match="does not say what"):
        verify_model(model)


FORGERIES = {
    "a release left out": lambda stated: stated["events"].pop(),
    "an event told twice": lambda stated: stated["events"].append(stated["events"][0]),
    "another size": lambda stated: stated["events"][0].update(coordinates=1),
    "half a number": lambda stated: stated["events"][0].update(coordinates=0.5),
    "no sensitivity": lambda stated: [
        event.update(sensitivity=1) for event in stated["events"]
    ],
    "another relation": lambda stated: stated["guarantee"].update(
        adjacency="replace-one"
    ),
    "noise beyond what can be drawn": lambda stated: [
        event.update(noise_std=2.0**80) for event in stated["events"]
    ],
    "a number too large": lambda stated: stated["events"][0].update(noise_std=10**400),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_certificate_with_right_hashes_is_noticed(model, name):
    with pytest.raises(UserError):
        forge(model, FORGERIES[name])
        verify_model(model)


@pytest.mark.parametrize("extra", [0, 1, 1000])
def test_an_adaptive_release_may_be_smaller_than_was_paid_for(model, extra):
    def grow(stated):
        stated["public"]["adaptive"] = [stated["events"][0]["name"]]
        stated["events"][0]["coordinates"] += extra

    forge(model, grow)
    verify_model(model)


@pytest.mark.parametrize(
    "adaptive", [["fourier"], ["no such question"], "fourier", 5, [["fourier"]]]
)
def test_no_release_is_larger_than_was_paid_for(model, adaptive):
    def shrink(stated):
        stated["public"]["adaptive"] = adaptive
        stated["events"][0]["coordinates"] -= 1

    forge(model, shrink)
    with pytest.raises(ModelError, match="other releases"):
        verify_model(model)


def measured(folder, rho, *stds, **claim):
    """A folder with as many noisy counts that one adaptive mechanism measured, with this noise."""
    values = {f"aim/{place}:0": np.ones((2, 1)) for place in range(len(stds))}
    noise_std = dict(zip(values, stds, strict=True))
    events = (ZeroConcentrated(name="aim", rho=rho, mechanism="OpenDP mbi.AIM"),)
    return released(folder, events, values, noise_std, **claim)


def released(folder, events, values, noise_std, **claim):
    public = {"schema": SCHEMA.to_json(), "gradients": {"s": {"norm": 1.0}}}
    claim = {
        "epsilon": accounting.epsilon(events, 1e-5),
        "method": "aim",
        "public": public,
        **claim,
    }
    stated = certificate(
        events=events, hashes=array_hashes(release_arrays(values, noise_std)), **claim
    )
    release = Release(values=values, noise_std=noise_std, certificate=stated)
    return write_model(
        folder, release=release, tensors={"weights": np.ones(1)}, model={}
    )


UNITS = {"unit": "all records of one x", "contributions": 3}
REPLACED = {"adjacency": Adjacency.REPLACE_ONE}


@pytest.mark.parametrize(
    ("stds", "claim"),
    [((10.0, 20.0), {}), ((30.0, 60.0), UNITS), ((20.0, 40.0), REPLACED), ((1e3,), {})],
)
def test_noise_that_rho_paid_for_is_good(stds, claim, tmp_path):
    # 1/200 + 1/800, for a distance of one record, of three, and of two.
    verify_model(measured(tmp_path / "model", 0.00625, *stds, **claim))


@pytest.mark.parametrize(
    ("stds", "claim"),
    [
        ((10.0, 19.9), {}),
        ((10.0, 20.0), UNITS),
        ((29.9, 60.0), UNITS),
        ((10.0, 20.0), REPLACED),
        ((0.0,), {}),
        ((float("nan"),), {}),
    ],
)
def test_noise_that_costs_more_than_the_stated_rho_is_noticed(stds, claim, tmp_path):
    with pytest.raises(
        ModelError,
        match=r"states rho=0\.00625, but .* do not rely on it|'aim/0:0' must be one array",
    ):
        verify_model(measured(tmp_path / "model", 0.00625, *stds, **claim))


NOISE = {"noise_std": 2.0**44, "coordinates": 2, "sampler": Sampler.CONVOLVED_GAUSSIAN}
STEPS = {"rate": 0.5, "steps": 3, **NOISE}
LEAST = {
    "a sum": (
        lambda sensitivity: Gaussian(name="s", sensitivity=sensitivity, **NOISE),
        grid.UNITS,
    ),
    "steps": (
        lambda sensitivity: event_of(
            Sampled, name="s", sensitivity=sensitivity, **STEPS
        ),
        grid.UNITS,
    ),
    "whole samples": (
        lambda sensitivity: event_of(
            Batched, name="s", sensitivity=sensitivity, shards=1, **STEPS
        ),
        2 * grid.UNITS,
    ),
}


@pytest.mark.parametrize("name", LEAST)
def test_no_event_states_less_than_a_record_has_on_the_grid(name, tmp_path):
    event, least = LEAST[name]
    values, noise_std = (
        {"s": np.ones((2, 1))},
        {"s": 2.0**44 / grid.Grid(norm=1.0).scale},
    )
    verify_model(released(tmp_path / "true", (event(least),), values, noise_std))
    with pytest.raises(
        ModelError,
        match=f"below the {least} that a record has on the grid under add-remove",
    ):
        verify_model(
            released(tmp_path / "forged", (event(least - 1),), values, noise_std)
        )
