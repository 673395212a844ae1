import numpy as np
import torch
from tests.shared.columns import boolean, continuous, integer

from noisegate.schema import Schema
from noisegate_papers.models.table_generators import NeuralTable, build_table_generator

SCHEMA = Schema(
    (integer("count", 0, 3, missing=True), continuous("rate"), boolean("flag")),
    label="flag",
)
ROWS = 20_000


def draw(rows=ROWS, weights=(0.25, 0.75), seed=0):
    """Draws from a generator whose heads are set by hand: what it says is then known."""
    layout = SCHEMA.layout
    generator = build_table_generator(layout, latent=2, hidden=(4,), seed=0)
    count = torch.tensor([[0.1, 0.2, 0.3, 0.2, 0.2], [0.5, 0.1, 0.1, 0.1, 0.2]])
    rate = torch.full((2, 102), 1e-9)
    rate[:, 0], rate[:, 11], rate[:, 101] = (
        0.2,
        0.5,
        0.3,
    )  # the lower bound, [0.10, 0.11], the upper bound
    with torch.no_grad():
        generator.head.weight.zero_()
        generator.head.bias.zero_()
        generator.bias.weight.copy_(torch.cat([count, rate], dim=1).log())
    model = NeuralTable(generator=generator, weights=np.asarray(weights), layout=layout)
    return model.draw(rows, torch.Generator().manual_seed(seed))


def near(found, share, rows):
    return abs(found - share) < 5 * (share * (1 - share) / rows) ** 0.5


def test_cells_come_in_their_shares_for_each_label():
    records = draw()
    for label, shares in (
        (0, [0.1, 0.2, 0.3, 0.2, 0.2]),
        (1, [0.5, 0.1, 0.1, 0.1, 0.2]),
    ):
        count = records.numeric[records.codes[:, 0] == label, 0]
        for value, share in enumerate(shares[:-1]):
            assert near(np.isclose(count, value / 3).mean(), share, len(count))
        assert near(np.isnan(count).mean(), shares[-1], len(count))


def test_intervals_are_filled_evenly_and_bounds_are_atoms():
    rate = draw().numeric[:, 1]
    assert near((rate == 0).mean(), 0.2, ROWS)
    assert near((rate == 1).mean(), 0.3, ROWS)
    inside = np.sort(rate[(rate > 0.1) & (rate < 0.11)])
    assert near(len(inside) / ROWS, 0.5, ROWS)
    gap = np.abs((inside - 0.1) / 0.01 - np.arange(len(inside)) / len(inside)).max()
    assert gap < 2 * len(inside) ** -0.5  # Kolmogorov-Smirnov, far beyond 99.9 %
