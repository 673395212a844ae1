"""What was asked of private records, in words and as rows of a table."""

from __future__ import annotations

from noisegate.privacy.events import (
    BatchGaussianEvent,
    Event,
    SampledGaussianEvent,
    Sampler,
    ShardGaussianEvent,
    ThresholdedGaussianEvent,
    ZeroConcentratedEvent,
)

HEADINGS = (
    *("question", "numbers released", "sensitivity (grid)", "noise (grid)", "noise / sensitivity", "noise drawn by"),
)
_SAMPLERS = {
    Sampler.DISCRETE_GAUSSIAN: "exact discrete Gaussian (OpenDP)",
    Sampler.ROUNDED_GAUSSIAN: "float64 Gaussian from ChaCha20, rounded to a grid",
    Sampler.CONVOLVED_GAUSSIAN: "discrete Gaussian from ChaCha20 and a table",
    Sampler.SUMMED_GAUSSIAN: "exact discrete Gaussians (OpenDP), a share by each silo",
}


def in_words(event: Event) -> str:
    """Returns what was asked, with its noise over its sensitivity."""
    if isinstance(event, ZeroConcentratedEvent):
        return f"{event.name}: noisy marginals chosen on the way, rho {event.rho:.4g} together"
    if isinstance(event, ThresholdedGaussianEvent):
        return f"{event.name}: counts above a threshold, noise / sensitivity {event.noise_multiplier:.4g}"
    return f"{event.name}: {event.coordinates} numbers, noise / sensitivity {event.noise_multiplier:.4g}"


def row(event: Event) -> str:
    """Returns the event as a row of a table in Markdown, under `HEADINGS`."""
    if isinstance(event, ZeroConcentratedEvent):
        return f"| {event.name} | marginals chosen on the way | - | rho = {event.rho:.6g} | - | {event.mechanism} |"
    times = f" x {event.steps} steps at rate {event.rate:g}" if isinstance(event, SampledGaussianEvent) else ""
    if isinstance(event, BatchGaussianEvent):
        samples = f"on {event.shards} disjoint shards in turn" if event.shards > 1 else f"at rate {event.rate:g}"
        times = f" x {event.steps} steps {samples}, each of a sample as a whole"
    if isinstance(event, ShardGaussianEvent):
        asked = "all" if event.rate == 1 else f"each by itself at rate {event.rate:g}"
        times = f" x {event.steps} steps, each a sum over {event.shards} disjoint shards, of which {asked} are asked"
    released = f"{event.coordinates}{times}"
    if isinstance(event, ThresholdedGaussianEvent):
        released = f"those of at least {event.threshold}"
    return (
        f"| {event.name} | {released} | {event.sensitivity:g} | {event.noise_std:.1f} "
        f"| {event.noise_multiplier:.4g} | {_SAMPLERS[event.sampler]} |"
    )
