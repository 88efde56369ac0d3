"""A hub on this machine: as much of its HTTP interface as `datasets` and `transformers` need to fetch a repository."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GATED = "gated"


class LocalHub:
    """Serves `repositories`, by name ("owner/name" of a model, "datasets/owner/name"): their files, or GATED."""

    def __init__(self):
        self.repositories = repositories = {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, headers, content = _answer(repositories, unquote(urlsplit(self.path).path), body)
                self.send_response(status)
                for name, value in {**headers, "X-Repo-Commit": COMMIT, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_HEAD = do_POST = do_GET

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


def _answer(repositories, path, body):
    """(status, headers, content), with the error codes of the real hub."""
    path = path.removeprefix("/api/models/").removeprefix("/api/").removeprefix("/")
    if path.startswith("broken/") or path.startswith("datasets/broken/"):
        return 500, {}, b""
    name = next((name for name in repositories if f"{path}/".startswith(f"{name}/")), None)
    if name is None:
        return 401, {"X-Error-Code": "RepoNotFound"}, b""
    files, (verb, rest) = repositories[name], f"{path.removeprefix(name).strip('/')}/".split("/", 1)
    revision, _, file = rest.strip("/").partition("/")
    if revision not in ("", "main", COMMIT):
        return 404, {"X-Error-Code": "RevisionNotFound"}, b""
    if verb in ("", "revision"):
        about = {"id": name.removeprefix("datasets/"), "sha": COMMIT, "siblings": []}
        return 200, {}, json.dumps({**about, "gated": "manual" if files == GATED else False}).encode()
    if files == GATED:
        return 403, {"X-Error-Code": "GatedRepo"}, b""
    if verb == "resolve" and file in files:
        return 200, {"ETag": f'"{_blob(files[file])}"'}, files[file]
    if verb == "tree":
        inside = [path for path in files if path.startswith(f"{file}/" if file else "")]
        rows = [{"type": "file", "path": p, "size": len(files[p]), "oid": _blob(files[p])} for p in inside]
        return 200, {}, json.dumps(rows).encode()
    if verb == "paths-info":
        asked = [path for path in json.loads(body)["paths"] if path in files]
        rows = [{"type": "file", "path": p, "size": len(files[p]), "oid": _blob(files[p])} for p in asked]
        return 200, {}, json.dumps(rows).encode()
    return 404, {"X-Error-Code": "EntryNotFound"}, b""


def _blob(content):
    return hashlib.sha1(content).hexdigest()
