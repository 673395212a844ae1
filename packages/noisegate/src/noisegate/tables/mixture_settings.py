"""How a mixture of products is fitted. Nothing here can change the privacy of a result."""

from __future__ import annotations

from noisegate.settings import LearningRate, Settings, Steps, Whole, settings


@settings
class MixtureSettings(Settings):
    """How a mixture of products is fitted; see `noisegate.tables.mixture_fit`."""

    renamed = {"spread": "init_std"}  # noqa: RUF012

    components: Steps = 600
    "Of all classes together."
    steps: Whole = 1000
    "Most optimiser steps from one start; while that is far from the tables, three times as many."
    learning_rate: LearningRate = 0.3
    "Of Adam, at first; a third and a ninth of it follow."
    init_std: LearningRate = 0.3
    "Standard deviation of the components' first logits about the one-way estimate."
