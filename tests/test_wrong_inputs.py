"""A hundred wrong inputs: each is one line that names the fix, on the command line and in Python."""

import json
import os
from pathlib import Path

import pytest
from diver_command import fails

import diver
from diver.core.types import DiverError
from diver.methods import method_named
from diver.recipe.load import load_recipe
from diver.recipe.recipe import make_recipe
from diver.rollouts.files import rollout_files
from diver.tasks import benchmarks
from diver.tasks.sources import load_problems

RECIPE = """
[data.countdown]
problems = 16
[sample]
group_size = 4
max_tokens = 16
max_prompt_tokens = 24
[train]
batch_size = 2
mini_batch_size = 1
[evaluate]
problems = 0
"""
TABLE = "question,answer\nWhat is 1+1?,2\nWhat is 1+2?,3\n"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
ROWS = [{"problem": f"{i}?", "response": str(j), "correct": j == 0} for i in range(2) for j in range(2)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
BY_ID = {name: {"question": f"{name}?", "answer": "2"} for name in "ab"}
FILES = {
    "mine.toml": RECIPE,
    "broken.toml": "[train\nsteps = 3",
    "section.toml": "[trian]\nsteps = 3",
    "key.toml": "[train]\nstps = 3",
    "method.toml": "[method]\nname = 'gpro'",
    "table.toml": "[method]\nname = 'grpo'\n[method.shaping]\ncoef = 1.0",
    "type.toml": "[train]\nsteps = 'three'",
    "good.jsonl": '{"question": "1+1?", "answer": "2"}\n{"question": "1+2?", "answer": "3"}\n',
    "rollouts.jsonl": LINES,
    "none.jsonl": "",
    "list.jsonl": "[1, 2]\n",
    "text.jsonl": "not JSON\n",
    "unanswered.jsonl": '{"question": "1+1?"}\n',
    "empty.csv": "question,answer\nWhat?,\n",
    "twice.csv": "question,question,answer\na,b,1\n",
    "short.csv": "question,answer\nWhat",
    "long.csv": "question,answer\na,b,c\n",
    "quote.csv": 'question,answer\n"What?,2\n',
    "other.csv": "text,label\nWhat?,2\n",
    "lines.json": '{"question": "a"}\n{"question": "b"}\n',
    "one.json": '{"question": "a", "answer": "b"}',
    "id.json": json.dumps(BY_ID),
    "notes.txt": "question",
    "folder/readme.md": "nothing",
    "folder/rows.jsonl.gz": "packed",
    **{f"lfs.{suffix}": LFS for suffix in ("jsonl", "json", "csv", "parquet")},
}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("wrong")
    before = Path.cwd()
    os.chdir(path)
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    for name in ("utf16.csv", "utf16.jsonl", "utf16.json"):
        Path(name).write_bytes(FILES["good.jsonl"].encode("utf-16"))
    Path("latin.csv").write_bytes("question,answer\nWie groß?,1\n".encode("latin-1"))
    yield path
    os.chdir(before)


DATA = [  # a file of problems, what is said of it
    ("good.jsnl", "good.jsnl: no such file or folder in {}, and not the id"),
    ("good.jsnl", "; did you mean 'good.jsonl'?"),
    ("goood.jsonl", "did you mean 'good.jsonl'?"),
    ("folder/row.jsonl", "no such file or folder in {}/folder"),
    ("nowhere/good.jsonl", "nowhere/good.jsonl: no such file or folder in {}, and not"),
    ("contdown", "; did you mean 'countdown'?"),
    ("notes.txt", "a file must be .jsonl or .parquet or .csv or .json, not .txt"),
    ("folder", "no .jsonl or "),
    ("none.jsonl", "none.jsonl: empty, not one problem"),
    ("list.jsonl", "list.jsonl:1: a list, not an object"),
    ("text.jsonl", "text.jsonl:1: not JSON"),
    ("unanswered.jsonl", "columns names other columns"),
    ("empty.csv", "skip_invalid_rows = true leaves out such rows"),
    ("twice.csv", "more than one column 'question'; rename all but one"),
    ("short.csv", "row 1: has fewer fields than the header"),
    ("long.csv", "row 1: has more fields than the header"),
    ("quote.csv", "see its quotes"),
    ("other.csv", "no prompt: found text, label; accepted problem, question, prompt"),
    ("latin.csv", "latin.csv: not UTF-8 (invalid"),
    ("utf16.csv", "iconv -f UTF-16 -t UTF-8 utf16.csv > utf8.csv converts it"),
    ("utf16.jsonl", "iconv -f UTF-16 -t UTF-8 utf16.jsonl > utf8.jsonl converts it"),
    ("utf16.json", "iconv -f UTF-16 -t UTF-8 utf16.json > utf8.json converts it"),
    *((f"lfs.{s}", f"git lfs pull --include lfs.{s}") for s in ("jsonl", "json", "csv", "parquet")),
    ("lines.json", "name a file of JSON Lines .jsonl"),
    ("one.json", "must be a list of rows, not a dict"),
    ("id.json", "jq -c 'to_entries[] | {{id: .key}} + .value' id.json > rows.jsonl"),
    ("owner/absent", "the hub has no such dataset, or it is private; check the name, or log in"),
    ("nothing:problems", "cannot be imported"),
]
METHOD = [  # a method and its settings, what is said of them
    ("diver", {}, "did you mean 'diver-mix'?"),
    ("Diver", {}, "did you mean 'diver-mix'?"),
    ("gpro", {}, "did you mean 'grpo'?"),
    ("gspoo", {}, "did you mean 'gspo'?"),
    ("DAPO", {}, "did you mean 'dapo'?"),
    ("maxrl", {}, "did you mean 'max-rl'?"),
    ("passatk", {}, "did you mean 'pass-at-k'?"),
    ("clip_higher", {}, "did you mean 'clip-higher'?"),
    ("clip", {}, "did you mean 'clip-higher'?"),
    ("siren2", {}, "did you mean 'siren'?"),
    ("grpo", {"shaping.coef": 1}, "method.shaping: grpo has no shaping; diver-mix, diver-td, diver-ed have one"),
    ("clip-higher", {"k": 4}, "method.k: clip-higher has no k; pass-at-k, max-at-k, pkpo have one"),
    ("diver-mix", {"beta": 2}, "method.beta: diver-mix has no beta; rs-grpo"),
    ("diver-mix", {"shaping.coeff": 1}, "method.shaping.coeff: unknown key, did you mean 'coef'"),
    ("grpo", {"thresold": 0.5}, "method.thresold: unknown key, did you mean 'threshold'"),
    ("grpo", {"threshold": 0.0}, "method.threshold: must be above 0"),
    ("grpo", {"divisor": "both"}, "method.divisor: should be 'std', 'sample-std'"),
    ("grpo", {"loss.name": "cov"}, "method.loss.name: unknown choice 'cov', did you mean 'kl-cov'"),
    ("grpo", {"loss.cliphigh": 0.3}, "unknown key, did you mean 'clip_high'"),
    ("nothing:Method", {}, "method.name: 'nothing:Method' cannot be imported"),
]
COMMANDS = [
    ("trian mine.toml", "did you mean 'train'?"),
    ("evl --model countdown", "did you mean 'eval'?"),
    ("mesure rollouts.jsonl", "did you mean 'measure'?"),
    ("compre a b", "did you mean 'compare'?"),
    ("method", "did you mean 'methods'?"),
    ("brows a", "did you mean 'browse'?"),
    ("xyzzy", "unknown choice 'xyzzy'; choices: train, sweep"),
    ("train", "name a recipe: diver train recipes/quickstart.toml"),
    ("train mine.tom", "mine.tom: no such file or folder in {}; did you mean 'mine.toml'?"),
    ("train min.toml", "did you mean 'mine.toml'?"),
    ("train {}/min.toml", "did you mean '{}/mine.toml'?"),
    ("train folder/mine.toml", "no such file or folder in {}/folder"),
    ("train good.jsonl", "good.jsonl: is not TOML"),
    ("train broken.toml", "broken.toml: is not TOML"),
    ("train section.toml", "unknown choice 'trian', did you mean 'train'"),
    ("train key.toml", "train.stps: unknown key, did you mean 'steps'"),
    ("train method.toml", "did you mean 'grpo'?"),
    ("train table.toml", "method.shaping: grpo has no shaping"),
    ("train type.toml", "train.steps: should be a valid integer, not 'three'"),
    ("train mine.toml --methd grpo", "'--methd': did you mean --method?"),
    ("train mine.toml --lr 1e-5", "did you mean --train.learning_rate?"),
    ("train mine.toml --bs 8", "did you mean --train.batch_size?"),
    ("train mine.toml --batch 8", "did you mean --train.batch_size?"),
    ("train mine.toml --kl 0.1", "did you mean --method.loss.kl_coef?"),
    ("train mine.toml --dryrun", "did you mean --dry_run?"),
    ("train mine.toml --seed 1", "did you mean --run.seed?"),
    ("train mine.toml --train.seed 1", "did you mean --run.seed?"),
    ("train mine.toml --tarin.steps 1", "did you mean --train.steps?"),
    ("train mine.toml --train.steps", "--train.steps: needs a value"),
    ("train mine.toml --engine vrl", "run.engine: should be 'builtin', 'trl' or 'verl', not 'vrl'"),
    ("train mine.toml --seeds 1-3", "such as 0..4 or 0,3,7"),
    ("train mine.toml --restart --engine trl", "give another --run.folder"),
    ("train mine.toml --model countdwn --dry-run", "model.path countdwn: the hub has no such model"),
    ("train mine.toml --model countdwn --dry-run", "did you mean 'countdown'?"),
    ("train mine.toml --model ./foldr --dry-run", "did you mean 'folder'?"),
    (
        "train mine.toml --data good.jsonl --evaluate.problems 2 --evaluate.source.path owner/absent --dry-run",
        "evaluate.source.path owner/absent: the hub has no such dataset",
    ),
    ("eval --modl countdown", "did you mean 'model'?"),
    ("eval runs/none", "runs/none: no such file or folder in {}; a model is given by --model"),
    ("eval folder", "is neither a run folder nor a checkpoint in one"),
    ("eval --model countdown --samples x", "samples: should be a valid integer"),
    ("eval --model countdown --k 1,x", "such as 1,8,64"),
    ("eval --model countdown --benchmarks math600", "--benchmarks: unknown choice 'math600', did you mean 'math500'"),
    ("measure", "name at least one"),
    ("measure rollout.jsonl", "did you mean 'rollouts.jsonl'?"),
    ("measure rollouts.jsonl --metric textual", "did you mean 'metrics'"),
    ("measure rollouts.jsonl --metrics textul", "did you mean 'textual'"),
    ("measure rollouts.jsonl --problem prompts", "no column 'prompts' for the problem: found problem, response"),
    ("measure rollouts.jsonl --steps 3", "selects files of a folder"),
    ("measure good.jsonl", "--response names another"),
    ("measure lfs.jsonl", "git lfs pull --include lfs.jsonl"),
    ("measure notes.txt", "a file must be"),
    ("measure folder", "file of rollouts in this folder"),
    ("grade rollouts.jsonl --grader mathverify", "did you mean 'math-verify'"),
    ("grade rollouts.jsonl --answer gold", "no column 'gold', which --answer names: found problem"),
    ("compare", "diver compare runs/clip-higher runs/diver-mix"),
    ("compare runs/a runs/b", "runs/a: no such file or folder in {}"),
    ("compare mine.toml", "name two results or more"),
    ("browse rollout.jsonl", "did you mean 'rollouts.jsonl'?"),
    ("browse rollouts.jsonl --groups x", "groups: should be a valid integer"),
    ("methods gpro", "did you mean 'grpo'?"),
    ("methods --engine tinker", "did you mean 'tinker-cookbook'?"),
    ("sweep mine.tom", "did you mean 'mine.toml'?"),
    ("sweep mine.toml --methods gpro", "did you mean 'grpo'?"),
    ("sweep mine.toml --set method.k", "must be KEY=VALUE,VALUE"),
    ("blend", "--out: name the folder of the model"),
    *((f"train mine.toml --dry-run --data {path}", told) for path, told in DATA),
    *(
        (f"train mine.toml --method {name}" + "".join(f" --method.{k} {v}" for k, v in keys.items()), told)
        for name, keys, told in METHOD
    ),
]


def test_they_are_a_hundred():
    assert len({command for command, _ in COMMANDS}) >= 100


@pytest.mark.parametrize(("command", "told"), COMMANDS)
def test_a_wrong_command_is_one_line_that_names_the_fix(folder, hub, command, told):
    line = fails(*command.format(folder).split())
    assert told.format(folder) in line, line


def nested(keys):
    """`{"loss.name": "cov"}` as `{"loss": {"name": "cov"}}`."""
    tables = {}
    for key, value in keys.items():
        table, _, last = key.rpartition(".")
        (tables.setdefault(table, {}) if table else tables)[last] = value
    return tables


@pytest.mark.parametrize(("path", "told"), DATA)
def test_wrong_data_in_python(folder, hub, path, told):
    with pytest.raises(DiverError) as error:
        load_problems(path)
    assert told.format(folder) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "keys", "told"), METHOD)
