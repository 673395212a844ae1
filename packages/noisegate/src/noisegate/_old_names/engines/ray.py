"""Deprecated: this is `noisegate.gate.engines.ray`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.gate.engines.ray import *  # noqa: F403

warn(
    "noisegate.engines.ray is now noisegate.gate.engines.ray; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
