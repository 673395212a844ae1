"""Why a network gives a class: Integrated Gradients and SmoothGrad, computed by Captum.

Both say of one record how much each of its numbers speaks for a class. They cost no privacy: they ask a network that
has left the gate, of records that the caller may see.
"""

from __future__ import annotations

from captum.attr import IntegratedGradients, NoiseTunnel, Saliency
from torch import Tensor, nn

from noisegate.devices import seeded


def integrated_gradients(network: nn.Module, records: Tensor, of: Tensor) -> Tensor:
    """Returns the mean gradient of a class's score on the way from 0 to each record, of the shape of the records.

    Sundararajan, Taly and Yan (ICML 2017, https://arxiv.org/abs/1703.01365), equation 1, not times the record: as in
    the figures of the paper on locally linear maps.
    """
    method = IntegratedGradients(network, multiply_by_inputs=False)
    return method.attribute(records, baselines=0.0, target=of, n_steps=50).detach()


def smooth_gradients(network: nn.Module, records: Tensor, of: Tensor) -> Tensor:
    """Returns the mean gradient of a class's score over 50 noisy copies of each record, of the shape of the records.

    Smilkov et al. (2017, https://arxiv.org/abs/1706.03825), who advise noise of 10 to 20 % of the range: here 15 %.
    """
    tunnel, options = (
        NoiseTunnel(Saliency(network)),
        {"nt_type": "smoothgrad", "nt_samples": 50, "stdevs": 0.15},
    )
    with seeded(0):
        return tunnel.attribute(records, **options, target=of, abs=False).detach()
