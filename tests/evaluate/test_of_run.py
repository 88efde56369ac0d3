"""`diver eval RUN` through the real command: base and checkpoints of a run, as it was trained."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import pytest
from diver_command import diver, succeeds

from diver.core.seeds import fingerprint, rows_fingerprint
from diver.evaluate.config import EvalConfig
from diver.evaluate.of_run import held_out
from diver.recipe.recipe import make_recipe
from diver.tasks.testbeds import policy_folder

RECIPE = """
[model]
threads = 1
[sample]
group_size = 4
max_tokens = 28
max_prompt_tokens = 24
[train]
steps = 2
batch_size = 4
mini_batch_size = 2
learning_rate = 1e-3
save_steps = 1
[data.countdown]
problems = 64
[evaluate]
problems = 5
num_samples = 4
temperature = 0.7
[run]
seed = 3
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "tiny.toml").write_text(RECIPE)
    with contextlib.chdir(folder):
        succeeds("train", "tiny.toml")
    return folder / "runs" / "tiny"


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch, trained):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "runs/tiny")


def estimates(path):
    result = json.loads(Path(path).read_text())
    result = result["benchmarks"]["countdown"] if "benchmarks" in result else result
    return {k: v["mean"] for k, v in result["estimates"].items() if k in ("pass@1", "pass@4", "distinct@4")}, result


def test_what_the_run_has_evaluated_is_compared_and_not_made_again():
    out = succeeds("eval", "runs/tiny")
    assert "after 0 steps: evaluated by the run, runs/tiny/eval/step_0000.json" in out
    assert "runs/tiny/eval/step_0002.json (countdown after 2 steps) against runs/tiny/eval/step_0000.json" in out
    assert re.search(r"\| countdown Pass@4 +\|", out) and "sampled" not in out and not Path("runs/eval").exists()


def test_an_evaluation_of_other_problems_of_the_same_ids_is_made_again():
    path = Path("runs/tiny/eval/step_0002.json")
    result = json.loads(path.read_text())
    assert len({row["digest"] for row in result["per_problem"]}) == 5
    result["per_problem"][0]["digest"] = "0" * 16
    path.write_text(json.dumps(result))
    out = succeeds("eval", "runs/tiny")
    assert "after 0 steps: evaluated by the run" in out and "after 2 steps: evaluated by the run" not in out


def test_with_another_grader_or_other_k_the_runs_own_evaluation_is_not_the_answer():
    out = succeeds("eval", "runs/tiny", "--k", "1,2")
    assert "evaluated by the run" not in out and re.search(r"\| countdown Pass@2 +\|", out)
    out = succeeds("eval", "runs/tiny", "--grader", "math", "--out", "math")
    assert "evaluated by the run" not in out
    (grader,) = json.loads(Path("math/step_0002/results.json").read_text())["benchmarks"]["countdown"]["graders"]
    assert grader.startswith("math@")


def test_the_comparison_is_written_where_out_names_a_folder():
    succeeds("eval", "runs/tiny", "--out", "out", "--format", "csv", "--figures", "svg")
    written = ["comparison.csv", "comparison.md", "comparison.svg", "difference_over_k.svg"]
    assert sorted(p.name for p in Path("out").iterdir()) == written


