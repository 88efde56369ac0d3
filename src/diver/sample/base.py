"""The interface of everything that samples responses: requests in, generations out.

| generator | file | samples by |
|---|---|---|
| `HFGenerator` | hf.py | transformers in this process; training samples by it too |
| `VLLMGenerator` | vllm.py | vLLM in this process |
| `EndpointGenerator` | endpoint.py | any OpenAI-compatible server |
| `PrefixTreeGenerator` | prefix_tree.py | transformers in this process, common prefixes computed once |
"""

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from diver.core.seeds import stream_seed
from diver.core.types import DiverError, Problem, Rollout
from diver.tasks.templates import encode, render

Prompt = str | Sequence[Mapping[str, str]]
"""Text to be continued without a template, or chat messages."""

Key = tuple[str, int]
"""A problem's id and the index of a sample."""


class PromptTooLong(DiverError):
    """A prompt that fills the model's context, so that no token of a response fits."""


class Request(NamedTuple):
    """A response to sample: number `sample` of its problem, drawn from the random stream `seed` of this request."""

    problem_id: str
    sample: int
    prompt: Prompt
    seed: int

    @property
    def key(self) -> Key:
        return self.problem_id, self.sample


@dataclass(frozen=True, slots=True)
class Generation:
    """The response to a request; `rollout.index` is `sample`.

    In the prefix tree, `count` samples from number `sample` on have this response. Elsewhere `count` is 1.
    """

    problem_id: str
    sample: int
    rollout: Rollout
    count: int = 1

    @property
    def key(self) -> Key:
        return self.problem_id, self.sample


class Job(NamedTuple):
    """A response to sample in one call: its prompt's index, random stream, limit in tokens, and problem id."""

    prompt: int
    seed: int
    limit: int
    problem: str = ""


class SamplingParams(NamedTuple):
    """A response has at most `max_tokens`; it ends with the model's end token, or one of `stop_token_ids`. Servers and
    vLLM also end it before a text of `stop`. Temperature 0 takes the most likely token."""

    temperature: float
    max_tokens: int
    stop_token_ids: Sequence[int] = ()
    stop: Sequence[str] = ()


class Generator(Protocol):
    """Samples a response to every request that is not in `have`, in any order, as responses are completed.

    `requests` are all requests of an evaluation, with those in `have`. DiverError if a request cannot be answered.
    `name` is that of the model, which identifies stored responses.
    """

    @property
    def name(self) -> str: ...

    def generate(
        self, requests: Sequence[Request], params: SamplingParams, have: Container[Key] = ...
    ) -> Iterator[Generation]: ...


def requests(seed: int, benchmark: str, problem_id: str, prompt: Prompt, samples: Iterable[int]) -> list[Request]:
    """Requests for these samples of a problem of an evaluation.

    A stream is keyed by (seed, benchmark, problem, sample) alone, so every policy draws from the same ones.
    """
    return [Request(problem_id, i, prompt, stream_seed(seed, "generate", benchmark, problem_id, i)) for i in samples]


def prompts_that_fit(prompts: Mapping[str, Prompt], generator: Any) -> dict[str, list[int]]:
    """Token ids of the prompt of each problem, by its id; messages go through the tokenizer's chat template.

    PromptTooLong where a prompt fills the model's context.
    """
    texts = [
        prompt
        if isinstance(prompt, str)
        else render(Problem(name, tuple(prompt), answer=""), "chat", generator.tokenizer)
        for name, prompt in prompts.items()
    ]
    tokens = dict(zip(prompts, encode(generator.tokenizer, texts), strict=True))
    for name, ids in tokens.items():
        if generator.context is not None and len(ids) >= generator.context:
            raise PromptTooLong(
                f"problem {name!r}: the prompt has {len(ids)} tokens, but the context of {generator.name} is "
                f"{generator.context} tokens, response included; "
                "--skip-long-prompts leaves such problems out and counts them"
            )
    return tokens


def is_truncated(tokens: Sequence[int], limit: int, ends: Container[int], room: float = math.inf) -> bool:
    """Whether a response reached its limit of policy tokens without an end token, or the `room` that its prompt leaves.

    A server may leave the last position of its context free, so one token less than `room` is also the limit.
    """
    return len(tokens) >= min(limit, max(1, room - 1)) and tokens[-1] not in ends
