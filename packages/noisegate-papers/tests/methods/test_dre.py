from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tests.shared.columns import boolean, categorical, continuous, integer
from tests.shared.feature_space import PIXELS, drawings, write_decoder
from tests.shared.stated import ledger_of

from noisegate import Budget, Gate
from noisegate.errors import DataError, ModelError, OptionError
from noisegate.gate.sessions.gradients import GradientVectors
from noisegate.privacy.gradient_plan import steps_of
from noisegate.schema import Schema
from noisegate_images.training.adam import Adam
from noisegate_papers.methods.dp_dre import DPDRE, MAX_CLIP_NORM
from noisegate_papers.training.adversarial import density_ratios, stream

COLUMNS = (
    continuous("x", 0.0, 10.0, missing=True),
    integer("y", 0, 10),
    categorical("job", "abcde"),
    boolean("ill"),
)
SCHEMA = Schema(COLUMNS, label="ill")
BUDGET = Budget(epsilon=20.0)
CENTRES = np.array([[1, 8], [8, 1], [5, 5], [1, 1], [9, 9]])
FAST = {
    "steps": 80,
    "references": 2000,
    "learning_rate": 0.02,
    "dimensions": 8,
    "batch": 512,
}
TINY = DPDRE(**{**FAST, "steps": 8}, hidden=(4,))


def table(rows=2000, groups=(0, 1, 2, 3, 4), seed=0):
    """Five groups, each around a point and mostly of one job; in each, those with a large x are ill more often."""
    random = np.random.default_rng(seed)
    group = random.choice(groups, rows)
    x, y = np.clip(CENTRES[group] + random.normal(size=(rows, 2)), 0, 10).T
    ill = random.random(rows) < np.where(group % 2, 0.8, 0.2)
    job = np.array(list("abcde"))[
        np.where(random.random(rows) < 0.8, group, random.integers(0, 5, rows))
    ]
    x = pa.array(x, mask=random.random(rows) < 0.05)
    return pa.table({"x": x, "y": np.rint(y).astype(int), "job": job, "ill": ill})


def groups_of(rows):
    """Returns the group whose point is the nearest, of records with x and y."""
    points = np.stack([rows["x"].fillna(rows["y"]), rows["y"]], axis=1)
    return np.square(points[:, None] - CENTRES).sum(axis=2).argmin(axis=1)


def known(rows, labelled):
    """Returns the different records, without their label where they have none of their own."""
    rows = (
        rows.fillna(-1).round(6)
        if labelled
        else rows.drop(columns="ill").fillna(-1).round(6)
    )
    return set(rows.itertuples(index=False, name=None))


PUBLIC = table(seed=1)
PRIVATE = table(1500, (1, 3))


def gate(data=PRIVATE, schema=SCHEMA, **options):
    return Gate(data, schema=schema, **{"epsilon": 20.0, "records": 1500, **options})


@pytest.fixture
def ledger(tmp_path):
    return ledger_of(tmp_path, "d", epsilon=200.0, delta=1e-4)


def dre(**options):
    return DPDRE(**{"public": PUBLIC, **FAST, **options})


def tiny(**options):
    return replace(TINY, **{"public": PUBLIC, **options})


@pytest.mark.parametrize(("epsilon", "labelled"), [(1.0, False), (1000.0, True)])
def test_weights_concentrate_on_the_public_records_that_are_like_the_private_ones(
    epsilon, labelled
):
    synthesizer = dre(public_labels=labelled).fit(gate(epsilon=epsilon))
    found = synthesizer.sample(2000, seed=0).to_pandas()
    groups = groups_of(found)
    assert np.isin(groups, (1, 3)).mean() > 0.9
    assert 0.35 < (groups == 1).mean() < 0.65
    # Both of them are ill in four of five; in the public records, who is in other groups mostly is not.
    assert found.ill.mean() == pytest.approx(0.8, abs=0.12)
    # All that is handed out is public, with the label that it came with if it had one.
    assert known(found, labelled) <= known(PUBLIC.to_pandas(), labelled)
    assert synthesizer.summary.notes["effective_references"] < 1200


def test_public_images_without_labels_are_weighed_for_every_label():
    settings = dict(
        image=(8, 8, 1),
        dimensions=4,
        steps=60,
        batch=128,
        sampling_probability=0.2,
        learning_rate=0.05,
    )
    method = DPDRE(public=drawings(120, 1), **settings)
    found = method.fit(gate(drawings(200, 2), PIXELS, records=200)).sample(
        200, seed=0, where={"label": "left"}
    )
    rows = found.to_pandas().drop(columns="label").to_numpy().reshape(-1, 8, 8)
    assert set(found["label"].to_pylist()) == {"left"}
    assert (
        rows[:, :, :4].mean(axis=(1, 2)) > rows[:, :, 4:].mean(axis=(1, 2))
    ).mean() > 0.9


