"""Generations from any server with OpenAI's protocol: vLLM, SGLang, llama.cpp, `transformers serve`, a provider.

One request is one sample, because many servers ignore `n`. Each request has a seed; few servers reproduce responses.
"""

import asyncio
import logging
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Annotated, Any
from urllib.parse import urlsplit

from diver.core.endings import EMPTY, FAILED, is_cut_off
from diver.core.extras import require
from diver.core.settings import Bound, NonNegativeInt, Positive, PositiveInt, settings
from diver.core.types import DiverError, Grade, Rollout
from diver.sample.base import Generation, Key, Request, SamplingParams
from diver.tasks.hub import one_line

logger = logging.getLogger(__name__)

PROXIES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
LONGEST_WAIT = 900.0  # seconds that a server may ask to wait before a retry
LONGEST_RESPONSE, TOKENS_PER_SECOND = 900.0, 10  # seconds per response; tokens per second on a busy server
THOUGHTS = ("reasoning_content", "reasoning")
"""Fields in which servers put the text that their reasoning parser takes out of the response."""
_GENERATION_CONFIG = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
PLAIN_SAMPLING: dict[str, dict[str, Any]] = {
    "vllm": _GENERATION_CONFIG,
    "sglang": _GENERATION_CONFIG,
    "llamacpp": {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
}
"""`owned_by` of a server's models -> the keys with which it samples the unmodified distribution.

For a missing key, vLLM and SGLang take the value of the model's generation_config.json, and llama.cpp takes its default
(top_k 40, min_p 0.05). Other servers may refuse a key that they do not know.
"""
Address = Annotated[
    str, Bound("an http:// or https:// address", lambda url: str(url).startswith(("http://", "https://")))
]


@settings
class Endpoint:
    """The server, its model, and the settings of requests."""

    url: Address = "http://127.0.0.1:8000/v1"
    """Base URL of the server, which ends in /v1 on most servers."""
    model: str = ""
    """Name under which the server offers the model; not needed if it offers only one."""
    key: str = "OPENAI_API_KEY"
    """The environment variable with the API key, for servers that need one."""
    concurrency: PositiveInt = 64
    """Maximum number of concurrent requests."""
    retries: NonNegativeInt = 8
    """How often a request is repeated after 408, 409, 429, 5xx, a lost connection or a reply that is no completion. The
    first wait is half a second, then twice as long each time up to 8 s, or as long as the server says. After `timeout`
    a request is repeated once only."""
    timeout: Positive | None = None
    """Time limit for one response, in seconds. Default: 900, or max_tokens at 10 per second if that is longer."""
    skip_refused: bool = False
    """Whether a refused request is an empty rollout whose grade is `error`, not a DiverError. It is refused if the
    answer is 400, 413, 422 or no completion while other requests are answered."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Additional keys of the request body; they override those of PLAIN_SAMPLING. `transformers serve` samples the
    unmodified distribution with generation_config = '{"do_sample": true, "top_k": 0}', and is greedy without."""


class Refused(DiverError):
    """A request that the server does not answer, although it may answer others."""

    def __init__(self, message: str, request: Request, tokens: int = 0) -> None:
        super().__init__(message)
        rollout = Rollout("", num_tokens=tokens, index=request.sample, grade=Grade.ERROR)
        self.generation = Generation(*request.key, rollout)


class Again(Exception):
    """Repeat a request, after `seconds` if the server names a time; `error` is raised after the last attempt."""

    def __init__(self, error: DiverError, seconds: float = 0.0) -> None:
        super().__init__(str(error))
        self.error, self.seconds = error, seconds


class EndpointGenerator:
    """See `diver.sample.base.Generator`. Prompts that are text go to /completions, messages to /chat/completions.

    A DiverError is raised after all completed responses have been yielded.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        require("openai")
        import openai

        self._openai = openai
        # No proxy is used for a server on this machine: the proxy of a network cannot reach it.
        self._here = urlsplit(endpoint.url).hostname in ("127.0.0.1", "localhost", "::1")
        with asyncio.Runner() as runner:
            # The model's name identifies stored responses: the address of a server may change.
            self.name, self.owner = runner.run(self._connect())

    @property
    def note(self) -> str:
        """Server settings on which the responses depend; empty for a known server, or if `extra` sets them."""
        if self.owner in PLAIN_SAMPLING or self.endpoint.extra:
            return ""
        return (
            f"{self.endpoint.url}: does not say that it is one of {', '.join(PLAIN_SAMPLING)}: whether it samples, and "
            "from which top_k, min_p and repetition penalty, is its own default; --extra sets them"
        )

    def generate(
        self, requests: Sequence[Request], params: SamplingParams, have: Container[Key] = ()
    ) -> Iterator[Generation]:
        """Yield replies as they arrive. The event loop runs only while the next reply is awaited. At most `concurrency`
        requests are lost when the consumer dies."""
        extra = PLAIN_SAMPLING.get(self.owner, {}) | dict(self.endpoint.extra)
        extra |= {"stop_token_ids": list(params.stop_token_ids)} if params.stop_token_ids else {}
        body = {"model": self.name, "temperature": params.temperature, "top_p": 1.0, "max_tokens": params.max_tokens}
        # Other servers may fail at stop texts, as `transformers serve` does with a word-level tokenizer. Their
        # responses are cut at the stop texts when they are graded.
        stop = {"stop": list(params.stop)} if params.stop and self.owner in PLAIN_SAMPLING else {}
        body |= {"extra_body": extra, **stop}
        waiting = (request for request in requests if request.key not in have)
        tasks: set[asyncio.Task[Generation]] = set()
        refused: list[Refused] = []
        self._repeated: list[Refused] = []  # replies that were no completions and were requested again
        has_warned = False
        answered = any(request.key in have for request in requests)
        with asyncio.Runner() as runner:
            client = self._client(max_tokens=params.max_tokens)
            try:
                while True:
                    free = self.endpoint.concurrency - len(tasks)
                    replies = [self._reply(client, request, body) for request in islice(waiting, free)]
                    tasks |= set(map(runner.get_loop().create_task, replies))
                    if not tasks:
                        break
                    completed, tasks = runner.run(asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED))
                    for task in sorted(completed, key=lambda t: t.exception() is not None):
                        error = task.exception()
                        if isinstance(error, Refused) and self.endpoint.skip_refused:
                            refused.append(error)
                        else:
                            yield task.result()
                            answered = True
                    if answered:  # before the first success, all requests may fail for the same reason
                        if refused and not has_warned:
                            has_warned = True
                            logger.warning("the first response that is unscored: %s", refused[0])
                        yield from (error.generation for error in refused)
                        refused = []
                if refused:
                    raise refused[0]
                if repeated := self._repeated:
                    logger.warning("replies that were asked for again: %d; the first: %s", len(repeated), repeated[0])
            finally:
                for task in tasks:
                    task.cancel()
                runner.run(client.close())

    def _client(self, retries: int = 0, max_tokens: int = 0) -> Any:
        return self._openai.AsyncOpenAI(
            http_client=self._openai.DefaultAsyncHttpxClient(trust_env=False) if self._here else None,
            base_url=self.endpoint.url,
            api_key=os.environ.get(self.endpoint.key) or "none",
            max_retries=retries,
            timeout=self.endpoint.timeout or max(LONGEST_RESPONSE, max_tokens / TOKENS_PER_SECOND),
        )

    async def _connect(self) -> tuple[str, str]:
        """The model and its owner. DiverError if the server is not up, or not exactly one model is served or named.

        With a name, the first request decides: gateways, and servers that load on demand, serve more than they list.
        """
        async with self._client(retries=1) as client:
            try:
                owners = await self._models(client)
            except DiverError as error:
                if not self.endpoint.model or isinstance(error.__cause__, self._openai.APIConnectionError):
                    raise
                owners = {}
        if not self.endpoint.model and len(owners) != 1:
            raise DiverError(f"{self.endpoint.url}: serves {_names(owners)}; name one of them as the model")
        model = self.endpoint.model or next(iter(owners))
        return model, owners.get(model, "")

    async def _models(self, client: Any) -> dict[str, str]:
        """The models that the server lists, with their owners; DiverError if its reply is no list of models."""
        try:
            cards = sorted((await client.models.list()).data, key=lambda card: str(card.id))
            return {str(card.id): str(getattr(card, "owned_by", "")) for card in cards}  # many servers omit owned_by
        except (self._openai.NotFoundError, AttributeError, TypeError, ValueError):
            raise DiverError(
                f"{self.endpoint.url}/models: the reply is not a list of models, so this is not an OpenAI-compatible "
                "endpoint; its address usually ends in /v1"
            ) from None
        except self._openai.OpenAIError as error:
            raise self._error(error) from error

    async def _reply(self, client: Any, request: Request, body: Mapping[str, Any]) -> Generation:
        attempt = timeouts = 0
        while True:
            try:
                return await self._attempt(client, request, {**body, "seed": request.seed})
            except Again as again:
                timeouts += isinstance(again.__cause__, self._openai.APITimeoutError)
                if attempt == self.endpoint.retries or timeouts == 2:
                    raise again.error from None
                if isinstance(again.error, Refused):
                    self._repeated.append(again.error)
                await asyncio.sleep(min(again.seconds, LONGEST_WAIT) or 0.5 * 2 ** min(attempt, 4))
                attempt += 1

    async def _attempt(self, client: Any, request: Request, body: Mapping[str, Any]) -> Generation:
        """Request the response once.

        Raises:
            Again: another attempt may succeed.
            Refused: only other requests may succeed.
            DiverError: no request will succeed.
        """
        try:
            if isinstance(request.prompt, str):
                reply = await client.completions.create(prompt=request.prompt, **body)
            else:
                reply = await client.chat.completions.create(messages=[dict(m) for m in request.prompt], **body)
        except self._openai.NotFoundError as error:
            served = await self._models(client)
            if self.name in served:
                raise self._error(error) from None
            unknown = f"{self.endpoint.url}: does not know the model {self.name!r}"
            raise DiverError(f"{unknown}; it serves {_names(served)}") from None
        except self._openai.OpenAIError as error:
            status = getattr(error, "status_code", 0)
            if isinstance(error, self._openai.APIConnectionError) or status in (408, 409, 429) or status >= 500:
                raise Again(self._error(error), _retry_after(error)) from error
            if status in (400, 413, 422):
                raise Refused(str(self._error(error)), request) from None
            raise self._error(error) from None
        except ValueError as error:
            raise self._malformed(request, f"not JSON, {one_line(error)}") from None
        return self._generation(request, reply, body["max_tokens"])

    def _generation(self, request: Request, reply: Any, max_tokens: int) -> Generation:
        try:
            choice, tokens = reply.choices[0], reply.usage.completion_tokens
            message = choice if isinstance(request.prompt, str) else choice.message
            text = choice.text if isinstance(request.prompt, str) else message.content or ""
            reason = choice.finish_reason
        except (AttributeError, TypeError, IndexError, KeyError):
            content = getattr(reply, "error", None) or reply  # some providers send an error with status 200
            raise self._malformed(request, f"a part is missing in {str(content)[:300]!r}") from None
        if not isinstance(text, str) or not isinstance(tokens, int):
            raise self._malformed(request, f"the text or the number of tokens is missing in {str(reply)[:200]!r}")
        if str(reason).lower() in FAILED:
            raise self._malformed(request, f"finish_reason is {reason!r}")
        # Some servers report `stop` for a response at the limit. A response that was cut in its thought has no text.
        truncated = is_cut_off(reason) or tokens >= max_tokens
        thought = next((name for name in THOUGHTS if getattr(message, name, None)), "")
        if not (text.strip() or truncated) and (thought or tokens > EMPTY[isinstance(request.prompt, str)]):
            where = f", its text is in {thought}: start the server without a reasoning parser" if thought else ""
            raise self._malformed(request, f"no text in {tokens} tokens{where}", tokens)
        if isinstance(request.prompt, str):  # some tokenizers add a leading space to a continuation
            text = text.removeprefix(" ")
        rollout = Rollout(text, num_tokens=tokens, index=request.sample, truncated=truncated)
        return Generation(*request.key, rollout)

    def _malformed(self, request: Request, reason: str, tokens: int = 0) -> Again:
        fault = f"the reply to problem {request.problem_id!r}, sample {request.sample} is not a completion ({reason})"
        return Again(Refused(f"{self.endpoint.url}: {fault}; is this an OpenAI-compatible endpoint?", request, tokens))

    def _error(self, error: Any) -> DiverError:
        url = self.endpoint.url
        if isinstance(error, self._openai.APIConnectionError):  # includes timeouts
            reason, advice = one_line(error.__cause__ or error), "is the server up, and is the address right"
            if not self._here and (proxy := next((name for name in PROXIES if os.environ.get(name)), "")):
                advice += f", and {proxy}, through which it is asked (NO_PROXY leaves a host out)"
            if isinstance(error, self._openai.APITimeoutError):
                advice += ", and is `timeout` long enough for a response"
            return DiverError(f"{url}: no answer ({reason}); {advice}?")
        if not isinstance(error, self._openai.APIStatusError):
            return DiverError(f"{url}: {one_line(error)}")
        message = (isinstance(error.body, dict) and error.body.get("message")) or error.response.text
        reason = f"({error.status_code}: {' '.join(str(message).split())[:300]})"
        if isinstance(error, self._openai.AuthenticationError | self._openai.PermissionDeniedError):
            return DiverError(f"{url}: refuses the API key {reason}; set the environment variable {self.endpoint.key}")
        return DiverError(f"{url}: refused a request {reason}")


def _retry_after(error: Any) -> float:
    """The seconds for which the server asks to wait; 0 if it does not."""
    try:
        return max(0.0, float(error.response.headers["retry-after"]))
    except (AttributeError, KeyError, ValueError):  # no reply, no Retry-After, or a date in it
        return 0.0


def _names(models: Mapping[str, str]) -> str:
    return ", ".join([*models][:20]) or "none"
