"""Single responses for evaluation: requests in, generations out as they come, from any sampler.

A generator is an object with a name and `generate`: the embedded one here, vLLM in `offline`, any server in `endpoint`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from diver.data.templates import render
from diver.io.seeds import stream_seed
from diver.types import DiverError, Problem, Rollout

if TYPE_CHECKING:
    from diver.generate.hf import EmbeddedSampler

Prompt = str | Sequence[Mapping[str, str]]
"""Text to be continued as it is, or chat messages."""

Key = tuple[str, int]
"""A problem's id and the number of a sample."""

BLOCK = 64  # samples of a problem side by side, whose prompt then goes through the model once
PROMPTS = 64  # prompts side by side in a pass, so that reading them needs no more memory than writing
ROWS = 512  # responses in flight: more of them are hardly faster
IN_FLIGHT = {
    "cpu": 1 << 16
}  # tokens of them, where responses may be long: a kill loses a pass, and its cache has to fit
IN_FLIGHT_GPU = 1 << 19


class TooLong(DiverError):
    """A prompt for which the model has no room."""


class Request(NamedTuple):
    """One response to draw: the `sample`-th of its problem. Make them with `requests`, which gives every one its seed."""

    problem_id: str
    sample: int
    prompt: Prompt
    seed: int
    """Of this response alone."""

    @property
    def key(self) -> Key:
        return self.problem_id, self.sample


class Generation(NamedTuple):
    """What came of a request. `logprob` is the sum over the tokens, where the sampler knows it."""

    problem_id: str
    sample: int
    response: str
    tokens: int
    truncated: bool
    logprob: float | None


class Generator(Protocol):
    """Every request that is not in `have` is answered exactly once, in any order, as answers come.

    `requests` is all that an evaluation wants of a benchmark, what it has included. DiverError if one cannot be answered.
    """

    @property
    def name(self) -> str:
        """The model's: what was drawn is known by it."""
        ...

    def generate(
        self, requests: Sequence[Request], *, temperature: float, max_tokens: int, have: Container[Key] = ...
    ) -> Iterator[Generation]: ...


def requests(seed: int, benchmark: str, problem_id: str, prompt: Prompt, samples: Iterable[int]) -> list[Request]:
    """Requests for these samples of a problem. No two of a benchmark, or of two benchmarks, have the same stream."""
    return [Request(problem_id, i, prompt, stream_seed(seed, "generate", benchmark, problem_id, i)) for i in samples]


def prompt_text(request: Request, tokenizer: Any) -> str:
    """The text that the model continues: messages go through the tokenizer's chat template."""
    if isinstance(request.prompt, str):
        return request.prompt
    return render(Problem(request.problem_id, tuple(request.prompt), answer=""), "chat", tokenizer)


def room_for(prompt: Prompt, generator: Any) -> tuple[int, int | None]:
    """How many tokens a prompt has, and how many the model has room for with the response, None if it does not say."""
    from diver.data.prompts import encode

    if not hasattr(generator, "tokenizer"):
        raise DiverError("--leave-out-long: an endpoint does not say how long a prompt may be; leave that flag out")
    text = prompt_text(Request("", 0, prompt, 0), generator.tokenizer)
    return len(encode(generator.tokenizer, [text])[0]), generator.context


def prompt_ids(requests: Iterable[Request], generator: Any) -> dict[str, list[int]]:
    """The prompt of each problem, in tokens; TooLong where the model's context leaves no room for a response."""
    from diver.data.prompts import encode

    one = {request.problem_id: request for request in requests}
    texts = [prompt_text(request, generator.tokenizer) for request in one.values()]
    ids = dict(zip(one, encode(generator.tokenizer, texts), strict=True))
    for name, row in ids.items():
        if generator.context is not None and len(row) >= generator.context:
            raise TooLong(
                f"problem {name!r}: the prompt has {len(row)} tokens, but {generator.name} has room for {generator.context} "
                "with the response; --leave-out-long leaves such problems out, and counts them"
            )
    return ids


def passes(requests: Iterable[Request], length: Mapping[str, int], rows: int) -> Iterator[list[list[Request]]]:
    """Requests as they go through a model together: up to `rows` of them, the samples of a problem side by side.

    First samples first, so that more samples later are further passes; among them prompts of like length together.
    """
    blocks: dict[tuple[int, str], list[Request]] = {}
    for request in requests:
        blocks.setdefault((request.sample // min(BLOCK, rows), request.problem_id), []).append(request)
    together: list[list[Request]] = []
    for key in sorted(blocks, key=lambda key: (key[0], length[key[1]])):
        if len(together) == PROMPTS or sum(map(len, together)) + len(blocks[key]) > rows:
            yield together
            together = []
        together.append(blocks[key])
    if together:
        yield together


class EmbeddedGenerator:
    """The embedded sampler in passes of up to `rows` responses, which mix problems; 0 is 512, fewer if they are long.

    Each response has its own stream; its companions touch it by rounding alone (see `EmbeddedSampler.respond`). Passes
    are cut from all that is wanted, had or not, and drawn whole, so an evaluation that was killed ends to the last bit
    as if it had not been. `context` is how many positions the model has, None if it does not say.
    """

    def __init__(
        self, name: str, sampler: EmbeddedSampler, tokenizer: Any, context: int | None = None, rows: int = 0
    ) -> None:
        if rows < 0:
            raise ValueError(f"rows is {rows}; it must be at least 1, or 0 for as many as suit")
        self.name, self.sampler, self.tokenizer, self.context, self.rows = name, sampler, tokenizer, context, rows

    def generate(
        self, requests: Sequence[Request], *, temperature: float, max_tokens: int, have: Container[Key] = ()
    ) -> Iterator[Generation]:
        ids = prompt_ids(requests, self)
        tokens = IN_FLIGHT.get(self.sampler.model.device.type, IN_FLIGHT_GPU)
        rows = self.rows or min(ROWS, max(BLOCK, tokens // max_tokens))
        for blocks in passes(requests, {name: len(row) for name, row in ids.items()}, rows):
            together = [request for block in blocks for request in block]
            if all(request.key in have for request in together):
                continue
            prompts = [ids[block[0].problem_id] for block in blocks]
            seeds = [[request.seed for request in block] for block in blocks]
            longest = [min(max_tokens, (self.context or sys.maxsize) - len(prompt)) for prompt in prompts]
            with self.sampler.inference():
                drawn = self.sampler.respond(prompts, seeds, longest, temperature)
            for request, r in zip(together, chain.from_iterable(drawn), strict=True):
                if request.key not in have:
                    logprob = None if r.logprobs is None else float(r.logprobs.sum(dtype=float))
                    yield Generation(*request.key, r.response, r.length, r.truncated, logprob)


class Sampler(Protocol):
    """Draws `count` responses to each prompt; the same seed gives the same responses.

    `progress` is told how many responses have come in since it was last called.
    """

    def __call__(
        self,
        prompts: Sequence[str],
        count: int,
        *,
        temperature: float,
        max_tokens: int,
        rows: int,
        seed: int,
        progress: Callable[[int], Any] = ...,
    ) -> list[list[Rollout]]: ...
