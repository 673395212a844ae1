"""Where a ledger is kept: the path of an SQLite file, or the URL of a PostgreSQL database."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from noisegate.errors import OptionError, require

VARIABLE = "NOISEGATE_LEDGER"
_DRIVER = "postgresql+psycopg"


@dataclass(frozen=True, kw_only=True)
class LedgerLocation:
    """Exactly one of `path` and `url` is set, the latter with `schema`."""

    path: Path | None  # an SQLite file
    url: str | None  # a PostgreSQL URL with its driver, password included: never print it
    shown: str  # the same place for messages, with any password masked
    # Of the database. The server's search path is not followed: whoever may make a schema in it could slip in a ledger.
    schema: str | None = None


def locate(location: str | Path | None) -> LedgerLocation:
    """Returns the place that a path, a URL, or None for the default means, without opening it."""
    if location is None:
        import platformdirs

        default = Path(platformdirs.user_data_dir("noisegate", appauthor=False)) / "ledger.sqlite"
        location = os.environ.get(VARIABLE) or default
    text = str(location)
    if not text.strip() or "\0" in text:
        raise OptionError(f"ledger={text!r} is not a place; give the path of a file or a postgresql:// URL.")
    if "://" not in text:
        return _file(text)
    scheme, _, rest = text.partition("://")
    if scheme in ("sqlite", "sqlite+pysqlite"):
        return _file(rest.removeprefix("/"))
    if scheme in ("postgresql", "postgres", _DRIVER):
        url, shown = f"{_DRIVER}://{rest}", _masked(text)
        require("psycopg", f"ledger={shown!r}")
        return LedgerLocation(path=None, url=url, shown=shown, schema=_schema(url, shown))
    raise OptionError(
        f"ledger={_masked(text)!r}: databases of kind {scheme!r} are not supported; "
        "give the path of a file (SQLite) or a postgresql:// URL."
    )


def _file(text: str) -> LedgerLocation:
    if text in ("", ":memory:") or text.startswith("file:"):
        raise OptionError(f"ledger={text!r}: a ledger must outlive the process; give the path of a file.")
    path = Path(text).expanduser().absolute()
    return LedgerLocation(path=path, url=None, shown=str(path))


def _schema(url: str, shown: str) -> str:
    """Returns the schema that a URL names by ``?options=-csearch_path=NAME``; public where it names none."""
    options = " ".join(parse_qs(urlsplit(url).query).get("options", []))
    named = re.findall(r"(?:-c\s*|--)search_path=(\"[^\"]*\"|[^\s,]+)", options)
    name = named[-1].strip("\"'") if named else "public"
    if not re.fullmatch(r"[\w.-]{1,63}", name) or name.startswith("pg_"):
        raise OptionError(
            f"ledger={shown!r}: the tables of a ledger lie in a schema that is named in full, not {name!r}; for "
            "instance ?options=-csearch_path%3Dledgers, or leave it out for the schema public."
        )
    return name


def _masked(url: str) -> str:
    # Greedy up to the last "@", so that a password that should have been percent-encoded is masked as well.
    hidden = re.sub(r"://([^:/@?#]*):.*@", r"://\1:***@", url, flags=re.DOTALL)
    return re.sub(r"(?i)(password=)[^&]*", r"\1***", hidden)
