"""Serves one page to browsers of this computer: to who knows its address, and no other.

Every request must name this host by its number, which the page of another site cannot,
and must hold a secret in its path::

    /SECRET/              page.html, page.css, page.js
    /SECRET/state?seen=7  what the page shows, once its turn is not 7
    /SECRET/answer        what the page sends (POST)
    /SECRET/TITLE         one of the results
    /TICKET/              leads to /SECRET/ once

Other users can read how a browser was started. So it is started with a file that they
cannot read, and that leads to the ticket.
"""

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from io import BytesIO
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from tempfile import TemporaryDirectory
from typing import IO, Any
from urllib.parse import quote
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.util import FileWrapper

_ADDRESS = "127.0.0.1"
_MAX_MESSAGE_BYTES = 2**16  # of what the page sends
_REQUEST_SECONDS = 60.0  # in which a browser must send a request

_PARTS = {"": "page.html", "page.css": "page.css", "page.js": "page.js"}
_CONTENT_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".html": "text/html",
    ".json": "application/json",
}

# The page loads nothing from elsewhere, and sends nothing elsewhere. Results run no
# script at all.
_PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_RESULT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'"
)
# Of every response: no browser keeps it, or tells its address to others.
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class _Response:
    """A response: its status, its body, and headers beside those of all responses."""

    status: str
    body: IO[bytes] = field(default_factory=BytesIO)
    headers: Mapping[str, str] = field(default_factory=dict)


class PageServer(ThreadingMixIn, WSGIServer):
    """Listens on a free port of this computer alone.

    Attributes:
        address: Address of the page, which holds the secret.
        one_time_file: A file of this user alone that leads a browser to the page once.
        folder: The temporary folder of that file, removed as soon as it was used.
    """

    # A browser that waits for news does not hold up the end.
    daemon_threads = True

    def __init__(
        self,
        wait_for_state: Callable[[str], bytes],
        receive: Callable[[Mapping[str, Any]], None],
        results: Mapping[str, Path],
    ) -> None:
        """Takes a port; requests are answered from `serve_forever` on.

        Args:
            wait_for_state: Returns what the page shows as JSON, once its turn is not
                the one given.
            receive: Takes what the page sends.
            results: Files that may be fetched, by their names in the address; more may
                be added.
        """
        super().__init__((_ADDRESS, 0), _Request)
        self._wait_for_state = wait_for_state
        self._receive = receive
        self._results = results
        self._secret = secrets.token_urlsafe()
        self._ticket = secrets.token_urlsafe()  # "" once it was used
        self._host = f"{_ADDRESS}:{self.server_port}"
        self.address = f"http://{self._host}/{self._secret}/"

        # A browser in a sandbox may see no other place than the home folder.
        home = os.path.expanduser("~")
        self.folder = TemporaryDirectory(
            prefix="noisegate-",
            dir=home if os.access(home, os.W_OK) else None,
            ignore_cleanup_errors=True,
        )
        self.one_time_file = Path(self.folder.name, "start.html").absolute()
        self.one_time_file.touch(0o600)
        self.one_time_file.write_text(
            '<meta http-equiv="refresh" '
            f'content="0; url=http://{self._host}/{self._ticket}/">'
        )
        self.set_app(self._respond)

    def server_bind(self) -> None:
        """Takes a port; no name server is asked what this computer is called."""
        TCPServer.server_bind(self)
        self.server_name = _ADDRESS
        self.server_port = self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a browser that has left."""

    def _respond(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answers a request, as a WSGI application."""
        token, _, name = environ["PATH_INFO"].removeprefix("/").partition("/")
        names_this_host = environ.get("HTTP_HOST") == self._host
        if names_this_host and _are_equal(token, self._secret):
            response = self._respond_to_page(name, environ)
        elif names_this_host and self._ticket and _are_equal(token, self._ticket):
            self._ticket = ""
            self.folder.cleanup()
            location = {"Location": f"/{self._secret}/"}
            response = _Response("303 See Other", headers=location)
        else:
            response = _Response(
                "403 Forbidden",
                BytesIO(b"Open the address that the terminal shows."),
                {"Content-Type": "text/plain"},
            )
        start_response(response.status, [*_HEADERS.items(), *response.headers.items()])
        return FileWrapper(response.body)

    def _respond_to_page(self, name: str, environ: dict[str, Any]) -> _Response:
        """Answers a request that holds the secret.

        Args:
            name: The path behind the secret.
            environ: The request, as WSGI describes it.
        """
        if environ["REQUEST_METHOD"] == "POST":
            return self._take_message(environ)
        if name in _PARTS:
            part = resources.files(__package__).joinpath(_PARTS[name])
            return _content(part.open("rb"), Path(part.name).suffix)
        if name == "state":
            seen_turn = environ["QUERY_STRING"].removeprefix("seen=")
            return _content(BytesIO(self._wait_for_state(seen_turn)), ".json")
        if name in self._results:
            return _result(self._results[name])
        return _Response("404 Not Found")

    def _take_message(self, environ: dict[str, Any]) -> _Response:
        """Takes what the page sends: one JSON object."""
        try:
            size = min(int(environ["CONTENT_LENGTH"]), _MAX_MESSAGE_BYTES)
            message = json.loads(environ["wsgi.input"].read(size))
            self._receive({**message})
        except (OSError, TypeError, ValueError):
            return _Response("400 Bad Request")
        return _Response("204 No Content")


def _are_equal(token: str, secret: str) -> bool:
    """Compares a token with a secret; the time tells nothing of where they differ."""
    return secrets.compare_digest(token.encode(), secret.encode())


def _content(
    body: IO[bytes],
    suffix: str,
    *,
    policy: str = _PAGE_POLICY,
    disposition: str | None = None,
) -> _Response:
    """Returns a response with content.

    Args:
        body: The content, which is closed after it was sent.
        suffix: Ending of its file name, from which its type follows.
        policy: What a browser may do with it.
        disposition: Whether it is saved, and under which name; None to show it.
    """
    content_type = _CONTENT_TYPES.get(suffix, "text/plain")
    headers = {
        "Content-Type": f"{content_type}; charset=utf-8",
        "Content-Security-Policy": policy,
    }
    if disposition is not None:
        headers["Content-Disposition"] = disposition
    return _Response("200 OK", body, headers)


def _result(path: Path) -> _Response:
    """Returns a result; synthetic records are saved, and the others are shown."""
    disposition = None
    if path.suffix == ".csv":
        disposition = f"attachment; filename*=UTF-8''{quote(path.name)}"
    return _content(
        path.open("rb"), path.suffix, policy=_RESULT_POLICY, disposition=disposition
    )


class _Request(WSGIRequestHandler):
    """One request of a browser."""

    timeout = _REQUEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: an address holds the secret."""
