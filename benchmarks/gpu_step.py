r"""A rollout step of the built-in trainer on one GPU: seconds, tokens per second and peak memory, with random weights.

Random weights never end a response, so its length is forced: log-normal with a mean of a quarter of the limit, as
responses of reasoning models have. Everything else is the trainer's own: 128 problems x 8, prompts of about 128 tokens,
rows chosen from the free memory, bfloat16 over float32 weights, four updates of 32 problems.

    python benchmarks/gpu_step.py [--shape qwen2.5-1.5b] [--limit 2048] [--rows 0] [--inference] [--seconds 60]

    --inference    weights in bfloat16 alone, as `diver eval` has them; no update
    --seconds      stop sampling after this time, and say how many tokens a second it had by then
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import time
from typing import Any

import numpy as np
import torch
import transformers
from transformers import Qwen2Config, Qwen2ForCausalLM

from diver.core.types import Group, Problem
from diver.losses import ClipLoss
from diver.recipe.sections import Update
from diver.sample.decoding import Decoding, Job
from diver.sample.hf import HFGenerator
from diver.sample.policy import Policy
from diver.train.update import update

SHAPES = {
    "qwen2.5-1.5b": {
        "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
    },
    "tiny": {
        "vocab_size": 1000, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
    },
}  # fmt: skip
PROBLEMS, G, PROMPT = 128, 8, 128


class NoTokenizer:
    eos_token_id = pad_token_id = None

    def batch_decode(self, ids: list[list[int]], **_: Any) -> list[str]:
        return [""] * len(ids)


class TimeIsUp(Exception):
    pass


def lengths(limit: int) -> np.ndarray:
    """The 1,024 lengths, and their mean a quarter of the limit."""
    drawn = np.random.default_rng(0).lognormal(np.log(limit / 4) - 0.4, 1.0, PROBLEMS * G)
    return drawn.clip(1, limit).astype(int)


def clock(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def peak(device: str) -> float:
    """GB, since the last call."""
    if device != "cuda":
        return 0.0
    value = torch.cuda.max_memory_allocated() / 1e9
    torch.cuda.reset_peak_memory_stats()
    return value


def sample(generator: HFGenerator, args: argparse.Namespace, device: str) -> tuple[list[Any], list[list[int]]]:
    rng, sizes = np.random.default_rng(1), lengths(args.limit)
    prompts = [rng.integers(1, 1000, rng.integers(PROMPT - 32, PROMPT + 33)).tolist() for _ in range(PROBLEMS)]
    jobs = [Job(i // G, i, int(size)) for i, size in enumerate(sizes)]
    rows = args.rows or generator.rows_for(max(map(len, prompts)) + args.limit)
    steps, advance = [], Decoding.advance
    start = clock(device)

    def counted(self: Decoding, token: torch.Tensor) -> None:
        steps.append(int((self.job >= 0).sum()))
        if args.seconds and len(steps) % 16 == 0 and clock(device) - start > args.seconds:
            raise TimeIsUp
        advance(self, token)

    Decoding.advance = counted  # type: ignore[method-assign]
    rollouts: list[Any] = []
    with contextlib.suppress(TimeIsUp):
        rollouts = generator.respond(prompts, jobs, 1.0, rows)
    seconds = clock(device) - start
    show("sampling", seconds, device, rows=rows, decode_steps=len(steps),
         tokens=sum(steps) + len(jobs) * bool(rollouts),
         tokens_per_second=round(sum(steps) / seconds), ms_per_step=round(1000 * seconds / len(steps), 1),
         mean_length=round(float(sizes.mean()), 1), longest=int(sizes.max()))  # fmt: skip
    return rollouts, prompts


def show(what: str, seconds: float, device: str, **more: Any) -> None:
    print(
        json.dumps({"what": what, "seconds": round(seconds, 1), **more, "peak_gb": round(peak(device), 1)}), flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="qwen2.5-1.5b")
    parser.add_argument("--limit", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--micro-batch-tokens", type=int, default=16384)
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--inference", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.0)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(
        json.dumps({"device": name, "torch": torch.__version__, "transformers": transformers.__version__, **vars(args)})
    )
    torch.manual_seed(0)
    with torch.device(device):
        config = Qwen2Config(**SHAPES[args.shape], bos_token_id=None, eos_token_id=None, pad_token_id=None)
        model = Qwen2ForCausalLM(config)
    model = model.to(torch.bfloat16 if args.inference else torch.float32)
    if args.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    policy = Policy(model, NoTokenizer(), None if args.inference else torch.bfloat16)
    moments = 0 if args.inference else 8 * sum(p.numel() for p in model.parameters())
    rollouts, prompts = sample(HFGenerator(policy, "random", 0, moments), args, device)
    if args.inference or not rollouts:
        return
    advantages = np.random.default_rng(2).normal(size=len(rollouts))
    rollouts = [r.replace(advantage=float(a)) for r, a in zip(rollouts, advantages, strict=True)]
    groups = [
        Group(Problem(str(i), "", ""), tuple(rollouts[i * G : (i + 1) * G]), "", tuple(prompt))
        for i, prompt in enumerate(prompts)
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    settings = dataclasses.replace(Update(), micro_batch_tokens=args.micro_batch_tokens)
    start = clock(device)
    metrics = update(policy, optimizer, groups, ClipLoss(), settings, temperature=1.0)
    seconds = clock(device) - start
    tokens = sum(r.length + len(p) for p, g in zip(prompts, groups, strict=True) for r in g.rollouts)
    show("update", seconds, device, tokens=tokens, tokens_per_second=round(tokens / seconds),
         logprob_mismatch=round(metrics["policy/logprob_mismatch"], 5))  # fmt: skip


if __name__ == "__main__":
    main()
