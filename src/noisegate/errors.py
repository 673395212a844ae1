"""Every error noisegate raises on purpose.

::

    NoisegateError
    ├── UserError             the request cannot be met as it stands         exit code 2
    │   ├── OptionError       an option or argument has an unusable value
    │   ├── SchemaError       the schema file or object is wrong
    │   ├── DataError         the private data does not fit the schema
    │   ├── ModelError        a saved model is broken or was changed
    │   ├── LedgerError       the ledger is locked, unreachable, corrupt or tampered with
    │   ├── CalibrationError  no noise level can give the asked guarantee
    │   ├── DivergedError     a training has left the finite numbers
    │   └── MissingExtraError an optional dependency is not installed
    └── BudgetRefusedError    the ledger refuses: the cap would be exceeded  exit code 3

A message names the column, file or option, the value, what was expected, and the cure. It never quotes a value from a
private record unless the user asked for it (``--show-values``).
"""

from __future__ import annotations

from typing import ClassVar


class NoisegateError(Exception):
    """Base of all errors that noisegate raises on purpose."""

    exit_code: ClassVar[int] = 2


class UserError(NoisegateError):
    """The request cannot be met as it stands; the message says how to change it."""


class OptionError(UserError):
    """An option or argument has an unusable value."""


class SchemaError(UserError):
    """The schema is wrong or incomplete."""


class DataError(UserError):
    """The private data cannot be read or does not fit the schema."""


class ModelError(UserError):
    """A saved model is missing, broken or was changed after it was written."""


class LedgerError(UserError):
    """The ledger is locked, unreachable, corrupt or tampered with."""


class CalibrationError(UserError):
    """No noise level can give the asked guarantee."""


class DivergedError(UserError):
    """A training has left the finite numbers; what was spent on it stays spent."""


class LedgerWarning(UserWarning):
    """A run is whole, but the ledger could not be told so, which counts as spent; or a data set's name may mislead."""


class SlowKernelsWarning(UserWarning):
    """On this machine only one record at a time can be computed in the same bits wherever it stands."""


class MissingExtraError(UserError):
    """An optional dependency is not installed."""


class BudgetRefusedError(NoisegateError):
    """The ledger refuses the run: its cost would exceed the cap of the data set."""

    exit_code: ClassVar[int] = 3
