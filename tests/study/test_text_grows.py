"""A small case of docs/results/text-after-answer.md: what a diversity reward that sees the whole response
does to its length."""

import json
from pathlib import Path

import pytest
from diver_command import succeeds

from diver.tasks.testbeds import policy_folder

RECIPE = """
[model]
path = "talkative"
threads = 1
[data]
path = "countdown"
[data.countdown]
mix = { three = 1.0 }
problems = 8
[sample]
max_tokens = 40
max_prompt_tokens = 24
[train]
steps = 80
batch_size = 8
mini_batch_size = 4
learning_rate = 2e-4
micro_batch_tokens = 2048
[evaluate]
problems = 0
"""
PAPER = ("--method.diversity.until", "end", "--method.shaping.condition", "correct")


def talkative_policy(folder):
    """The bundled policy with a lower logit of the end token, so that some responses go on after their box
    at temperature 1."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = (kind.from_pretrained(policy_folder()) for kind in (AutoModelForCausalLM, AutoTokenizer))
    with torch.no_grad():
        model.lm_head.weight[tokenizer.eos_token_id] *= 0.4
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def late_length(name, *options):
    """The mean length of a response over the last quarter of the steps, in tokens."""
    succeeds("train", "recipe.toml", "--run.folder", f"runs/{name}", *options)
    rows = [json.loads(line) for line in Path(f"runs/{name}/metrics.jsonl").read_text().splitlines()]
    late = [row["response/length_mean"] for row in rows[-20:]]
    return sum(late) / len(late)


@pytest.mark.first
@pytest.mark.slow
def test_responses_grow_if_the_whole_text_is_measured_and_not_otherwise(tmp_path, monkeypatch):
    """Eight problems, which are soon solved by all responses: then a tail is the cheapest difference."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    talkative_policy(tmp_path / "talkative")
    (tmp_path / "recipe.toml").write_text(RECIPE)
    baseline = late_length("clip-higher", "--method", "clip-higher")
    assert late_length("paper", "--method", "diver-td", *PAPER) > 1.2 * baseline
    assert late_length("repaired", "--method", "diver-td") < 1.1 * baseline
