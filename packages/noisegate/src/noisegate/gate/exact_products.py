"""Matrix products of torch that round no sum, so that no kernel, block or place can round one in its own way.

Guarantee (part of G-06 and G-20). Inside `exact_products` every entry of a float32 matrix product is a function of its
row of the left matrix and its column of the right one alone, bit for bit, whatever the shape and the library.

Proof. For a row x of K numbers with largest magnitude f·2ᵉ, 1/2 ≤ f < 1, the product with 2ᵇ⁻ᵉ is exact in float64, and
t = trunc(x·2ᵇ⁻ᵉ) has whole coordinates of at most 2ᵇ; the same for columns. With K·2²ᵇ ≤ 2⁵³ all products and partial
sums are whole numbers that float64 holds exactly, in any order and with fused operations. Scaling back by two powers of
two and rounding to float32 are one operation an entry. A row or column with an entry that is not finite is replaced by
zeros, and its results by NaN. ∎

A product is off by about 2⁻ᵇ of the largest magnitudes, b = 21 for K ≤ 2048: float32 has 24 bits. It costs several
times a plain product; the gate comes here only where this machine's kernels round by place (`gate.execution`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int
    from torch import Tensor


def exact_products() -> AbstractContextManager[Any]:
    """Returns a context in which float32 matrix products of this thread are exact sums, also in backward passes."""
    mode: AbstractContextManager[Any] = _mode()()
    return mode


def product(left: Float32[Tensor, "*batch n K"], right: Float32[Tensor, "*batch K m"]) -> Float32[Tensor, "*batch n m"]:
    """Returns left @ right; see the module's guarantee."""
    bits = (53 - max(left.shape[-1] - 1, 1).bit_length()) // 2
    rows, of_rows = _whole(left, bits, -1)
    columns, of_columns = _whole(right, bits, -2)
    return ((rows @ columns) * of_rows * of_columns).to(left.dtype)


def _whole(
    values: Float32[Tensor, "*shape"], bits: int, dim: int
) -> tuple[Float64[Tensor, "*shape"], Float64[Tensor, "..."]]:
    """Returns values along `dim` as whole numbers in float64, and what one of them stands for: NaN where not finite."""
    import torch

    if not values.shape[dim]:
        return values.double(), values.new_ones(()).double()
    largest = values.abs().amax(dim=dim, keepdim=True)
    finite = torch.isfinite(largest)
    exponents = torch.frexp(torch.where(finite, largest, 0.0))[1]
    whole = torch.where(finite, values, 0.0).double().mul_(_power_of_two(bits - exponents)).trunc_()
    return whole, torch.where(finite, _power_of_two(exponents - bits), torch.nan)


def _power_of_two(exponents: Int[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Returns 2 to the exponents, exactly: torch's power function may round."""
    import torch

    return ((exponents.to(torch.int64) + 1023) << 52).view(torch.float64)


@cache
def _mode() -> Any:
    """Returns the mode's class; made when it is asked for, as its base is torch's."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    plain = {torch.ops.aten.mm.default, torch.ops.aten.bmm.default}
    added = {torch.ops.aten.addmm.default, torch.ops.aten.baddbmm.default}

    class ExactProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in plain and args[0].dtype == torch.float32:
                return product(*args)
            if func in added and args[1].dtype == torch.float32:
                alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
                found = product(*args[1:3])
                found = found if alpha == 1 else found * alpha
                return found if beta == 0 else found + (args[0] if beta == 1 else args[0] * beta)
            # In inference mode a layer comes here whole; what it consists of comes back here.
            if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
                with self:
                    return func.decompose(*args, **kwargs)
            return func(*args, **kwargs)

    return ExactProducts
