"""Stock TRL trains with the adapter, groups split over two processes. `make test-trl`, in TRL's own environment."""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("trl", reason="in the environment of `make test-trl` only")

import numpy as np
import pandas as pd
import trl
import yaml
from datasets import Dataset
from train import carried
from transformers import AutoTokenizer

import diver
from diver.core.types import DiverError, Reward
from diver.grading import Verification
from diver.integrations.trl import GroupAdvantage, config, lazy
from diver.integrations.trl.launch import arguments
from diver.integrations.trl.objective import installed
from diver.methods import method_named
from diver.recipe.data import Countdown
from diver.recipe.recipe import make_recipe
from diver.tasks.countdown import parse, problems, solution
from diver.tasks.testbeds import policy_folder

GRPOConfig = trl.GRPOConfig

HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs" / "engines" / "trl.md").read_text(encoding="utf-8")
METHODS = ["diver-mix", "diver-annealed", "pass-at-k", "max-rl", "darling", "gspo"]
COEF = {"diver-mix": [0.1, 0.05], "diver-annealed": [0.5, 0.25]}  # lambda at the start and in the middle
ROWS, G = 12, 8  # rows of each process: the second of three groups is split
LOGS = installed() >= (1, 0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trl")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [*launch, str(HERE / "train.py"), str(folder), *METHODS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def test_an_error_of_one_process_ends_both(runs):
    assert (runs / "failed_1").read_text() == "KeyError: 'gold'"
    told = "DiverError: the reward function failed on process 1: KeyError: 'gold'"
    assert (runs / "failed_0").read_text() == told


def ranks(folder, method):
    return [json.loads((folder / method / f"rank_{i}.json").read_text()) for i in range(2)]


def tables(folder, method):
    """TRL's table of completions after each generation."""
    files = sorted((folder / method / "completions").glob("*.parquet"))
    return [pd.read_parquet(files[0]), pd.read_parquet(files[-1])]


@pytest.mark.parametrize("method", METHODS)
def test_three_steps_train_the_policy_on_two_processes(runs, method):
    for told in ranks(runs, method):
        assert told["processes"] == 2 and told["steps"] == 3 and told["moved"] > 1e-4
        assert [call["global_step"] for call in told["calls"]] == [0, 2]  # two rollouts of two optimizer steps each
        assert all(np.isfinite(row["loss"]) for row in told["log"] if "loss" in row)
    first, second = ranks(runs, method)
    for one, other in zip(first["calls"], second["calls"], strict=True):
        assert len(one["prompts"]) == len(other["prompts"]) == ROWS
        assert one["prompts"][-1] == other["prompts"][0] and one["prompts"][0] != one["prompts"][-1]  # split


@pytest.mark.parametrize("method", METHODS)
def test_advantages_of_two_processes_are_those_of_one(runs, method):
    """The rows of both processes given to the adapter in this one process, and to the drop-in."""
    args = SimpleNamespace(
        **{**config(carried(method)), "num_generations_eval": None, "output_dir": str(runs / method)},
        **{"num_generations": G, "max_completion_length": 28, "num_iterations": 1},
        **{"steps_per_generation": 2, "gradient_accumulation_steps": 1},
    )
    signal, tokenizer = 0.0, AutoTokenizer.from_pretrained(policy_folder())
    for table, *calls in zip(tables(runs, method), *(told["calls"] for told in ranks(runs, method)), strict=True):
        columns = ("prompts", "completions", "completion_ids", "answer", "meta")
        rows = {name: [value for call in calls for value in call[name]] for name in columns}
        state = SimpleNamespace(global_step=calls[0]["global_step"], max_steps=calls[0]["max_steps"])
        metrics: dict = {}
        nothing = SimpleNamespace(log_metric=metrics.__setitem__, log_extra=lambda name, column: None)
        alone = GroupAdvantage(carried(method), args, tokenizer, verifier="countdown")(
            **rows, trainer_state=state, **vars(nothing)
        )
        used = table["advantage"].to_numpy()
        assert table["completion"].tolist() == rows["completions"]
        np.testing.assert_allclose(used, alone, atol=1e-6, rtol=0)
        np.testing.assert_allclose([r for call in calls for r in call["result"]], alone, atol=1e-12, rtol=0)

        solved = [
            solution(text, meta["numbers"], meta["target"])
            for text, meta in zip(rows["completions"], rows["meta"], strict=True)
        ]
        correct = [float(s is not None) for s in solved]
        boxes = (parse(text)[1] for text in rows["completions"])
        keys = [s or ("" if box is None else str(box)) for s, box in zip(solved, boxes, strict=True)]
        groups = np.repeat(np.arange(len(correct) // G), G)
        rollout = state.global_step // 2
        dropped_in = diver.advantages(rows["completions"], correct, groups, method, rollout / 2, keys=keys)
        np.testing.assert_allclose(used, dropped_in, atol=1e-6, rtol=0)
        if LOGS:
            assert table["outcome"].tolist() == correct
        signal += float(np.abs(used).sum())
    assert signal > 0


@pytest.mark.skipif(not LOGS, reason="TRL before 1.0 gives a reward function no log_metric")
@pytest.mark.parametrize("method", METHODS)
def test_metrics_reach_trls_log(runs, method):
    log = [row for row in ranks(runs, method)[0]["log"] if "reward/outcome" in row]
    assert len(log) == 2
    for row, table in zip(log, tables(runs, method), strict=True):
        assert row["reward/outcome"] == pytest.approx(table["outcome"].mean())
        assert row["diversity/textual"] == pytest.approx(table["textual"].mean())
        assert row["reward"] == pytest.approx(0, abs=1e-6)  # TRL's own name has the advantage, whose mean is 0
    assert [row["shaping/coef"] for row in log] == pytest.approx(COEF.get(method, [0, 0]))


def one_step(folder, reward_funcs, method="diver-mix", prompted=str, **options):
    """A GRPOTrainer of the bundled policy on two groups, for one step;
    `prompted` makes a prompt of a problem's text."""
    batch = {"per_device_train_batch_size": 16, "num_generations": G, "max_completion_length": 28, "max_steps": 1}
    batch |= {"gradient_accumulation_steps": 1}
    quiet = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
    args = GRPOConfig(str(folder), **{**batch, **quiet, **config(method), **options})
    rows = [{"prompt": prompted(p.prompt), "solution": p.answer} for p in problems(Countdown(), 4, held_out=False)]
    tokenizer = AutoTokenizer.from_pretrained(policy_folder())
    functions = reward_funcs(args, tokenizer)
    data = Dataset.from_list(rows)
    given = {"train_dataset": data, "eval_dataset": data.select(range(2)), "processing_class": tokenizer}
    return trl.GRPOTrainer(str(policy_folder()), functions, args=args, **given)


def brevity(completions, **_):
    return [-float(len(text)) for text in completions]


def test_another_reward_function_beside_the_advantage_is_refused(tmp_path):
    trainer = one_step(tmp_path, lambda args, tokenizer: [brevity, GroupAdvantage("diver-mix", args, tokenizer)])
    with pytest.raises(DiverError, match="reward functions brevity: TRL would add their rewards to the advantage"):
        trainer.train()


class Half:
    """An adapter by whose outcome every other response is correct, and what it gave in each rollout step."""

    def __init__(self):
        self.steps = []

    def made(self, args, tokenizer):
        return GroupAdvantage("diver-mix", args, tokenizer, outcome=self.outcome, on_step=self.on_step)

    def outcome(self, completions, **_):
        return [1.0, 0.0] * (len(completions) // 2)

    def on_step(self, step, groups, metrics):
        self.steps.append((step, metrics["shaping/coef"], groups))

    def check(self, total, coefs):
        """The rollout steps 1, 2, ... of `total`, each with its lambda and the advantages of `diver.advantages`."""
        assert [(step, coef) for step, coef, _ in self.steps] == [
            (i + 1, pytest.approx(coef)) for i, coef in enumerate(coefs)
        ]
        for step, _, groups in self.steps:
            rollouts = [rollout for group in groups for rollout in group.rollouts]
            alone = diver.advantages(
                [rollout.response for rollout in rollouts],
                [1.0, 0.0] * (len(rollouts) // 2),
                np.repeat(np.arange(len(groups)), G),
                "diver-mix",
                (step - 1) / total,
                answer_ends=[rollout.answer_end for rollout in rollouts],
                truncated=[rollout.truncated for rollout in rollouts],
            )
            np.testing.assert_allclose([r.advantage for r in rollouts], alone, atol=1e-6, rtol=0)
        self.steps.clear()


LAMBDA_OF_4 = [0.1, 0.05 * (1 + 0.5**0.5), 0.05, 0.05 * (1 - 0.5**0.5)]
"""0.1 (1 + cos(pi t / 4)) / 2 for t = 0, 1, 2, 3."""


def test_an_evaluation_before_training_does_not_turn_lambda_off(tmp_path):
    """Before `train`, TRL's state says 0 steps: lambda has its first value, and nothing of that is kept for the run."""
    half = Half()
    trainer = one_step(tmp_path, half.made, max_steps=2, per_device_eval_batch_size=16)
    trainer.evaluate()
    half.check(total=2, coefs=[])
    assert not (tmp_path / "schedule.json").exists()
    trainer.train()
    half.check(total=2, coefs=[0.1, 0.05])
    assert json.loads((tmp_path / "schedule.json").read_text()) == {"steps": 2}


def test_an_evaluation_before_a_run_is_resumed_keeps_its_schedule(tmp_path):
    """Also where an earlier version of the package wrote the 0 steps of such an evaluation."""
    half = Half()
    saves = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2, "per_device_eval_batch_size": 16}
    one_step(tmp_path, half.made, **saves).train()
    half.check(total=4, coefs=LAMBDA_OF_4)
    for earlier in (4, 0):
        (tmp_path / "schedule.json").write_text(json.dumps({"steps": earlier}))
        trainer = one_step(tmp_path, half.made, **saves)
        trainer.evaluate()
        half.check(total=4, coefs=[])
        trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
        assert [coef for _, coef, _ in half.steps] == pytest.approx(LAMBDA_OF_4[2:])
        half.steps.clear()
        assert json.loads((tmp_path / "schedule.json").read_text()) == {"steps": 4}


def test_a_second_trainer_has_its_own_schedule_and_is_checked_itself(tmp_path):
    half = Half()
    first = one_step(tmp_path / "first", half.made, max_steps=2)
    first.train()
    half.check(total=2, coefs=[0.1, 0.05])
    (reward,) = first.reward_funcs
    one_step(tmp_path / "second", lambda *_: reward, max_steps=4, max_completion_length=20).train()
    assert max(len(r.tokens) for _, _, groups in half.steps for g in groups for r in g.rollouts) == 20
    half.check(total=4, coefs=LAMBDA_OF_4)
    third = one_step(tmp_path / "third", lambda *_: reward, loss_type="grpo")
    with pytest.raises(DiverError, match=r"TRL is not configured for method 'diver-mix': set loss_type='dapo' \(it is"):
        third.train()


def test_thoughts_that_trl_parses_are_part_of_the_text(tmp_path):
    """All that stands before the box, by a response template of which TRL makes messages (an older TRL has none)."""
    given, groups = [], []
    thought = {"open_pattern": r"(?=\\\()", "close_pattern": r"(?=\\boxed)", "content": "text"}
    fields = {"reasoning_content": thought, "content": {"content": "text"}}

    def rewarded(args, tokenizer):
        tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
        anchor = {"start_anchor_pattern": r"make [0-9]+ \."}
        tokenizer.response_template = {"defaults": {"role": "assistant"}, **anchor, "fields": fields}

        def outcome(completions, **_):
            given.extend(completions)
            return [1.0, 0.0] * (len(completions) // 2)

        return GroupAdvantage(
            "diver-mix", args, tokenizer, outcome=outcome, on_step=lambda *step: groups.extend(step[1])
        )

    trainer = one_step(tmp_path, rewarded, prompted=lambda text: [{"role": "user", "content": text}])
    trainer.train()
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert len(rollouts) == len(given) == 16
    for rollout, (message,) in zip(rollouts, given, strict=True):
        assert rollout.response == trainer.processing_class.decode(rollout.tokens, skip_special_tokens=True)
        if installed() >= (1, 16):
            assert (
                message["reasoning_content"] in rollout.response
                and message["reasoning_content"] not in message["content"]
            )


def test_a_reward_function_by_its_dotted_path(tmp_path, monkeypatch):
    """As Axolotl gives it to TRL: named in a file, configured by the environment."""
    monkeypatch.setenv("DIVER_METHOD", "diver-mix")
    lazy.adapter.cache_clear()
    trainer = one_step(tmp_path, lambda args, tokenizer: [lazy.reward])
    trainer.train()
    made = lazy.adapter(trainer)
    assert trainer.state.global_step == 1 and made.args is trainer.args
    assert made.method.name == "diver-mix" and made.tokenizer is trainer.processing_class
    lazy.adapter.cache_clear()


def blocks(page, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def example(heading):
    """The Python block of the section with this heading."""
    (code,) = (block for part in PAGE.split("\n## ") if part.startswith(f"{heading}\n") for block in blocks(part))
    return code


def run_example(code, folder, monkeypatch, **names):
    """The example as it stands, on the bundled policy, for one step of few and short completions on a
    CPU: what it made."""
    monkeypatch.chdir(folder)
    made = []

    def small(*given, **options):
        made.append(options)
        little = {"use_cpu": True, "bf16": False, "max_steps": 1, "max_completion_length": 28, "report_to": "none"}
        few = {"gradient_accumulation_steps": 1, "steps_per_generation": 1, "per_device_train_batch_size": 8}
        return GRPOConfig(*given, **{**options, **little, **few})

    monkeypatch.setattr(trl, "GRPOConfig", small)
    rows = [{"prompt": p.prompt, "solution": p.answer} for p in problems(Countdown(), 4, held_out=False)]
    given = {"model": str(policy_folder()), "problems": Dataset.from_list(rows), **names}
    exec(code, given)
    return made[0], given


def test_the_examples_of_the_page_train(tmp_path, monkeypatch):
    shown, given = run_example(blocks(PAGE)[0], tmp_path, monkeypatch)
    assert given["reward"].args.max_steps == 1 and given["reward"].outcome is None
    assert given["reward"].method.name == "diver-mix" and shown["max_completion_length"] == 2048
    assert shown["per_device_train_batch_size"] * shown["gradient_accumulation_steps"] == 8 * 8
    sample, train = {"max_tokens": 2048, "group_size": 8}, {"batch_size": 8, "mini_batch_size": 8}
    recipe = make_recipe({"sample": sample, "train": train, "model": {"gradient_checkpointing": True}})
    sizes = [name for name in shown if name.endswith(("_batch_size", "_accumulation_steps", "_per_generation"))]
    assert len(sizes) == 2 and all(arguments(recipe)[name] == shown[name] for name in sizes)
    assert trl.GRPOConfig("out", use_cpu=True, bf16=False).gradient_checkpointing
    seen = []

    def accuracy(completions, solution, **_):
        seen.append(len(completions))
        return [float(answer in text) for text, answer in zip(completions, solution, strict=True)]

    names = {
        "batch": given["batch"],
        "tokenizer": given["tokenizer"],
        "accuracy": accuracy,
        "style": lambda completions, **_: [0.5] * 8,
    }
    _, given = run_example(example("With reward functions of your own"), tmp_path, monkeypatch, **names)
    assert seen == [8]
    exec(example("Where an answer ends"), given)
    assert given["answer_ends"](["<answer>5</answer> la", "5"], solution=["5", "5"]) == [18, None]
    assert given["reward"].answer_ends is given["answer_ends"]
    args = GRPOConfig(
        "out", use_cpu=True, bf16=False, **{**config("grpo"), "mask_truncated_completions": True, "epsilon_high": 0.28}
    )
    exec(example("Unsloth"), {"args": args})
    GroupAdvantage("grpo", args, given["tokenizer"])


@pytest.mark.parametrize("aggregation", ["token-mean", "sequence-mean"])
def test_a_loss_that_an_older_trl_normalises_otherwise_is_refused(tmp_path, aggregation):
    """Before 1.10 a mean over tokens is that of the generation, which has two steps here."""
    method = method_named("dr-grpo", loss={"aggregation": aggregation})
    two = {"per_device_train_batch_size": 8, "steps_per_generation": 2}
    trainer = one_step(tmp_path, lambda *given: GroupAdvantage(method, *given), method=method, **two)
    if installed() < (1, 10) and aggregation == "token-mean":
        with pytest.raises(DiverError, match="GRPOTrainer has a loss of .* where method 'dr-grpo' has"):
            trainer.train()
    else:
        trainer.train()
        assert trainer.state.global_step == 1


def test_a_comparison_in_the_common_frame_changes_the_method_alone(tmp_path):
    objectives = []
    for name, keys in {"clip-higher": {}, "max-rl": {}, "pass-at-k": {"k": 2}, "diver-mix": {}}.items():
        method = method_named(name, frame="common", **keys)
        trainer = one_step(tmp_path / name, partial(GroupAdvantage, method), method=method)
        trainer.train()
        (reward,) = trainer.reward_funcs
        assert reward.method.name == name and all(getattr(reward.method, key) == keys[key] for key in keys)
        objectives.append({field: getattr(trainer.args, field) for field in config("clip-higher")})
    assert all(objective == objectives[0] for objective in objectives)
    assert (objectives[0]["epsilon"], objectives[0]["epsilon_high"]) == (0.2, 0.28)
    assert config("max-rl")["epsilon_high"] == 0.2  # by its name alone


def names_of_page():
    batch = {"num_generations": G, "per_device_train_batch_size": 8, "steps_per_generation": 1}
    return {"batch": batch, "tokenizer": AutoTokenizer.from_pretrained(policy_folder())}


def test_the_settings_of_a_method_and_of_grading_are_those_of_the_run(tmp_path):
    method = method_named("diver-mix", shaping={"coef": 0.2}, loss={"clip_high": 0.3})
    made = []

    def graded(*given):
        made.append(GroupAdvantage(method, *given, verifier="math", verification=Verification(timeout_s=10)))
        return made[0]

    trainer = one_step(tmp_path, graded, method=method)
    trainer.train()
    assert (trainer.args.epsilon, trainer.args.epsilon_high) == (0.2, 0.3) and made[0].method.shaping.coef == 0.2
    assert made[0].source.verifier == "math" and made[0].verification.timeout_s == 10


@pytest.mark.skipif(not LOGS, reason="before TRL 1.0 a reward function logs nothing")
def test_an_evaluation_has_the_outcome(tmp_path):
    """Its reward is the outcome, and no step of the run."""
    steps, outcomes, made = [], [], []

    def graded(*given):
        made.append(GroupAdvantage("diver-mix", *given))
        return made[0]

    trainer = one_step(tmp_path, graded, eval_strategy="steps", eval_steps=20, per_device_eval_batch_size=8)
    trainer.train()
    made[0].outcome = lambda completions, **_: outcomes.append(len(completions)) or [Reward(0.25)] * 8
    made[0].on_step = lambda *step: steps.append(step)
    logged = trainer.evaluate()
    assert outcomes == [8, 8] and not steps  # a batch of one group for each problem
    assert logged["eval_reward/outcome"] == logged["eval_reward"] == 0.25


@pytest.mark.skipif(installed() < (1, 16), reason="the other trainers of TRL 1.16")
def test_evaluations_inside_a_training_have_groups_of_their_own(tmp_path):
    """One response to each of two problems after each of two steps; the steps are those of the training alone."""
    half = Half()
    evaluation = {"eval_strategy": "steps", "eval_steps": 1, "num_generations_eval": 1, "per_device_eval_batch_size": 2}
    trainer = one_step(tmp_path, half.made, max_steps=2, **evaluation)
    trainer.train()
    half.check(total=2, coefs=[0.1, 0.05])
    logged = [row["eval_reward"] for row in trainer.state.log_history if "eval_reward" in row]
    assert logged == [0.5, 0.5]  # the outcomes 1 and 0


@pytest.mark.skipif(installed() < (1, 16), reason="the other trainers of TRL 1.16")
def test_the_other_trainers_of_trl_are_refused(tmp_path):
    from trl.experimental.async_grpo import AsyncGRPOConfig
    from trl.experimental.gmpo import GMPOConfig, GMPOTrainer

    tokenizer, quiet = AutoTokenizer.from_pretrained(policy_folder()), {"report_to": "none", "bf16": False}
    for args in (trl.RLOOConfig("out", use_cpu=True, **quiet), AsyncGRPOConfig("out", use_cpu=True, **quiet)):
        with pytest.raises(DiverError, match=f"{type(args).__name__} has no .*scale_rewards.* train with GRPOTrainer"):
            GroupAdvantage("grpo", args, tokenizer)
    batch = {"per_device_train_batch_size": 8, "num_generations": G, "max_completion_length": 4, "max_steps": 1}
    args = GMPOConfig(str(tmp_path), use_cpu=True, **quiet, **batch, **config("grpo"))
    data = Dataset.from_list([{"prompt": "1+1", "answer": "2"}] * 4)
    reward = GroupAdvantage("grpo", args, tokenizer)
    trainer = GMPOTrainer(str(policy_folder()), reward, args=args, train_dataset=data, processing_class=tokenizer)
    with pytest.raises(DiverError, match="GMPOTrainer has a loss of .* where method 'grpo' has .*; train with"):
        trainer.train()
    assert "self.aux_loss_enabled =" in inspect.getsource(trl.GRPOTrainer)  # what the adapter asks of experts


@pytest.mark.skipif(installed() < (1, 16), reason="environments of TRL 1.16")
@pytest.mark.parametrize("weights", [None, [1.0]])
def test_an_environment_with_a_reward_is_carried_as_the_error_says(tmp_path, weights):
    class Counting:
        def reset(self, **columns):
            """Begin."""

        def add(self, number: int) -> int:
            """Add.

            Args:
                number: what is added.
            """
            return number

        def get_reward(self):
            return 0.75

    template = (
        "{% for m in messages %}{{ m['content'] or '' }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments }}{% endfor %}{% endfor %}"
    )
    tokenizer = AutoTokenizer.from_pretrained(policy_folder())
    tokenizer.chat_template = template
    tokenizer.response_template = {"defaults": {"role": "assistant"}, "fields": {"content": {"content": "text"}}}
    batch = {"per_device_train_batch_size": 8, "num_generations": G, "max_completion_length": 8, "max_steps": 1}
    quiet = {"report_to": "none", "use_cpu": True, "bf16": False, "disable_tqdm": True, "save_strategy": "no"}
    args = GRPOConfig(str(tmp_path), reward_weights=weights, **batch, **quiet, **config("diver-mix"))
    data = Dataset.from_list(
        [{"prompt": [{"role": "user", "content": p.prompt}]} for p in problems(Countdown(), 2, held_out=False)]
    )
    names = {"GroupAdvantage": GroupAdvantage, "GRPOTrainer": partial(trl.GRPOTrainer, train_dataset=data)}
    names |= {"model": str(policy_folder()), "Environment": Counting, "args": args, "tokenizer": tokenizer}
    (advice,) = (code for code in re.findall(r"^  ```python\n(.*?)^  ```", PAGE, re.DOTALL | re.MULTILINE))
    create, weight, rest = textwrap.dedent(advice).partition("trainer.reward_weights")

    exec(create.replace("outcome=lambda environments, **_: [e.get_reward() for e in environments]", ""), names)
    with pytest.raises(
        DiverError, match=r"\(get_reward: outcome=lambda .*, and set trainer.reward_weights\[1\] = 0 before"
    ):
        names["trainer"].train()
    exec(create + weight + rest, names)
    names["trainer"].train()
    assert [row["reward/outcome"] for row in names["trainer"].state.log_history if "reward/outcome" in row] == [0.75]


@pytest.mark.skipif(installed() < (1, 16), reason="the page is for TRL 1.16")
def test_the_configuration_of_the_page_for_vllm(tmp_path, monkeypatch):
    fields, given = run_example(example("vLLM"), tmp_path, monkeypatch, **names_of_page())
    assert fields["use_vllm"] and given["args"].vllm_importance_sampling_correction
    names = ("mode", "clip_min", "clip_max")
    ours = [arguments(make_recipe({"trl": {"vllm": "colocate"}}))[f"vllm_importance_sampling_{name}"] for name in names]
    assert ours == [getattr(given["args"], f"vllm_importance_sampling_{name}") for name in names]
    GroupAdvantage("diver-mix", given["args"], given["tokenizer"])


def test_the_configuration_of_the_page_for_axolotl():
    """As Axolotl reads it: the function by its path with two parameters or more, the rest as fields of GRPOConfig."""
    (command,) = (block for block in blocks(PAGE, "sh") if "axolotl" in block)
    environment = command.split("=")[1].split()[0]
    settings = yaml.safe_load(*blocks(PAGE, "yaml"))["trl"]
    (path,) = settings.pop("reward_funcs")
    module, _, name = path.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    assert function is lazy.reward and len(inspect.signature(function).parameters) >= 2
    args = GRPOConfig("out", use_cpu=True, bf16=False, **settings)
    GroupAdvantage(environment, args, AutoTokenizer.from_pretrained(policy_folder()))
