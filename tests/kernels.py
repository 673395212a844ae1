"""Kernels of another processor, stood in for: float32 operations that round by the place of a record in its block.

`pytest --kernels-by-place` runs every test of the session on them; see `make test-kernels`.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ATEN = torch.ops.aten
PRODUCTS = frozenset(
    {ATEN.mm.default, ATEN.addmm.default, ATEN.bmm.default, ATEN.baddbmm.default}
)
EVERYTHING = PRODUCTS | {
    ATEN.mul.Tensor,
    ATEN.convolution.default,
    ATEN.tanh.default,
    ATEN.add.Tensor,
}


class ByPlace(TorchDispatchMode):
    """Moves odd rows and columns of what float32 operations give to the next number, as a kernel of two rows may.

    Args:
        operations: Of ATen; matrix products by default.
    """

    def __init__(self, operations=PRODUCTS):
        super().__init__()
        self._operations = operations

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        product = func(*args, **(kwargs or {}))
        if (
            func in self._operations
            and product.dtype == torch.float32
            and product.ndim
            and len(product) > 1
        ):
            product[1::2] = torch.nextafter(product[1::2], torch.tensor(torch.inf))
            # Records may stand in the columns as well.
            product[..., 1::2] = torch.nextafter(
                product[..., 1::2], torch.tensor(-torch.inf)
            )
        return product
