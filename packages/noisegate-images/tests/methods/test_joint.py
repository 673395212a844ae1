from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Budget, Gate
from noisegate.errors import ModelError
from noisegate.gate import session as sessions
from noisegate.gate.execution import Execution
from noisegate.models.synthesizer import Synthesizer
from noisegate.schema import pixel_schema
from noisegate.testing import FakeGate
from noisegate_images.methods.joint import (
    ORIENTATIONS,
    PIXELS,
    STROKES,
    WAVELETS,
    JointEmbedding,
)
from noisegate_images.networks.strokes import SHIPPED_SHA256 as STROKES_SHA256
from noisegate_images.networks.strokes import load_drawing
from noisegate_images.queries.perceptual import Perceptual

SIDE = 8
TINY = dict(
    image=(SIDE, SIDE, 1),
    pixels=40,
    orientations=40,
    wavelets=40,
    strokes=0,
    latent=4,
    channels=(8, 8),
)
QUICK = {**TINY, "fit_options": {"steps": 3}}
SCHEMA = pixel_schema(SIDE, SIDE, labels=["left", "down"])


def strokes(rows: int, label: bool = True) -> pa.Table:
    """Bright bars on black: of the first label upright ones, of the second lying ones, at a place of their own each."""
    random = np.random.default_rng(0)
    images = np.zeros((rows, SIDE, SIDE), dtype=np.int64)
    lying = random.integers(0, 2, rows)
    for image, flat in zip(images, lying, strict=True):
        place = random.integers(1, SIDE - 2)
        (image if flat else image.T)[place : place + 2] = random.integers(200, 256)
    table = pa.table(
        dict(zip(SCHEMA.names[:-1], images.reshape(rows, -1).T, strict=True))
    )
    names = np.array(["left", "down"])[lying]
    return table.append_column("label", pa.array(names)) if label else table


