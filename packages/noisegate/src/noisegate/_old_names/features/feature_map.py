"""Deprecated: this is `noisegate.queries.feature_map`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.queries.feature_map import *  # noqa: F403

warn(
    "noisegate.features.feature_map is now noisegate.queries.feature_map; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
