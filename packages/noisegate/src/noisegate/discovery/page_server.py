"""Serves one page to browsers of this computer: to who knows its address, and to nobody else."""

import json
import secrets
import shutil
import socketserver
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

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
        self, state: Callable[[str], Any], told: Callable[[Mapping[str, Any]], None], files: Mapping[str, Path]
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
        server = self.server
        key, _, name = self.path.removeprefix("/").partition("/")
        self._name, _, self._query = name.partition("?")
        named = self.headers.get("Host") == server.host
        if named and secrets.compare_digest(key.encode(), server.token.encode()):
            return True
        if named and server.ticket and secrets.compare_digest(key.encode(), server.ticket.encode()):
            server.ticket = ""
            self._answer(HTTPStatus.SEE_OTHER, Location=f"/{server.token}/")
        else:
            self.send_error(HTTPStatus.FORBIDDEN, explain="Open the address that the terminal shows.")
        return False

    def do_GET(self) -> None:
        """Sends the page, its state, or a file that was made."""
        server = self.server
        if self._name in _PARTS:
            part = resources.files(__package__).joinpath(_PARTS[self._name])
            self._send(part.read_bytes(), Path(part.name).suffix)
        elif self._name == "state":
            self._send(json.dumps(server.state(parse_qs(self._query).get("seen", [""])[0])).encode(), ".json")
        elif self._name in server.files:
            self._send_file(server.files[self._name])
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Takes an answer."""
        size = self.headers.get("Content-Length", "")
        try:
            sent = json.loads(self.rfile.read(int(size))) if size.isdecimal() and int(size) <= _MOST_POSTED else None
        except ValueError:
            sent = None
        if not isinstance(sent, dict):
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        self.server.told(sent)
        self._answer(HTTPStatus.NO_CONTENT)

    def end_headers(self) -> None:
        """Adds what every answer has."""
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: an address holds the secret."""

    def version_string(self) -> str:
        """Names no version."""
        return "noisegate"

    def _answer(self, status: HTTPStatus, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def _send(self, body: bytes, suffix: str) -> None:
        kind = f"{_KINDS[suffix]}; charset=utf-8"
        self._answer(HTTPStatus.OK, Content_Type=kind, Content_Length=str(len(body)), Content_Security_Policy=_POLICY)
        self.wfile.write(body)

    def _send_file(self, path: Path) -> None:
        kind = f"{_KINDS.get(path.suffix, 'text/plain')}; charset=utf-8"
        saved = (
            {"Content_Disposition": f"attachment; filename*=UTF-8''{quote(path.name)}"} if path.suffix == ".csv" else {}
        )
        with path.open("rb") as file:
            self._answer(HTTPStatus.OK, Content_Type=kind, Content_Security_Policy=_POLICY_OF_FILES, **saved)
            shutil.copyfileobj(file, self.wfile)
