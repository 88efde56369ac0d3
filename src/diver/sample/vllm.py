"""Generations from vLLM, in this process.

Each request has a seed, although vLLM then draws for one row at a time. Without seeds, responses would come from the
stream of the engine, which starts with seed 0 in every process (docs.vllm.ai, "Reproducibility"). A resumed evaluation
would draw the stored samples a second time and count them as new samples.
"""

import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from diver.core.extras import missing
from diver.core.types import DiverError, Rollout
from diver.sample.base import Generation, Key, Request, SamplingParams, prompts_that_fit
from diver.tasks.hub import one_line
from diver.tasks.templates import with_chat_template_kwargs

# Requests submitted at once: vLLM.generate returns when all are done, so a killed run loses at most these.
BATCH = 2048


def sampling_params(request: Request, params: SamplingParams) -> dict[str, Any]:
    """Arguments of vllm.SamplingParams: one sample, by the seed of the request, from the unmodified distribution."""
    return {
        "n": 1,
        "seed": request.seed,
        "temperature": params.temperature,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "max_tokens": params.max_tokens,
        "stop_token_ids": list(params.stop_token_ids),
        "stop": list(params.stop),
        "skip_special_tokens": True,
    }


def generation(request: Request, output: Any, tokenizer: Any) -> Generation:
    """A generation from a vllm.RequestOutput. vLLM's log-probs ignore the temperature, so they are not stored.

    The tokens are decoded here, as for the other generators: vLLM decodes them as a continuation of the prompt, where
    some tokenizers put a space in front.
    """
    (completion,) = output.outputs
    tokens, truncated = tuple(completion.token_ids), completion.finish_reason == "length"
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    return Generation(*request.key, Rollout(text, tokens, index=request.sample, truncated=truncated))


def precision_note(dtype: Any) -> str:
    """A note on the precision of vLLM, which casts float32 weights to bfloat16 by default."""
    return f"vLLM computes in {str(dtype).removeprefix('torch.')}"


class VLLMGenerator:
    """See `diver.sample.base.Generator`. `options` go to vllm.LLM: tensor_parallel_size, max_model_len, ..."""

    def __init__(
        self, model: str, name: str = "", chat_template_kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        try:
            import vllm
        except ImportError:
            raise DiverError(f"{missing('vllm')}, on a machine with a GPU") from None
        self.name = name or model
        self._vllm = vllm
        try:
            self.engine = vllm.LLM(model=model, **options)
        except (OSError, ValueError, RuntimeError) as error:
            raise DiverError(f"vllm cannot load {model!r}: {one_line(error)}") from None
        variables = chat_template_kwargs or {}
        self.tokenizer = with_chat_template_kwargs(self.engine.get_tokenizer(), variables, "chat_template_kwargs")
        self.tokenizer.clean_up_tokenization_spaces = False  # as in `load_policy`
        print(f"{precision_note(self.engine.model_config.dtype)}; its option `dtype` sets it", file=sys.stderr)
        self.context: int = self.engine.model_config.max_model_len

    def generate(
        self, requests: Sequence[Request], params: SamplingParams, have: Container[Key] = ()
    ) -> Iterator[Generation]:
        new_requests = [request for request in requests if request.key not in have]
        tokens = prompts_that_fit({r.problem_id: r.prompt for r in new_requests}, self)
        for start in range(0, len(new_requests), BATCH):
            batch = new_requests[start : start + BATCH]
            prompts = [tokens[request.problem_id] for request in batch]
            limits = (min(params.max_tokens, self.context - len(ids)) for ids in prompts)
            sampling = [
                self._vllm.SamplingParams(**sampling_params(request, params._replace(max_tokens=limit)))
                for request, limit in zip(batch, limits, strict=True)
            ]
            outputs = self.engine.generate([{"prompt_token_ids": ids} for ids in prompts], sampling, use_tqdm=False)
            for request, output in zip(batch, outputs, strict=True):
                yield generation(request, output, self.tokenizer)
