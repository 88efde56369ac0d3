"""The study with a pretrained model: its data, its warm-up, and the real command on a model made to be small."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from rows import write_rows
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from waiting import until

from diver.core.types import DiverError, Grade, Problem
from diver.grading import grade
from diver.losses.base import Tokens
from diver.recipe.data import Source
from diver.sweep import records as records_of
from diver_paper.runs import records_file
from smollm2_gsm8k.__main__ import CONFIG, main
from smollm2_gsm8k.data import PARTS, expression, split
from smollm2_gsm8k.page import METHODS, NAME, write_page
from smollm2_gsm8k.warm_up import LikelihoodLoss, read

ROOT = Path(__file__).parents[2]
TEXT = "She sold 48/2 = <<48/2=24>>24 in May.\nIn all (48 + 24) * 10 = <<(48+24)*10=720>>720.\n#### 720"


def test_a_solution_becomes_one_expression_of_its_calculator_marks():
    assert expression(TEXT) == (r" \( \boxed{ ( 48 + ( 48 / 2 ) ) * 10 } \)", "720")
    assert expression("It is 0.5*2,000 = <<0.5*2000=1000>>1000.\n#### 1,000") == (
        r" \( \boxed{ 0.5 * 2000 } \)",
        "1000",
    )
    # 2 + 2 = 4 of <<1+1=2>>: the 2 that is a number of the problem stands for the mark, too
    assert expression("<<1+1=2>>2, <<2+2=4>>4\n#### 4") == (r" \( \boxed{ ( 1 + 1 ) + ( 1 + 1 ) } \)", "4")


@pytest.mark.parametrize("text", ["It is 3.\n#### 3", "It is <<1+1=2>>2, so 3.\n#### 3", "It is <<3>>3.\n#### 3"])
def test_a_solution_whose_marks_do_not_end_in_the_answer_is_left_out(text):
    assert expression(text) is None


def test_the_grader_computes_what_the_warm_up_teaches():
    problem = Problem("p", "?", "720", verifier="math")
    right = expression(TEXT)[0]
    responses = [right, right.replace("48 + ", "48 - "), right.removesuffix(r" } \)"), r" \( \boxed{ 720 } \)"]
    # The third does not close its box, and states the result all the same.
    assert grade([(r, problem) for r in responses]) == [Grade.CORRECT, Grade.WRONG, Grade.CORRECT, Grade.CORRECT]


def words(texts):
    """A tokenizer: a token a word."""
    return {"input_ids": [text.split() for text in texts]}


def write(path, questions):
    rows = [
        {"question": q, "answer": f"{i}+1 = <<{i}+1={i + 1}>>{i + 1}\n#### {i + 1}"} for i, q in enumerate(questions)
    ]
    write_rows(path, rows)
    return Source(path=str(path))


def test_the_parts_share_no_question_and_a_repeated_one_is_dealt_once(tmp_path):
    source = write(tmp_path / "train.jsonl", [*(f"what is {i} + 1 ?" for i in range(20)), "what is 3 + 1 ?", "a " * 9])
    parts = split(source, words, {"warm_up": 0.6, "training": 0.25}, longest_prompt=8, longest=9)
    assert list(parts) == list(PARTS)
    ids = [p.id for part in parts.values() for p in part]
    assert len(ids) == len(set(ids)) and set(ids) == {f"gsm8k-train-{i}" for i in range(20)}  # the 9 words are too long
    # 21 questions: cuts at round(12.6) and round(17.85)
    sizes = [len(part) for part in parts.values()]
    assert sum(sizes) == 20 and all(size - kept in (0, 1) for size, kept in zip((13, 5, 3), sizes, strict=True))
    assert split(source, words, {"warm_up": 0.6, "training": 0.25}, 8, 9) == parts
    # " \( \boxed{ 3 + 1 } \)" has 7 words, and the end token
    assert not any(split(source, words, {"warm_up": 0.6, "training": 0.25}, 8, 7).values())


def test_problems_without_solutions_are_refused(tmp_path):
    (tmp_path / "short.jsonl").write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    with pytest.raises(DiverError, match=r"short.jsonl:1: needs `question` and an `answer` with its solution"):
        split(Source(path=str(tmp_path / "short.jsonl")), words, {"warm_up": 0.6, "training": 0.25}, 8, 8)


def test_the_loss_of_the_warm_up_is_the_cross_entropy():
    logits, tokens = torch.randn(2, 3, 5, requires_grad=True), torch.tensor([[0, 1, 2], [3, 4, 0]])
    logprobs = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    loss, _ = LikelihoodLoss().forward(Tokens(logprobs, torch.zeros(2, 3), torch.ones(2, 1)))
    torch.testing.assert_close(loss.mean(), cross_entropy(logits.view(6, 5), tokens.view(6)))


# ---- the real command, on a model of 5,000 parameters that learns "i + 1" for two values of i ------------------------

TINY = """
[study]
seeds = 2
samples = 8
temperatures = [1.0, 0.6]
[split]
warm_up = 0.5
training = 0.25
longest_prompt = 8
held_out = 4
[warm_up]
weights = ["self_attn.v_proj.weight", "mlp.down_proj.weight", "mlp.gate_proj.weight"]
steps = 200
batch_size = 8
learning_rate = 1e-2
save_steps = 10
[select]
samples = 64
least = 1
most = 64
[recipe.model]
threads = 1
[recipe.data]
path = "selected.jsonl"
verifier = "math"
template = "plain"
[recipe.sample]
group_size = 4
max_prompt_tokens = 8
max_tokens = 16
[recipe.train]
steps = 3
batch_size = 2
mini_batch_size = 1
learning_rate = 1e-3
save_steps = 1
[recipe.evaluate]
problems = 0
"""


@pytest.fixture
def study(tmp_path):
    """The arguments of the command: 24 questions of which half the words say nothing, and a model of their words."""
    names = [f"n{i}" for i in range(24)]
    rows = [
        {"question": f"what is + {i % 2 + 1} for {name} ?", "answer": f"<<{a}+1={a + 1}>>{a + 1}\n#### {a + 1}"}
        for i, name in enumerate(names)
        for a in [i % 2 + 1]
    ]
    write_rows(tmp_path / "train.jsonl", rows)
    (tmp_path / "study.toml").write_text(TINY)
    vocabulary = ["<eos>", *"what is + for ? { } 1 2 3".split(), r"\(", r"\)", r"\boxed{", *names]
    inner = Tokenizer(models.WordLevel(dict(zip(vocabulary, range(99), strict=False)), unk_token="<eos>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>").save_pretrained(tmp_path / "model")
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "initializer_range": 0.4,
    }
    LlamaForCausalLM(
        LlamaConfig(vocab_size=len(vocabulary), bos_token_id=None, eos_token_id=0, num_key_value_heads=1, **sizes)
    ).save_pretrained(tmp_path / "model")
    flags = {
        "data": "train.jsonl",
        "model": "model",
        "config": "study.toml",
        "out": "out",
        "work": "work",
    }
    return [word for name, path in flags.items() for word in (f"--{name}", str(tmp_path / path))]


def numbers(folder):
    """The records without times and what the code's commit is."""
    records = records_of.read(records_file(folder / "out", NAME))
    for record in records.values():
        record["metrics"] = {k: v for k, v in record["metrics"].items() if not k.startswith("time/")}
        del record["cpu_seconds"], record["commit"]
    return records


