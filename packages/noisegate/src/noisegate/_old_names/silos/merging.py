"""Deprecated: this is `noisegate.app.silos.merging`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.app.silos.merging import *  # noqa: F403

warn(
    "noisegate.silos.merging is now noisegate.app.silos.merging; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
