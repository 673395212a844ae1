import torch

from noisegate.schema import Boolean, Continuous, Schema
from noisegate_papers.models.table_generators import build_component_generator

SCHEMA = Schema(
    (Continuous(name="x", lower=0.0, upper=1.0), Boolean(name="y")), label="y"
)


def test_every_component_comes_equally_often_and_a_set_holds_each_once():
    generator = build_component_generator(SCHEMA.layout, components=5, seed=0)
    assert generator.components == 5
    noise = generator.noise(20, torch.Generator().manual_seed(1))[:, 0]
    assert torch.bincount(noise).tolist() == [4] * 5
    assert sorted(noise[:5].tolist()) == list(range(5))


def test_a_component_of_a_class_is_its_own_and_gives_distributions():
    generator = build_component_generator(SCHEMA.layout, components=3, seed=0)
    labels = torch.tensor([0, 0, 1, 1])
    noise = torch.tensor([[0], [1], [0], [0]])
    x, y = generator(noise, labels)
    assert torch.allclose(x.sum(dim=0), torch.ones(4))
    assert y.argmax(dim=0).tolist() == labels.tolist()
    assert not torch.allclose(x[:, 0], x[:, 1])
    assert not torch.allclose(x[:, 0], x[:, 2])
    assert torch.equal(x[:, 2], x[:, 3])
