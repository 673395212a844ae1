"""Images that fit the released means of another class better are made again."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from noisegate.schema import ImageShape, pixel_schema
from noisegate_images.models.image import NeuralImage, build_image_generator
from noisegate_images.models.image_network import ImageMap, ImageNetwork, NearestMeans

SHAPE = ImageShape(height=8, width=8)
SCHEMA = pixel_schema(8, 8, labels=("a", "b"))
MAPS = {
    "pixels": ImageMap(seen="pixels", image=SHAPE, count=30, length_scale=1.5, seed=1),
    "orientations": ImageMap(
        seen="orientations",
        image=SHAPE,
        count=20,
        length_scale=0.4,
        seed=2,
        damping=0.3,
    ),
}
STD = {"pixels": np.array([1e-4, 2e-4]), "orientations": np.array([3e-4, 3e-4])}


def features(images):
    return {
        name: one.feature_map().of_points()(images).double().numpy().T
        for name, one in MAPS.items()
    }


def bars(rows):
    """Images with a bright upper half, and others with a bright left half."""
    images = 0.2 * torch.rand(2, rows, 8, 8, generator=torch.Generator().manual_seed(0))
    images[0, :, :4] += 0.7
    images[1, :, :, :4] += 0.7
    return images.flatten(2)


def nearest(upper, left):
    """Means of images without any noise, so that of both classes as much is taken off for it."""
    found = (features(upper), features(left))
    means = {name: np.stack([one[name].mean(axis=0) for one in found]) for name in MAPS}
    return NearestMeans.of_release(
        MAPS, means, {name: np.array([0.1, 0.1]) for name in MAPS}
    )


def test_an_image_fits_best_what_the_definition_says():
    upper, left = bars(30)
    images, labels = torch.cat([upper, left]), torch.arange(60) // 30
    means = {
        name: np.random.default_rng(3).normal(size=(2, one.feature_map().dim))
        for name, one in MAPS.items()
    }
    scores = np.zeros((60, 2))
    for name, vectors in features(images).items():
        for c in range(2):
            length = (
                np.square(means[name][c]).sum()
                - len(means[name][c]) * STD[name][c] ** 2
            )
            scores[:, c] += (vectors @ means[name][c] - length / 2) / np.square(
                STD[name]
            ).mean()
    # Means as long as these are far above their noise: the difference of their lengths is left nearly as it is.
    own = scores[np.arange(60), labels]
    expected = own - scores[np.arange(60), 1 - labels]
    found = NearestMeans.of_release(MAPS, means, STD).margins(images, labels)
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_the_second_rival_is_the_next_best_of_the_others():
    random = np.random.default_rng(3)
    means = {
        name: random.normal(size=(5, one.feature_map().dim))
        for name, one in MAPS.items()
    }
    judge = NearestMeans.of_release(
        MAPS, means, {name: np.full(5, 0.1) for name in MAPS}
    )
    images = torch.rand(1, 64, generator=torch.Generator().manual_seed(1)).expand(5, -1)
    first, second = (
        judge.margins(images, torch.arange(5), rivals) for rivals in (1, 2)
    )
    assert int((first > 0).sum()) == 1
    assert int((second > 0).sum()) == 2
    best = first.argmax()
    assert second[best] > first[best]


@pytest.mark.parametrize(("noise", "left"), [(1e-4, (0.99, 1.01)), (10.0, (0.0, 0.2))])
def test_lengths_that_differ_by_noise_alone_do_not_decide(noise, left):
    random = np.random.default_rng(0)
    dims = {name: one.feature_map().dim for name, one in MAPS.items()}
    clean = {name: random.normal(size=(10, dim)) for name, dim in dims.items()}
    std = {name: np.full(10, noise) for name in MAPS}
    means = {
        name: values + noise * random.normal(size=values.shape)
        for name, values in clean.items()
    }
    plain = sum(
        np.square(means[name]).sum(axis=1) - dims[name] * noise**2 for name in MAPS
    ) / (-2 * noise**2)
    found = NearestMeans.of_release(MAPS, means, std).offsets
    assert left[0] <= np.ptp(found) / np.ptp(plain) <= left[1]
    assert np.isclose(found.mean(), plain.mean(), rtol=1e-3)


def test_a_class_that_the_noise_drowns_is_neither_judge_nor_judged():
    labels = torch.arange(3)
    means = {name: np.zeros((3, one.feature_map().dim)) for name, one in MAPS.items()}
    std = {name: np.array([0.1, 0.1, 5.0]) for name in MAPS}
    found = NearestMeans.of_release(MAPS, means, std).margins(torch.rand(3, 64), labels)
    assert found[2] == torch.inf
    assert found[:2].isfinite().all()


def model(judge=None, tries=1):
    network = ImageNetwork(
        shape=SHAPE, kind="fully-connected", latent=3, hidden=(16,), channels=()
    )
    generator = build_image_generator(network, 2, seed=0)
    with torch.no_grad():  # a new network makes nearly the same grey for every noise
        [layer for layer in generator.modules() if hasattr(layer, "weight")][
            -1
        ].weight.mul_(20)
    generator.requires_grad_(False).eval()
    return NeuralImage(
        generator=generator, weights=np.array([0.3, 0.7]), nearest=judge, tries=tries
    )


def made_by(one, rows=400):
    return one.draw(rows, torch.Generator().manual_seed(0))


def judge_of_its_own():
    """Means of the model's own images: those of either class go to one mean or the other by where they differ most."""
    made = made_by(model())
    images, labels = (
        torch.from_numpy(made.numeric).float(),
        torch.from_numpy(made.codes[:, 0]),
    )
    within = (
        images
        - torch.stack([images[labels == c].mean(dim=0) for c in (0, 1)])[labels.long()]
    )
    side = within @ torch.linalg.svd(within, full_matrices=False).Vh[0] > 0
    return nearest(images[side], images[~side])


