"""The endpoint generator against a real HTTP server on loopback that can fail in every way."""

import contextlib
import json
import socket
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from diver_command import diver
from rows import write_rows
from waiting import until

from diver.core.types import DiverError, Grade, Rollout
from diver.sample.base import SamplingParams, requests

pytest.importorskip("openai")
import anyio  # by which the client waits to ask again

from diver.sample.endpoint import Again, Endpoint, EndpointGenerator

HOW = SamplingParams(0.6, 40)


HANGS = 600.0  # seconds for which a server says nothing


class Server(ThreadingHTTPServer):
    """Answers completions with a text made of prompt and seed. `faults` says what becomes of the n-th POST, from 0:
    a status, (status, headers), raw bytes to answer with, "drop", seconds to wait, or what a reply has instead."""

    daemon_threads, request_queue_size = True, 128

    def __init__(self, faults=None, models=("tiny",), port=0, listing=None, owner="someone"):
        super().__init__(("127.0.0.1", port), Handler)
        self.faults, self.models, self.listing, self.owner = faults or {}, models, listing, owner
        self.posts, self.bodies, self.lock = 0, [], threading.Lock()
        self.in_flight = self.most = 0
        self.connections = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def get_request(self):
        request, address = super().get_request()
        self.connections.append(request)
        return request, address

    def stop(self):
        """As a server that dies: open connections break."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        pass  # a client that went away


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, headers=(), kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path != "/v1/models":
            return self.answer(404, b"<html>Not here</html>", kind="text/html")
        if self.server.listing:
            return self.answer(*self.server.listing, kind="text/plain")
        if self.headers["Authorization"] == "Bearer wrong":
            return self.answer(401, {"error": {"message": "no such key"}})
        owner = {"owned_by": self.server.owner} if self.server.owner else {}
        cards = [{"id": m, "object": "model", **owner} for m in self.server.models]
        self.answer(200, {"object": "list", "data": cards})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            fault = server.faults.get(server.posts)
            server.posts += 1
            server.bodies.append(body)
            server.in_flight += 1
            server.most = max(server.most, server.in_flight)
        try:
            self.complete(body, fault)
        finally:
            with server.lock:
                server.in_flight -= 1

    def complete(self, body, fault):
        if fault == "drop":
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        if isinstance(fault, bytes):
            return self.answer(200, fault)
        if isinstance(fault, int | tuple):
            status, headers = fault if isinstance(fault, tuple) else (fault, ())
            return self.answer(status, {"error": {"message": f"fault\n{status}"}}, headers)
        if fault == "the last":
            until(lambda: self.server.posts == self.server.expected and self.server.in_flight == 1)
        time.sleep(fault if isinstance(fault, float) else 0.01)
        if body["model"] not in self.server.models:
            return self.answer(404, {"error": {"message": "no such model"}})
        chat = self.path == "/v1/chat/completions"
        text = f"{body['messages'][-1]['content'] if chat else body['prompt']} {body['seed']}"
        reason = "length" if body["seed"] % 2 else "stop"
        choice = {"index": 0, "finish_reason": reason}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        choice |= {name: value for name, value in fault.items() if name != "tokens"} if isinstance(fault, dict) else {}
        tokens = fault.get("tokens", len(text)) if isinstance(fault, dict) else len(text)
        usage = {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": 3 + tokens}
        self.answer(200, {"id": "1", "object": "completion", "model": "tiny", "choices": [choice], "usage": usage})


@contextlib.contextmanager
def serving(*args, **kwargs):
    server = Server(*args, **kwargs)
    try:
        yield server
    finally:
        server.stop()


def asked(problems=3, samples=20, chat=False):
    prompts = [([{"role": "user", "content": f"Q{p}"}] if chat else f"Q{p}") for p in range(problems)]
    return [r for p, prompt in enumerate(prompts) for r in requests(0, "b", f"p{p}", prompt, range(samples))]


def generate(server, wanted, **settings):
    return list(EndpointGenerator(Endpoint(url=server.url, **settings)).generate(wanted, HOW))


def check(got, wanted):
    """Every request is answered once, by the response to it."""
    assert Counter(g.key for g in got) == Counter(r.key for r in wanted)
    by_key = {r[:2]: r for r in wanted}
    for g in got:
        r = by_key[g.key]
        question = r.prompt if isinstance(r.prompt, str) else r.prompt[0]["content"]
        text = f"{question} {r.seed}"
        assert g.rollout == Rollout(text, num_tokens=len(text), index=r.sample, truncated=bool(r.seed % 2))


@pytest.mark.parametrize("chat", [False, True])
def test_every_sample_comes_once_with_a_seed_of_its_own(chat):
    wanted = asked(chat=chat)
    with serving() as server:
        check(generate(server, wanted, concurrency=8), wanted)
    assert {b["seed"] for b in server.bodies} == {r.seed for r in wanted} and server.posts == len(wanted) == 60
    plain = {"model": "tiny", "temperature": 0.6, "top_p": 1.0, "max_tokens": 40}
    assert all(plain.items() <= b.items() and "n" not in b for b in server.bodies)


def empty(reason="stop", tokens=12, **message):
    return {"message": {"role": "assistant", "content": None, **message}, "finish_reason": reason, "tokens": tokens}


LOST = [empty(reasoning_content="5"), empty(reasoning="5"), empty(), empty("tool_calls", tool_calls=[])]
"""Replies without the text that the model wrote."""


@pytest.mark.parametrize("fault", LOST)
def test_a_reply_that_lost_its_text_is_asked_for_again_and_is_never_an_answer(fault, slept, caplog):
    wanted = asked(1, 3, chat=True)
    with serving(faults={1: fault}) as server:
        check(generate(server, wanted, concurrency=1), wanted)
    assert server.posts == 4 and slept == [0.5]
    assert "replies that were asked for again: 1; the first: " in caplog.text and "no text in 12 tokens" in caplog.text
    caplog.clear()
    with serving(faults={1: fault}) as server:
        got = generate(server, wanted, concurrency=1, retries=0, skip_refused=True)
    assert [(g.sample, g.rollout.num_tokens) for g in got if g.rollout.grade is Grade.ERROR] == [(1, 12)]
    (said,) = [record.message for record in caplog.records if record.name == "diver.sample.endpoint"]
    assert "no text in 12 tokens" in said
    assert ("its text is in reason" in said) == any(map(fault["message"].get, ("reasoning_content", "reasoning")))
    with serving(faults=dict.fromkeys(range(3), fault)) as server, pytest.raises(DiverError, match="no text in 12"):
        generate(server, wanted, retries=0, skip_refused=True)


@pytest.mark.parametrize("fault", [empty("length", reasoning_content="5"), empty("max_tokens"), empty(tokens=1)])
def test_a_response_cut_inside_its_thought_and_an_end_token_alone_are_responses(fault):
    with serving(faults={0: fault}) as server:
        (got,) = generate(server, asked(1, 1, chat=True))
    assert got.rollout.response == "" and got.rollout.grade is None and server.posts == 1
    assert got.rollout.truncated == (fault["tokens"] > 1)


@pytest.mark.parametrize(
    ("reason", "tokens", "truncated"),
    [
        *((reason, 12, True) for reason in ("length", "max_tokens", "MAX_TOKENS", "model_length", "max_output_tokens")),
        ("stop", 40, True),
        *((reason, 12, False) for reason in ("stop", "STOP", "eos", "end_turn", "stop_sequence", None)),
    ],
)
def test_the_reasons_for_which_a_response_is_cut_off(reason, tokens, truncated):
    with serving(faults={0: {"finish_reason": reason, "tokens": tokens}}) as server:
        (got,) = generate(server, asked(1, 1))
    assert got.rollout.truncated is truncated and got.rollout.response


def test_empty_replies_of_an_earlier_run_are_sampled_again(tmp_path, monkeypatch):
    """Those that an earlier version stored as answers, and those that failed; an end token alone is an answer."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "sums.jsonl", [{"problem": "What is 1 + 1?", "answer": "2"}])
    words = ("--generator", "endpoint", "--model", "tiny", "--benchmarks", "sums.jsonl", "--template", "plain")
    words += ("--samples", 4, "--k", 1, "--retries", 0, "--temperature", 0.6, "--max-tokens", 90, "--out", "out")
    lost, short = (
        {"text": "", "finish_reason": "stop", "tokens": 12},
        {"text": "", "finish_reason": "stop", "tokens": 1},
    )
    five = {"text": r"\boxed{2}", "finish_reason": "stop"}
    server_faults = {0: five, 1: lost, 2: short, 3: five}
    with serving(faults=server_faults) as server:
        code, out, err = diver("eval", "--url", server.url, *words, "--max-num-seqs", 1)
    assert code == 0 and "2 correct, 1 no_answer, 1 error" in out, out + err
    stored = tmp_path / "out" / "generations" / "sums.jsonl"
    rows = [json.loads(line) for line in stored.read_text().splitlines()]
    write_rows(stored, [{name: value for name, value in row.items() if name != "error"} for row in rows])
    grades = next((tmp_path / "out" / "grades").iterdir())
    grades.write_text(grades.read_text().replace('"error"', '"no_answer"'))  # as an earlier version stored them
    with serving(faults={0: five}) as server:
        code, out, err = diver("eval", "--url", server.url, *words, "--max-num-seqs", 1)
    assert code == 0 and "sums: 1 empty response of an earlier run sampled again" in out, out + err
    assert "3 correct, 1 no_answer" in out and server.posts == 1
    with serving() as server:
        code, out, err = diver("eval", "--url", server.url, *words)
    assert code == 0 and "3 correct, 1 no_answer" in out and server.posts == 0


