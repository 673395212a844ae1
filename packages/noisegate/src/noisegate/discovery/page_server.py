"""Serves one page to browsers of this computer: to who knows its address, and to nobody else."""

import io
import json
import secrets
import shutil
import socketserver
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib import resources
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

_PARTS = {"": "page.html", "page.css": "page.css", "page.js": "page.js"}
_KINDS = {".css": "text/css", ".js": "text/javascript", ".html": "text/html", ".json": "application/json"}
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_POLICY_OF_FILES = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer: it is kept nowhere, and its address is told to nobody."""
_MOST_POSTED = 2**16


class PageServer(socketserver.ThreadingTCPServer):
    """Listens on a free port of this computer alone; `address` holds the secret that every request must have.

    `state` returns what the page shows once it is not what was seen, `told` takes what the page sends, and `files` are
    what may be fetched, by their names in the address.
    """

    daemon_threads = True  # a browser that waits for news does not hold up the end

    def __init__(
        self, state: Callable[[str], bytes], told: Callable[[Mapping[str, Any]], None], files: Mapping[str, Path]
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.state, self.told, self.files = state, told, files
        self.host = f"127.0.0.1:{self.server_address[1]}"
        self.token, self.ticket = secrets.token_urlsafe(), secrets.token_urlsafe()
        self.address = f"http://{self.host}/{self.token}/"
        # Other users of a computer can read with which address a browser was started: that one leads here once.
        self.once = f"http://{self.host}/{self.ticket}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of a browser that has left."""


class _Request(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 60.0

    def parse_request(self) -> bool:
        """Admits only what is sent to this host by its name, under the secret."""
        if not super().parse_request():
            return False
        key, _, self._asked = self.path.removeprefix("/").partition("/")
        known = [one.encode() for one in (self.server.token, self.server.ticket)]
        if self.headers.get("Host") == self.server.host:
            if secrets.compare_digest(key.encode(), known[0]):
                return True
            if known[1] and secrets.compare_digest(key.encode(), known[1]):
                self.server.ticket = ""
                self._answer(HTTPStatus.SEE_OTHER, Location=f"/{self.server.token}/")
                return False
        self.send_error(HTTPStatus.FORBIDDEN, explain="Open the address that the terminal shows.")
        return False

    def do_GET(self) -> None:
        """Sends the page, its state, or a file that was made."""
        name, _, seen = unquote(self._asked).partition("?seen=")
        if name in _PARTS:
            part = resources.files(__package__).joinpath(_PARTS[name])
            self._send(part.open("rb"), part.name)
        elif name == "state":
            self._send(io.BytesIO(self.server.state(seen)), ".json")
        elif name in self.server.files:
            path = self.server.files[name]
            saved = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.name)}"}
            self._send(path.open("rb"), path.name, _POLICY_OF_FILES, **(saved if path.suffix == ".csv" else {}))
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Takes what the page sends."""
        try:
            sent = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), _MOST_POSTED)))
            self.server.told({**sent})
        except (TypeError, ValueError):
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        self._answer(HTTPStatus.NO_CONTENT)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: an address holds the secret."""

    def end_headers(self) -> None:
        """Adds what every answer has."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def _answer(self, status: HTTPStatus, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, file: IO[bytes], name: str, policy: str = _POLICY, **more: str) -> None:
        kind = f"{_KINDS.get(Path(f'_{name}').suffix, 'text/plain')}; charset=utf-8"
        with file:
            self._answer(HTTPStatus.OK, **{"Content-Type": kind, "Content-Security-Policy": policy, **more})
            shutil.copyfileobj(file, self.wfile)