def test_a_decoder_that_does_not_fit_is_found_before_anything_is_spent(
    tmp_path, ledger
):
    path = write_decoder(tmp_path / "decoder.safetensors")
    settings = {
        "image": (8, 8, 1),
        "dimensions": 4,
        "steps": 4,
        "public": drawings(60, 1),
    }
    for options, match in (
        ({"layer": "early"}, "decoder="),
        ({"decoder": "absent"}, "'absent' is not a file"),
    ):
        with pytest.raises(OptionError, match=match):
            DPDRE(**{**settings, "decoder": path, **options}).fit(
                gate(drawings(100, 2), PIXELS, records=100, ledger=ledger, dataset="d")
            )
    assert len(ledger.history("d")) == 1
    with pytest.raises(OptionError, match="of a table, public rows are released"):
        DPDRE(decoder=path)


def test_the_loss_of_a_private_record_is_that_of_taking_it_for_public():
    method = tiny()
    discriminator = method.discriminator(SCHEMA)
    features, codes = torch.linspace(-1, 1, 8), torch.tensor([3, 1])
    score = discriminator.label_scores(features[None], torch.tensor([1]))[0, 0]
    found = method.loss(SCHEMA)(dict(discriminator.named_parameters()), features, codes)
    assert torch.isclose(found, -torch.log(torch.sigmoid(score)))


def test_the_gradient_is_the_noisy_mean_and_that_of_public_references():
    method = tiny()
    training, public = (
        method.training(SCHEMA, method.plan(SCHEMA, BUDGET), 75.0, "cpu"),
        method.public_features(SCHEMA),
    )
    discriminator = training.discriminator
    weights = dict(discriminator.named_parameters())
    drawn = torch.randint(2000, (512,), generator=stream(0, 0))
    score = discriminator.label_scores(
        torch.from_numpy(public.vectors)[drawn], torch.from_numpy(public.labels)[drawn]
    )
    expected = torch.autograd.grad(
        -torch.log(1 - torch.sigmoid(score)).mean(), list(weights.values())
    )
    found = training.fake_gradients()
    assert all(
        torch.allclose(found[n], g, rtol=1e-3, atol=1e-6)
        for n, g in zip(weights, expected, strict=True)
    )
    after = {name: value.clone() for name, value in training.parameters().items()}
    Adam(after, learning_rate=method.learning_rate).step(
        {name: 6.0 / 75.0 + value for name, value in found.items()}
    )
    training.step(
        {name: torch.full_like(value, 6.0) for name, value in weights.items()}
    )
    assert all(
        torch.allclose(training.parameters()[name], after[name], atol=1e-6)
        for name in after
    )


def test_every_sum_has_its_noise(monkeypatch):
    """The same samples of the same records, twice: what leaves the gate differs by noise of the planned size."""
    seen = []
    taken = GradientVectors.unpacked
    monkeypatch.setattr(
        "noisegate.gate.samples.poisson_sample", lambda records, rate, _: np.arange(20)
    )
    monkeypatch.setattr(
        GradientVectors,
        "unpacked",
        lambda self, sums: seen.append(sums) or taken(self, sums),
    )
    method = tiny(steps=1, hidden=(16,))
    plan = method.plan(SCHEMA, Budget(epsilon=1.0))
    for _ in range(2):
        method.query(gate(epsilon=1.0))
    difference = (seen[0] - seen[1]) / np.sqrt(2)
    # 195 numbers: off by a third less than once in 1e9 runs.
    assert len(difference) == 195
    assert np.sqrt(np.square(difference).mean()) == pytest.approx(
        steps_of(plan).event.event.noise_std, rel=1 / 3
    )


def test_a_public_set_that_is_the_private_one_is_refused_before_anything_is_spent(
    tmp_path, ledger
):
    private = tmp_path / "private.parquet"
    pq.write_table(PRIVATE, private)
    (tmp_path / "public").mkdir()
    copy = tmp_path / "public" / "copy.parquet"
    copy.write_bytes(private.read_bytes())
    link = tmp_path / "link.parquet"
    link.symlink_to(private)
    for public in (private, copy, link, tmp_path / "public"):
        with pytest.raises(
            DataError,
            match=r"public='.*': '.*\.parquet' is a file of the private data.*nothing was",
        ):
            tiny(public=public).query(gate(private, ledger=ledger, dataset="d"))
    with pytest.raises(DataError, match="the public table is the private one"):
        tiny(public=PRIVATE).query(gate(PRIVATE.slice(0), ledger=ledger, dataset="d"))
    assert len(ledger.history("d")) == 1
    pq.write_table(PUBLIC, copy)
    tiny(public=copy).query(gate(private, ledger=ledger, dataset="d"))


