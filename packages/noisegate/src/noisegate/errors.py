"""Every error that noisegate raises deliberately.

::

    NoisegateError
    ├── UserError             the request cannot be met as it stands         exit code 2
    │   ├── OptionError       an option or argument has an unusable value
    │   ├── SchemaError       the schema file or object is wrong
    │   ├── DataError         the private data does not fit the schema
    │   ├── ModelError        a saved model is broken or was changed
    │   ├── LedgerError       the ledger is locked, unreachable, corrupt or edited
    │   ├── CalibrationError  no noise level can give the asked guarantee
    │   ├── DivergedError     a training has left the finite numbers
    │   └── MissingExtraError an optional dependency is not installed
    └── BudgetRefusedError    the ledger refuses: the cap would be exceeded  exit code 3

A message names the column, file or option, the value, what was expected, and the cure.
It never quotes a value of a private record unless the user requests it
(``show_values``). It names options as its reader types them: see `said`.
"""

from __future__ import annotations

import difflib
import os
import shlex
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# Whether messages are for a reader who typed a command; a list, so that it can be set.
_AT_COMMAND_LINE = [False]


@contextmanager
def at_command_line() -> Iterator[None]:
    """Lets messages name options as ``--out`` in this block, and not as ``out=``."""
    before = _AT_COMMAND_LINE[0]
    _AT_COMMAND_LINE[0] = True
    try:
        yield
    finally:
        _AT_COMMAND_LINE[0] = before


def said(name: str, *value: object) -> str:
    """Names an option, with its value if one is given, as the reader types it.

    Args:
        name: Name of the parameter in Python.
        value: Its value, or nothing.

    Returns:
        ``out='model'`` in Python; ``--out model`` at the command line.

    Examples:
        >>> from noisegate.errors import at_command_line, said
        >>> said("unit_column", "patient")
        "unit_column='patient'"
        >>> with at_command_line():
        ...     print(said("unit_column", "patient"))
        --unit-column patient
    """
    if _AT_COMMAND_LINE[0]:
        option = f"--{name.replace('_', '-')}"
        return " ".join([option, *(shlex.quote(str(item)) for item in value)])
    literals = [
        repr(os.fspath(item)) if isinstance(item, os.PathLike) else repr(item)
        for item in value
    ]
    return "=".join([name, *literals])


class NoisegateError(Exception):
    """Base class of all errors that noisegate raises deliberately.

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
    """The request cannot be carried out; the message states how to change it.

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
    """A saved model is missing or broken, or was changed after it was written."""


class LedgerError(UserError):
    """The ledger is locked, unreachable, corrupt or tampered with."""


class CalibrationError(UserError):
    """No noise level gives the requested guarantee."""


class DivergedError(UserError):
    """A training produced infinite or NaN values. Its cost is not refunded."""


class LedgerWarning(UserWarning):
    """The ledger is incomplete, or the name of a data set may mislead.

    The ledger is incomplete if a run succeeded and the ledger could not record this;
    the cost counts as spent. A name may mislead if it mixes alphabets.
    """


class FitWarning(UserWarning):
    """A fitted model should not be used as it is.

    The message gives the reason, and what to do.
    """


class UnbookedWarning(UserWarning):
    """Several runs of one process used the same records without a ledger.

    Their total cost is not recorded.
    """


class UncoveredWarning(UserWarning):
    """A transformer was fitted to private records without a privacy guarantee."""


class SlowKernelsWarning(UserWarning):
    """This machine must compute one record at a time.

    In larger batches, the rounding of its kernels depends on the position of a record
    in the batch.
    """


class MissingExtraError(UserError):
    """An optional dependency is not installed."""

    @classmethod
    def of(cls, package: str, what: str) -> MissingExtraError:
        """Returns the error that states how to install a package.

        Args:
            package: The package, one of `EXTRAS`.
            what: What needs the package.
        """
        return cls(
            f"{what} needs {package}; install it with: pip install "
            f"'noisegate[{EXTRAS[package]}]'"
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
    "python_calamine": "files",
    "pyreadstat": "files",
    "duckdb": "duckdb",
    "adbc_driver_postgresql": "databases",
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
    """Returns whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def require(package: str, what: str) -> None:
    """Requires an optional package to be installed.

    Args:
        package: The package, one of `EXTRAS`.
        what: What needs it, for the message.

    Raises:
        MissingExtraError: if it is not installed.
    """
    if not installed(package):
        raise MissingExtraError.of(package, what)


class BudgetRefusedError(NoisegateError):
    """The ledger refused the run: its cost would exceed the cap of the data set.

    Examples:
        >>> from noisegate import BudgetRefusedError, Ledger
        >>> from noisegate.privacy.events import ZeroConcentrated
        >>> ledger = Ledger("budget.sqlite")
        >>> ledger.register("survey", epsilon=0.5, delta=1e-5)
        >>> costly = ZeroConcentrated(name="tables", rho=0.1, mechanism="MST")
        >>> try:
        ...     ledger.reserve(
        ...         "survey", [costly], adjacency="add-remove", purpose="tables"
        ...     )
        ... except BudgetRefusedError as error:
        ...     print(error.exit_code, ledger.show("survey")[0].spent)
        3 0.0
    """

    exit_code: ClassVar[int] = 3


def choices(given: object, names: Iterable[str]) -> str:
    """Lists the allowed names, and the one that was probably meant.

    Args:
        given: The name that was given.
        names: The allowed names.

    Examples:
        >>> from noisegate.errors import choices
        >>> choices("aeg", ["age", "sex"])
        'age, sex (did you mean age?)'
    """
    listed_names = list(names)
    text = ", ".join(listed_names)
    nearest_names = difflib.get_close_matches(str(given), listed_names, n=1)
    if nearest_names:
        text += f" (did you mean {nearest_names[0]}?)"
    return text
