import torch

from noisegate.schema import Boolean, Categorical, Continuous, Integer, Schema
from noisegate_papers.models.table_generators import build_table_generator

COLUMNS = (
    Integer(name="count", lower=0, upper=5, missing=True),
    Categorical(name="kind", levels=("a", "b", "c")),
    Boolean(name="flag", missing=True),
    Continuous(name="rate", lower=0.0, upper=1.0),
)


def forward(label, seed=0, rows=10):
    generator = build_table_generator(
        Schema(COLUMNS, label=label).layout, latent=4, hidden=(8, 8), seed=seed
    )
    random = torch.Generator().manual_seed(1)
    labels = torch.arange(rows) % generator.classes
    return generator, labels, generator(generator.noise(rows, random), labels)


def test_every_column_gets_a_distribution_over_its_cells():
    _, _, columns = forward(None)
    assert [tuple(column.shape) for column in columns] == [
        (7, 10),
        (102, 10),
        (3, 10),
        (3, 10),
    ]
    for column in columns:
        assert (column >= 0).all()
        torch.testing.assert_close(column.sum(dim=0), torch.ones(10))


def test_a_label_is_given_and_not_made():
    generator, labels, columns = forward("kind")
    assert (generator.classes, generator.made) == (3, [7, 102, 3])
    assert torch.equal(columns[2].argmax(dim=0), labels)
    assert set(columns[2].unique().tolist()) == {0.0, 1.0}
