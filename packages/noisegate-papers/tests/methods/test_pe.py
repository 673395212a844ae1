"""Private Evolution: candidates begin with public images and follow from noisy votes; labels' shares are bought."""

from dataclasses import replace

import numpy as np
import pytest

from noisegate import Gate, PrivateEvolution
from noisegate.errors import ModelError, OptionError
from noisegate.gate import execution
from noisegate.gate.queries import sums
from noisegate.schema import pixel_schema
from noisegate.testing import FakeGate
from noisegate_evaluate.auditing.examples import _made_up
from noisegate_images.features.perceptual import Perceptual
from noisegate_papers.training.image_evolution import simulated_shapes, varied

from .conftest import votes_of

SCHEMA, PLAIN = pixel_schema(8, 8, labels=("across", "down")), pixel_schema(8, 8, labels=None)
SMALL = {"image": (8, 8, 1), "candidates": 60, "images": 80, "rounds": 3}


def bars(rows=400, seed=0, share=0.25):
    """Returns images of a bar, and whether it goes down; three quarters of them go across."""
    random = np.random.default_rng(seed)
    pixels, down = np.zeros((rows, 8, 8), dtype=np.uint8), random.random(rows) < share
    for image, place in zip(pixels, random.integers(1, 7, rows), strict=True):
        image[place] = 255
    pixels[down] = pixels[down].transpose(0, 2, 1)
    return pixels, np.where(down, "down", "across")


@pytest.fixture
def private(tmp_path):
    pixels, labels = bars()
    np.savez(tmp_path / "private.npz", images=pixels, labels=labels)
    return tmp_path / "private.npz"


@pytest.fixture
def public(tmp_path):
    np.savez(tmp_path / "public.npz", images=bars(200, seed=9, share=0.5)[0])
    return tmp_path / "public.npz"


def gate_of(private, epsilon=4.0, **options):
    return Gate(private, schema=SCHEMA, epsilon=epsilon, records=400, **options)


def test_candidates_of_an_evolution_follow_from_the_release_and_not_from_the_images(private, asked):
    method = PrivateEvolution(**SMALL)
    release = method.query(gate_of(private, epsilon=1.0))
    evolution = method.evolution(SCHEMA, release.values["counts"][0], release.noise_std["votes-1"])
    for place, votes in enumerate(votes_of(asked)):
        if place:
            evolution.select(release.values[f"votes-{place}"][:, 0])
        again = evolution.votes(method.compared(), 0)
        assert np.array_equal(again.labels, votes.labels)
        assert np.array_equal(again.candidates, votes.candidates)


def test_the_shares_of_labels_are_those_that_were_bought(private):
    method, gate = PrivateEvolution(**SMALL), gate_of(private, epsilon=0.3)
    release = method.query(gate)
    noisy = np.maximum(release.values["counts"][0], 1.0)
    exact = np.bincount(bars()[1] == "down")
    # The noise is large enough that the comparison can fail.
    assert abs(noisy / noisy.sum() - exact / exact.sum()).max() > 0.01
    model = method.model(release)
    by_label = np.bincount(model.records.labels, model.weights[0])
    assert by_label / by_label.sum() == pytest.approx(noisy / noisy.sum())


def test_what_a_network_rounds_is_probed_and_not_what_votes_hide(monkeypatch):
    probed = []

    def watched(name, feature_map, layout, rows):
        probed.append((name, type(feature_map), rows))
        return execution.Execution(rows=8)

    monkeypatch.setattr(sums, "map_execution", watched)
    PrivateEvolution(**SMALL | {"rounds": 1}, features="encoder").query(FakeGate(SCHEMA, rows=16))
    assert probed[1:] == [("votes-1", Perceptual, 256)]


