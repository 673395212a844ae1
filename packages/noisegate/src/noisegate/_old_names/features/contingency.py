"""Deprecated: this is `noisegate.queries.contingency`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.queries.contingency import *  # noqa: F403

warn(
    "noisegate.features.contingency is now noisegate.queries.contingency; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
