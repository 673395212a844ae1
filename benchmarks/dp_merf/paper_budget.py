"""What the noise of DP-MERF's tables costs: the ε that the paper claims, and the one that its noise amounts to.

The paper releases the class fractions and the class-wise embedding, both with Gaussian noise of σ times a sensitivity:
√2/n for the fractions, 2/n for the embedding (2√2/n with categorical columns). σ is what autodp's Rényi accountant
gives for two Gaussian releases. Under replace-one with n public, which is the paper's setting:

*As composed*: each release has its full sensitivity, so together they are μ-GDP with μ² = 2/σ².

*Together*: a record that keeps its label moves no fraction, and the embedding by its sensitivity at most. One that
changes its label moves two columns of the embedding, by the norm of one vector each: √2/n (2/n with categorical
columns), which is 1/√2 of the sensitivity. So μ² = max(1, 1 + 1/2)/σ².

*Add/remove-one*, as in noisegate by default: the sums have noise 2σ (2√2σ) and a record's norm is 1 (√2), the counts
√2σ and 1, so μ² = (1/4 + 1/2)/σ². That takes the sums as released and not divided by n, which is private then.

None of the three covers what the paper's code reads without noise: length scale, under-sampling, label set, n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from noisegate.privacy import accounting


@dataclass(frozen=True, kw_only=True)
class PaperCost:
    """The ε, at one δ, of the noise that a paper adds.

    Attributes:
        claimed: by the paper.
        sigma: noise per sensitivity, of each release.
        composed: of the two releases with their full sensitivities, by the exact curve.
        together: of what one record can change in both, replace-one.
        add_remove: the same, add/remove-one.
    """

    claimed: float
    sigma: float
    composed: float
    together: float
    add_remove: float


def renyi_sigma(epsilon: float, delta: float, releases: int) -> float:
    """Returns the σ that the classic Rényi accountant gives for several Gaussian releases of sensitivity 1.

    k releases are (α, kα/2σ²)-RDP (Mironov 2017, Proposition 7), so (ε, δ)-DP with the least over α of
    kα/2σ² + log(1/δ)/(α − 1) (Proposition 3). With μ = √k/σ that is μ²/2 + μ√(2 log(1/δ)), which is solved for μ. At
    (1, 1e-5) it is 4.9 for one release; the papers' code rounds it to 5.

    Args:
        epsilon: positive.
        delta: in (0, 1).
        releases: how many.
    """
    slope = math.sqrt(2 * math.log(1 / delta))
    return math.sqrt(releases) / (math.sqrt(slope**2 + 2 * epsilon) - slope)


def paper_cost(epsilon: float, delta: float) -> PaperCost:
    """Returns what DP-MERF's two releases cost where the paper claims (ε, δ).

    Args:
        epsilon: as claimed.
        delta: the same for both.
    """
    sigma = renyi_sigma(epsilon, delta, 2)
    composed, together, add_remove = (
        accounting.gaussian_epsilon(math.sqrt(square) / sigma, delta)
        for square in (2.0, 1.5, 0.75)
    )
    return PaperCost(
        claimed=epsilon,
        sigma=sigma,
        composed=composed,
        together=together,
        add_remove=add_remove,
    )


def paper_split(
    epsilon: float, delta: float, *, sum_part: float, products: int, sums: int = 1
) -> tuple[float, float, float]:
    """Returns the shares of a sum and of a product question under the paper's ε-split, and what it really costs.

    The paper gives `sum_part` of ε and half of δ to the sum embedding (and the counts), the rest to the product
    embeddings, calibrates each part by itself and adds ε and δ up (DP-HP, section 3.4; REFERENCE of the code: 0.8 for
    images, 0.6 for tables). The noise is the same as that of a joint plan with these shares at a smaller ε.

    Args:
        epsilon: As the paper claims it.
        delta: The same.
        sum_part: Share of ε of the sum embedding.
        products: Number of product releases.
        sums: Number of releases in the first part.

    Returns:
        Share of each sum release, share of each product release, and the ε of the joint plan.
    """
    first = accounting.mu_for(sum_part * epsilon, delta / 2) ** 2 / sums
    second = accounting.mu_for((1 - sum_part) * epsilon, delta / 2) ** 2 / products
    return (
        first,
        second,
        accounting.gaussian_epsilon(math.sqrt(first * sums + second * products), delta),
    )