def test_the_certificate_names_what_was_public(tmp_path):
    public = tmp_path / "public.parquet"
    pq.write_table(PUBLIC, public)
    synthesizer = tiny(public=public, references=500).fit(gate())
    told = synthesizer.certificate.public
    assert told["settings"]["public"] == str(public)
    assert (told["reference"]["records"], told["reference"]["of"]) == (500, 2000)
    assert all(
        len(told["reference"][name]) == 64 for name in ("sha256", "source_sha256")
    )
    assert len(told["features"]["sha256"]) == 64
    assert told["gradients"]["discriminator"]["represented"] == {
        "by": "Whitened",
        "dim": 8,
    }
    in_memory = tiny(references=500).fit(gate()).certificate.public["reference"]
    assert in_memory == {**told["reference"], "source_sha256": None}


def test_a_release_is_fitted_with_the_same_references_only():
    method = tiny(references=300)
    release = method.query(gate())
    with pytest.raises(ModelError, match="made by another method or settings"):
        replace(method, hidden=(5,)).fit_release(release)
    with pytest.raises(
        ModelError, match="the public records are others than those that were used"
    ):
        replace(method, public=table(seed=9)).fit_release(release)


def test_noise_stands_to_the_norm_that_was_chosen_as_was_paid_for():
    """At a norm that depends on the noise, a step's noise is still the multiplier times that norm."""
    method = tiny(steps=4)
    plan = method.plan(SCHEMA, Budget(epsilon=0.05))
    assert steps_of(plan).query.clip_norm < MAX_CLIP_NORM
    blind = gate(PRIVATE.slice(0, 1), epsilon=0.05)
    seen = []
    with blind.gradients(
        plan,
        method.loss(SCHEMA),
        method="dp-dre",
        public={},
        represent=method.represent(SCHEMA),
    ) as session:
        weights = {
            name: value.detach()
            for name, value in method.discriminator(SCHEMA).named_parameters()
        }
        for _ in range(4):
            seen += [value.numpy().ravel() for value in session.step(weights).values()]
    noise = np.concatenate(seen)
    wanted = steps_of(plan).noise_multiplier * steps_of(plan).query.clip_norm
    # One record adds plan.norm at most, far below the noise.
    assert np.std(noise) == pytest.approx(wanted, rel=6 / np.sqrt(2 * noise.size))


def test_public_records_are_needed_for_a_fit_and_not_for_a_plan(ledger):
    assert TINY.plan(SCHEMA, BUDGET).epsilon <= 20.0
    for run in (
        lambda: TINY.check_fit("cpu"),
        lambda: TINY.fit(gate(ledger=ledger, dataset="d")),
    ):
        with pytest.raises(OptionError, match=r"public=None.*public='PATH'"):
            run()
    with pytest.raises(DataError, match=r"public: .*'job'"):
        tiny(public=PUBLIC.drop_columns("job")).fit(gate(ledger=ledger, dataset="d"))
    with pytest.raises(DataError, match=r"public: .*'ill'.*public_labels=false"):
        tiny(public=PUBLIC.drop_columns("ill")).fit(gate(ledger=ledger, dataset="d"))
    assert len(ledger.history("d")) == 1
    tiny(public=PUBLIC.drop_columns("ill"), public_labels=False).public_features(SCHEMA)


def test_weights_are_the_ratio_that_the_discriminator_gives_and_never_more_than_was_said():
    method = tiny()
    public = method.public_features(SCHEMA)
    discriminator = method.discriminator(SCHEMA)
    with torch.no_grad():
        discriminator.scores.weight.mul_(3)
        score = discriminator.label_scores(
            torch.from_numpy(public.vectors), torch.from_numpy(public.labels)
        )[0]
    judged = torch.sigmoid(score.double())
    expected = (judged / (1 - judged)).numpy()
    found = density_ratios(discriminator, public.vectors, public.labels, most=1e4)[0]
    assert np.allclose(found / found.sum(), expected / expected.sum(), rtol=1e-4)
    cut = density_ratios(discriminator, public.vectors, public.labels, most=1.5)[0]
    kept = np.minimum(expected, 1.5)
    assert (expected > 1.5).any()
    assert np.allclose(cut / cut.sum(), kept / kept.sum(), rtol=1e-4)
    with torch.no_grad():
        discriminator.scores.weight.mul_(1e6)
    assert np.isfinite(
        density_ratios(discriminator, public.vectors, public.labels, most=1e4)
    ).all()
