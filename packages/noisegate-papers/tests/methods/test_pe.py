"""Private Evolution: candidates begin with public images and follow from noisy votes; labels' shares are bought."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.sums import moves, squared

from noisegate import Gate, PrivateEvolution, TabPE
from noisegate.errors import ModelError, OptionError
from noisegate.gate import execution
from noisegate.gate import session as sessions
from noisegate.gate.sums import SumTask
from noisegate.privacy.events import Adjacency
from noisegate.records import Rows
from noisegate.schema import (
    Boolean,
    Categorical,
    Continuous,
    Integer,
    Schema,
    pixel_schema,
)
from noisegate.sources.tables.tables import TableSource
from noisegate.testing import FakeGate
from noisegate_evaluate.auditing.examples import _made_up
from noisegate_images.queries.perceptual import Perceptual
from noisegate_papers.training.evolution import Evolution, OneWay
from noisegate_papers.training.image_evolution import simulated_shapes, varied

from .conftest import votes_of

SCHEMA, PLAIN = (
    pixel_schema(8, 8, labels=("across", "down")),
    pixel_schema(8, 8, labels=None),
)
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


def test_candidates_of_an_evolution_follow_from_the_release_and_not_from_the_images(
    private, asked
):
    method = PrivateEvolution(**SMALL)
    release = method.query(gate_of(private, epsilon=1.0))
    evolution = method.evolution(
        SCHEMA, release.values["counts"][0], release.noise_std["votes-1"]
    )
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

    monkeypatch.setattr(sessions, "map_execution", watched)
    PrivateEvolution(**SMALL | {"rounds": 1}, features="encoder").query(
        FakeGate(SCHEMA, rows=16)
    )
    assert probed[1:] == [("votes-1", Perceptual, 256)]


def test_a_release_is_not_read_with_other_public_images(private, public, tmp_path):
    method = PrivateEvolution(**SMALL, public=str(public))
    release = method.query(gate_of(private))
    np.savez(tmp_path / "other.npz", images=bars(200, seed=10)[0])
    with pytest.raises(ModelError, match="the public records are others"):
        PrivateEvolution(**SMALL, public=str(tmp_path / "other.npz")).model(release)
    with pytest.raises(ModelError, match="the public records are others"):
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
    settings = {
        **SMALL,
        "candidates": 300,
        "rounds": 1,
        "public_labels": labelled,
        "variation": 0.0,
    }
    made = PrivateEvolution(**settings, public=str(tmp_path / "public.npz")).fit(
        gate_of(private, 1000.0), device="cpu"
    )
    (batch,) = made.images(60, seed=0)
    for image, label in zip(batch.pixels[..., 0], batch.labels, strict=True):
        image = image.T if label == "down" else image
        assert (np.ptp(image, axis=1) == 0).all(), "a bar that goes across"


def test_simulated_shapes_become_like_the_private_images(private):
    def distance(rounds):
        made = PrivateEvolution(**SMALL | {"rounds": rounds}).fit(
            gate_of(private, 50.0)
        )
        (batch,) = made.images(80, seed=0)
        real = bars()[0].reshape(400, -1) / 255
        apart = np.square(batch.pixels.reshape(80, 1, -1) / 255 - real).sum(axis=2)
        return apart.min(axis=1).mean()

    assert distance(6) < 0.85 * distance(1)


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_much_noise_and_few_candidates_make_images_all_the_same(private, epsilon):
    made = PrivateEvolution(**SMALL | {"candidates": 2}).fit(
        gate_of(private, epsilon), device="cpu"
    )
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

    assert (
        0
        < moved(0.1)
        < moved(1.0)
        < np.abs(images[::-1].astype(int) - images).mean() * 1.5
    )


def test_a_decoder_varies_images(private, tmp_path):
    settings = _made_up(("decoder",), SCHEMA, tmp_path)
    method = PrivateEvolution(**SMALL, variations="decoder", **settings)
    release = method.query(gate_of(private))
    assert (
        release.certificate.public["settings"]["decoder_sha256"]
        == method.checked_decoder().digest
    )
    pixels = PrivateEvolution(**SMALL).model(release).records.pixels
    assert not np.array_equal(method.model(release).records.pixels, pixels)


def test_a_decoder_of_other_images_is_refused_before_anything_is_spent(private):
    with pytest.raises(OptionError, match="decoder"):
        PrivateEvolution(**SMALL, variations="decoder").fit(
            gate_of(private), device="cpu"
        )


# Tab-PE: candidates follow from what was released, records vote, and votes say which cells come together.

COLUMNS = (
    Continuous(name="x", lower=0.0, upper=1.0, missing=True),
    Integer(name="n", lower=0, upper=90),
    Categorical(name="a", levels=("p", "q")),
    Categorical(name="b", levels=("p", "q")),
    Boolean(name="ill"),
)
TAB_PE_SCHEMA, TAB_PE_PLAIN = Schema(COLUMNS, label="ill"), Schema(COLUMNS)
TOLD = {
    "candidates": 300,
    "rounds": 1,
    "variation": 0.5,
    "label_weight": 1.0,
    "seed": 0,
}
BOTH = pytest.mark.parametrize(
    "schema", [TAB_PE_SCHEMA, TAB_PE_PLAIN], ids=["label", "plain"]
)


def people(rows=3000, seed=0):
    """Returns records that are ill when a and b differ, but for a tenth of them: no pair of columns says anything."""
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 2, (2, rows))
    x = random.beta(2, 5, rows)
    return pa.table(
        {
            "x": pa.array(x, mask=random.random(rows) < 0.1),
            "n": random.integers(0, 91, rows),
            "a": np.array(["p", "q"])[a],
            "b": np.array(["p", "q"])[b],
            "ill": np.where(random.random(rows) < 0.9, a != b, a == b),
        }
    )


def tab_pe_gate_of(schema, epsilon=2.0, rows=3000, **options):
    return Gate(people(rows), schema=schema, epsilon=epsilon, records=rows, **options)


@BOTH
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_record_votes_once_in_every_round_whatever_the_candidates(
    schema, adjacency, asked
):
    method, gate = (
        TabPE(rounds=3, candidates=300),
        tab_pe_gate_of(schema, adjacency=adjacency),
    )
    plan = method.plan(schema, gate.budget)
    method.query(gate, plan)
    records = Rows.concatenate(list(TableSource(people(300), schema).batches()))
    for place, votes in enumerate(votes_of(asked)):
        planned = plan.release(f"votes-{place + 1}")
        bound = planned.query.grid.bound
        task = SumTask(
            feature_map=votes, grid=planned.query.grid, columns=1, label=None
        )
        assert task.exact_sum is not None, "votes are counted in integers"
        for removed, replaced in moves(records, votes, planned.query.grid, 10):
            assert np.count_nonzero(removed) == 1
            assert squared(removed) <= bound.sensitivity_squared(Adjacency.ADD_REMOVE)
            assert squared(replaced) <= bound.sensitivity_squared(Adjacency.REPLACE_ONE)
        assert planned.event.sensitivity == bound.sensitivity(adjacency)


@BOTH
def test_candidates_follow_from_what_was_released_and_from_nothing_else(schema, asked):
    method = TabPE(rounds=3, candidates=300)
    release = method.query(tab_pe_gate_of(schema))
    first = [one.candidates for one in votes_of(asked)]
    evolution = method.evolution(method.design(schema, 2.0), release)
    assert np.array_equal(evolution.votes.candidates, first[0])
    for place in (1, 2):
        evolution.select(release.values[f"votes-{place}"][:, 0])
        assert np.array_equal(evolution.votes.candidates, first[place])
    # The same records with other noise have other candidates, so the comparison can fail.
    asked.clear()
    method.query(tab_pe_gate_of(schema))
    assert not np.array_equal(votes_of(asked)[1].candidates, first[1])


def test_votes_of_other_candidates_are_refused():
    method = TabPE(rounds=2, candidates=300)
    release = method.query(tab_pe_gate_of(TAB_PE_SCHEMA))
    with pytest.raises(
        ModelError, match=f"holds {len(release.values['votes-2']) - 1} votes in round 2"
    ):
        method.model(
            replace(
                release,
                values={**release.values, "votes-2": release.values["votes-2"][1:]},
            )
        )


def test_a_label_that_no_pair_of_columns_knows_is_learned():
    made = (
        TabPE()
        .fit(tab_pe_gate_of(TAB_PE_SCHEMA, rows=20_000), device="cpu")
        .sample(20_000, seed=0)
        .to_pandas()
    )
    differ = made.a != made.b
    assert made.ill[differ].mean() - made.ill[~differ].mean() > 0.4


def test_a_parity_of_six_columns_is_learned_where_every_combination_can_be_asked_for():
    names, random = [f"x{place}" for place in range(9)], np.random.default_rng(1)
    held = random.random((14_000, 9)) < 0.5
    odd = (held[:, :6].sum(axis=1) % 2 == 1) ^ (random.random(len(held)) < 0.05)
    records = pa.table({**dict(zip(names, held.T, strict=True)), "odd": odd})
    schema = Schema(tuple(Boolean(name=name) for name in (*names, "odd")), label="odd")
    gate = Gate(records, schema=schema, epsilon=1.0, records=len(held))
    made = TabPE().fit(gate, device="cpu").sample(14_000, seed=0).to_pandas()
    assert ((made[names[:6]].sum(axis=1) % 2 == 1) == made.odd).mean() > 0.9


def test_a_release_from_before_candidates_were_distinct_is_read_with_those_it_had():
    method, gate = TabPE(candidates=300), tab_pe_gate_of(TAB_PE_SCHEMA)
    release = method.query(gate)
    design = method.design(TAB_PE_SCHEMA, 2.0)
    answers = replace(
        release,
        values={
            name: value for name, value in release.values.items() if name != "votes-1"
        },
    )
    before = Evolution(
        OneWay.read(design, answers),
        **TOLD,
        noise_std=release.noise_std["votes-1"],
        distinct=False,
    )
    assert (
        len(before.candidates)
        == 300
        > len(method.evolution(design, answers).candidates)
    )
    old = replace(release, values={**release.values, "votes-1": np.zeros((300, 1))})
    assert np.array_equal(method.evolution(design, old).candidates, before.candidates)


@BOTH
def test_one_way_tables_are_those_that_were_bought(schema):
    made = (
        TabPE()
        .fit(tab_pe_gate_of(schema, epsilon=20.0, rows=10_000), device="cpu")
        .sample(10_000, seed=0)
        .to_pandas()
    )
    real = people(10_000).to_pandas()
    assert made.ill.mean() == pytest.approx(real.ill.mean(), abs=0.02)
    assert made.x.isna().mean() == pytest.approx(real.x.isna().mean(), abs=0.02)
    assert made.x.mean() == pytest.approx(real.x.mean(), abs=0.02)
    assert made.n.std() == pytest.approx(real.n.std(), rel=0.05)