def test_a_release_is_not_read_with_other_public_images(private, public, tmp_path):
    method = PrivateEvolution(**SMALL, public=str(public))
    release = method.query(gate_of(private))
    np.savez(tmp_path / "other.npz", images=bars(200, seed=10)[0])
    with pytest.raises(ModelError, match="not the public images"):
        PrivateEvolution(**SMALL, public=str(tmp_path / "other.npz")).model(release)
    with pytest.raises(ModelError, match="not the public images"):
        PrivateEvolution(**SMALL).model(release)


def test_other_votes_than_candidates_are_refused(private):
    method = PrivateEvolution(**SMALL)
    release = method.query(gate_of(private))
    votes = release.values["votes-2"][1:]
    with pytest.raises(ModelError, match=f"{len(votes)} votes in round 2"):
        method.model(replace(release, values={**release.values, "votes-2": votes}))


@pytest.mark.parametrize("labelled", [False, True])
def test_candidates_that_are_like_private_images_win(private, tmp_path, labelled):
    shapes = simulated_shapes(150, (8, 8, 1), np.random.default_rng(3))[..., 0]
    pixels, labels = bars(150, seed=9, share=0.5)
    both = {"images": np.concatenate([pixels, shapes])}
    both |= {"labels": np.concatenate([labels, labels])} if labelled else {}
    np.savez(tmp_path / "public.npz", **both)
    settings = {**SMALL, "candidates": 300, "rounds": 1, "public_labels": labelled, "variation": 0.0}
    made = PrivateEvolution(**settings, public=str(tmp_path / "public.npz")).fit(gate_of(private, 1000.0), device="cpu")
    (batch,) = made.images(60, seed=0)
    for image, label in zip(batch.pixels[..., 0], batch.labels, strict=True):
        image = image.T if label == "down" else image
        assert (np.ptp(image, axis=1) == 0).all(), "a bar that goes across"


def test_simulated_shapes_become_like_the_private_images(private):
    def distance(rounds):
        made = PrivateEvolution(**SMALL | {"rounds": rounds}).fit(gate_of(private, 50.0))
        (batch,) = made.images(80, seed=0)
        real = bars()[0].reshape(400, -1) / 255
        apart = np.square(batch.pixels.reshape(80, 1, -1) / 255 - real).sum(axis=2)
        return apart.min(axis=1).mean()

    assert distance(6) < 0.85 * distance(1)


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_much_noise_and_few_candidates_make_images_all_the_same(private, epsilon):
    made = PrivateEvolution(**SMALL | {"candidates": 2}).fit(gate_of(private, epsilon), device="cpu")
    assert sum(len(batch.pixels) for batch in made.images(30, seed=0)) == 30


@pytest.mark.parametrize("shape", [(8, 8, 1), (6, 10, 3)])
def test_a_variation_of_degree_none_is_the_image_and_of_more_is_near_it(shape):
    random = np.random.default_rng(0)
    images = simulated_shapes(40, shape, random)
    assert images.shape == (40, *shape) and images.dtype == np.uint8
    assert len(np.unique(images.reshape(40, -1), axis=0)) > 35
    assert np.array_equal(varied(images, images[::-1], 0.0, random), images)

    def moved(degree):
        other = varied(images, images[::-1], degree, np.random.default_rng(1))
        return np.abs(other.astype(int) - images).mean()

    assert 0 < moved(0.1) < moved(1.0) < np.abs(images[::-1].astype(int) - images).mean() * 1.5


def test_a_decoder_varies_images(private, tmp_path):
    settings = _made_up(("decoder",), SCHEMA, tmp_path)
    method = PrivateEvolution(**SMALL, variations="decoder", **settings)
    release = method.query(gate_of(private))
    assert release.certificate.public["settings"]["decoder_sha256"] == method.checked_decoder().digest
    pixels = PrivateEvolution(**SMALL).model(release).records.pixels
    assert not np.array_equal(method.model(release).records.pixels, pixels)


def test_a_decoder_of_other_images_is_refused_before_anything_is_spent(private):
    with pytest.raises(OptionError, match="decoder"):
        PrivateEvolution(**SMALL, variations="decoder").fit(gate_of(private), device="cpu")
