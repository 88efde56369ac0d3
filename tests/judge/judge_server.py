"""An OpenAI-compatible server on loopback whose model is a function from the messages to the reply."""

import contextlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def solutions(messages):
    """The texts that are shown, in order."""
    return re.findall(r'<solution label="\w">\n(.*?)\n</solution>', messages[0]["content"], re.DOTALL)


def ranking(order):
    """The last line of a reply that ranks places, best first."""
    return "I have thought.\nRANKING: " + " > ".join("ABCDEFGHIJ"[place] for place in order)


class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128

    def __init__(self, reply, seconds=0.0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self.seconds, self.lock = reply, seconds, threading.Lock()
        self.asked, self.forms = [], []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        pass  # a client that was killed


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": "judge-model", "object": "model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        messages = body["messages"]
        with self.server.lock:
            self.server.asked.append(messages)
            self.server.forms.append(body.get("response_format"))
        time.sleep(self.server.seconds)
        text = self.server.reply(messages)
        message = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        self.answer({"id": "1", "object": "chat.completion", "model": "m", "choices": [message], "usage": USAGE})


@contextlib.contextmanager
def serving(reply, seconds=0.0):
    server = Server(reply, seconds)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