def test_the_page_is_true_without_a_record(tmp_path):
    write_page(tomllib.loads(CONFIG.read_text()), tmp_path)
    page = (tmp_path / "smollm2-gsm8k.md").read_text()
    assert "Not finished: every variant has no seeds of 3." in page and "##" not in page


def test_the_committed_page_is_that_of_the_committed_records(tmp_path):
    results = ROOT / "docs" / "results"
    shutil.copytree(results / "records", tmp_path / "records")
    write_page(tomllib.loads(CONFIG.read_text()), tmp_path)
    assert (tmp_path / f"{NAME}.md").read_text() == (results / f"{NAME}.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["verl", "trl"])
def test_the_hour_of_a_gpu_is_two_runs_that_can_be_started(engine, tmp_path):
    (tmp_path / "diver").write_text(f'#!/bin/sh\nexec {sys.executable} -m diver "$@"\n')
    (tmp_path / "diver").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HF_ENDPOINT": "http://127.0.0.1:9"}  # no hub
    command = ["sh", "scripts/one_hour.sh", engine, "--dry-run"]
    printed = subprocess.check_output(command, cwd=ROOT, env={**os.environ, **path}, text=True)
    size = "trainer.total_training_steps=60" if engine == "verl" else '"max_steps": 240'
    assert printed.count(size) == len(METHODS)


def test_the_hour_of_a_gpu_says_what_it_lacks_and_keeps_a_log(tmp_path):
    script = str(ROOT / "scripts" / "one_hour.sh")
    done = subprocess.run(["sh", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == (
        "one_hour.sh: name an engine, trl or verl: sh scripts/one_hour.sh trl\n"
    )
    (tmp_path / "diver").write_text('#!/bin/sh\necho diver "$@"\nexit 3\n')  # a training that fails
    (tmp_path / "diver").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", script, "trl"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 3 and done.stdout.count("diver train") == 1
    assert (tmp_path / "runs" / "one-hour-trl.log").read_text() == done.stdout


@pytest.mark.first
@pytest.mark.slow
def test_the_whole_study_by_its_command_killed_and_resumed(study, tmp_path, monkeypatch):
    command = [sys.executable, "-m", "smollm2_gsm8k", *study]
    for reached in ("work/warm-up/checkpoints/step_0010", "work/clip-higher_seed0/checkpoints/step_0001"):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until((tmp_path / reached).exists, process)
        process.kill()
        assert process.wait() == -signal.SIGKILL, f"the command ended before {reached}"
    monkeypatch.chdir(tmp_path)
    main(study)
    killed = numbers(tmp_path)
    assert killed.keys() == {"initial_seed0", *(f"{m}_seed{s}" for m in METHODS for s in (0, 1))}
    page = (tmp_path / "out" / "smollm2-gsm8k.md").read_text()
    assert "Every variant has 2 seeds." in page and "## Held out, temperature 0.6" in page and "## Cost" in page
    texts = [json.loads(line)["question"] for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    for text in texts:  # no problem of the data set is published; a response may have some of its words
        assert text not in page and text not in json.dumps(killed)
    before = killed["initial_seed0"]
    losses = before["warm_up"]["loss"]
    assert losses[-1] < losses[0] / 2 and before["parts"]["warm_up"] == 12
    assert len(before["selected"]) > 2 and all(1 <= correct <= 64 for correct in before["selected"].values())
    for name, record in killed.items():
        for evaluation in record["evaluations"].values():
            assert len(evaluation["solutions"]) == 4 and all(sum(counts) <= 8 for counts in evaluation["solutions"])
        if name != "initial_seed0":
            assert record["metrics"]["step"] == [1, 2, 3]
    main(study)  # finished: nothing is made again
    assert numbers(tmp_path) == killed
    shutil.rmtree(tmp_path / "out")  # records from the runs that are there
    main(study)
    assert numbers(tmp_path) == killed
    file = tmp_path / "work" / "warm_up.safetensors"
    stored, base = read(file), load_file(tmp_path / "model" / "model.safetensors")
    assert len(stored.tensors) == 3 and all(not base[name].equal(t.float()) for name, t in stored.tensors.items())
    warmed_up = load_file(tmp_path / "work" / "warmed-up" / "model.safetensors")
    assert all(warmed_up[name].equal(stored.tensors.get(name, base[name]).float()) for name in base)
    save_file({name: 0 * t for name, t in stored.tensors.items()}, file, {"warm_up": "{}"})
    with pytest.raises(DiverError, match="warmed-up: was made from another warm-up than"):
        main(study)
    (tmp_path / "study.toml").write_text(TINY.replace("samples = 8", "samples = 4"))
    with pytest.raises(DiverError, match="work: has a run of another recipe"):
        main(study)
    (tmp_path / "study.toml").write_text(TINY)
    file.unlink()
    shutil.rmtree(tmp_path / "work")
    main([*study, "--prepare", "true"])  # and made anew, without a kill
    unseen = [json.loads(line)["id"] for line in (tmp_path / "work" / "unseen.jsonl").read_text().splitlines()]
    assert unseen and {*unseen}.isdisjoint(killed["initial_seed0"]["evaluations"]["0.6"]["ids"])
    assert not [*(tmp_path / "work").glob("*_seed*")]
    main(study)
    assert read(file).info["loss"] == losses and all(t.equal(read(file).tensors[n]) for n, t in stored.tensors.items())
