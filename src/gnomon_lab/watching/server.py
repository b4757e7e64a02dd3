"""A server for this machine only: it serves the page, and what was read since the page's last request."""

import sys
import threading
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket

from gnomon_lab.watching.answer import answer
from gnomon_lab.watching.folder import Watched
from gnomon_lab.watching.page import page

HERE = "127.0.0.1"
NAMES = frozenset({HERE, "localhost"})
"""The names of this machine here: a request under any other name would come from a page from elsewhere."""


class Server(ThreadingHTTPServer):
    """Serves `/` and `/readings?since=VERSION`; files are read only when a page asks.

    Args:
        watched: the files.
        port: the port at which it listens; 0: any free port.
    """

    daemon_threads = True

    def __init__(self, watched: Watched, port: int = 0) -> None:
        super().__init__((HERE, port), Handler)
        self.watched = watched
        self.one_at_a_time = threading.Lock()

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{HERE}:{self.server_address[1]}/"

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        """Reports what went wrong, other than that a page was closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    timeout = 30
    server_version, sys_version = "gnomon", ""

    def do_GET(self) -> None:
        """The page, or the numbers."""
        asked = urllib.parse.urlsplit(self.path)
        since = urllib.parse.parse_qs(asked.query).get("since", ["0"])[0]
        if self.headers.get("Host", "").partition(":")[0] not in NAMES:
            self._give(HTTPStatus.FORBIDDEN, "text/plain", f"Ask for {self.server.url}\n")
        elif asked.path == "/" and not asked.query:
            self._give(HTTPStatus.OK, "text/html", page(self.server.watched.path))
        elif asked.path == "/readings" and since.isascii() and since.isdigit() and len(since) < 20:
            with self.server.one_at_a_time:
                content = answer(self.server.watched, int(since))
            self._give(HTTPStatus.OK, "application/json", content)
        else:
            self._give(HTTPStatus.NOT_FOUND, "text/plain", "There is the page at / and its numbers at /readings\n")

    def _give(self, status: HTTPStatus, kind: str, words: str) -> None:
        content = words.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing about requests."""