def test_the_space_between_prompt_and_completion_is_no_part_of_the_response():
    reply = b'{"choices": [{"text": "  x  y", "finish_reason": "stop"}], "usage": {"completion_tokens": 2}}'
    with serving(faults={0: reply}) as server:
        (got,) = generate(server, asked(1, 1))
    assert got.rollout.response == " x  y"


def test_as_many_in_flight_as_asked_for_and_no_more():
    with serving(faults=dict.fromkeys(range(12), 0.3)) as server:
        generate(server, asked(), concurrency=12)
        assert server.most == 12 and server.posts == 60


@pytest.mark.parametrize("model", ["", "tiny"])
def test_a_known_server_is_told_every_key_that_it_would_take_from_the_model(model):
    """A request that leaves one out would be sampled by the model's generation_config.json."""
    sampling = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "repeat_penalty"}
    plain = {"temperature": 0.6, "top_p": 1.0, "min_p": 0.0}
    for owner, expected in {
        "vllm": {**plain, "top_k": -1, "repetition_penalty": 1.0},
        "sglang": {**plain, "top_k": -1, "repetition_penalty": 1.0},
        "llamacpp": {**plain, "top_k": 0, "repeat_penalty": 1.0},
        "openai": {"temperature": 0.6, "top_p": 1.0},
        None: {"temperature": 0.6, "top_p": 1.0},
    }.items():
        with serving(owner=owner) as server:
            for extra in ({}, {"top_k": 20}):
                generator = EndpointGenerator(Endpoint(url=server.url, model=model, extra=extra))
                list(generator.generate(asked(1, 1), HOW))
                assert {k: v for k, v in server.bodies[-1].items() if k in sampling} == expected | extra
                assert ("is its own default; --extra sets them" in generator.note) == (
                    owner in ("openai", None) and not extra
                )


