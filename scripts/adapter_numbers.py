"""The advantages of fixed rows under every method, by `diver.advantages` and by the adapter for TRL, as JSON;
for same_numbers.py."""

import json
import tempfile
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

import diver
from diver.integrations.trl import GroupAdvantage, config, objective
from diver.methods import METHODS, Method, method_named

TEXTS = [
    r"\\( 3 + 4 = 7 \\) \\boxed{ 7 }",
    r"\\( 4 + 3 = 7 \\) \\boxed{ 7 }",
    r"\\( 14 \\div 2 = 7 \\) \\boxed{ 7 }",
    r"\\( 3 + 4 = 8 \\) \\boxed{ 8 }",
    r"\\boxed{ 7 } and more words after it",
    "no answer at all",
    r"\\( 3 + 4 = 7 \\) \\boxed{ 7 }",
    r"\\( 9 - 2 = 7 \\) \\boxed{ 7 }",
]
BY_MODELS = ("dra-grpo", "rep-exp")  # they measure with a language model
OUTCOMES = [1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
TOKENS = [list(range(1, 4 + i)) for i in range(8)]


class Tokenizer:
    eos_token_id = pad_token_id = 0

    def decode(self, ids: Any, **_: Any) -> str:
        return " ".join(map(str, ids))


def configured(name: str) -> Method:
    """The method; Pass@k Training with a k below the group size."""
    return method_named(name, **({"k": 2} if name == "pass-at-k" else {}))


def by_columns(name: str) -> Any:
    columns = {"tokens": TOKENS, "keys": [*"aabcadab"], "decode": str, "state": {}, "truncated": [False] * 8}
    columns |= {"answer_ends": [*map(len, TEXTS)], "logprobs": [[-0.5] * len(t) for t in TOKENS]}
    found = diver.advantages(TEXTS, OUTCOMES, [0, 0, 0, 0, 1, 1, 1, 1], configured(name), 0.3, **columns)
    return [np.round(np.atleast_1d(a), 12).tolist() for a in found]


def by_trl(name: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return in_folder(name, folder)


def in_folder(name: str, folder: str) -> Any:
    method = configured(name)
    batch = {
        "max_completion_length": 40,
        "num_generations": 4,
        "num_generations_eval": None,
        "num_iterations": 1,
        "gradient_accumulation_steps": 1,
    }
    rest = {
        "steps_per_generation": 1,
        "generation_batch_size": 8,
        "per_device_train_batch_size": 8,
        "world_size": 1,
        "output_dir": folder,  # the adapter keeps the schedule there
    }
    arguments = SimpleNamespace(**{**dict.fromkeys(objective.ADDED), **config(method), **batch, **rest})
    adapter = GroupAdvantage(method, arguments, Tokenizer(), outcome=lambda *_, **__: OUTCOMES, ends=[0])
    columns = {"trainer_state": SimpleNamespace(global_step=3, max_steps=10)}
    logged = {"log_metric": lambda *_: None, "log_extra": lambda *_: None}
    return adapter(["p"] * 4 + ["q"] * 4, TEXTS, TOKENS, **columns, **logged)


def given(call: Any, name: str) -> Any:
    try:
        return call(name)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {
        name: {"columns": given(by_columns, name), "trl": given(by_trl, name)}
        for name in METHODS
        if name not in BY_MODELS
    }
    print(json.dumps(found))
