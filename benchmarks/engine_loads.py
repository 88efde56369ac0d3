"""What the trainers are measured on: a policy folder with its problems and outcomes.

countdown   the bundled policy on Countdown, at most 40 tokens
llama       4.9 M random parameters, at most 160 tokens; a vocabulary of 118 words makes it end by chance after
            about 87. Half of the problems have mixed groups, as at the start of a run
"""

import dataclasses
import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from diver.core.types import Problem

PROBLEMS, LONGEST = 64, 160


@dataclasses.dataclass(frozen=True)
class Load:
    """A policy folder with its problems; `outcome(prompt, response)` is 0 or 1."""

    name: str
    folder: Path
    problems: list[Problem]
    outcome: Callable[[str, str], float]
    max_tokens: int

    def policy(self) -> tuple[Any, Any]:
        """A fresh copy of the weights, and the tokenizer."""
        model = AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32, attn_implementation="sdpa")
        return model, AutoTokenizer.from_pretrained(self.folder)


def countdown_load() -> Load:
    from diver.grading import get_grader
    from diver.tasks import countdown
    from diver.tasks.testbeds import policy_folder

    problems = countdown.problems(countdown.Countdown(), PROBLEMS, held_out=False)
    by_prompt, grader = {str(p.prompt): p for p in problems}, get_grader("countdown")
    return Load(
        "countdown",
        policy_folder("countdown"),
        problems,
        lambda prompt, response: float(grader.grade(response, by_prompt[prompt]) == "correct"),
        max_tokens=40,
    )


def llama_load(folder: Path) -> Load:
    """A random Llama of 4.9 M parameters; near-uniform over V words, it ends each step with a chance of about 1/V.

    The mean length (1 - (1 - 1/V)^160) V is 87 for V = 118.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<pad>", "<eos>", "<unk>", *(f"w{i}" for i in range(115))]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(words),
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=6,
        num_attention_heads=8,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    rng = random.Random(0)
    prompts = [" ".join(rng.choices(words[3:], k=rng.randint(12, 28))) for _ in range(PROBLEMS)]
    too_hard = set(prompts[1::2])

    def outcome(prompt: str, response: str) -> float:
        """A coin that depends on the response alone; never right where the problem is too hard."""
        return float(prompt not in too_hard and hashlib.blake2b(response.encode(), digest_size=1).digest()[0] < 128)

    return Load("llama", folder, [Problem(f"p{i}", p, "") for i, p in enumerate(prompts)], outcome, LONGEST)
