"""How a mixture is fitted: settings that plans state, without the fit itself."""

from noisegate.settings import LearningRate, Settings, Steps, Whole, settings


@settings
class MixtureSettings(Settings):
    """How a mixture is fitted; see `noisegate.models.tables.mixture_fit`."""

    renamed = {"spread": "init_std"}  # noqa: RUF012

    components: Steps = 600
    "Of all classes together."
    steps: Whole = 250
    "Optimiser steps; where these end far from the tables, there are as many again."
    learning_rate: LearningRate = 0.3
    "Of Adam, at first; a third and a ninth of it follow."
    init_std: LearningRate = 0.3
    "Standard deviation of the components' first logits about the one-way estimate."