def test_a_wrong_method_in_python(name, keys, told):
    calls = [
        lambda: method_named(name, **nested(keys)),
        lambda: make_recipe({"method": {"name": name, **nested(keys)}}),
    ]
    calls += [] if keys else [lambda: diver.advantages([*"ab"], [1, 0], [0, 0], method=name)]
    for call in calls:
        with pytest.raises(DiverError) as error:
            call()
        assert told in str(error.value) and "\n" not in str(error.value)


def test_others_in_python(folder):
    for call, told in (
        (lambda: load_recipe(Path("mine.tom")), f"no such file or folder in {folder}; did you mean 'mine.toml'?"),
        (lambda: load_recipe(Path("mine.toml"), ["--lr", "1"]), "did you mean --train.learning_rate?"),
        (lambda: benchmarks.find("math600"), "did you mean 'math500'"),
        (lambda: rollout_files(Path("rollout.jsonl")), "did you mean 'rollouts.jsonl'?"),
    ):
        with pytest.raises(DiverError) as error:
            call()
        assert told in str(error.value)


def test_files_that_other_programs_write_are_read(tmp_path):
    """A spreadsheet with `;` or tabs and capitals, and a table of W&B or of pandas (orient="split")."""
    table = {"columns": ["question", "answer"], "data": [["What is 1+1?", "2"], ["What is 1+2?", "3"]]}
    for name, text in {
        "semicolon.csv": TABLE.replace(",", ";"),
        "tab.csv": TABLE.replace(",", "\t"),
        "capital.csv": TABLE.replace("question,answer", "Question,Answer"),
        "wandb.json": json.dumps(table),
    }.items():
        (tmp_path / name).write_text(text)
        problems = load_problems(str(tmp_path / name))
        assert [(p.prompt, p.answer) for p in problems] == [("What is 1+1?", "2"), ("What is 1+2?", "3")], name
    table["data"][1].append("a value without a column")
    (tmp_path / "wandb.json").write_text(json.dumps(table))
    with pytest.raises(DiverError, match="wandb.json, data, row 2: must have a value for each of 2 columns"):
        load_problems(str(tmp_path / "wandb.json"))
