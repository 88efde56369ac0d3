"""Generations from vLLM, in this process."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

from diver.data.hub import one_line
from diver.generate.base import Generation, Key, Request, prompt_ids
from diver.types import DiverError

# Requests handed over at once: vLLM.generate returns when all are done, so a killed run loses at most these.
AT_ONCE = 2048


def sampling(request: Request, temperature: float, max_tokens: int) -> dict[str, Any]:
    """Arguments of vllm.SamplingParams: one sample, by its own seed, from the plain distribution."""
    return {
        "n": 1,
        "seed": request.seed,
        "temperature": temperature,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "max_tokens": max_tokens,
        "skip_special_tokens": True,
    }


def generation(request: Request, output: Any) -> Generation:
    """From a vllm.RequestOutput. Its log-probs are the model's before the temperature, so none is kept."""
    (one,) = output.outputs
    truncated = one.finish_reason == "length"
    return Generation(request.problem_id, request.sample, one.text, len(one.token_ids), truncated, None)


class OfflineGenerator:
    """See `diver.generate.base.Generator`. `options` go to vllm.LLM: tensor_parallel_size, max_model_len, ..."""

    def __init__(self, model: str, name: str = "", **options: Any) -> None:
        try:
            import vllm
        except ImportError:
            raise DiverError("vllm: not installed: pip install 'diver-rl[vllm]', on a machine with a GPU") from None
        self.name = name or model
        self._vllm = vllm
        try:
            self.engine = vllm.LLM(model=model, **options)
        except (OSError, ValueError, RuntimeError) as error:
            raise DiverError(f"vllm cannot load {model!r}: {one_line(error)}") from None
        self.tokenizer = self.engine.get_tokenizer()
        self.context: int = self.engine.model_config.max_model_len

    def generate(
        self, requests: Sequence[Request], *, temperature: float, max_tokens: int, have: Container[Key] = ()
    ) -> Iterator[Generation]:
        missing = [request for request in requests if request.key not in have]
        ids = prompt_ids(missing, self)
        for start in range(0, len(missing), AT_ONCE):
            part = missing[start : start + AT_ONCE]
            prompts = [ids[request.problem_id] for request in part]
            how = [
                self._vllm.SamplingParams(**sampling(request, temperature, min(max_tokens, self.context - len(row))))
                for request, row in zip(part, prompts, strict=True)
            ]
            outputs = self.engine.generate([{"prompt_token_ids": row} for row in prompts], how, use_tqdm=False)
            yield from (generation(request, output) for request, output in zip(part, outputs, strict=True))
