"""What people do without reading the documentation first: pipes, log files, flags of other trainers, any case."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from diver_command import fails, succeeds
from rows import write_rows

import diver
from diver import cli
from diver.cli.main import lasting
from diver.cli.train import TrainArguments
from diver.core import extras, progress
from diver.core.run_folder import RunFolder
from diver.core.types import DiverError
from diver.methods import method_named
from diver.recipe.data import Countdown
from diver.recipe.load import load_recipe, parse_arguments
from diver.recipe.sections import Log
from diver.rollouts import measure
from diver.tasks import countdown
from diver.tasks.sources import load_problems
from diver.tasks.testbeds import policy_folder
from diver.train.loggers import check_loggers

RECIPE = "[data.countdown]\nproblems = 8\n"


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Path("tiny.toml").write_text(RECIPE)
    rows = [{"problem": f"{i}?", "response": f"so ${i}+{j}$", "correct": j == 0} for i in range(4) for j in range(3)]
    write_rows(Path("rollouts.jsonl"), rows)


# ---- pipes, log files ------------------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_loses_no_results(monkeypatch):
    """Standard output and error are pipes that nobody reads any longer, as after `2>&1 | head -1`;
    one is not buffered."""
    streams = []
    for name in ("stdout", "stderr"):
        reading, writing = os.pipe()
        os.close(reading)
        unbuffered = name == "stdout"  # as Python makes it under PYTHONUNBUFFERED
        binary = io.FileIO(writing, "w") if unbuffered else os.fdopen(writing, "wb")
        streams.append(io.TextIOWrapper(binary, write_through=unbuffered))  # its end would close the descriptor
        monkeypatch.setattr(sys, name, streams[-1])
    monkeypatch.setattr(sys, "argv", ["diver", "measure", "rollouts.jsonl", "--out", "measured"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    cli.main()
    print("more", flush=True)
    print("more", file=sys.stderr)
    assert sorted(os.listdir("measured")) == ["groups.jsonl", "index.html", "summary.json"]
    assert len(Path("measured/groups.jsonl").read_text().splitlines()) == 4


def test_the_reader_of_a_real_pipe_goes_away():
    """After its first line, as `head -1` does, of both streams; the same command as it is given in a shell."""
    command = f"{sys.executable} -m diver methods 2>&1 | head -1; exit ${{PIPESTATUS[0]}}"
    for python in ({}, {"PYTHONUNBUFFERED": "1"}):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env={**os.environ, **python})
        assert done.returncode == 0 and done.stdout.startswith("| method") and done.stdout.count("\n") == 1
        assert done.stderr == ""


@pytest.mark.slow
def test_a_training_run_outlives_its_reader():
    small = (
        "--evaluate.problems 0 --train.steps 2 --train.batch_size 4 --train.mini_batch_size 2 --sample.max_tokens 8 "
        "--sample.max_prompt_tokens 24"
    )
    command = f"{sys.executable} -m diver train tiny.toml {small} 2>&1 | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert done.returncode == 0 and done.stderr == ""
    assert len(Path("runs/tiny/metrics.jsonl").read_text().splitlines()) == 2
    assert Path("runs/tiny/report.html").is_file() and Path("runs/tiny/checkpoints/step_0002").is_dir()


def test_bars_move_in_a_terminal_are_lines_in_a_file_and_none_with_quiet(monkeypatch, capsys):
    def shown(on_terminal):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal)
        assert list(progress.progress("abc", "letters", "letter")) == [*"abc"]
        return capsys.readouterr().err

    assert "\rletters:   0%" in shown(on_terminal=True)
    assert shown(on_terminal=False) == ""  # done before a line is due
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    (*_, last) = lines = shown(on_terminal=False).splitlines()
    assert not [line for line in lines if "\r" in line] and re.match(r"letters: .*\d/3 ", last)
    monkeypatch.setenv(progress.QUIET, "1")
    assert shown(on_terminal=True) == shown(on_terminal=False) == ""


def test_bars_are_made_in_one_place():
    root = Path(progress.__file__).parents[3]
    files = [path for room in ("src", "studies") for path in (root / room).rglob("*.py") if path.name != "progress.py"]
    assert len(files) > 150 and not [path for path in files if re.search(r"\b(tqdm|trange)\(", path.read_text())]


def test_quiet_is_a_flag_of_every_command(monkeypatch):
    seen = []
    monkeypatch.setattr(measure, "progress", lambda items, *_: seen.append(os.environ[progress.QUIET]) or items)
    for words in (
        ["measure", "rollouts.jsonl"],
        ["--quiet", "measure", "rollouts.jsonl"],
        ["measure", "--quiet", "rollouts.jsonl"],
    ):
        assert "| problems" in succeeds(*words)
    assert seen == ["", "1", "1"]


# ---- flags -----------------------------------------------------------------------------------------------------------


def test_a_flag_without_its_section_or_of_another_one_names_the_key():
    for flag, key in {
        "--seed": "run.seed",
        "--train.seed": "run.seed",
        "--learning-rate": "train.learning_rate",
        "--steps": "train.steps",
        "--stepz": "train.steps",
        "--lora-rank": "trl.lora_rank",
    }.items():
        assert fails("train", "tiny.toml", flag, 1) == f"diver: command line: {flag!r}: did you mean --{key}?"
    assert "a flag that changes the recipe has the form --section.key value" in fails("train", "tiny.toml", "--xyzzy")
    assert "did you mean --sample.temperature or --evaluate.temperature?" in fails(
        "train", "tiny.toml", "--temperature", 1
    )


def test_what_is_true_or_false_may_be_said_or_not():
    for flags, filtered, skipped in (
        (["--method.selection.filter_groups", "true", "--train.skip_zero_advantage=False"], True, False),
        (["--method.selection.filter-groups", "--train.skip-zero-advantage=false"], True, False),
        (["--method.selection.filter_groups", "FALSE", "--train.skip_zero_advantage", "true"], False, True),
    ):
        recipe = load_recipe(Path("tiny.toml"), flags)
        assert recipe.method.selection.filter_groups is filtered
        assert recipe.train.skip_zero_advantage is skipped
    assert parse_arguments(TrainArguments, ["tiny.toml", "--dry_run", "true"], "diver train").dry_run
    told = "command line: restart: should be a valid boolean, not 'maybe'"
    assert told in fails("train", "tiny.toml", "--restart=maybe")
    assert "--all-steps: is for a run" in fails("eval", "--all-steps", "true", "--model", "countdown")


def test_did_you_mean_whatever_the_case(hub):
    Path("models").mkdir()
    Path("models/Tiny").symlink_to(policy_folder())
    for words, near in (
        (["train", "tiny.toml", "--method", "GRPO"], "grpo"),
        (["train", "tiny.toml", "--method", "Diver_TD"], "diver-td"),
        (["measure", "rollouts.jsonl", "--metrics", "Self-BLEU"], "self-bleu"),
        (["train", "tiny.toml", "--method.diversity_rewards.TEXTUAL.weight", "1"], "textual"),
        (["eval", "--model", "Countdown"], "countdown"),
        (["eval", "--model", "models/tiny"], "models/Tiny"),
    ):
        assert f"did you mean {near!r}?" in fails(*words), words


def test_recipes_name_loggers_by_a_plain_word():
    for to, loggers in (("'wandb'", ["wandb"]), ("'wandb, tensorboard'", ["wandb", "tensorboard"]), ("[]", [])):
        Path("tiny.toml").write_text(f"{RECIPE}[log]\nto = {to}\n")
        assert load_recipe(Path("tiny.toml")).log.to == tuple(loggers)
    assert load_recipe(Path("tiny.toml"), ["--log.to", "tensorboard"]).log.to == ("tensorboard",)


def test_a_logger_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("diver.train.loggers.find_spec", lambda name: None)
    for name in ("wandb", "tensorboard", "mlflow", "trackio"):
        with pytest.raises(DiverError, match=f"log.to: {name} is not installed; pip install {name}$"):
            check_loggers(Log(to=(name,)))


# ---- data ------------------------------------------------------------------------------------------------------------

PROBLEMS = 'id,problem,answer\n1,"What is 2 + 3, ""exactly""?",5\n2,What is 1/2 + 1/2?,1\n'
ROWS = [
    {"id": "1", "problem": 'What is 2 + 3, "exactly"?', "answer": "5"},
    {"id": "2", "problem": "What is 1/2 + 1/2?", "answer": 1},
]


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a byte order mark"])
def test_problems_as_csv_and_json_with_and_without_a_byte_order_mark(mark):
    for name, text in {
        "p.csv": PROBLEMS,
        "p.json": json.dumps(ROWS),
        "q.json": json.dumps({"version": 1, "data": ROWS}),
        "p.jsonl": "\n".join(map(json.dumps, ROWS)),
    }.items():
        Path(name).write_text(mark + text, encoding="utf-8")
        problems = load_problems(name)
        assert [(p.id, p.prompt, p.answer) for p in problems] == [
            (r["id"], r["problem"], str(r["answer"])) for r in ROWS
        ]
    Path("tiny.toml").write_text(mark + RECIPE, encoding="utf-8")
    assert load_recipe(Path("tiny.toml")).data.countdown.problems == 8


def test_what_is_wrong_with_such_a_file_is_named():
    for name, text, told in (
        ("a.csv", "problem,answer\n1,2,3\n", "a.csv, row 1: has more fields than the header"),
        (
            "a1.csv",
            "problem,answer\nA?,1\nB",
            "a1.csv, row 2: has fewer fields than the header, as if cut off; an empty field needs its comma",
        ),
        (
            "a2.csv",
            "problem,problem,answer\nA?,B?,3\n",
            "a2.csv: has more than one column 'problem'; rename all but one",
        ),
        ("b.csv", "problem,answer\nWhat?,\n", "b.csv, row 1: no answer: found problem; accepted ground_truth, "),
        (
            "c.json",
            '{"problem": 1}\n{"problem": 2}\n',
            "c.json: not JSON (Extra data: line 2 column 1 (char 15)); name a file of",
        ),
        ("d.json", '{"problem": "What?", "answer": "1"}', "d.json: must be a list of rows, not a dict"),
    ):
        Path(name).write_text(text)
        with pytest.raises(DiverError, match="^" + re.escape(told)):
            load_problems(name)
    Path("e.csv").write_bytes("problem,answer\nWie groß?,1\n".encode("latin-1"))
    with pytest.raises(DiverError, match=r"^e.csv: not UTF-8 \(invalid continuation byte at byte 22\)"):
        load_problems("e.csv")


def test_outcomes_in_words_and_ragged_groups():
    rows = [
        ("a", "x y", "True"),
        ("a", "x z", "False"),
        ("b", "x y", "false"),
        ("b", "u v", " TRUE "),
        ("b", "u w", "1.0"),
    ]
    Path("r.csv").write_text(
        "problem,response,correct\n" + "".join(f"{','.join(row)}\n" for row in [*rows, ("c", "x", ""), ("c", "y", "")])
    )
    out = succeeds("measure", "r.csv", "--out", "out", "--k", "1")
    assert "r: 1 of 3 groups are ragged: they do not have 2 responses, as most have" in out
    written = [json.loads(line) for line in Path("out/groups.jsonl").read_text().splitlines()]
    assert [(row["size"], row.get("ragged")) for row in written] == [(2, None), (3, True), (2, None)]
    assert [row["outcomes"] for row in written] == [[1, 0], [0, 1, 1], [None, None]]
    assert diver.advantages([*"ab"], [True, False], [0, 0], "grpo").tolist() == [1, -1]
    for text in ("yes", "true", "1"):  # in Python a text is no outcome: it may be a response
        with pytest.raises(ValueError, match=f"row 1: an outcome is true, false or a number, not '{text}'"):
            diver.advantages([*"ab"], [True, text], [0, 0], "grpo")


# ---- evaluation ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_temperature_0_is_greedy_with_one_response():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    succeeds("eval", "--model", "countdown", "--temperature", "0", "--limit", "3", "--out", "greedy")
    rows = [json.loads(line) for line in Path("greedy/generations/countdown.jsonl").read_text().splitlines()]
    assert json.loads(Path("greedy/results.json").read_text())["benchmarks"]["countdown"]["temperature"] == 0
    model, tokenizer = (kind.from_pretrained(policy_folder()) for kind in (AutoModelForCausalLM, AutoTokenizer))
    problems = {p.id: p.prompt for p in countdown.problems(Countdown(), 3, held_out=True)}
    assert [row["sample"] for row in rows] == [0, 0, 0] and {row["problem"] for row in rows} == {*problems}
    for row in rows:
        prompt = tokenizer(problems[row["problem"]], return_tensors="pt")
        response = model.generate(**prompt, do_sample=False, max_new_tokens=40)[0, prompt["input_ids"].shape[1] :]
        assert row["response"] == tokenizer.decode(response, skip_special_tokens=True)
    told = fails("eval", "--model", "countdown", "--temperature", "0", "--samples", "8")
    assert told.endswith("temperature 0 is greedy: one response a problem; omit --samples and --k")
    message = fails("eval", "--model", "x", "--temperature", "-1")
    assert "temperature: must be at least 0, not -1.0" in message


# ---- metrics of one's own --------------------------------------------------------------------------------------------

METRICS = """
def raises(responses):
    return [1 / (len(text) - len(text)) for text in responses]
