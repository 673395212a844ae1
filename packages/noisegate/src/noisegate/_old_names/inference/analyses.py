"""Deprecated: this is `noisegate.app.analyses`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.app.analyses import *  # noqa: F403

warn(
    "noisegate.inference.analyses is now noisegate.app.analyses; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
