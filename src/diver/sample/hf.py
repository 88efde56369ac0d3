"""Sample responses from a causal model of transformers in this process, for evaluation and training.

A batch of rows is decoded together. A row whose response has ended takes the next request, so no row waits for the
longest response of its batch (continuous batching). Each prompt is run through the model once for all of its responses
that begin at about the same time. The log-prob and the entropy of sampled tokens are stored, so training needs no
second pass.

The continuous batching of transformers (`generate_batch`, 5.23) is not used. All of its requests draw from one random
stream, so responses depend on how they are scheduled, and it returns no entropy.
"""

import sys
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diver.core.seeds import stream_seed, uniform
from diver.core.types import DiverError, Diverged, Group, Problem, Rollout
from diver.sample.base import Generation, Job, Key, Request, SamplingParams, prompts_that_fit
from diver.sample.decoding import Decoding, Past, check_layers
from diver.sample.policy import Policy, entropy, positions

BLOCK = 64  # consecutive samples of one problem in an evaluation
SEGMENT = {"cuda": 16}  # requests per row in a segment, by device (else 2); a killed segment is repeated completely
MAX_NUM_SEQS = 512  # more rows hardly increase throughput
MAX_NUM_SEQS_GPU = 1024
MIN_NUM_SEQS = 64  # fewer rows hardly make a step faster, since each step reads all weights
CPU_TOKENS_IN_FLIGHT = 1 << 16  # bounds rows x positions: keys and values of long responses must fit into memory


def end_tokens(model: Any, tokenizer: Any, stop_token_ids: Sequence[int] = ()) -> list[int]:
    """The tokens that end a response: those of the model and of the tokenizer, and `stop_token_ids`."""
    model_ends = model.generation_config.eos_token_id if model.generation_config is not None else None
    model_ends = model_ends if isinstance(model_ends, list) else [model_ends]
    return sorted({e for e in [*model_ends, tokenizer.eos_token_id, *stop_token_ids] if e is not None})


def draw(probabilities: Tensor, numbers: np.ndarray) -> Tensor:
    """Draw one index per row [n, V] by inverse transform sampling of `numbers` in (0, 1]: int64 [n].

    Sums are float64: in float32, tokens of a large vocabulary that come after most of the mass would never be drawn.
    """
    wide = torch.float32 if probabilities.device.type == "mps" else torch.float64  # Apple's GPUs have no float64
    cumulative = probabilities.cumsum(-1, dtype=wide)
    if not torch.isfinite(cumulative[:, -1]).all():
        raise Diverged("the policy gives no finite probabilities: it has diverged, or sample.temperature is too low")
    target = torch.from_numpy(numbers).to(cumulative)[:, None]
    # The target is above 0, so the first sum that reaches it belongs to a token with a probability above 0.
    return torch.searchsorted(cumulative, target * cumulative[:, -1:])[:, 0]


def greedy(logp: Tensor) -> Tensor:
    """The most likely index of each row [n, V], the first if there are several: int64 [n]."""
    best, token = logp.max(-1)
    if not torch.isfinite(best).all():
        raise Diverged("the policy gives no finite probabilities: it has diverged")
    return token


