"""Deprecated: this is `noisegate.methods.linked`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.methods.linked import *  # noqa: F403

warn(
    "noisegate.linked.method is now noisegate.methods.linked; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
