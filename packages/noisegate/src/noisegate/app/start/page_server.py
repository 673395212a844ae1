"""Serves one page to browsers of this computer: to who knows its address, and to nobody else."""

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from io import BytesIO
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from tempfile import TemporaryDirectory
from typing import IO, Any
from urllib.parse import quote
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.util import FileWrapper

_PARTS = {"": "page.html", "page.css": "page.css", "page.js": "page.js"}
_KINDS = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".html": "text/html",
    ".json": "application/json",
}
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_POLICY_OF_FILES = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
# Of every answer: it is kept nowhere, and its address is told to nobody.
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageServer(ThreadingMixIn, WSGIServer):
    """Listens on a free port of this computer alone; `address` holds the secret that every request must have.

    `state` returns what the page shows once it is not what was seen, `told` takes what the page sends, and `files` are
    what may be fetched, by their names in the address.
    """

    daemon_threads = True  # a browser that waits for news does not hold up the end

    def __init__(
        self,
        state: Callable[[str], bytes],
        told: Callable[[Mapping[str, Any]], None],
        files: Mapping[str, Path],
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self._state, self._told, self._files = state, told, files
        self._token, self._ticket = secrets.token_urlsafe(), secrets.token_urlsafe()
        self._host = f"127.0.0.1:{self.server_port}"
        self.address = f"http://{self._host}/{self._token}/"
        # Other users can read what a browser is started with: a file that they cannot read, which leads here once.
        home = os.path.expanduser("~")  # a browser in a sandbox may see no other place
        self.door = TemporaryDirectory(
            "", "noisegate-", home if os.access(home, os.W_OK) else None, True
        )
        self.once = Path(self.door.name, "start.html").absolute()
        self.once.touch(0o600)
        self.once.write_text(
            f'<meta http-equiv="refresh" content="0; url=http://{self._host}/{self._ticket}/">'
        )
        self.set_app(self._answer)

    def server_bind(self) -> None:
        """Takes a port; no name server is asked what this computer is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a browser that has left."""

    def _answer(
        self, asked: dict[str, Any], start: Callable[..., Any]
    ) -> Iterable[bytes]:
        key, _, name = asked["PATH_INFO"].removeprefix("/").partition("/")
        status, headers = "403 Forbidden", {"Content-Type": "text/plain"}
        body: IO[bytes] = BytesIO(b"Open the address that the terminal shows.")
        # To this host by its name, which the page of another site has wrong, and under the secret.
        if asked.get("HTTP_HOST") == self._host:
            if secrets.compare_digest(key.encode(), self._token.encode()):
                status, headers, body = self._admitted(name, asked)
            elif self._ticket and secrets.compare_digest(
                key.encode(), self._ticket.encode()
            ):
                self._ticket, status, headers = (
                    "",
                    "303 See Other",
                    {"Location": f"/{self._token}/"},
                )
                self.door.cleanup()
        start(status, [*_HEADERS.items(), *headers.items()])
        return FileWrapper(body)

    def _admitted(
        self, name: str, asked: dict[str, Any]
    ) -> tuple[str, dict[str, str], IO[bytes]]:
        if asked["REQUEST_METHOD"] == "POST":
            try:
                size = min(int(asked["CONTENT_LENGTH"]), 2**16)
                self._told({**json.loads(asked["wsgi.input"].read(size))})
            except (OSError, TypeError, ValueError):
                return "400 Bad Request", {}, BytesIO()
            return "204 No Content", {}, BytesIO()
        policy, more = _POLICY, {}
        if name in _PARTS:
            part = resources.files(__package__).joinpath(_PARTS[name])
            body, suffix = part.open("rb"), Path(part.name).suffix
        elif name == "state":
            body, suffix = (
                BytesIO(self._state(asked["QUERY_STRING"].removeprefix("seen="))),
                ".json",
            )
        elif name in self._files:
            path, policy = self._files[name], _POLICY_OF_FILES
            body, suffix = path.open("rb"), path.suffix
            more = (
                {
                    "Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.name)}"
                }
                if suffix == ".csv"
                else {}
            )
        else:
            return "404 Not Found", {}, BytesIO()
        kind = f"{_KINDS.get(suffix, 'text/plain')}; charset=utf-8"
        return (
            "200 OK",
            {"Content-Type": kind, "Content-Security-Policy": policy, **more},
            body,
        )


class _Request(WSGIRequestHandler):
    timeout = 60.0

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: an address holds the secret."""