class HFGenerator:
    """See `diver.sample.base.Generator`.

    All requests of an evaluation, those in `have` included, are cut into segments. A segment is run completely, or
    skipped if `have` has all of it. So on the same machine, a killed and resumed evaluation equals an uninterrupted one
    to the last bit.

    Args:
        policy: the model and its tokenizer.
        name: the name of the model.
        max_num_seqs: the number of rows; 0: `rows_for` chooses it.
        reserve: the bytes of GPU memory that `rows_for` leaves free.
    """

    def __init__(self, policy: Policy, name: str = "", max_num_seqs: int = 0, reserve: int = 0) -> None:
        self.name, self.max_num_seqs, self.context = name, max_num_seqs, positions(policy.model.config)
        self.model, self.tokenizer, self.precision = policy
        self.ends = end_tokens(self.model, self.tokenizer)
        check_layers(self.model)
        device, self._free = self.model.device, 0  # bytes of a GPU that new tensors can take
        if device.type == "cuda":
            unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
            self._free = torch.cuda.mem_get_info(device)[0] + unused - reserve

    def generate(
        self,
        requests: Sequence[Request],
        params: SamplingParams,
        have: Container[Key] = (),
        respond: Callable[..., list[Rollout]] | None = None,
    ) -> Iterator[Generation]:
        """Sample the first BLOCK samples of all problems first, so that more samples add segments at the end.

        Prompts of similar length share a segment. `respond` replaces the method of that name.
        """
        tokens = prompts_that_fit({r.problem_id: r.prompt for r in requests}, self)
        room = self.context or sys.maxsize
        limits = {name: min(params.max_tokens, room - len(ids)) for name, ids in tokens.items()}
        rows = self.max_num_seqs or self.rows_for(max(len(ids) + limits[name] for name, ids in tokens.items()))
        ends = {*self.ends, *params.stop_token_ids}
        size = rows * SEGMENT.get(self.model.device.type, 2)
        order = {name: (len(ids), i) for i, (name, ids) in enumerate(tokens.items())}
        ordered = sorted(requests, key=lambda r: (r.sample // BLOCK, order[r.problem_id]))
        blocks = [list(block) for _, block in groupby(ordered, key=lambda r: r.sample // BLOCK)]
        for segment in (block[start : start + size] for block in blocks for start in range(0, len(block), size)):
            if all(request.key in have for request in segment):
                continue
            names = list(dict.fromkeys(request.problem_id for request in segment))
            index = {name: i for i, name in enumerate(names)}
            jobs = [Job(index[r.problem_id], r.seed, limits[r.problem_id], r.problem_id) for r in segment]
            rollouts = (respond or self.respond)([tokens[name] for name in names], jobs, params.temperature, rows, ends)
            for request, rollout in zip(segment, rollouts, strict=True):
                if request.key not in have:
                    yield Generation(*request.key, rollout.replace(index=request.sample))

    def rows_for(self, positions: int) -> int:
        """The default number of rows, of this many positions, that are decoded at a time.

        On a GPU, as many rows as fit into nine tenths of the memory that was free after the weights were loaded: at
        most 1,024, and a multiple of 16. A row takes its keys and values,
        `positions x 2 x layers x key-value heads x head size x bytes`. It also takes 32 bytes for each word of the
        vocabulary while a token is drawn.
        """
        if self.model.device.type != "cuda":
            return min(MAX_NUM_SEQS, max(MIN_NUM_SEQS, CPU_TOKENS_IN_FLIGHT // positions))
        config = self.model.config.get_text_config()
        itemsize = (self.precision or self.model.dtype).itemsize
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        row = positions * 2 * config.num_hidden_layers * heads * head_size * itemsize + 32 * config.vocab_size
        copy_bytes = self.model.num_parameters() * itemsize if self.precision else 0  # the autocast's copy
        # A tenth remains for activations, and for what fragmentation makes unusable.
        rows = int(0.9 * (self._free - copy_bytes)) // row
        if rows < 1:
            raise DiverError(
                f"a response of {positions:,} tokens, prompt included, needs {row / 1e9:.1f} GB of the GPU, of which "
                f"{self._free / 1e9:.1f} GB are free; lower sample.max_tokens, or max_turns and "
                "max_observation_tokens of an environment"
            )
        return min(MAX_NUM_SEQS_GPU, rows // 16 * 16 or rows)

    def past(self, limit: int) -> Past:
        """An empty `Past` for contexts of at most `limit` positions, to call `respond` turn by turn."""
        return Past(limit)

    def respond(
        self,
        prompts: Sequence[list[int]],
        jobs: Sequence[Job],
        temperature: float,
        rows: int = 0,
        ends: Collection[int] | None = None,
        past: Past | None = None,
    ) -> list[Rollout]:
        """A response to each job, in the order of the jobs. `rows` are decoded at a time (0: automatic).

        A response ends with a token of `ends`. With `past` all jobs are decoded together. `past` holds the contexts of
        these jobs up to the last turn, and afterwards this turn too.

        A response draws its tokens by the seed of its job. At temperature 0 each is the most likely token, with its
        log-prob at temperature 1. Other responses in the batch affect it by rounding only: matrix products of other
        sizes may be summed in other orders. A token differs if its random number falls between the two sums.
        """
        ends = self.ends if ends is None else ends
        rows = len(jobs) if past else rows or self.max_num_seqs
        rows = rows or self.rows_for(max(len(prompts[job.prompt]) + job.limit for job in jobs))
        was_training = self.model.training
        self.model.eval()
        autocast = torch.autocast(self.model.device.type, self.precision, enabled=self.precision is not None)
        try:
            with torch.inference_mode(), autocast:
                batch = Decoding(self.model, ends, prompts, jobs, min(rows, len(jobs)), past)
                while batch.refill():
                    logp = torch.log_softmax(batch.logits.float() / (temperature or 1.0), -1)
                    token = draw(logp.exp(), uniform(batch.seeds, batch.count)) if temperature else greedy(logp)
                    batch.take(token, logp.gather(-1, token[:, None])[:, 0], entropy(logp))
                    batch.advance(token)
        finally:
            self.model.train(was_training)
        texts = self.tokenizer.batch_decode([r[0] for r in batch.results], skip_special_tokens=True)
        return [
            Rollout(text, tokens, logprobs, entropy=mean_entropy, truncated=tokens[-1] not in ends)
            for text, (tokens, logprobs, mean_entropy) in zip(texts, batch.results, strict=True)
        ]


def sample_groups(
    generator: Any,
    problems: Sequence[Problem],
    prompts: Sequence[str],
    size: int,
    *,
    temperature: float,
    max_tokens: int,
    seed: int,
    stop_token_ids: Sequence[int] = (),
    tokens: Mapping[str, list[int]] | None = None,
) -> list[Group]:
    """A group of `size` rollouts of each problem.

    Rollout j of problem i has the stream (seed, i, j). So a problem that comes twice in a batch has two different
    groups. `tokens` are the token ids of the prompts by problem id, if the prompts have been encoded and fit.
    """
    prompts_by_id = {problem.id: prompt for problem, prompt in zip(problems, prompts, strict=True)}
    tokens = prompts_that_fit(prompts_by_id, generator) if tokens is None else tokens
    index, room = {name: i for i, name in enumerate(prompts_by_id)}, generator.context or sys.maxsize
    jobs = [
        Job(index[problem.id], stream_seed(seed, i, j), min(max_tokens, room - len(tokens[problem.id])), problem.id)
        for i, problem in enumerate(problems)
        for j in range(size)
    ]
    ends = {*generator.ends, *stop_token_ids}
    rollouts = iter(generator.respond([tokens[name] for name in prompts_by_id], jobs, temperature, ends=ends))
    groups = []
    for problem, prompt in zip(problems, prompts, strict=True):
        members = tuple(next(rollouts).replace(index=j) for j in range(size))
        groups.append(Group(problem, members, prompt, tuple(tokens[problem.id])))
    return groups
