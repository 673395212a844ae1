"""Deprecated: this is `noisegate.app.streams.periods`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.app.streams.periods import *  # noqa: F403

warn(
    "noisegate.streams.command is now noisegate.app.streams.periods; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
