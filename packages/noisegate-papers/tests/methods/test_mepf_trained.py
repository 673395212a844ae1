"""DP-MEPF with an encoder that is trained at the gate: one plan, and the embedding is by what was trained."""

import numpy as np
import pytest
import torch
from tests.shared.feature_space import SCHEMA, stripes

from noisegate import Budget, Gate
from noisegate.errors import ModelError, OptionError, SchemaError
from noisegate.methods.registry import method_of
from noisegate.privacy.events import Sampled
from noisegate.privacy.gradient_plan import split_arrays, steps_of
from noisegate.schema import EncodedTable, pixel_schema
from noisegate_papers.methods.dp_mepf_trained import ENCODER, DPMEPFTrained
from noisegate_papers.methods.perceptual import FIRST

QUICK = {
    "steps": 4,
    "batch": 8,
    "check_every": 2,
    "check_batches": 2,
    "check_images": 20,
}
TINY = {
    "image": (8, 8, 1),
    "latent": 4,
    "hidden": (8,),
    "channels": (4, 2),
    "fit_options": QUICK,
}
ENCODERS = dict(
    encoder_width=4,
    encoder_depth=2,
    encoder_steps=30,
    encoder_sampling_probability=0.2,
    stopping="none",
)
ROWS = 200


def striped():
    """Records as pixels from 0 to 1, and whether their stripes go down."""
    table = stripes(ROWS).to_pandas()
    return table.drop(columns="label").to_numpy() / 255, (
        table.label == "down"
    ).to_numpy().astype(int)


def gate(epsilon=1.0, **options):
    return Gate(stripes(ROWS), schema=SCHEMA, epsilon=epsilon, records=ROWS, **options)


def make(**options):
    return DPMEPFTrained(**{**TINY, **ENCODERS, **options})


def test_steps_and_questions_are_one_plan_within_the_budget():
    plan = make().plan(SCHEMA, Budget(epsilon=1.0))
    kinds = [type(event) for event in plan.events]
    assert len(plan.events) == 3
    assert kinds.count(Sampled) == 1
    assert 0.95 < plan.epsilon <= 1.0
    # More for the encoder is less for the embedding.
    thrifty = make(encoder_share=0.1).plan(SCHEMA, Budget(epsilon=1.0))
    assert thrifty.release(FIRST).noise_std < plan.release(FIRST).noise_std
    assert steps_of(thrifty).noise_multiplier > steps_of(plan).noise_multiplier


@pytest.fixture(scope="module")
def exact():
    """A release with next to no noise."""
    return make(encoder_learning_rate=0.02).query(gate(epsilon=1000.0))


def test_the_embedding_is_that_of_the_released_encoder(exact):
    images, down = striped()
    method = method_of(exact.certificate)
    codes = down[:, None].astype(np.int32)
    module = method.fresh_encoder(SCHEMA)
    untrained = method.embeddings_by(module, SCHEMA)[FIRST].feature_map
    fitting = method.fitting(exact, device="cpu")
    trained = next(iter(fitting._embeddings.values()))
    rows = torch.from_numpy(images.astype(np.float32))
    expected = np.stack(
        [trained(rows[down == label]).sum(dim=1).numpy() for label in (0, 1)], axis=1
    )
    before = np.stack(
        [
            untrained(EncodedTable(images, codes))[down == label].sum(axis=0)
            for label in (0, 1)
        ],
        axis=1,
    )
    scale = np.linalg.norm(expected)
    assert np.linalg.norm(exact.values[FIRST] - expected) < 0.05 * scale
    assert np.linalg.norm(exact.values[FIRST] - before) > 0.2 * scale


def test_the_encoder_learnt_to_tell_the_labels_apart(exact):
    images, down = striped()
    module = method_of(exact.certificate).fresh_encoder(SCHEMA)
    shapes = {name: tuple(value.shape) for name, value in module.named_parameters()}
    arrays = split_arrays(exact.values[ENCODER], shapes)
    module.load_state_dict(
        {name: torch.from_numpy(value.copy()) for name, value in arrays.items()}
    )
    rows = (
        torch.from_numpy(images.astype(np.float32))
        .reshape(-1, 1, 8, 8)
        .expand(-1, 3, -1, -1)
    )
    found = module((rows - 0.5) / 0.25).argmax(dim=1).numpy()
    assert (found == down).mean() > 0.9


def test_bits_of_the_encoder_do_not_matter_for_the_norm(exact):
    """Whatever was trained, vectors have norm 1: that is what the questions are priced for."""
    method = method_of(exact.certificate)
    module = method.fresh_encoder(SCHEMA)
    for value in module.parameters():
        value.data.mul_(1e4)
    images, down = striped()
    feature_map = method.embeddings_by(module, SCHEMA)[FIRST].feature_map
    vectors = feature_map(EncodedTable(images, down[:, None].astype(np.int32)))
    assert np.linalg.norm(vectors, axis=1).max() <= 1 + 1e-6


def test_what_it_needs_is_said_before_anything_is_spent(exact):
    with pytest.raises(SchemaError, match="distinguish labels"):
        make().plan(pixel_schema(8, 8, labels=None), Budget(epsilon=1.0))
    with pytest.raises(OptionError, match="records=None"):
        make().query(Gate(stripes(ROWS), schema=SCHEMA, epsilon=1.0))
    with pytest.raises(ModelError, match="no encoder of this size"):
        make(encoder_width=5).fitting(exact, device="cpu")
