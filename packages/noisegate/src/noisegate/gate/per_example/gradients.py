"""Gradients of a loss at single records, and the probe that records do not mix.

Torch computes gradients in float32, one row for each record, in blocks of a fixed
number of records. So memory is bounded by the block, however many records the Poisson
sample has. `privacy.gradient_grid` clips, rounds and sums the gradients (G-20)::

    block of records ──► gradients, float32 ──► clip, round, sum in integers
                         (here, by torch)       (privacy.gradient_grid)

How to read it, in three parts:

- `RecordLoss`, `FactoredLoss`, `module_loss` and others: the losses of a record.
- `RecordGradients`, `FactoredGradients`: each has `compute_gradients`, from a block to
  `GradientRows`, and `add_clipped`, from some of these rows to a sum.
- `choose_execution`: the probe. It tries gradients on simulated records, and chooses
  how blocks are computed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.execution import (
    Execution,
    ProbeResult,
    Representation,
    embedded_records,
    find_sound_execution,
    made_up_records,
)
from noisegate.gate.per_example.tracing import (
    Parameters,
    is_traceable,
    per_example_gradients,
    untraced_gradients,
)
from noisegate.privacy.gradient_grid import add_factored, add_gradients
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.grid import BLOCK_LIMIT
from noisegate.schema import EncodedTable, Layout, Schema

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int64, Shaped
    from torch import Tensor, nn


RowInputs = Callable[["Tensor", "Tensor"], "Tensor"]
"""From one record's numeric columns and codes to the input of a network, without a
batch axis."""


class RecordLoss(Protocol):
    """The loss of one record, without randomness and without other records."""

    def __call__(
        self,
        parameters: Mapping[str, Tensor],
        numeric: Float32[Tensor, " numeric"],
        codes: Int64[Tensor, " coded"],
        /,
    ) -> Float[Tensor, ""]:
        """Returns the loss at one record, a scalar.

        Args:
            parameters: Parameters of the model, by name.
            numeric: Numeric columns, positions in [0, 1], NaN where missing.
            codes: Coded columns.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class FactoredLoss:
    """Loss of a model with one parameter, in which its outputs are linear.

    With the parameter W, (groups, outputs, inputs), outputs[g] = W[g] @ inputs[g]; any
    function of the outputs follows. So the gradient at one record is, for each group,
    an outer product of two vectors, its factors. Both factors are rounded to the grid,
    and their products are summed by exact matrix products of integers: as fast as a
    step without privacy (G-20).

    Attributes:
        inputs: From one record's numeric and coded columns to what W[g] is multiplied
            with, (groups, inputs), float32.
        loss: From one record's outputs, (groups, outputs), and its numeric and coded
            columns to the loss, a scalar.
    """

    inputs: Callable[[Tensor, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor, Tensor], Tensor]


