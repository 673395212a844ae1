"""Deprecated: this is `noisegate.app.drafts.draft`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.app.drafts.draft import *  # noqa: F403

warn(
    "noisegate.discovery.draft is now noisegate.app.drafts.draft; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
