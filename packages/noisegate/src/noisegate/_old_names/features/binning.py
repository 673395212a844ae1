"""Deprecated: this is `noisegate.queries.binning`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.queries.binning import *  # noqa: F403

warn(
    "noisegate.features.binning is now noisegate.queries.binning; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
