"""Deprecated: this is `noisegate.app.copies`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.app.copies import *  # noqa: F403

warn(
    "noisegate.inference.copies is now noisegate.app.copies; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