def two(responses, answers):
    return responses
def none():
    return []
def words(responses):
    return responses
def correct(group):
    return [float(group.problem.prompt in r.response or "+" in r.response) + r.reward.outcome for r in group.rollouts]
correct.needs = {"tokens"}
"""


def test_a_metric_that_raises_or_has_the_wrong_signature_is_named():
    Path("habit_metrics.py").write_text(METRICS)
    for name, told in {
        "raises": r"'habit_metrics:raises', problem 'problem-1': ZeroDivisionError: .*\(\S+/habit_metrics.py:3\)$",
        "two": r"'habit_metrics:two' must take \(responses\), or \(group\): missing a required argument: 'answers'$",
        "none": r"'habit_metrics:none' must take \(responses\), or \(group\): too many positional arguments$",
        "words": r"'habit_metrics:words' must give 3 finite numbers, one per response: got \['so ",
        "nothing": r"'habit_metrics:nothing' cannot be imported \(AttributeError: ",
    }.items():
        assert re.search(told, fails("measure", "rollouts.jsonl", "--metrics", f"habit_metrics:{name}"))
    with pytest.raises(DiverError, match="diversity metric: 'habit_metrics:nothing' cannot be imported"):
        method_named("grpo", extra_metrics=["habit_metrics:nothing"])


def test_a_metric_may_see_the_group_and_says_what_it_needs(monkeypatch):
    Path("habit_metrics.py").write_text(METRICS)
    monkeypatch.syspath_prepend(os.getcwd())
    assert "habit_metrics:correct | 1.333" in succeeds(
        "measure", "rollouts.jsonl", "--metrics", "habit_metrics:correct"
    )
    method = method_named("grpo", extra_metrics=["habit_metrics:correct"])
    assert method.needs == {"responses", "tokens"} and method_named("grpo").needs == set()
    with pytest.raises(DiverError, match="needs tokens, which diver.advantages without `tokens` does not provide"):
        diver.advantages(["a", "b"], [1, 0], ["p", "p"], method)
    given = diver.advantages(["a", "b"], [True, 0], ["p", "p"], method, tokens=[[1], [2]])
    assert given.tolist() == [1, -1]


# ---- files -----------------------------------------------------------------------------------------------------------


def test_what_is_saved_is_as_readable_as_its_folder():
    """safetensors writes weights that only their owner may read; the umask decides."""
    folder = RunFolder(Path("run"), {}, {})
    for step, umask, mode in ((1, 0o022, 0o644), (2, 0o007, 0o660)):
        before = os.umask(umask)
        try:
            with folder.new_checkpoint(step) as path:
                os.close(os.open(path / "model.safetensors", os.O_CREAT | os.O_WRONLY, 0o600))
            folder.append("metrics.jsonl", {"step": step})
        finally:
            os.umask(before)
        assert (folder.path / f"checkpoints/step_000{step}/model.safetensors").stat().st_mode & 0o777 == mode


def test_a_folder_whose_name_is_not_utf8_is_printed(tmp_path):
    with open(tmp_path / "out", "w", encoding="utf-8") as stream:
        print("caf\udce9", file=lasting(stream), flush=True)
    assert (tmp_path / "out").read_text() == "caf\\udce9\n"


def test_the_commit_is_that_of_diver_and_of_no_repository_around_it(tmp_path, monkeypatch):
    """As in an environment inside the folder of somebody's project, which git is told to ignore."""
    home = tmp_path / ".venv" / "diver"
    (home / "core").mkdir(parents=True)
    (home / "__init__.py").touch()
    (tmp_path / ".gitignore").write_text(".venv\n")
    monkeypatch.setattr(extras, "__file__", str(home / "core" / "extras.py"))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", ".gitignore"], ["commit", "-qm", "theirs"]):
        subprocess.run([*git, *words], check=True)
    assert extras.commit() is None
    subprocess.run([*git, "add", "-f", str(home / "__init__.py")], check=True)
    subprocess.run([*git, "commit", "-qm", "ours"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert extras.commit() == head
