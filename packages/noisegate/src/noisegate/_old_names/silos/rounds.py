"""Deprecated: this is `noisegate.app.silos.rounds`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.app.silos.rounds import *  # noqa: F403

warn(
    "noisegate.silos.rounds is now noisegate.app.silos.rounds; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
