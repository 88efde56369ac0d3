"""ms-swift trains the bundled policy for two steps on a CPU, by the plugin and the command of its page.
`make test-engines`."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import contracts as c
import numpy as np
import pytest
from rows import write_rows

import diver
from diver.core.types import DiverError
from diver.integrations import ms_swift
from diver.integrations.trl import config
from diver.recipe.data import Countdown
from diver.tasks.countdown import problems
from diver.tasks.testbeds import policy_folder

PAGE = (Path(__file__).parents[3] / "docs" / "engines" / "ms-swift.md").read_text(encoding="utf-8")
TEMPLATE = (
    "{% for m in messages %}{{ m['content'] }}{% if m['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
)


def swift_args(**changes):
    """The fields of swift.rlhf_trainers.arguments.GRPOConfig that count, as the page sets them."""
    own = {"advantage_estimator": "grpo", "dynamic_sample": False, "overlong_filter": False, "kl_in_reward": None}
    trls = {"num_generations": 4, "num_generations_eval": None, "reward_weights": None, "max_completion_length": 5}
    steps = {"steps_per_generation": 1, "gradient_accumulation_steps": 1, "num_iterations": 1, "output_dir": "run"}
    return SimpleNamespace(**{**config("diver-mix"), **own, **trls, **steps, **changes})


def test_a_batch_by_hand(tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    rows = c.swift_rows()
    reward = ms_swift.Diver(swift_args())
    expected = diver.advantages(c.TEXTS * 2, c.OUTCOMES * 2, [0] * 4 + [1] * 4, "diver-mix").tolist()
    assert reward(**rows) == expected
    rows["is_truncated"][0] = True
    rows["completions"][0] = "no box, 2"  # cut off before its answer
    assert reward(**rows)[0] < 0
    by_turns = c.swift_rows()  # as a scheduler of turns gives them
    by_turns["response_token_ids"] = [[ids] for ids in by_turns["response_token_ids"]]
    assert reward(**by_turns) == expected
    by_turns["rollout_infos"][5] = {"num_turns": 2}
    by_turns["response_token_ids"][5] = [[5], [6]]
    with pytest.raises(DiverError, match="the last turn of a rollout alone"):
        reward(**by_turns)
    own = ms_swift.Diver(swift_args(), outcome=[lambda **_: c.OUTCOMES * 2, lambda **_: [0.0] * 8])
    assert own(**c.swift_rows()) == expected


def test_settings_that_would_change_the_advantages_are_refused():
    for changes, told in (
        ({"dynamic_sample": True}, "ms-swift is not configured for method 'diver-mix': set dynamic_sample=False"),
        ({"advantage_estimator": "rloo"}, "set advantage_estimator='grpo' (it is 'rloo')"),
        ({"kl_in_reward": True}, "ms-swift's kl_in_reward would be subtracted from the advantage"),
        ({"scale_rewards": "group"}, "set scale_rewards='none' (it is 'group')"),
        ({"steps_per_generation": 4, "gradient_accumulation_steps": 2}, "set steps_per_generation=2"),
    ):
        with pytest.raises(DiverError) as error:
            ms_swift.Diver(swift_args(**changes))
        assert told in str(error.value)
    ms_swift.Diver(swift_args(steps_per_generation=2, gradient_accumulation_steps=2))
    with pytest.raises(DiverError, match="'high-entropy': the ms-swift adapter does not support this loss"):
        ms_swift.Diver(swift_args(), "high-entropy")


def test_two_steps_on_a_cpu(tmp_path):
    pytest.importorskip("swift", reason="in the environment of `make test-engines` only")
    (plugin,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    _, command = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "plugin.py").write_text(plugin)
    rows = [
        {"messages": [{"role": "user", "content": p.prompt}], "solution": p.answer}
        for p in problems(Countdown(), 16, held_out=False)
    ]
    write_rows(tmp_path / "problems.jsonl", rows)
    shutil.copytree(policy_folder(), tmp_path / "model")
    tokenizer = tmp_path / "model" / "tokenizer_config.json"
    tokenizer.write_text(json.dumps({**json.loads(tokenizer.read_text()), "chat_template": TEMPLATE}))
    small = {
        "--model": "model", "--max_completion_length": "28", "--model_type": "llama", "--template": "dummy",
        "--per_device_train_batch_size": "16", "--gradient_accumulation_steps": "1", "--max_steps": "2",
        "--learning_rate": "1e-3", "--logging_steps": "1", "--tuner_type": "full", "--torch_dtype": "float32",
        "--output_dir": "out", "--report_to": "none", "--save_strategy": "no", "--use_vllm": "false",
        "--log_completions": "true", "--split_dataset_ratio": "0", "--use_hf": "true",
    }  # fmt: skip
    words = shlex.split(command.replace("\\\n", " "))
    options = dict(zip(words[2::2], words[3::2], strict=True)) | small
    program = [str(Path(sys.executable).parent / "swift"), *words[1:2], *(w for pair in options.items() for w in pair)]
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "MODELSCOPE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        program, cwd=tmp_path, env={**os.environ, **quiet}, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (log,) = tmp_path.glob("out/*/logging.jsonl")
    logged = [row for row in map(json.loads, log.read_text().splitlines()) if "grad_norm" in row]
    assert [row["global_step/max_steps"] for row in logged] == ["1/2", "2/2"] and logged[0]["grad_norm"] > 0.1
    (file,) = tmp_path.glob("out/*/completions.jsonl")
    tables = {table["step"][0]: table for table in map(json.loads, file.read_text().splitlines())}
    assert len(tables) == 2
    for step, table in enumerate(tables.values()):
        answers = [re.findall(r"\\boxed\{ (\d+) \}", text) for text in table["completion"]]
        outcomes = [float(a[-1:] == [right]) for a, right in zip(answers, table["solution"], strict=True)]
        given = diver.advantages(table["completion"], outcomes, table["prompt"], "diver-mix", step / 2)
        np.testing.assert_allclose(table["advantages"], given, atol=1e-5)
        assert len({*table["prompt"]}) == 2 and np.abs(given).sum() > 0
