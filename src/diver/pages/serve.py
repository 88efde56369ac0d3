"""Serve the page of a running training to this machine only."""

import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from diver.core.types import DiverError

LOOPBACK = "127.0.0.1"
EVERY = 5.0  # seconds between checks for new files


class Page:
    """The newest page and its version; the one thread that reads rollouts replaces both."""

    def __init__(self) -> None:
        self.version, self.content = "", b""

    def replace(self, version: str, content: str) -> None:
        self.version, self.content = version, content.encode()


def server(page: Page, port: int) -> ThreadingHTTPServer:
    """A server of the page on 127.0.0.1; port 0 takes a free port. `serve_forever` runs it. DiverError for a port in
    use."""

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            with suppress(ConnectionError):  # the client has disconnected
                super().handle()

        def do_GET(self) -> None:
            assert isinstance(self.server, ThreadingHTTPServer)
            hosts = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
            if self.headers.get("Host") not in hosts:  # another host name that resolves to this machine: DNS rebinding
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
    except (OSError, OverflowError) as error:  # a port in use, or above 65535
        why = getattr(error, "strerror", error)
        raise DiverError(f"--port {port}: {why}; choose another, or 0 for a free one") from None


def watch(port: int, newest: Callable[[str], str | None]) -> None:
    """Serve a page until interrupted. `newest(version)` makes the page, and returns None if nothing has changed."""
    page, stop = Page(), threading.Event()

    def refresh() -> None:
        version = str(int(page.version or 0) + 1)
        if (content := newest(version)) is not None:
            page.replace(version, content)

    def go_on() -> None:
        while not stop.wait(EVERY):
            with suppress(DiverError, OSError):  # files that are being written or moved: the page does not change
                refresh()

    with server(page, port) as http:
        refresh()
        print(f"http://127.0.0.1:{http.server_port}/ - until interrupted (Ctrl-C)", flush=True)
        threading.Thread(target=go_on, daemon=True).start()
        try:
            http.serve_forever()
        finally:
            stop.set()
