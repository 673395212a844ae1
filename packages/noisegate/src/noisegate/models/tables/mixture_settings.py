"""Settings of the fit of a mixture, which plans state."""

from noisegate.settings import LearningRate, Settings, Steps, Whole, settings


@settings
class MixtureSettings(Settings):
    """Settings of the fit of a mixture; see `noisegate.models.tables.mixture_fit`."""

    renamed = {"spread": "init_std"}  # noqa: RUF012

    components: Steps = 600
    "Number of components of all classes together."
    steps: Whole = 250
    """Number of optimiser steps. If the fit is far from the tables then, it takes as
    many again."""
    learning_rate: LearningRate = 0.3
    "First learning rate of Adam; later it is a third, then a ninth of this."
    init_std: LearningRate = 0.3
    "Standard deviation of the components' initial logits around the one-way estimate."