def share_lying(images: np.ndarray) -> np.ndarray:
    """Of each image, how much brighter its brightest row is than its brightest column, as a truth value."""
    return images.mean(axis=2).max(axis=1) > images.mean(axis=1).max(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("generator", ["sub-pixel", "convolutional"])
def test_a_fit_recovers_what_the_labels_look_like(generator, monkeypatch):
    # Half of these images is ink: they lie further apart than drawings, for which the scales are.
    monkeypatch.setattr("noisegate_images.methods.joint.PIXEL_SCALE", 3.0 * 28 / SIDE)
    monkeypatch.setattr("noisegate_images.methods.joint.UNIT_SCALE", 1.0)
    options = {
        **TINY,
        "generator": generator,
        "fit_options": {"steps": 200, "batch": 64},
    }
    method = JointEmbedding(**options)
    made = method.fit(
        Gate(strokes(3000), schema=SCHEMA, epsilon=100.0), device="cpu"
    ).sample(600, seed=1)
    labels = np.array(made["label"].to_pylist())
    images = np.stack(
        [made[name].to_numpy() for name in SCHEMA.names[:-1]], axis=1
    ).reshape(-1, SIDE, SIDE)
    lying = share_lying(images)
    assert 0.4 < (labels == "down").mean() < 0.6
    assert lying[labels == "down"].mean() > 0.85
    assert lying[labels == "left"].mean() < 0.15


def test_a_record_costs_what_the_plan_says_whatever_the_split():
    """Shares move noise between the parts; the whole stays at ε, and so does what is expected."""
    said = []
    for share in (0.1, 1.0, 10.0):
        method = JointEmbedding(**QUICK, wavelets_share=share)
        plan = method.plan(SCHEMA, Budget(epsilon=1.0))
        noise = {
            name: plan.release(name).noise_std_natural for name in (PIXELS, WAVELETS)
        }
        assert noise[PIXELS] / noise[WAVELETS] == pytest.approx(share**0.5, rel=1e-3)
        said.append(method.verdict(SCHEMA, Budget(epsilon=1.0), 1000).figures["noise"])
    assert said == pytest.approx([said[0]] * 3, rel=0.02)  # but for the counts' share
    made = JointEmbedding(**QUICK).fit(
        Gate(strokes(30), schema=SCHEMA, epsilon=1.0), device="cpu"
    )
    assert 0.95 < made.certificate.check() <= 1.0


def test_features_are_public_and_follow_from_the_seed():
    first, again, other = (
        JointEmbedding(**QUICK, seed=seed).maps(SCHEMA) for seed in (1, 1, 2)
    )
    assert (first[PIXELS].frequencies == again[PIXELS].frequencies).all()
    assert (first[PIXELS].frequencies != other[PIXELS].frequencies).any()
    # Were the streams shared, the parts would be dependent.
    rows = min(
        len(first[PIXELS].frequencies), len(first[ORIENTATIONS].fourier.frequencies)
    )
    assert (
        first[PIXELS].frequencies[:rows]
        != first[ORIENTATIONS].fourier.frequencies[:rows]
    ).any()


@pytest.mark.slow
def test_images_that_fit_another_class_better_are_made_again_and_the_verdict_says_how_many():
    gate = Gate(strokes(3000), schema=SCHEMA, epsilon=10.0)
    method = JointEmbedding(**{**TINY, "fit_options": {"steps": 60}}, tries=4)
    release = method.query(gate)
    made, plain = (
        one.fit_release(release, device="cpu")
        for one in (method, replace(method, tries=1))
    )
    agreement = made.summary.notes["agreement"]
    assert 0.5 <= agreement <= 1
    assert f"{100 * agreement:.0f} fit the released means" in str(made.verdict)
    assert "agreement" not in plain.summary.notes
    # The generator is the same; what is drawn differs where its first image did not fit.
    assert all(
        (made.model.tensors()[name] == values).all()
        for name, values in plain.model.tensors().items()
    )
    assert made.model.nearest is not None
    assert made.model.rivals == 1  # two classes
    assert plain.model.nearest is None


@pytest.mark.slow
def test_means_that_hardly_any_image_agrees_with_have_no_say():
    release = JointEmbedding(**QUICK).query(
        Gate(strokes(500), schema=SCHEMA, epsilon=10.0)
    )
    # The classes' means change places: whatever the generator of another release makes, fits the other one.
    method = JointEmbedding(**{**TINY, "fit_options": {"steps": 150}})
    fitting = method.fitting(release, device="cpu")
    fitting.run()
    fitting.target = replace(
        fitting.target,
        means={name: m[::-1] for name, m in fitting.target.means.items()},
    )
    made = method.synthesizer(release, fitting)
    assert made.model.nearest is None
    assert "all are taken" in str(made.verdict)
    assert made.verdict.word == "noise"


def test_settings_that_there_were_once_are_read_where_they_mean_the_same_and_refused_otherwise():
    stored = JointEmbedding(**QUICK).to_json()
    once = {
        "pixel_scale": None,
        "wavelets_scale": 0.3,
        "pixels_share": 1.0,
        "directions": 8,
        "pool": True,
    }
    assert JointEmbedding.from_json(stored | once) == JointEmbedding(**QUICK)
    with pytest.raises(ModelError, match="pixel_scale=3"):
        JointEmbedding.from_json(stored | {"pixel_scale": 3.0})


def test_settings_of_an_earlier_version_ask_what_they_asked():
    stored = JointEmbedding(**QUICK).to_json()
    del stored["unit_orientations"], stored["strokes"], stored["wavelets"]
    read = JointEmbedding.from_json(stored)
    assert (read.unit_orientations, read.strokes, read.wavelets) == (False, 0, 0)
    assert read.maps(SCHEMA)[ORIENTATIONS].of.damping is None


DRAWINGS = pixel_schema(28, 28, labels=["left", "down"])
FEW = {
    "pixels": 20,
    "orientations": 20,
    "wavelets": 20,
    "strokes": 20,
    "hidden": (8,),
    "generator": "drawing",
}
LITTLE = {"steps": 1, "batch": 16, "check_batches": 3}


def drawings(rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    images = random.integers(0, 256, (28 * 28, rows))
    table = pa.table(dict(zip(DRAWINGS.names[:-1], images, strict=True)))
    return table.append_column("label", pa.array(random.choice(["left", "down"], rows)))


def test_a_fit_of_drawings_begins_with_the_decoder_of_the_package_and_changes_it_slowly(
    tmp_path,
):
    gate, known = Gate(drawings(40), schema=DRAWINGS, epsilon=1.0), load_drawing()
    method = JointEmbedding(
        image=(28, 28, 1), **FEW, fit_options=LITTLE | {"steps": 3, "ema_decay": 0.0}
    )
    made = method.fit(gate, device="cpu")
    assert sorted(made.release.values) == [
        "counts",
        "orientations",
        "pixels",
        "strokes",
        "wavelets",
    ]
    tensors = made.model.tensors()
    moved = {
        name: np.abs(tensors[f"generator/logits.decoder.{name}"] - start.numpy()).max()
        for name, start in known.items()
    }
    # Adam moves a weight by about its learning rate a step; the decoder's is a tenth of 1e-2.
    assert 0 < max(moved.values()) < 5 * 3 * 1e-3
    fresh = JointEmbedding(image=(28, 28, 1), **FEW).initial_generator(made.release, 2)
    mapping = "logits.mapping.0.weight"
    assert (
        np.abs(
            tensors[f"generator/{mapping}"] - fresh.state_dict()[mapping].numpy()
        ).max()
        > 5e-3
    )
    made.save(tmp_path / "model")
    assert Synthesizer.load(tmp_path / "model").sample(7, seed=3) == made.sample(
        7, seed=3
    )


def test_the_certificate_names_the_encoder_of_strokes_and_another_is_refused():
    made = JointEmbedding(image=(28, 28, 1), **FEW, fit_options=LITTLE).fit(
        Gate(drawings(30), schema=DRAWINGS, epsilon=1.0), device="cpu"
    )
    settings = made.certificate.public["settings"]
    assert settings["strokes_sha256"] == STROKES_SHA256
    # A model keeps it too, so that a later version with another encoder says so.
    assert (
        JointEmbedding(image=(28, 28, 1), **FEW).image_maps()[STROKES].sha256
        == STROKES_SHA256
    )
    assert (
        JointEmbedding.from_json(settings).maps(DRAWINGS)[STROKES].dim
        == made.release.values[STROKES].shape[0]
    )
    with pytest.raises(ModelError, match="the strokes of this version is another one"):
        JointEmbedding.from_json(settings | {"strokes_sha256": "00"}).maps(DRAWINGS)


def test_what_the_encoder_of_strokes_rounds_is_probed_and_not_what_angles_hide(
    monkeypatch,
):
    probed = {}

    def watched(name, feature_map, layout, rows):
        probed[name] = type(feature_map)
        return Execution(rows=8)

    monkeypatch.setattr(sessions, "map_execution", watched)
    JointEmbedding(image=(28, 28, 1), **FEW).query(FakeGate(DRAWINGS, rows=16))
    assert probed[STROKES] is Perceptual
