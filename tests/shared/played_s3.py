"""A store that speaks as much of S3 as is read with: HEAD, GET with a range, and lists; each key is asked for."""

import threading
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class Store(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        server = self.server
        url = urlsplit(self.path)
        _, _bucket, *key = unquote(url.path).split("/", 2)
        key = "".join(key)
        query = parse_qs(url.query)
        server.asked.append((self.command, key))
        if f"Credential={server.user}/" not in self.headers.get("Authorization", ""):
            self._answer(
                403,
                b"<Error><Code>AccessDenied</Code><Message>SECRET</Message></Error>",
            )
        elif not key and "list-type" in query:
            self._answer(
                200, self._list(query.get("prefix", [""])[0], "delimiter" in query)
            )
        elif not key:
            self._answer(200, b"")
        elif key not in server.objects:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._object(server.objects[key])

    def _object(self, content):
        wanted = self.headers.get("Range")
        if not wanted:
            return self._answer(200, content)
        first, last = wanted.removeprefix("bytes=").split("-")
        last = min(int(last or len(content) - 1), len(content) - 1)
        shown = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        return self._answer(206, content[int(first) : last + 1], shown)

    def _list(self, prefix, direct):
        keys = [key for key in sorted(self.server.objects) if key.startswith(prefix)]
        flat = [
            key for key in keys if not direct or "/" not in key.removeprefix(prefix)
        ]
        folders = {
            prefix + key.removeprefix(prefix).split("/")[0] + "/"
            for key in set(keys) - set(flat)
        }
        template = (
            "<Contents><Key>{}</Key><Size>{}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        )
        listing = "".join(
            template.format(key, len(self.server.objects[key])) for key in flat
        )
        listing += "".join(
            f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>"
            for folder in sorted(folders)
        )
        counted = f"<KeyCount>{len(flat) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
        return f"<ListBucketResult>{counted}{listing}</ListBucketResult>".encode()

    def _answer(self, code, content, more=None):
        self.send_response(code)
        headers = {
            "Content-Length": len(content),
            "Last-Modified": formatdate(1767225600, usegmt=True),
            "ETag": '"x"',
        }
        for name, value in (headers | (more or {})).items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def played_s3(objects, user):
    """A store with these objects in each bucket, which `user` may read; `asked` are the calls."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        server.objects = objects
        server.user = user
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