def test_a_template_of_a_run_without_held_out_problems(trained):
    """That by which its training problems ask a chat model: of Countdown `chat`, of mathematics `boxed`."""
    shutil.copytree(policy_folder(), "chat")
    Path("chat/chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    rows = [{"problem": f"1 + {i}?", "answer": str(1 + i)} for i in range(3)]
    Path("sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for data, template in (("countdown", "chat"), ("sums.jsonl", "boxed")):
        recipe = make_recipe({"model": {"path": "chat"}, "data": {"path": data}, "evaluate": {"problems": 0}})
        found = held_out(recipe)
        assert (found.benchmark.template, found.problems) == (template, ())


def test_the_same_streams_settings_and_problems_as_in_training():
    """Made again, from the files of the models alone, the numbers are those of the run."""
    own = {step: estimates(f"runs/tiny/eval/step_000{step}.json") for step in (0, 2)}
    shutil.rmtree("runs/tiny/eval")
    out = succeeds("eval", "runs/tiny")
    assert "5 problems x 4 samples" in out and "template 'plain', temperature 0.7, up to 28 tokens" in out
    for step, (means, result) in own.items():
        again, mine = estimates(f"runs/eval/tiny/step_000{step}/results.json")
        assert again == means and mine["per_problem"] == result["per_problem"]
        assert all(mine[key] == result[key] for key in ("template", "temperature", "max_tokens", "seed", "graders"))
    assert "0 sampled, 20 stored before" in succeeds("eval", "runs/tiny")


def test_steps_checkpoints_and_another_temperature():
    out = succeeds("eval", "runs/tiny", "--all-steps", "--temperature", 1.0, "--samples", 2)
    assert [*re.findall(r"^after (\d) steps: (\S+)$", out, re.MULTILINE)] == [
        ("0", "countdown"), ("1", "runs/tiny/checkpoints/step_0001"), ("2", "runs/tiny/checkpoints/step_0002")
    ]  # fmt: skip
    assert len(re.findall(r" against \S+step_0000 ", out)) == 2 and "temperature 1.0" in out
    for named in (["runs/tiny", "--step", 1], ["runs/tiny/checkpoints/step_0001"]):
        again = succeeds("eval", *named, "--temperature", 1.0, "--samples", 2)
        assert re.findall(r"^after (\d) steps", again, re.MULTILINE) == ["0", "1"] and "10 stored before" in again
    Path("sums.jsonl").write_text("".join(f'{{"problem": "1 + {i}", "answer": "{1 + i}"}}\n' for i in range(3)))
    succeeds("eval", "runs/tiny", "--benchmarks", "sums.jsonl", "--limit", 2, "--out", "other", "--samples", 1)
    result = json.loads(Path("other/step_0002/results.json").read_text())["benchmarks"]["sums"]
    assert result["template"] == "plain"  # the run's, which "auto" chose for a model without a chat template
    assert (result["problems"], result["temperature"], result["max_tokens"]) == (2, 0.7, 28)


def test_a_run_whose_data_has_changed_since_is_not_evaluated_on_another_part_of_it():
    """The held-out part would be drawn anew, from problems that the run was trained on."""
    Path("sums.jsonl").write_text("".join(f'{{"problem": "1 + {i}", "answer": "{1 + i}"}}\n' for i in range(20)))
    path = Path("runs/tiny/config.json")
    config = json.loads(path.read_text())
    config["recipe"]["data"]["path"] = "sums.jsonl"
    config["content"] = {"data.path": rows_fingerprint(Path("sums.jsonl"))}
    path.write_text(json.dumps(config))
    Path("sums.jsonl").write_text("".join(reversed(Path("sums.jsonl").read_text().splitlines(keepends=True))))
    code, _, err = diver("eval", "runs/tiny", "--samples", 1)
    said = "runs/tiny: the content of data.path, 'sums.jsonl', has changed since the training"
    assert code == 2 and said in " ".join(err.split())


def test_what_cannot_be_evaluated_is_one_line():
    Path("runs/empty").mkdir()
    shutil.copy("runs/tiny/config.json", "runs/empty/config.json")
    config = json.loads(Path("runs/tiny/config.json").read_text())
    config["recipe"]["sample"]["max_token"] = 3
    Path("runs/other").mkdir()
    Path("runs/other/config.json").write_text(json.dumps(config))
    for args, told in [
        (["runs"], "runs: is neither a run folder nor a checkpoint in one; name a run in it: runs/empty"),
        (["runs/empty"], "runs/empty: has no checkpoints"),
        (["runs/other"], "runs/other/config.json: sample.max_token: unknown key, did you mean 'max_tokens'"),
        (["runs/tiny", "--step", 7], "--step 7: runs/tiny has checkpoints of the steps 1, 2"),
        (["runs/tiny", "--step", 1, "--all-steps"], "--all-steps: is for a run, without --step and --alphas"),
        (["runs/tiny", "--model", "countdown"], "--model: is not for a run, whose checkpoints are evaluated"),
        (["--step", 1], "--step: is for a run; name it: diver eval runs/quickstart"),
        ([], "--model: name a folder, .* or give a run folder"),
    ]:
        code, _, err = diver("eval", *args)
        assert code == 2 and re.search(told, err), err


def test_a_model_without_a_run_has_its_chat_template_or_needs_one(tmp_path):
    Path("sums.jsonl").write_text('{"problem": "1 + 1", "answer": "2"}\n')
    asked = ("--benchmarks", "sums.jsonl", "--samples", 1, "--max-tokens", 4)
    _, _, err = diver("eval", "--model", "countdown", *asked)
    assert "--template: 'countdown' has no chat template; choose one of plain, chat" in err
    shutil.copytree(policy_folder(), "chat")
    (tmp_path / "chat" / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    assert "sums: template 'boxed'" in succeeds("eval", "--model", "chat", *asked)
    before = fingerprint(tmp_path / "chat")
    (tmp_path / "chat" / "chat_template.jinja").write_text("{{ messages[0]['content'] }} =")
    variables = ("--chat-template-kwargs", '{"enable_thinking": false}')
    _, _, err = diver("eval", "--model", "chat", *asked, *variables)
    assert "model.chat_template_kwargs.enable_thinking: the chat template of" in err and "has no such variable" in err
    (tmp_path / "chat" / "chat_template.jinja").write_text("{{ messages[0]['content'] }} {{ enable_thinking }}")
    succeeds("eval", "--model", "chat", *asked, "--out", "thought")
    assert "1 sampled, 0 stored" in succeeds("eval", "--model", "chat", *asked, *variables, "--out", "thought")
    result = json.loads(Path("thought/results.json").read_text())["benchmarks"]["sums"]
    assert result["chat_template_kwargs"] == {"enable_thinking": False}
    _, _, err = diver("eval", "--model", "chat", *asked, *variables, "--template", "plain")
    assert "--chat-template-kwargs: the template 'plain' does not use the model's chat template" in err
    sent = EvalConfig(model="m", generator="endpoint", extra='{"top_k": -1}', chat_template_kwargs=variables[1])
    assert sent.extra_options == {"top_k": -1, "chat_template_kwargs": {"enable_thinking": False}}
    assert fingerprint(tmp_path / "chat") != before  # other prompts, so stored responses do not count
    assert "sums: template 'plain'" in succeeds("eval", "--model", "chat", *asked, "--template", "plain")
