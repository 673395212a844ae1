"""Addresses of tables in databases, of files and of servers.

As in::

    sqlite:///clinic.sqlite?table=visits
    postgresql://user@host:5432/clinic?table=visits&sslmode=require

They come as paths, which merge the slashes of an address. So a database without a
server, as in ``postgresql:///clinic``, looks like a server without a database. It is
read as the former: the database must be named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote

from noisegate.errors import DataError, choices

# One server, or several between commas. What stands behind a colon must be a port:
# else it may be a password that lacks its "@".
_SERVER = r"(?:\[[^\]@/?]*\]|[^\[\]:@/?,]*)(?::\d*)?"
# A password ends at the first "@" behind which the rest can be read.
_SERVER_ADDRESS = re.compile(
    r"(?:(?P<user>[^:@/?]*)(?::(?P<password>.*?))?@)?"
    rf"(?P<servers>{_SERVER}(?:,{_SERVER})*)/(?P<database>[^?@]+)"
    r"(?:\?(?P<options>.*))?",
    re.DOTALL,
)
_LONE_DATABASE = re.compile(r"[^:@/?]+(?:\?.*)?", re.DOTALL)
_TABLE_OPTION = "table="


@dataclass(frozen=True)
class ServerAddress:
    """The address of a table on a server.

    Attributes:
        scheme: Which kind of server, such as `postgresql`.
        shown: The address without password, options and table, for messages.
        location: What stands behind the scheme, without options: the user with the
            password, servers and database. Never print it.
        options: Further options, as they were written: `sslmode=require`.
        table: The table; empty for the only one.
    """

    scheme: str
    shown: str
    location: str = field(repr=False)
    options: tuple[str, ...] = field(repr=False)
    table: str

    def uri(self, *more_options: str) -> str:
        """Returns the address as the driver takes it, without the table.

        It may hold a password: never print it.
        """
        options = "&".join([*self.options, *more_options])
        return f"{self.scheme}://{self.location}?{options}"


def parse_server_address(path: Path) -> ServerAddress:
    """Parses the address of a table on a server.

    Args:
        path: The address, whose slashes `Path` merges.

    Raises:
        DataError: if it names no database; nothing of it is shown, since what is
            written wrongly may be a password.

    Examples:
        >>> from pathlib import Path
        >>> from noisegate.sources.tables.addresses import parse_server_address
        >>> address = parse_server_address(Path("postgresql://me:secret@host/db"))
        >>> address.shown
        'postgresql://me@host/db'
    """
    scheme = path.parts[0].removesuffix(":")
    text = "/".join(path.parts[1:])
    if _LONE_DATABASE.fullmatch(text):
        text = f"/{text}"
    match = _SERVER_ADDRESS.fullmatch(text)
    if match is None:
        raise DataError(
            f"{scheme}: this is not the address of a table; write it as "
            f"{scheme}://USER@HOST:PORT/DATABASE?table=TABLE, with %40 for an @ in a "
            "name, %2F for a / and so on. A password is best left out: put it into "
            "PGPASSWORD or ~/.pgpass"
        )
    user = match["user"]
    place = f"{match['servers']}/{match['database']}"
    public_user = "" if user is None else f"{user}@"
    location = f"{public_user}{place}"
    if match["password"] is not None:
        password = quote(unquote(match["password"]), safe="")
        location = f"{user}:{password}@{place}"
    options = [option for option in (match["options"] or "").split("&") if option]
    tables = [option for option in options if option.startswith(_TABLE_OPTION)]
    return ServerAddress(
        scheme=scheme,
        shown=f"{scheme}://{public_user}{place}",
        location=location,
        options=tuple(option for option in options if option not in tables),
        table=unquote(tables[0].removeprefix(_TABLE_OPTION)) if tables else "",
    )


def parse_file_address(path: Path) -> tuple[Path, str]:
    """Parses the address of a table in a database that is a file.

    The path in it is relative to the current folder, or else to the root.

    Args:
        path: The address, whose slashes `Path` merges.

    Returns:
        The file, and the name of the table; an empty one for the only table.

    Raises:
        DataError: if there is no such file.
    """
    place, _, query = "/".join(path.parts[1:]).partition("?")
    tables = parse_qs(query).get("table", [""])
    file = Path(unquote(place))
    if not file.exists():
        file = Path("/") / file
    if not file.is_file():
        raise DataError(
            f"{path.parts[0]}///{place}: there is no such file; check the path"
        )
    return file, tables[0]


def table_of_address(path: Path) -> str:
    """Returns the table that an address names; else the name of the database."""
    place, _, query = "/".join(path.parts[1:]).partition("?")
    tables = parse_qs(query).get("table", [""])
    return tables[0] or Path(unquote(place)).stem


def choose_table(name: str, table: str, available: Sequence[str]) -> str:
    """Returns the table of a database that is meant.

    Args:
        name: What messages call the database.
        table: The table that its address names; empty for the only one.
        available: The tables that there are.

    Raises:
        DataError: if there is no such table, or several, none of which is named.
    """
    if table in available:
        return table
    if table or len(available) != 1:
        problem = f"no table {table!r}" if table else "not one table"
        listed = choices(table, available) if available else "none"
        raise DataError(
            f"{name}: has {problem}, but {listed}; name one behind the path, as "
            "?table=NAME"
        )
    return available[0]
