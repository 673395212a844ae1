"""Deprecated: this is `noisegate.schema.kinds`, under a name that it had until 0.3.

Schemas that were pickled before name it.
"""

from warnings import warn

from noisegate.schema.kinds import *  # noqa: F403

warn(
    "noisegate.schema.values is now noisegate.schema.kinds; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
