"""Kinds of column by name: those of the project, and those of installed packages.

A package adds a kind by an entry point::

    [project.entry-points."noisegate.columns"]
    duration = "their_package.duration:Duration"
"""

from noisegate.registry import Registry
from noisegate.schema.kinds.kind import ColumnKind

COLUMN_KINDS: Registry[ColumnKind] = Registry(
    "noisegate.columns", "kind", attribute="kind"
)
"""Class of each kind, by its name in a schema file."""
register = COLUMN_KINDS.register
