"""Why a network gives a class: Integrated Gradients and SmoothGrad, computed by Captum (extra `attributions`).

Both say of one record how much each of its numbers speaks for a class, from gradients of the class's score with respect
to the record. They cost no privacy: they ask a network that has left the gate, of records that the caller may see.

`noisegate.models.locally_linear.LocallyLinear` needs neither, as its weighted map is such an answer by construction;
this is what the paper on it compares with ("Interpretable and Differentially Private Predictions", section 4.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisegate.devices import seeded
from noisegate.errors import OptionError, require

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped
    from torch import Tensor, nn


def integrated_gradients(
    network: nn.Module,
    records: Float[Tensor, "records ..."],
    of: Int64[Tensor, " records"],
    *,
    baseline: float = 0.0,
    steps: int = 50,
    times_inputs: bool = True,
) -> Float[Tensor, "records ..."]:
    """Returns the mean gradient of a class's score on the way from a baseline to each record.

    Sundararajan, Taly and Yan (ICML 2017, https://arxiv.org/abs/1703.01365), equation 1. Times what the record has
    above the baseline, as there, the numbers of a record sum to its score less that of the baseline.

    Args:
        network: Gives scores, (records, classes); in evaluation mode.
        records: What it takes.
        of: The class of each record, from 0.
        baseline: What counts as nothing, the same for every number; 0 for ink on a page.
        steps: Points on the way; the integral is a Gauss-Legendre sum.
        times_inputs: False for the mean gradient alone, as in the figures of the paper on locally linear maps.

    Raises:
        OptionError: if the number of steps or a class is unusable.
        MissingExtraError: if Captum is not installed.

    Examples:
        >>> import torch
        >>> from noisegate.contrib.attributions import integrated_gradients
        >>> network = torch.nn.Linear(3, 2).eval()
        >>> records, of = torch.rand(4, 3), torch.tensor([0, 1, 1, 0])
        >>> torch.allclose(integrated_gradients(network, records, of, times_inputs=False), network.weight[of])
        True
    """
    _check(network, records, of, steps=steps)
    from captum.attr import IntegratedGradients

    method = IntegratedGradients(network, multiply_by_inputs=times_inputs)
    found: Tensor = method.attribute(records, baselines=baseline, target=of, n_steps=steps)
    return found.detach()


def smooth_gradients(
    network: nn.Module,
    records: Float[Tensor, "records ..."],
    of: Int64[Tensor, " records"],
    *,
    noise: float = 0.15,
    samples: int = 50,
    seed: int = 0,
) -> Float[Tensor, "records ..."]:
    """Returns the mean gradient of a class's score over noisy copies of each record (SmoothGrad), signs kept.

    Smilkov et al. (2017, https://arxiv.org/abs/1706.03825), who advise noise of 10 to 20 % of the range.

    Args:
        network: Gives scores, (records, classes); in evaluation mode.
        records: What it takes, on the CPU.
        of: The class of each record, from 0.
        noise: Standard deviation, in units of the record's numbers.
        samples: Noisy copies.
        seed: Of the copies, public.

    Raises:
        OptionError: if the number of samples, the noise or a class is unusable.
        MissingExtraError: if Captum is not installed.

    Examples:
        >>> import torch
        >>> from noisegate.contrib.attributions import smooth_gradients
        >>> network = torch.nn.Linear(3, 2).eval()
        >>> torch.allclose(smooth_gradients(network, torch.rand(1, 3), torch.tensor([1])), network.weight[1:])
        True
    """
    _check(network, records, of, samples=samples)
    if not noise > 0:
        raise OptionError(f"noise={noise!r} must be more than 0, in units of the records.")
    from captum.attr import NoiseTunnel, Saliency

    tunnel = NoiseTunnel(Saliency(network))
    with seeded(seed):
        found: Tensor = tunnel.attribute(
            records, nt_type="smoothgrad", nt_samples=samples, stdevs=noise, target=of, abs=False
        )
    return found.detach()


def _check(
    network: nn.Module, records: Shaped[Tensor, "rows columns"], of: Shaped[Tensor, " _"], **counts: int
) -> None:
    """Refuses what would fail, or be wrong without a sign, in Captum."""
    import torch

    require("captum", "an attribution")
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise OptionError(f"{name}={count!r} must be a whole number, 1 or more.")
    if network.training:
        raise OptionError("the network is in training mode; call network.eval() first.")
    if tuple(of.shape) != (len(records),):
        raise OptionError(f"classes of shape {tuple(of.shape)}, expected one for each of {len(records)} records.")
    with torch.no_grad():
        classes = network(records[:1]).shape[-1]
    if len(of) and not 0 <= int(of.min()) <= int(of.max()) < classes:
        raise OptionError(f"classes from {int(of.min())} to {int(of.max())}, expected 0 to {classes - 1}.")