def test_further_keys_reach_the_server():
    with serving() as server:
        generate(
            server,
            asked(1, 1),
            extra={
                "top_k": -1,
                "generation_config": '{"do_sample": true}',
                "chat_template_kwargs": {"enable_thinking": False},
            },
        )
    assert server.bodies[0]["chat_template_kwargs"] == {"enable_thinking": False}
    assert server.bodies[0]["top_k"] == -1 and server.bodies[0]["generation_config"] == '{"do_sample": true}'


@pytest.mark.parametrize("fault", [500, 503, 429, 408, "drop"])
def test_what_fails_for_a_while_is_asked_again(fault):
    wanted = asked(2, 6)
    with serving(faults={0: fault, 3: fault, 5: fault}) as server:
        check(generate(server, wanted, concurrency=4), wanted)
    assert server.posts == len(wanted) + 3


@pytest.fixture
def slept(monkeypatch):
    """The waits between attempts, in seconds, which take no time."""
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr("diver.sample.endpoint.asyncio.sleep", sleep)
    return waits


def test_waits_longer_each_time_or_as_long_as_the_server_asks(slept):
    with serving(faults={0: 500, 1: 500, 2: (429, [("Retry-After", "0.1")])}) as server:
        check(generate(server, asked(1, 1)), asked(1, 1))
    assert slept == [0.5, 1.0, 0.1]  # half a second, twice as long, what the server asks for


