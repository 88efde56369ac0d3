"""The page of a run that goes on, served to this machine alone."""

from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from diver.core.types import DiverError

LOOPBACK = "127.0.0.1"


class Page:
    """The newest page and its version; the one thread that reads rollouts replaces both."""

    def __init__(self) -> None:
        self.version, self.content = "", b""

    def replace(self, version: str, content: str) -> None:
        self.version, self.content = version, content.encode()


def server(page: Page, port: int) -> ThreadingHTTPServer:
    """A server of the page on 127.0.0.1; port 0 takes one that is free. `serve_forever` runs it. DiverError for a port
    in use."""

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            with suppress(ConnectionError):  # who asked has left
                super().handle()

        def do_GET(self) -> None:
            assert isinstance(self.server, ThreadingHTTPServer)
            own = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
            if self.headers.get("Host") not in own:  # another host name that resolves to this machine: DNS rebinding
                self.send_error(HTTPStatus.FORBIDDEN)
            elif self.path == "/":
                self._send(page.content, "text/html; charset=utf-8")
            elif self.path == "/version":
                self._send(page.version.encode(), "text/plain")
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _send(self, content: bytes, kind: str) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    try:
        return ThreadingHTTPServer((LOOPBACK, port), Handler)
    except OSError as error:
        raise DiverError(f"--port {port}: {error.strerror}; choose another, or 0 for a free one") from None
