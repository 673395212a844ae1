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
private record unless the user asked for it (``show_values``). It speaks of options as its reader does: see `said`.
"""

from __future__ import annotations

import difflib
import os
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_AT_COMMAND_LINE = [False]


@contextmanager
def at_command_line() -> Iterator[None]:
    """Lets messages speak of `--options` in this block: whoever reads them typed some."""
    before, _AT_COMMAND_LINE[0] = _AT_COMMAND_LINE[0], True
    try:
        yield
    finally:
        _AT_COMMAND_LINE[0] = before


def said(name: str, *value: object) -> str:
    """Returns an option as whoever reads the message says it: `out='model'`, or `--out model` at the command line."""
    if _AT_COMMAND_LINE[0]:
        return " ".join([f"--{name.replace('_', '-')}", *map(str, value)])
    shown = [
        repr(os.fspath(one) if isinstance(one, os.PathLike) else one) for one in value
    ]
    return "=".join([name, *shown])


class NoisegateError(Exception):
    """Base of all errors that noisegate raises on purpose.

    Examples:
        >>> from noisegate import NoisegateError, Schema
        >>> try:
        ...     Schema.from_toml("no-such-file.toml")
        ... except NoisegateError as error:
        ...     print(type(error).__name__, error.exit_code)
        SchemaError 2
    """

    exit_code: ClassVar[int] = 2


class UserError(NoisegateError):
    """The request cannot be met as it stands; the message says how to change it.

    Examples:
        >>> from noisegate import Budget, UserError
        >>> try:
        ...     Budget(epsilon=0.0)
        ... except UserError as error:
        ...     print(error)
        epsilon=0.0 must be a number from 0.01 to 1000; for instance epsilon=1.
    """


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


class FitWarning(UserWarning):
    """A fit is done, and what it made should not be relied on as it is; the message says why, and what to do."""


class UnbookedWarning(UserWarning):
    """Several runs of one process were on the same records, and no ledger adds up what they cost."""


class UncoveredWarning(UserWarning):
    """Something beside the gate was fitted on private records, which the guarantee does not cover."""


class SlowKernelsWarning(UserWarning):
    """On this machine only one record at a time can be computed in the same bits wherever it stands."""


class MissingExtraError(UserError):
    """An optional dependency is not installed."""

    @classmethod
    def of(cls, package: str, what: str) -> MissingExtraError:
        """Returns the error that says how to install a package; `what` needs it."""
        return cls(
            f"{what} needs {package}; install it with: pip install 'noisegate[{EXTRAS[package]}]'"
        )


PACKAGES = {
    "noisegate_images": "images",
    "noisegate_evaluate": "evaluate",
    "noisegate_papers": "papers",
}
"""Packages of noisegate's own beside it, and the extra that installs each."""
EXTRAS = {
    **PACKAGES,
    "openpyxl": "excel",
    "matplotlib": "images",
    "PIL": "images",
    "torch": "torch",
    "torchvision": "vision",
    "timm": "vision",
    "xgboost": "papers",
    "statsmodels": "demo",
    "psycopg": "ledger-postgresql",
    "mbi": "marginals",
    "datasets": "datasets",
    "ray": "ray",
    "cryptography": "silos",
    "scipy": "scipy",
}
"""Optional packages, and the extra of noisegate that installs each."""


def installed(package: str) -> bool:
    """Returns whether a package can be imported; does not import it."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def require(package: str, what: str) -> None:
    """Makes sure that an optional package, one of `EXTRAS`, is there; a MissingExtraError says that `what` needs it."""
    if not installed(package):
        raise MissingExtraError.of(package, what)


class BudgetRefusedError(NoisegateError):
    """The ledger refuses the run: its cost would exceed the cap of the data set.

    Examples:
        >>> from noisegate import BudgetRefusedError, Ledger
        >>> from noisegate.privacy.events import ZeroConcentratedEvent
        >>> ledger = Ledger("budget.sqlite")
        >>> ledger.register("survey", epsilon=0.5, delta=1e-5)
        >>> dear = ZeroConcentratedEvent(name="marginals", rho=0.1, mechanism="MST")
        >>> try:
        ...     ledger.reserve("survey", [dear], adjacency="add-remove", purpose="marginals")
        ... except BudgetRefusedError as error:
        ...     print(error.exit_code, ledger.show("survey")[0].spent)
        3 0.0
    """

    exit_code: ClassVar[int] = 3


def choices(found: object, names: Iterable[str]) -> str:
    """Returns the names that may be given in place of `found`, and which of them is nearest to it."""
    listed = list(names)
    near = difflib.get_close_matches(str(found), listed, n=1)
    return ", ".join(listed) + (f" (did you mean {near[0]}?)" if near else "")