def test_slow_ones_do_not_hold_up_the_others():
    """One of the first four is answered when all others have been: three of them may still be on their way."""
    wanted = asked(1, 20)
    with serving(faults={0: "the last"}) as server:
        server.expected = len(wanted)
        generator = EndpointGenerator(Endpoint(url=server.url, concurrency=4))
        got = list(generator.generate(wanted, HOW))
    check(got, wanted)
    assert any(g.sample in range(4) for g in got[16:])


def test_a_response_that_takes_too_long():
    with (
        serving(faults={0: HANGS}) as server,
        pytest.raises(
            DiverError, match=r"^http://127.*/v1: no answer \(.*[Tt]ime.*\); is the server up.* `timeout` long"
        ),
    ):
        generate(server, asked(1, 1), timeout=0.2, retries=0)


@pytest.mark.parametrize(
    ("given", "max_tokens", "seconds"), [(None, 40, 900), (None, 32_768, 3276.8), (60, 32_768, 60)]
)
def test_a_long_response_has_the_time_that_a_busy_server_takes_for_it(given, max_tokens, seconds, monkeypatch):
    with serving() as server:
        generator = EndpointGenerator(Endpoint(url=server.url, timeout=given))
        used, client = [], generator._client
        monkeypatch.setattr(generator, "_client", lambda **how: used.append(client(**how)) or used[0])
        list(generator.generate(asked(1, 1), HOW._replace(max_tokens=max_tokens)))
    assert used[0].timeout == seconds


@pytest.mark.slow
def test_a_server_that_is_stopped_and_started_again():
    wanted = asked(2, 20)
    server = Server()
    port = server.server_address[1]
    coming = EndpointGenerator(Endpoint(url=server.url, concurrency=4)).generate(wanted, HOW)
    got = [next(coming) for _ in range(5)]
    server.stop()
    back = []
    threading.Timer(0.7, lambda: back.append(Server(port=port))).start()
    got += coming
    back[0].stop()
    check(got, wanted)


def test_what_came_before_a_failure_is_yielded_and_a_consumer_may_leave():
    wanted = asked(1, 30)
    with serving(faults={10: 400}) as server:
        coming = EndpointGenerator(Endpoint(url=server.url, concurrency=1)).generate(wanted, HOW)
        got = [next(coming) for _ in range(10)]
        assert [g.sample for g in got] == list(range(10))
        with pytest.raises(DiverError, match=r"/v1: refused a request \(400: fault 400\)$"):
            next(coming)
        coming = EndpointGenerator(Endpoint(url=server.url, concurrency=3)).generate(wanted, HOW)
        next(coming)
        coming.close()
        assert server.posts <= 11 + 6