def test_what_is_drawn_fits_its_class_and_labels_keep_their_shares():
    judge = judge_of_its_own()
    plain, chosen = model(), model(judge, tries=20)
    before, after = made_by(plain), made_by(chosen)
    assert np.array_equal(before.codes, after.codes)

    def agreeing(made):
        images = torch.from_numpy(made.numeric).float()
        return float(
            (judge.margins(images, torch.from_numpy(made.codes[:, 0]).long()) > 0)
            .double()
            .mean()
        )

    once = chosen.agreement(400, torch.Generator().manual_seed(0))
    assert once == pytest.approx(agreeing(before))
    assert once < 0.9
    assert agreeing(after) > once + 0.5 * (1 - once)


def test_of_images_that_never_fit_the_nearest_is_taken():
    """A rule that nothing meets ends after so many tries."""
    judge = judge_of_its_own()
    hopeless = replace(
        judge, offsets=judge.offsets + np.array([0, 1e6], dtype=np.float32)
    )
    images = {tries: made_by(model(hopeless, tries)) for tries in (1, 4)}
    first = images[1].codes[:, 0] == 0
    labels = torch.zeros(int(first.sum()), dtype=torch.long)
    margins = {
        tries: hopeless.margins(torch.from_numpy(made.numeric[first]).float(), labels)
        for tries, made in images.items()
    }
    assert (margins[4] >= margins[1]).all()
    assert (margins[4] > margins[1]).any()
    assert (margins[4] < 0).all()


def test_a_saved_model_draws_the_same():
    one = model(judge_of_its_own(), tries=5)
    again = NeuralImage.from_saved(SCHEMA, one.tensors(), one.to_json())
    assert replace(one, rivals=2).to_json()["rivals"] == 2
    assert (
        NeuralImage.from_saved(
            SCHEMA, one.tensors(), {**one.to_json(), "rivals": 2}
        ).rivals
        == 2
    )
    assert np.array_equal(made_by(one).numeric, made_by(again).numeric)
    assert not np.array_equal(made_by(one).numeric, made_by(model()).numeric)
