"""Deprecated: this is `noisegate.gate.discovery.schema_gate`, under the name that it had until 0.3."""

from warnings import warn

from noisegate.gate.discovery.schema_gate import *  # noqa: F403

warn(
    "noisegate.discovery.schema_gate is now noisegate.gate.discovery.schema_gate; import it from there.",
    DeprecationWarning,
    stacklevel=2,
)