GARBAGE = {
    b"{": "not JSON",
    b"<html>": "not JSON",
    b"{}": "a part is missing",
    b"[]": "a part is missing",
    b'{"choices": []}': "a part is missing",
    b'{"error": {"message": "out of memory"}}': "out of memory",
    b'{"error": {"message": "%s because of credits"}}' % (b"refused " * 30): "because of credits",
    b'{"choices": [{"text": "x", "finish_reason": "stop"}]}': "a part is missing",
    b'{"choices": [{"text": 5, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}': "text or the number",
    b'{"choices": [{"text": "x", "finish_reason": "stop"}], "usage": {"completion_tokens": "y"}}': "text or the number",
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_nonsense(garbage):
    with serving(faults={0: garbage}) as server, pytest.raises(DiverError) as e:
        generate(server, asked(1, 1), retries=0)
    assert str(e.value).startswith(f"{server.url}: the reply to problem 'p0', sample 0 is not a completion (")
    assert GARBAGE[garbage] in str(e.value) and "\n" not in str(e.value) and len(str(e.value)) < 600


def test_a_malformed_reply_is_asked_for_again_and_drops_no_other():
    wanted = asked(2, 10)
    with serving(faults={0: b"{", 3: b'{"choices": []}', 7: b"<html>"}) as server:
        check(generate(server, wanted, concurrency=4), wanted)
    assert server.posts == len(wanted) + 3


@pytest.mark.parametrize("reason", ["abort", "error", "content_filter"])
def test_a_response_that_the_server_ended_is_asked_for_again(reason):
    part = b'{"choices": [{"text": "So", "finish_reason": "%s"}], "usage": {"completion_tokens": 1}}' % reason.encode()
    wanted = asked(1, 2)
    with serving(faults={0: part}) as server:
        check(generate(server, wanted, concurrency=1), wanted)
    assert server.posts == 3


def test_a_request_that_hangs_is_asked_for_once_more_only():
    with serving(faults={0: HANGS, 1: HANGS}) as server, pytest.raises(DiverError, match="no answer"):
        generate(server, asked(1, 1), timeout=2.0)
    assert server.posts == 2
    with serving(faults={0: HANGS}) as server:
        check(generate(server, asked(1, 1), timeout=2.0), asked(1, 1))


def test_waits_as_long_as_the_server_asks_up_to_a_quarter_of_an_hour(slept):
    asks = {n: (429, [("Retry-After", text)]) for n, text in enumerate(("300", "1e9", "Wed, 21 Oct 2026 07:28:00 GMT"))}
    with serving(faults=asks) as server:
        check(generate(server, asked(1, 1)), asked(1, 1))
    assert slept == [300, 900, 2.0]  # a date is not read: half a second, doubled twice


def test_a_wait_has_a_bound_after_however_many_retries(slept, monkeypatch):
    async def fails(*_):
        raise Again(DiverError("down"))

    monkeypatch.setattr(EndpointGenerator, "_attempt", fails)
    with serving() as server, pytest.raises(DiverError, match="down"):
        generate(server, asked(1, 1), retries=1100)
    assert slept[:6] == [0.5, 1, 2, 4, 8, 8] and slept[-1] == 8 and len(slept) == 1100


def test_what_is_refused_while_others_are_answered_is_unscored():
    wanted = asked(1, 12)
    garbage = dict.fromkeys((6, 12, 13), b"{}")
    with serving(faults={0: 400, 3: 413, **garbage}) as server:
        got = generate(server, wanted, concurrency=1, retries=0, skip_refused=True)
    failed = [g for g in got if g.rollout.grade is Grade.ERROR]
    assert [g.sample for g in failed] == [0, 3, 6] and all(g.rollout.response == "" for g in failed)
    check([g for g in got if g not in failed], [r for r in wanted if r.sample not in (0, 3, 6)])
    with serving(faults=dict.fromkeys(range(12), 400)) as server, pytest.raises(DiverError, match="refused a request"):
        generate(server, wanted, skip_refused=True)  # all of them: nothing is recorded
    with serving(faults={0: 400}) as server:  # the last of an evaluation that was killed: others have been answered
        (rest,) = EndpointGenerator(Endpoint(url=server.url, skip_refused=True)).generate(
            wanted, HOW, have={r.key for r in wanted[1:]}
        )
    assert rest.rollout.grade is Grade.ERROR and rest.sample == 0
    with serving(faults={5: 401}) as server, pytest.raises(DiverError, match="refuses the API key"):
        generate(server, wanted, concurrency=1, skip_refused=True)


def test_an_evaluation_goes_on_without_what_is_refused(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    rows = [{"problem": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(3)]
    write_rows(tmp_path / "sums.jsonl", rows)
    with serving(faults={2: 400}) as server:
        command = (
            "eval",
            "--generator",
            "endpoint",
            "--url",
            server.url,
            "--model",
            "tiny",
            "--benchmarks",
            "sums.jsonl",
        )
        code, out, err = diver(*command, "--samples", 2, "--k", "1", "--retries", 1, "--timeout", 60, "--out", "out")
        assert code == 0, err
        assert "1 responses are unscored" in out + err and server.posts == 6
        (said,) = [record.message for record in caplog.records if record.name == "diver.sample.endpoint"]
        assert said.startswith(f"the first response that is unscored: {server.url}: refused a request (400: ")
        again = diver(*command, "--samples", 2, "--k", "1", "--out", "out")
        assert again[0] == 0 and server.posts == 6  # it can finish, and asks nothing again
    (result,) = json.loads((tmp_path / "out" / "results.json").read_text())["benchmarks"].values()
    assert result["unscored"] == 1 and sorted(row["n"] for row in result["per_problem"]) == [1, 2, 2]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_nobody_there(monkeypatch):
    url = f"http://127.0.0.1:{free_port()}/v1"
    slept, sleep = [], anyio.sleep
    monkeypatch.setattr(anyio, "sleep", lambda seconds: slept.append(seconds) or sleep(seconds))
    with pytest.raises(DiverError, match=rf"^{url}: no answer \(.*\); is the server up, and is the address right\?$"):
        EndpointGenerator(Endpoint(url=url, model="tiny"))
    assert len(slept) == 1 and sum(slept) < 5  # asked once more, and not for long


def test_a_proxy_is_for_other_machines(monkeypatch):
    """As on the nodes of a cluster: the proxy, here one that is not there, would not reach this machine."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with serving() as server:
        check(generate(server, asked(1, 2)), asked(1, 2))
    with pytest.raises(
        DiverError, match=r"is the address right, and http_proxy, through which it is asked \(NO_PROXY leaves"
    ):
        EndpointGenerator(Endpoint(url="http://model.invalid/v1", model="tiny"))


def test_another_address_another_key_another_model(monkeypatch):
    with serving(models=("small", "tiny")) as server:
        with pytest.raises(DiverError, match=r"/models: the reply is not a list of models.*ends in /v1$"):
            EndpointGenerator(Endpoint(url=server.url.removesuffix("/v1")))
        with pytest.raises(DiverError, match=r"/v1: serves small, tiny; name one of them as the model$"):
            EndpointGenerator(Endpoint(url=server.url))
        with pytest.raises(DiverError, match=r"/v1: does not know the model 'large'; it serves small, tiny$"):
            generate(server, asked(), model="large")
        monkeypatch.setenv("MY_KEY", "wrong")
        with pytest.raises(
            DiverError, match=r"/v1: refuses the API key \(401: no such key\); set the environment variable MY_KEY$"
        ):
            EndpointGenerator(Endpoint(url=server.url, key="MY_KEY"))
    with serving() as server:
        assert EndpointGenerator(Endpoint(url=server.url)).name == "tiny"


def test_wrong_settings():
    with pytest.raises(ValueError, match="http://"):
        Endpoint(url="127.0.0.1:8000")
    with pytest.raises(ValueError, match="concurrency"):
        Endpoint(concurrency=0)


def test_a_server_that_lists_no_models():
    """With the model named, a request decides: `transformers serve` answers 500 where nothing is in its cache."""
    wanted = asked(1, 3)
    with serving(listing=(500, b"Internal Server Error")) as server:
        check(generate(server, wanted, model="tiny"), wanted)
        with pytest.raises(DiverError, match=r"/v1: refused a request \(500: Internal Server Error\)$"):
            EndpointGenerator(Endpoint(url=server.url))


def test_without_the_client(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(DiverError, match=r"^openai: not installed.*\[endpoint\]"):
        EndpointGenerator(Endpoint())
