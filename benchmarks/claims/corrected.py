"""What the programs on this page give: one function for each claim, from what they draw to the ε that follows.

Sums on Poisson samples and Gaussian releases are accounted by noisegate's own accountant, whose ε are upper bounds by
privacy loss distributions; δ is 1e-5 unless it says otherwise. `python -m doctest benchmarks/claims/corrected.py` does
the figures again.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, binom, norm

from noisegate.privacy.accounting import gaussian_epsilon, mu_for
from noisegate.privacy.composition import DominatingPair, StepKind, composed_epsilon

DELTA = 1e-5


def sampled(rate: float, multiplier: float, steps: int, delta: float = DELTA) -> float:
    """Returns ε of sums over Poisson samples, of noise `multiplier` times what a record that is added moves one.

    Examples:
        >>> round(sampled(0.01, 1.0, 1000), 2)
        1.83
    """
    pairs = (
        DominatingPair(p_is_mixture=True, q_is_mixture=False),
        DominatingPair(p_is_mixture=False, q_is_mixture=True),
    )
    return composed_epsilon(
        [StepKind(rate=rate, shift=1 / multiplier, count=steps)], pairs, delta
    )


def dp_feta(
    understated: float, *, sigma: float = 5.0, rate: float = 0.1, batches: int = 5
) -> float:
    """Returns ε of DP-FETA's mean images of a class with 1/`understated` of the records of an even one.

    The noise is `sigma` over the records that an even class has in a batch; a record moves the mean by one over those
    that its class has.

    Examples:
        MNIST as claimed, and its class 5 with 5,421 of 60,000:

        >>> round(dp_feta(1.0), 3), round(dp_feta(6000 / 5421), 3)
        (0.165, 0.188)
        >>> eurosat = {"rate": 12_000 / 23_000, "batches": 1}
        >>> round(dp_feta(1.0, **eurosat), 2), round(dp_feta(2700 / 2000, **eurosat), 2)
        (0.42, 0.61)
        >>> round(dp_feta(10.0), 1)
        9.9
    """
    return sampled(rate, sigma / understated, batches)


def feta_pro(*, sigma: float = 26.6, ratio: float = 0.5) -> float:
    """Returns ε of FETA-Pro's mean embedding, with `ratio` times `sigma` · 2/m of noise where 2/m is the sensitivity.

    Examples:
        As claimed, and as it is:

        >>> round(feta_pro(ratio=1.0), 3), round(feta_pro(), 3)
        (0.117, 0.25)
    """
    return gaussian_epsilon(1 / (sigma * ratio), DELTA)


def dp_mepf(epsilon: float, delta: float = 1e-6) -> float:
    """Returns ε of DP-MEPF's two moments, whose σ was chosen for `epsilon`.

    Two releases with σ times their stated sensitivities cost μ² = 2/σ². The second sensitivity, of non-negative vectors
    of norm 1, is √2 times the one stated: μ² = (1 + 2)/σ².

    Examples:
        >>> [round(dp_mepf(epsilon), 2) for epsilon in (0.2, 1.0, 10.0)]
        [0.25, 1.24, 12.78]
    """
    sigma = math.sqrt(2) / mu_for(epsilon, delta)
    return gaussian_epsilon(math.sqrt(3) / sigma, delta)


def gs_wgan(
    sigma: float, *, images: int = 32, critics: int = 1000, steps: int = 20_000
) -> float:
    """Returns ε of GS-WGAN's gradients, `sigma` the multiplier for one image, with one draw of a critic a step.

    The images of a step may all change with the record: a step is one release with multiplier σ/√images. It is granted
    that drawing a critic hides the record behind it as a Poisson sample does.

    Examples:
        The authors' σ, and DPImageBench's for 1 and 10:

        >>> [round(gs_wgan(sigma)) for sigma in (1.07, 0.9605, 0.46985)]
        [330, 462, 2750]
    """
    return sampled(1 / critics, sigma / math.sqrt(images), steps)


def gs_wgan_draws_seen(
    sigma: float, *, images: int = 32, critics: int = 1000, steps: int = 20_000
) -> float:
    """Returns ε of the same where an observer knows in which steps the record's critic was drawn.

    It is asked as often as a binomial variable says, each time at the full price.

    Examples:
        >>> [round(gs_wgan_draws_seen(sigma)) for sigma in (1.07, 0.9605, 0.46985)]
        [610, 751, 3054]
    """
    asked = np.arange(1, 200)
    weights, mu = binom.pmf(asked, steps, 1 / critics), np.sqrt(asked * images) / sigma

    def excess(epsilon: float) -> float:
        # Balle and Wang (2018): the δ of a Gaussian release at ε.
        delta = norm.cdf(mu / 2 - epsilon / mu) - np.exp(
            epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
        )
        return float((weights * delta).sum()) - DELTA

    return float(brentq(excess, 1e-3, 1e5))


def information_sensitivity(records: int) -> float:
    """Returns the sensitivity of mutual information in nats (Zhang et al. 2017, lemma 1), which dpmm takes.

    Examples:
        >>> round(1 / information_sensitivity(32_561))
        1522
    """
    first = 2 / records * math.log((records + 1) / 2)
    return first + (1 - 1 / records) * math.log(1 + 2 / (records - 1))


def privbayes_dpmm(records: int, epsilon: float = 1.0) -> float:
    """Returns the least ε of one choice of parents in dpmm's PrivBayes that was calibrated for `epsilon`.

    One record moves the normalised score of one of two pairs from 0 to 1, whatever the number of records. Weights are
    exp(ε · score / 2Δ), so the log-probability of the other pair moves by ln((1 + exp(ε/2Δ)) / 2).

    Examples:
        >>> round(privbayes_dpmm(1000)), round(privbayes_dpmm(32_561))
        (34, 760)
    """
    return float(
        np.logaddexp(0, epsilon / (2 * information_sensitivity(records)))
    ) - math.log(2)


def privbayes_datasynthesizer(epsilon: float = 1.0) -> float:
    """Returns ε of the description that DataSynthesizer 0.1.13 saves, without its domains, which have no noise.

    Half for the structure. Half for the d − k tables of counts, each of which a replaced record moves by 2, with the
    noise of a move by 1: twice that half. And the histograms of single columns, with all of `epsilon` over again.

    Examples:
        >>> privbayes_datasynthesizer(1.0)
        2.5
    """
    structure, counts, histograms = epsilon / 2, 2 * epsilon / 2, epsilon
    return structure + counts + histograms


def attacked(right: int, runs: int, delta: float = DELTA) -> float:
    """Returns the least ε at which so many right guesses of two even worlds are not too many, at 95 % confidence.

    Under (ε, δ) a guess is right with probability (e^ε + δ)/(1 + e^ε) at most; Clopper and Pearson bound it from below.
    """
    least = float(beta.ppf(0.05, right, runs - right + 1)) if right else 0.0
    return max(math.log(max(least - delta, 1e-300) / (1 - least)), 0.0)


def dp_kernel(right: int, runs: int) -> float:
    """Returns the least ε of DP-Kernel after an attack on its gradients; it grows without end, for none is wrong.

    Examples:
        >>> [round(dp_kernel(runs, runs), 1) for runs in (100, 1000, 100_000)]
        [3.5, 5.8, 10.4]
    """
    return attacked(right, runs)


def pate_gan(right: int, runs: int) -> float:
    """Returns the least ε of PATE-GAN's first code after an attack on its ranges; it grows as `dp_kernel` does.

    Examples:
        >>> round(pate_gan(200, 200), 1), pate_gan(100, 200)
        (4.2, 0.0)
    """
    return attacked(right, runs)
