"""Inside `exact_products` an entry of a matrix product depends on its row and its column alone, whatever the kernel."""

from itertools import permutations

import pytest
import torch
from tests.kernels import ByPlace
from torch.func import grad, vmap

from noisegate.gate.execution import exact_products, product

SIZES = [(1, 3, 2), (14, 784, 10), (64, 100, 300), (8, 5000, 3), (5, 0, 4)]


def drawn_matrix(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("rows", "inner", "columns"), SIZES)
def test_a_product_is_right_but_for_the_bits_that_are_cut_off(rows, inner, columns):
    left = drawn_matrix(rows, inner)
    right = drawn_matrix(inner, columns, seed=1)
    exact = left.double() @ right.double()
    bound = (
        max(inner, 1)
        * float(left.abs().max() if inner else 0)
        * float(right.abs().max() if inner else 0)
    )
    assert (product(left, right) - exact).abs().max() <= 2.0**-18 * bound
    assert product(left, right).dtype == torch.float32


def test_an_entry_is_the_same_bits_in_every_block_and_place():
    left = drawn_matrix(14, 784)
    right = drawn_matrix(784, 10, seed=1)
    whole = product(left, right)
    for row in range(14):
        assert torch.equal(product(left[row : row + 1], right)[0], whole[row])
        assert torch.equal(
            product(left.flip(0)[: row + 1], right), whole.flip(0)[: row + 1]
        )
        assert torch.equal(
            product(left, right[:, :3].contiguous())[row], whole[row, :3]
        )
    assert torch.equal(product(left.T.contiguous().T, right.T.contiguous().T), whole)


@pytest.mark.parametrize("inner", [2, 3, 784, 5000])
def test_no_sum_is_rounded_so_that_its_order_does_not_matter(inner):
    left = drawn_matrix(14, inner)
    right = drawn_matrix(inner, 10, seed=1)
    for seed in range(3):
        order = torch.randperm(inner, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(product(left[:, order], right[order]), product(left, right))


def test_what_is_small_beside_what_cancels_is_cut_off_in_every_order():
    left = torch.tensor([[1.0, 2.0**-30, -1.0]])
    right = torch.tensor([[1.0], [2.0**-30], [1.0]])
    products = {
        float(product(left[:, list(order)], right[list(order)]))
        for order in permutations(range(3))
    }
    assert products == {0.0}


def test_a_row_that_is_not_finite_spoils_itself_alone():
    left = drawn_matrix(6, 50)
    right = drawn_matrix(50, 4, seed=1)
    whole = product(left, right)
    left[1, 3] = torch.nan
    left[4, 0] = -torch.inf
    entries = product(left, right)
    assert entries[[1, 4]].isnan().all()
    assert torch.equal(entries[[0, 2, 3, 5]], whole[[0, 2, 3, 5]])


@pytest.mark.parametrize("inference", [False, True])
def test_layers_and_their_gradients_go_through_it(inference):
    network = torch.nn.Sequential(
        torch.nn.Linear(20, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)
    )
    block = drawn_matrix(6, 20)
    with torch.inference_mode(inference), exact_products():
        outputs = network(block)
        alone = torch.cat([network(block[row : row + 1]) for row in range(6)])
    assert torch.equal(outputs, alone)
    assert torch.allclose(outputs, network(block), atol=1e-4)


def test_kernels_that_round_by_place_change_nothing_in_it():
    weight = drawn_matrix(7, 32)
    block = drawn_matrix(16, 32, seed=1)

    def loss(weight, record):
        return (weight @ record).tanh().square().sum()

    def gradients(records):
        return vmap(grad(loss), in_dims=(None, 0))(weight, records)

    with ByPlace():
        assert not torch.equal(gradients(block).flip(0), gradients(block.flip(0)))
        with exact_products():
            computed = gradients(block)
            assert torch.equal(computed.flip(0), gradients(block.flip(0)))
    assert torch.allclose(computed, gradients(block), atol=1e-4)