def module_loss(
    module: nn.Module,
    criterion: Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], Tensor],
) -> RecordLoss:
    """Returns the loss of a record computed by a torch module.

    Args:
        module: The module. The parameters of the loss are its `named_parameters`.
        criterion: Function that computes the loss, a scalar. Its arguments are a
            function that runs the module on a batch of one, and the numeric and coded
            columns of one record.

    Raises:
        OptionError: if a layer computes over the batch or draws randomness; the message
            names it.

    Examples:
        >>> import torch
        >>> from noisegate.gate.per_example.gradients import module_loss
        >>> model = torch.nn.Linear(2, 1)
        >>> def squared_error(run, numeric, codes):
        ...     return (run(numeric[:2]) - numeric[2]).square().sum()
        >>> loss = module_loss(model, squared_error)
        >>> loss(dict(model.named_parameters()), torch.zeros(3), torch.zeros(0)).shape
        torch.Size([])
    """
    from torch.func import functional_call

    _check_layers(module)
    buffers = dict(module.named_buffers())

    def loss(
        parameters: Mapping[str, Tensor],
        numeric: Float[Tensor, " numeric"],
        codes: Shaped[Tensor, " coded"],
        /,
    ) -> Float[Tensor, ""]:
        """Returns the loss at one record."""

        def run(batch: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
            """Runs the module at the parameters of the loss."""
            output: Tensor = functional_call(
                module, {**parameters, **buffers}, (batch,)
            )
            return output

        return criterion(run, numeric, codes)

    return loss


def cross_entropy(
    scores: Float[Tensor, " classes"], label: Int64[Tensor, ""]
) -> Float[Tensor, ""]:
    """Returns −log softmax(scores) at a label.

    Args:
        scores: A score of each class.
        label: The class.

    Examples:
        >>> import torch
        >>> from noisegate.gate.per_example.gradients import cross_entropy
        >>> cross_entropy(torch.zeros(2), torch.tensor(1))  # log 2
        tensor(0.6931)
    """
    import torch

    # Not scores[label], by which torch cannot map over records.
    is_label = torch.arange(len(scores), device=scores.device) == label
    return torch.logsumexp(scores, dim=0) - torch.where(is_label, scores, 0.0).sum()


def label_loss(network: nn.Module, inputs: RowInputs, schema: Schema) -> RecordLoss:
    """Returns the loss of a classifier: the cross-entropy of a record's label.

    Args:
        network: From a batch of inputs to scores of the classes.
        inputs: From one record to the input of the network.
        schema: Schema of the records, which has a label.
    """
    label = schema.layout.label
    assert label is not None
    return module_loss(
        network,
        lambda run, numeric, codes: cross_entropy(
            run(inputs(numeric, codes)[None])[0], codes[label]
        ),
    )


def real_loss(
    discriminator: nn.Module, inputs: RowInputs, schema: Schema
) -> RecordLoss:
    """Returns the loss of a discriminator D at a real record, −log D.

    D is the sigmoid of what the network returns, so −log D = softplus(−score).

    Args:
        discriminator: From a batch of inputs to scores. It gets the label, if there is
            one, as a one-hot code behind the inputs.
        inputs: From one record to the input of the network.
        schema: Schema of the records.
    """
    import torch
    from torch.nn.functional import softplus

    label = schema.layout.label
    classes = schema.layout.classes

    def criterion(
        run: Callable[[Tensor], Tensor],
        numeric: Float[Tensor, " numeric"],
        codes: Int64[Tensor, " coded"],
    ) -> Float[Tensor, ""]:
        """Returns softplus(−score) of one record."""
        parts = [inputs(numeric, codes)]
        if label is not None:
            is_label = torch.arange(classes, device=codes.device) == codes[label]
            parts.append(is_label.to(numeric.dtype))
        return softplus(-run(torch.cat(parts)[None]))[0]

    return module_loss(discriminator, criterion)


def _check_layers(module: nn.Module) -> None:
    """Refuses layers whose output at a record depends on others, or on chance.

    Layers in evaluation mode are let pass: their statistics are frozen, and as public
    as the module, and nothing is drawn.

    Raises:
        OptionError: naming the layer.
    """
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd
    from torch.nn.modules.instancenorm import _InstanceNorm

    for name, layer in module.named_modules():
        if not layer.training:
            continue
        kind = type(layer).__name__
        # Running statistics that a layer keeps would be private.
        keeps_statistics = isinstance(layer, _BatchNorm) or (
            isinstance(layer, _InstanceNorm) and layer.track_running_stats
        )
        if keeps_statistics:
            raise OptionError(
                f"layer {name!r} is {kind}, which computes statistics over the batch, "
                "so that a record's gradient would depend on its neighbours. Use "
                "GroupNorm or LayerNorm, or freeze it by module.eval()."
            )
        draws_randomness = isinstance(layer, _DropoutNd) and layer.p > 0
        if draws_randomness:
            raise OptionError(
                f"layer {name!r} is {kind}, which draws randomness, so that a record's "
                "gradient is not a function of the record. Take it out, or use "
                "module.eval()."
            )


@dataclass(frozen=True, kw_only=True)
class GradientRows:
    """The gradients at some records in float32, before any clipping or rounding.

    All arrays together are the gradients: one row of each belongs to each record. They
    are written by `compute_gradients` of a class and read by `add_clipped` of the same:

    - `RecordGradients` has the gradients that are written out, (records, numbers), and
      then two factors for each name in `product_names`.
    - `FactoredGradients` has the two factors of its one parameter.
    """

    arrays: tuple[npt.NDArray[np.float32], ...]
    """The gradients; the first axis of each array is that of records."""
    product_names: tuple[str, ...] = ()
    """Parameters whose gradient is stored as two factors, whose outer product it is; in
    the order of the factors in `arrays`."""

    def take(self, rows: slice) -> GradientRows:
        """Selects the gradients at some of the records, without copying.

        Args:
            rows: Positions of the records.
        """
        return GradientRows(
            arrays=tuple(array[rows] for array in self.arrays),
            product_names=self.product_names,
        )


# Records of a block at most. Few, as the last block of each step is padded.
_MAX_ROWS = 64
# Numbers that the gradients of a block have at most: 40 MB, of which a step needs
# several times as much. Larger blocks were also slower.
_MAX_NUMBERS = 10**7
# In blocks of a multiple of 16 records, kernels of matrix products rarely round a
# record by its position, so that the probe seldom has to choose a slower way.
_ROWS_MULTIPLE = 16


class RecordGradients:
    """Computes and sums the gradients of any loss of one record.

    Args:
        loss: The loss.
        plan: Shapes of the parameters, and the grid on which gradients are clipped.
        rows: How many records a block has at most; None for as many as fit into memory.

    Attributes:
        execution: How many records a block has, and how it is computed. It begins with
            the largest block; the probe, `choose_execution`, replaces it.
    """

    def __init__(
        self, loss: RecordLoss, plan: GradientQuery, rows: int | None = None
    ) -> None:
        self._loss = loss
        self._plan = plan
        # Example: with 200 000 parameters 50 records fit, and a block has 48.
        fitting_rows = max(1, min(_MAX_ROWS, _MAX_NUMBERS // plan.count))
        if fitting_rows >= _ROWS_MULTIPLE:
            fitting_rows = fitting_rows // _ROWS_MULTIPLE * _ROWS_MULTIPLE
        self.execution = Execution(rows=rows or fitting_rows)
        # Whether the faster of two ways to compute gradients is right for this loss,
        # see `is_traceable`; None before the first block.
        self._is_traceable: bool | None = None

    def compute_gradients(
        self,
        parameters: Parameters,
        numeric: Float32[Tensor, "rows numeric"],
        codes: Int64[Tensor, "rows coded"],
    ) -> GradientRows:
        """Computes the gradient of the loss at each record of a block.

        Of a layer that is called once in the loss, the gradient with respect to the
        weight is an outer product, of the layer's input and of the gradient at its
        output. Such a gradient is returned as these two factors: they have far fewer
        numbers than their product, and are enough for clipping and summing. All other
        gradients are written out.

        What a change must keep: a record's row follows from that record alone, and the
        way to compute it is the same for all private records. So the way is chosen at
        the first block, which is the probe's and has simulated records. The probe
        (`choose_execution`) notices a row that depends on other records.

        Args:
            parameters: Parameters with respect to which gradients are taken, by name,
                at their present values.
            numeric: Numeric columns of the block.
            codes: Coded columns of the block.

        Returns:
            First the gradients that are written out, side by side in the order of the
            plan, (rows, numbers). Then, for each of `product_names`, its two factors:
            the inputs of the layer, (rows, inputs), and the gradients at its outputs,
            (rows, outputs).
        """
        import torch

        if self._is_traceable is None:
            self._is_traceable = is_traceable(self._loss, parameters, numeric, codes)
        if self._is_traceable:
            gradients = per_example_gradients(self._loss, parameters, numeric, codes)
        else:
            gradients = untraced_gradients(self._loss, parameters, numeric, codes)
        product_names = tuple(
            name for name in self._plan.parameters if name in gradients.products
        )
        flat_gradients = [
            gradients.plain[name].reshape(len(numeric), -1)
            for name in self._plan.parameters
            if name in gradients.plain
        ]
        if flat_gradients:
            side_by_side = torch.cat(flat_gradients, dim=1)
        else:
            side_by_side = numeric.new_zeros(len(numeric), 0)
        factors = [
            factor for name in product_names for factor in gradients.products[name]
        ]
        arrays = tuple(
            tensor.to("cpu", torch.float32).numpy()
            for tensor in (side_by_side, *factors)
        )
        return GradientRows(arrays=arrays, product_names=product_names)

    def add_clipped(self, sums: npt.NDArray[np.int64], gradients: GradientRows) -> None:
        """Clips the gradient at each record to the norm, and adds it to a sum.

        A gradient is clipped as one vector over all parameters, not parameter by
        parameter. `test_adding_removing_or_changing_a_record` notices if it is not.

        Args:
            sums: The sum in grid units, (count,); changed in place.
            gradients: Rows that `compute_gradients` returned, or some of them.
        """
        side_by_side, *factors = gradients.arrays
        # The two factors of a product stand one behind the other.
        pairs_of_factors = zip(factors[0::2], factors[1::2], strict=True)
        products = dict(zip(gradients.product_names, pairs_of_factors, strict=True))
        add_gradients(
            sums, self._plan.parameters, side_by_side, products, self._plan.grid
        )


class FactoredGradients:
    """Computes and sums the gradients of a model that is linear in its one parameter.

    Args:
        loss: The model and its loss.
        plan: Shape of the parameter, (groups, outputs, inputs), and the grid on which
            gradients are clipped.
        rows: How many records a block has at most; None for 64.

    Attributes:
        execution: How many records a block has, and how it is computed. It begins with
            the largest block; the probe, `choose_execution`, replaces it.
    """

    def __init__(
        self, loss: FactoredLoss, plan: GradientQuery, rows: int | None = None
    ) -> None:
        self._loss = loss
        self._plan = plan
        ((self._name, self._shape),) = plan.parameters.items()
        self.execution = Execution(rows=rows or _MAX_ROWS)

    def compute_gradients(
        self,
        parameters: Parameters,
        numeric: Float32[Tensor, "rows numeric"],
        codes: Int64[Tensor, "rows coded"],
    ) -> GradientRows:
        """Computes the gradient at each record of a block, as two factors.

        In each group of outputs, the gradient is the outer product of the gradient at
        the outputs and the inputs.

        Args:
            parameters: The one parameter with respect to which gradients are taken, by
                name, at its present value.
            numeric: Numeric columns of the block.
            codes: Coded columns of the block.

        Returns:
            The factors: inputs, (rows, groups, inputs), and gradients of the loss at
            the outputs, (rows, groups, outputs).

        Raises:
            OptionError: if the inputs have another shape than the plan.
        """
        import torch
        from torch.func import vmap

        groups, output_count, input_count = self._shape
        inputs = vmap(self._loss.inputs, randomness="error")(numeric, codes).to(
            torch.float32
        )
        if inputs.shape[1:] != (groups, input_count):
            raise OptionError(
                f"inputs of shape {tuple(inputs.shape[1:])}, the plan has "
                f"{(groups, input_count)}."
            )
        weights = parameters[self._name]
        # One product for each group, with the records as rows.
        outputs = torch.stack(
            [inputs[:, group] @ weights[group].T for group in range(groups)], dim=1
        )
        # One backward pass through the sum of all losses: the loss of a record depends
        # on its own outputs alone, so it gives the gradient of each.
        outputs.requires_grad_()
        total = vmap(self._loss.loss, randomness="error")(outputs, numeric, codes).sum()
        (gradients,) = torch.autograd.grad(total, outputs)
        output_gradients = gradients.reshape(-1, groups, output_count)
        return GradientRows(
            arrays=(
                inputs.cpu().numpy(),
                output_gradients.to("cpu", torch.float32).numpy(),
            )
        )

    def add_clipped(self, sums: npt.NDArray[np.int64], gradients: GradientRows) -> None:
        """Clips the gradient at each record to the norm, and adds it to a sum.

        Args:
            sums: The sum in grid units, (count,); changed in place.
            gradients: Rows that `compute_gradients` returned, or some of them.
        """
        inputs, output_gradients = gradients.arrays
        add_factored(sums, inputs, output_gradients, self._plan.grid)


GradientSource: TypeAlias = RecordGradients | FactoredGradients
"""Computes and sums the gradients of a loss, of either kind."""


def gradient_source(
    loss: RecordLoss | FactoredLoss, plan: GradientQuery, rows: int | None
) -> GradientSource:
    """Returns the object that computes and sums the gradients of a loss.

    Args:
        loss: The loss of one record.
        plan: The plan, which states whether the loss is factored.
        rows: The option `microbatch`: how many records a block has; None for as many as
            fit into memory.

    Raises:
        OptionError: if the loss is of another kind than planned, or `rows` is not an
            integer from 1 to `BLOCK_LIMIT`.
    """
    if isinstance(loss, FactoredLoss) != plan.factored:
        raise OptionError(
            f"factored={plan.factored} in the plan of {plan.name!r}, but the loss is "
            f"of type {type(loss).__name__}."
        )
    # Python's True is an integer too, and none that is meant.
    is_block_size = (
        isinstance(rows, int)
        and not isinstance(rows, bool)
        and 1 <= rows <= BLOCK_LIMIT
    )
    if rows is not None and not is_block_size:
        raise OptionError(
            f"microbatch={rows!r} must be a whole number from 1 to {BLOCK_LIMIT}."
        )
    if isinstance(loss, FactoredLoss):
        return FactoredGradients(loss, plan, rows)
    return RecordGradients(loss, plan, rows)


def compute_block_gradients(
    source: GradientSource,
    parameters: Parameters,
    numeric: npt.NDArray[np.floating],
    codes: npt.NDArray[np.integer],
    device: str,
) -> GradientRows:
    """Computes the gradients at the records of one block.

    Both the probe and every step call this function, so that what was tried is what is
    done. The block is copied into memory that torch has allocated: kernels may round
    differently by the address at which an array begins.

    Args:
        source: Computes the gradients.
        parameters: Parameters with respect to which gradients are taken, by name.
        numeric: Numeric columns, (rows, columns), with `source.execution.rows` rows.
        codes: Coded columns, (rows, columns).
        device: Device on which torch computes.

    Returns:
        The gradients, one row for each record.
    """
    import torch

    numeric_tensor = torch.tensor(numeric, dtype=torch.float32, device=device)
    code_tensor = torch.tensor(codes, dtype=torch.int64, device=device)
    with source.execution.kernels():
        return source.compute_gradients(parameters, numeric_tensor, code_tensor)


def clipped_gradients(
    discriminator: nn.Module, rows: Float[Tensor, "rows inputs"], *, clip_norm: float
) -> dict[str, Tensor]:
    """Computes the mean of a discriminator's clipped gradients over generated records.

    Generated records are public. So their gradients are not rounded to the grid, and
    get no noise. They are clipped like those at private records, so that neither
    outweigh the other in a training that uses both.

    Args:
        discriminator: From a batch of inputs to scores.
        rows: Generated records, as the discriminator takes them.
        clip_norm: L2 norm to which the gradient at each record is clipped.

    Returns:
        The mean gradient of −log(1 − D), where D is the sigmoid of the score; by
        parameter, each of the shape of its parameter.
    """
    import torch
    from torch.nn.functional import softplus

    # −log(1 − D) = softplus(score)
    loss = module_loss(
        discriminator, lambda run, row, codes: softplus(run(row[None]))[0]
    )
    parameters = {
        name: value.detach() for name, value in discriminator.named_parameters()
    }
    mean = {name: torch.zeros_like(value) for name, value in parameters.items()}
    for block in torch.split(rows, _MAX_ROWS):
        no_codes = block.new_zeros(len(block), 0)
        gradients = per_example_gradients(loss, parameters, block, no_codes)
        # The squared norm of an outer product is that of one factor times that of the
        # other.
        squared_norms = [
            value.flatten(1).square().sum(dim=1) for value in gradients.plain.values()
        ] + [
            inputs.square().sum(dim=1) * outputs.square().sum(dim=1)
            for inputs, outputs in gradients.products.values()
        ]
        # Clamped, so that a gradient of zero does not divide by zero.
        norms = torch.stack(squared_norms).sum(dim=0).sqrt().clamp_min(1e-30)
        weights = (clip_norm / norms).clamp_max(1.0) / len(rows)
        for name, value in gradients.plain.items():
            mean[name] += torch.tensordot(weights, value, dims=1)
        for name, (inputs, outputs) in gradients.products.items():
            mean[name] += (outputs * weights[:, None]).T @ inputs
    return mean


def choose_execution(
    source: GradientSource,
    parameters: Parameters,
    layout: Layout,
    device: str,
    name: str,
    representation: Representation | None = None,
    *,
    threads: int = 1,
) -> None:
    """Probes gradients on simulated records, and chooses how blocks are computed.

    The probe computes the same simulated records in differently arranged blocks. It
    sets `source.execution` to the fastest way to compute in which the bits of a
    gradient, and the integers that it adds to a sum, are the same in every arrangement:
    so they are a function of the record alone.

    Before the call, `source.execution.rows` is the largest number of records in a
    block. During the call, `source.execution` is the way that is being tried. After an
    error it stays so: a source that was refused must not be used.

    Args:
        source: Computes and sums the gradients; its `execution` is set.
        parameters: Parameters of the first step, by name.
        layout: Columns of the simulated records.
        device: Device on which torch computes.
        name: What messages call the gradients.
        representation: A public map whose vectors replace the numeric columns, and how
            it is computed; None for none.
        threads: Threads of torch, in the probe and in the steps.

    Raises:
        OptionError: if in every way, what a record adds changes with its neighbours or
            its position.
        DataError: if the map is not finite at a simulated record.
    """
    # At the parameters of the first step themselves, zeros may hide a dependence.
    probe_parameters = nearby_parameters(parameters)
    count = sum(value.numel() for value in parameters.values())

    def draw_records(rows: int, random: np.random.Generator) -> EncodedTable:
        """Draws simulated records, as the gradients see them."""
        records = made_up_records(layout, rows, random)
        if representation is None:
            return records
        return embedded_records(
            records, representation.feature_map, representation.execution
        )

    def compute(
        execution: Execution, records: EncodedTable, positions: range
    ) -> ProbeResult:
        """Computes the gradients of a block, and returns those at some positions.

        What is compared of a record are the bits of its gradient, and a digest of the
        integers that it adds to a sum.
        """
        # The way to compute is an attribute of the source, in the probe as in a step.
        source.execution = execution
        block_gradients = compute_block_gradients(
            source, probe_parameters, records.numeric, records.codes, device
        )
        gradients = block_gradients.take(slice(positions.start, positions.stop))
        # All arrays side by side. `reshape` cannot infer a width of -1 where there are
        # no positions, so it is computed.
        values = np.concatenate(
            [
                array.reshape(len(positions), math.prod(array.shape[1:]))
                for array in gradients.arrays
            ],
            axis=1,
        )
        digests = _digests_of_sums(source, gradients, count)
        bits = [
            row.tobytes() + digest for row, digest in zip(values, digests, strict=True)
        ]
        return bits, values

    refusal = OptionError(
        f"the gradient of {name!r} at a record changes with the record's neighbours or "
        "its place in a block, or from one time to the next, so no sensitivity can be "
        "stated. Use layers that treat each record alone, and a loss without memory or "
        "randomness of its own."
    )
    max_rows = source.execution.rows
    source.execution = find_sound_execution(
        max_rows,
        compute,
        draw_records,
        name=f"gradients of {name!r}",
        refusal=refusal,
        threads=threads,
    )


# Seed and size of the changes of parameters for the probe.
_NEARBY_SEED = 20240229
_NEARBY_STD = 0.02


def nearby_parameters(parameters: Parameters) -> dict[str, Tensor]:
    """Returns parameters near those of a first step, for the probe.

    At the start of a training many parameters are zero, and hide what they multiply: a
    dependence on other records might not be seen there.

    Args:
        parameters: Parameters, by name.

    Returns:
        Each parameter plus normal noise of standard deviation 0.02. The seed is fixed,
        so that all machines and calls get the same.

    Examples:
        >>> import torch
        >>> from noisegate.gate.per_example.gradients import nearby_parameters
        >>> moved = nearby_parameters({"w": torch.zeros(1000)})["w"]
        >>> bool(0.015 < moved.std() < 0.025)
        True
    """
    import torch

    generator = torch.Generator().manual_seed(_NEARBY_SEED)
    return {
        key: value
        + _NEARBY_STD * torch.randn(value.shape, generator=generator).to(value)
        for key, value in parameters.items()
    }


def _digests_of_sums(
    source: GradientSource, gradients: GradientRows, count: int
) -> list[bytes]:
    """Hashes the integers that each record alone adds to a sum.

    Also checks that records which are added together add the sum of these integers, for
    the first two records and for all of them: a step adds at least one and at most all
    records of a block at once. To check all numbers in between would take time in
    proportion to the square of the block. The test
    `test_a_block_that_adds_something_else_than_its_records_is_refused` notices if this
    is not checked.

    Args:
        source: Clips the gradients and sums them.
        gradients: Gradients at some records, maybe at none.
        count: Number of coordinates of a sum.

    Returns:
        A digest of 16 bytes for each record. Records with the same digest add the same
        integers.

    Raises:
        OptionError: if records together add something else than they add alone.
    """

    def sum_rows(rows: slice) -> npt.NDArray[np.int64]:
        """Computes what some of the records add together, (count,)."""
        sums = np.zeros(count, dtype=np.int64)
        source.add_clipped(sums, gradients.take(rows))
        return sums

    digests: list[bytes] = []
    running_sum = np.zeros(count, dtype=np.int64)
    row_count = len(gradients.arrays[0])
    for row in range(row_count):
        record_sum = sum_rows(slice(row, row + 1))
        digests.append(hashlib.blake2b(record_sum.tobytes(), digest_size=16).digest())
        running_sum += record_sum
        is_compared = row + 1 in (2, row_count)
        if is_compared and not np.array_equal(sum_rows(slice(row + 1)), running_sum):
            raise OptionError(
                f"{row + 1} records of a block add up to something else than each of "
                "them alone."
            )
    return digests
