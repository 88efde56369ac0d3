"""Dumps of trainers that are not installed here, with the fields that their code writes (read in August 2026)."""

import json
import struct
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from rollout_files import shape
from rows import write_rows

import diver
from diver.core.types import DiverError
from diver.rollouts.layouts import LAYOUTS


def test_the_page_has_a_row_for_every_layout():
    page = (Path(__file__).parents[2] / "docs" / "measure.md").read_text(encoding="utf-8")
    first = [row.split("|")[1].strip(" `") for row in page.splitlines() if row.count(" | ") == 2]
    assert {name for cell in first for name in cell.split(", ")} >= {*LAYOUTS}


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


class Calls:
    """An object whose pickle calls a function when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def slime_sample(index, **more):
    """`Sample.to_dict` of slime 624b824."""
    return {
        "group_index": index // 2, "index": index, "rollout_id": None, "prompt": f"Q{index // 2}", "tokens": [1, 2, 3],
        "response": f"r{index}", "response_length": 2, "label": "7", "reward": float(index % 2),
        "rollout_log_probs": [-0.5, -1.5], "status": "truncated" if index == 3 else "completed", "metadata": {}, **more,
    }  # fmt: skip


def test_slimes_rollout_data_without_torch_and_without_running_the_pickle(tmp_path):
    torch = pytest.importorskip("torch")
    odd = {"rollout_routed_experts": torch.zeros(2, 3), "metadata": Calls(tmp_path / "called")}
    samples = [slime_sample(i, **(odd if i == 0 else {})) for i in range(4)]
    (tmp_path / "rollout_data").mkdir()
    torch.save({"rollout_id": 12, "samples": samples}, tmp_path / "rollout_data" / "12.pt")
    torch.save({"rollout_id": 12, "samples": samples[:1]}, tmp_path / "rollout_data" / "eval_12.pt")
    groups = diver.read(tmp_path)
    assert not (tmp_path / "called").exists()
    assert "slime: 4 responses to 2 problems in 2 groups of 2" in groups.notes[0]
    assert "1 files of evaluations left out" in groups.notes[1]
    assert shape(groups) == [("problem-1", 12, ["r0", "r1"], [0, 1]), ("problem-2", 12, ["r2", "r3"], [0, 1])]
    last = groups[1].rollouts[1]
    assert (last.logprobs.tolist(), last.length, last.truncated) == ([-0.5, -1.5], 2, True)
    torch.save({"rollout_id": 1, "samples": [slime_sample(0, reward={"acc": 1.0, "format": 0.0})]}, tmp_path / "1.pt")
    with pytest.raises(DiverError, match="--outcome COLUMN.KEY names one of acc, format"):
        diver.read(tmp_path / "1.pt")
    assert diver.read(tmp_path / "1.pt", outcome="reward.acc")[0].outcomes.tolist() == [1]
    (tmp_path / "x.pt").write_text("no zip")
    with pytest.raises(DiverError, match="x.pt: not the rollout data of slime"):
        diver.read(tmp_path / "x.pt")


def test_skyrls_evaluations(tmp_path):
    """`dump_per_dataset_eval_results` of SkyRL a956457: rewards of responses, or of their tokens."""

    def row(response, score, stop="stop"):
        extras = {"reward_model": {"ground_truth": "7"}}
        return {
            "input_prompt": "Q", "output_response": response, "score": score, "stop_reason": stop, "env_class": "gsm8k",
            "env_extras": extras, "data_source": "openai/gsm8k",
        }  # fmt: skip

    folder = tmp_path / "dumped_evals" / "global_step_20_evals"
    write_rows(
        folder / "openai_gsm8k.jsonl", [row("a", 1.0), row("b", [0.0, 0.0, 1.0], "length"), row("c", [0.0, 0.0])]
    )
    write_rows(folder / "aggregated_results.jsonl", [{"eval/all/avg_score": 0.5}])
    groups = diver.read(tmp_path)
    assert "SkyRL" in groups.notes[0] and shape(groups) == [("problem-1", 20, ["a", "b", "c"], [1, 1, 0])]
    assert (groups[0].problem.source, groups[0].problem.answer) == ("openai/gsm8k", "7")
    assert [r.truncated for r in groups[0].rollouts] == [False, True, False]


def test_nemo_rls_training_and_validation_data(tmp_path):
    """`log_batched_dict_as_jsonl` of NeMo-RL 7ea279a: each value in a list of its own, tensors padded."""

    def row(i, response, reward):
        return {
            "content": [["Q", response, "Environment: correct"]], "rewards": [reward], "input_lengths": [4],
            "token_ids": [[5, 6, 7, 0]], "token_loss_mask": [[0, 1, 1, 0]], "advantages": [[0.5, 0.5, 0.5, 0.5]],
            "generation_logprobs": [[0.0, -1.0, -2.0, 0.0]], "idx": i,
        }  # fmt: skip

    write_rows(tmp_path / "exp_001" / "train_data_step3.jsonl", [row(0, "a", 1.0), row(1, "b", 0.0)])
    talk = [[{"role": "user", "content": "Q"}, {"role": "assistant", "content": "v"}]]
    validation = write_rows(
        tmp_path / "exp_001" / "val_data_step0.jsonl", [{"content": talk, "rewards": [1.0], "idx": 0}]
    )
    groups = diver.read(tmp_path / "exp_001")
    assert "NeMo-RL" in groups.notes[0] and shape(groups) == [("problem-1", 3, ["a", "b"], [1, 0])]
    first = groups[0].rollouts[0]
    assert (first.logprobs.tolist(), first.advantage, first.length) == ([-1, -2], 0.5, 2)
    assert shape(diver.read(validation)) == [("problem-1", 0, ["v"], [1])]


def prime_episode(group, response, score, step=4):
    """`Episode.to_record` of verifiers 0.4, as prime-rl's file monitor writes it."""
    nodes = [
        {"message": {"role": "system", "content": "S"}, "sampled": False},
        {"parent": 0, "message": {"role": "user", "content": [{"type": "text", "text": "Q"}]}, "sampled": False},
        {
            "parent": 1, "message": {"role": "assistant", "content": response}, "sampled": True, "logprobs": [-0.5],
            "advantages": [0.25],
        },
    ]  # fmt: skip
    rewards = {"correct": {"score": score, "weight": 1.0}, "format": {"score": 1.0, "weight": 0.0}}
    trace = {
        "agent": {"name": "solver", "trainable": True},
        "nodes": nodes,
        "rewards": rewards,
        "calls": [{"finish_reason": "length"}],
    }
    judge = {"agent": {"name": "judge", "trainable": False}, "nodes": nodes, "rewards": {}}
    return {
        "id": "e", "env": {"id": "math-v1", "name": "math"}, "task": {"type": "T", "data": {"idx": 0, "answer": "7"}},
        "group": {"id": group}, "run": {"type": "train", "id": "r", "work": {"type": "train", "step": step}},
        "ok": True,
        "traces": [trace, judge],
    }  # fmt: skip


def test_prime_rls_episodes(tmp_path):
    everything = [prime_episode("g1", "a", 1.0), prime_episode("g2", "b", 0.0), prime_episode("g1", "c", 0.0)]
    folder = tmp_path / "rollouts" / "step_4" / "train"
    write_rows(folder / "all" / "traces.jsonl", everything)
    write_rows(folder / "effective" / "traces.jsonl", everything[:1])
    write_rows(tmp_path / "rollouts" / "step_4" / "eval" / "all" / "traces.jsonl", everything[:1])
    groups = diver.read(tmp_path)
    assert "prime-rl" in groups.notes[0]
    assert [(g.problem.source, g.problem.meta["step"], g.responses, g.outcomes.tolist()) for g in groups] == [
        ("math", 4, ["a", "c"], [1, 0]),
        ("math", 4, ["b"], [0]),
    ]
    assert groups[0].problem.prompt == ({"role": "system", "content": "S"}, {"role": "user", "content": "Q"})
    first = groups[0].rollouts[0]
    assert (first.advantage, first.truncated, first.logprobs.tolist()) == (0.25, True, [-0.5])


def test_a_nested_row_with_a_part_missing_is_named(tmp_path):
    broken = prime_episode("g1", "a", 1.0)
    broken["traces"][0]["rewards"] = {"correct": {}}
    with pytest.raises(DiverError, match=r"traces.jsonl:2: not a row of prime-rl \(KeyError: 'score'\)"):
        diver.read(write_rows(tmp_path / "traces.jsonl", [prime_episode("g1", "b", 0.0), broken]))


def section(title, *body):
    children = [{"tag": "h3", "attrs": {}, "children": [title]}, {"tag": "div", "attrs": {}, "children": [*body]}]
    return {"tag": "section", "attrs": {"class": "lt-section"}, "children": children}


def attempt(response, correct):
    def talk(role, text):
        return {
            "tag": "div",
            "attrs": {},
            "children": [],
            "data": {"type": "conversation", "messages": [{"role": role, "content": text}]},
        }

    def cells(*texts):
        return {"tag": "tr", "attrs": {}, "children": [{"tag": "td", "attrs": {}, "children": [t]} for t in texts]}

    table = {
        "tag": "table",
        "attrs": {},
        "children": [cells("reference_answer", "x &lt; 7"), cells("correct", str(correct))],
    }
    return [
        section("Prompt", talk("user", "Q")),
        section("Policy Response", talk("assistant", response)),
        section("Reward", table),
    ]


def test_tinker_cookbooks_logtree(tmp_path):
    """What `ProblemEnv.step` logs by logtree.to_dict of tinker-cookbook 0.6; its summaries have no texts."""
    root = {
        "tag": "body",
        "attrs": {},
        "children": [section("Group Rollout", *attempt("a", True), *attempt("b", False))],
    }
    folder = tmp_path / "iteration_000010"
    write_json(
        folder / "train_logtree.json", {"title": "RL Iteration 10", "started_at": "", "path": None, "root": root}
    )
    write_rows(folder / "train_rollout_summaries.jsonl", [{"schema_version": 1, "group_idx": 0, "total_reward": 1.0}])
    groups = diver.read(tmp_path)
    assert "tinker-cookbook" in groups.notes[0] and shape(groups) == [("problem-1", 10, ["a", "b"], [1, 0])]
    assert groups[0].problem.answer == "x < 7"


def inspect_sample(name, epoch, response, value):
    message = {
        "role": "assistant",
        "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": response}],
    }
    return {
        "id": name, "epoch": epoch, "input": "2+2?", "target": ["4"], "messages": [],
        "output": {"model": "m", "choices": [{"message": message, "stop_reason": "stop"}]},
        "scores": {"match": {"value": value, "answer": response}}, "metadata": {},
    }  # fmt: skip


def write_zstd(path, members):
    """A zip whose members are compressed by zstd, as inspect_ai makes it; it gives their compressed sizes."""
    import pyarrow

    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, pyarrow.compress(json.dumps(content).encode(), codec="zstd", asbytes=True))
    content = path.read_bytes()
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # the method of each member: 93, zstd
        at = content.find(signature)
        while at >= 0:
            content = content[: at + offset] + struct.pack("<H", 93) + content[at + offset + 2 :]
            at = content.find(signature, at + 4)
    path.write_bytes(content)


def test_inspect_ais_logs(tmp_path):
    """Both formats of inspect_ai 0.3.285; a member of its zip is compressed by zstd, which zipfile does not have."""
    samples = [inspect_sample("a", 1, "4", "C"), inspect_sample("a", 2, "5", "I"), inspect_sample("b", 1, "", "N")]
    header = {"version": 2, "status": "success", "eval": {"task": "arith", "model": "openai/x"}}
    write_json(tmp_path / "json" / "2026_arith.json", {**header, "samples": samples})
    log = tmp_path / "zip" / "2026_arith.eval"
    log.parent.mkdir()
    members = {"header.json": header, **{f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}}
    write_zstd(log, members)
    for folder in ("json", "zip"):
        groups = diver.read(tmp_path / folder)
        assert "inspect_ai" in groups.notes[0]
        assert shape(groups) == [("a", None, ["4", "5"], [1, 0]), ("b", None, [""], [0])]
        assert (groups[0].problem.source, groups[0].problem.meta["by"], groups[0].problem.answer) == (
            "arith",
            "openai/x",
            "4",
        )


def test_samples_of_inspect_ai_that_failed_are_left_out_and_counted(tmp_path):
    """With `fail_on_error=False` a sample may have an error, and lack its scores or its output; none is scored.

    One that reached a limit has no text, but a score: it is a response.
    """
    failed = [
        {**inspect_sample("a", 1, "", "I"), "error": {"message": "timeout"}},
        {**inspect_sample("a", 2, "4", "C"), "error": {"message": "the scorer failed"}, "scores": {}},
        {k: v for k, v in inspect_sample("b", 1, "", "I").items() if k != "scores"} | {"output": {"choices": []}},
        {k: v for k, v in inspect_sample("b", 2, "", "I").items() if k not in ("scores", "output")},
    ]
    limited = {**inspect_sample("c", 1, "", "I"), "output": {"model": "m", "choices": []}}
    kept = [inspect_sample("a", 3, "4", "C"), inspect_sample("b", 3, "5", "I"), limited]
    header = {"status": "success", "eval": {"task": "arith", "model": "m"}}
    for order, samples in {"first": failed + kept, "last": kept + failed}.items():
        log = write_json(tmp_path / f"{order}.json", {**header, "samples": samples})
        with zipfile.ZipFile(tmp_path / f"{order}.eval", "w") as archive:
            archive.writestr("header.json", json.dumps(header))
            for i, sample in enumerate(samples):
                archive.writestr(f"samples/{i}.json", json.dumps(sample))
        for path in (log, log.with_suffix(".eval")):
            found = diver.read(path)
            assert [(g.problem.id, g.responses, g.outcomes.tolist()) for g in found] == [
                ("a", ["4"], [1]), ("b", ["5"], [0]), ("c", [""], [0]),
            ]  # fmt: skip
            assert found.notes[1:] == [f"{path}: 4 samples that failed are left out"]
    with pytest.raises(
        DiverError, match="x.json: empty, not one response; .*x.json: 4 samples that failed are left out"
    ):
        diver.read(write_json(tmp_path / "x.json", {**header, "samples": failed}))


ROWS = [{"question": "2+2?", "response": r, "correct": c} for r, c in (("4", True), ("5", False))]


@pytest.mark.parametrize(
    "content",
    [
        {"metadata": {}, "data": ROWS},
        {"name": "x", "results": ROWS, "categories": ["a"]},
        {"samples": ROWS},
        {"example": ROWS, "keywords": "k"},
        {"rows": ROWS, "features": [{"name": "question"}]},  # of several the one with a usual name
    ],
)
def test_rows_under_a_key_of_a_json_object(tmp_path, content):
    assert shape(diver.read(write_json(tmp_path / "x.json", content))) == [("problem-1", None, ["4", "5"], [1, 0])]


@pytest.mark.parametrize(
    "content, said",
    [
        ({"a": ROWS, "b": ROWS}, "x.json: must be a list of rows, not a dict; .* here keys are a, b$"),
        (
            {"data": ROWS, "results": ROWS},
            "x.json: must be a list of rows, not a dict; .* here keys are data, results$",
        ),
        (
            {"question": "Q", "response": "4"},
            "x.json: must be a list of rows, not a dict; .* keys are question, response$",
        ),
        ({}, "x.json: must be a list of rows, not a dict; .* here keys are none$"),
        ({"results": [{"a": 1}]}, "x.json, results, row 1: no problem: found a; accepted"),
        ({"data": [ROWS[0], 3]}, "x.json, data, row 2: a int, not an object"),
        ("text", "x.json: must be a list of rows, not a str$"),
    ],
)
def test_rows_that_cannot_be_told_in_a_json_object(tmp_path, content, said):
    with pytest.raises(DiverError, match=said):
        diver.read(write_json(tmp_path / "x.json", content))


def test_lm_evals_samples_before_arguments_had_names(tmp_path):
    """Until 0.4.0 the arguments are lists, and neither the filter nor the metrics are named."""
    old = {"doc": {"question": "q"}, "target": 5, "filtered_resps": ["5"]}
    settings = {"until": ["\n"], "do_sample": False}
    rows = [
        {"doc_id": i, **old, "arguments": arguments, "resps": [[r]], "exact_match": score}
        for i, arguments, r, score in ((0, [["Q0", settings]], "5", 1.0), (1, ["Q1", settings], "6", 0.0))
    ]
    path = write_rows(tmp_path / "samples_gsm8k_2024-01-09T10-00-00.000000.jsonl", rows)
    groups = diver.read(path)
    assert [(g.problem.id, g.problem.prompt, g.problem.answer, g.responses, g.outcomes.tolist()) for g in groups] == [
        ("doc-0", "Q0", "5", ["5"], [1]), ("doc-1", "Q1", "5", ["6"], [0]),
    ]  # fmt: skip
    two = [{**rows[0], "acc": 1.0}]  # which of two metrics is the outcome is not known
    assert diver.read(write_rows(path, two))[0].rollouts[0].reward is None
    assert diver.read(path, outcome="acc")[0].outcomes.tolist() == [1]
    for arguments in ([["Q", " yes"]], [], ["Q"]):
        with pytest.raises(DiverError, match="1: a task of log-likelihoods has no responses"):
            diver.read(write_rows(path, [{**rows[0], "arguments": arguments}]))


def test_a_log_of_inspect_ai_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    """The limits are made small here: 10 kB of zeros stand for gigabytes. zstd says itself where a stream ends."""
    monkeypatch.setattr("diver.rollouts.formats.UNPACKED", 15_000, raising=False)
    monkeypatch.setattr("diver.rollouts.formats.UNPACKED_MEMBER", 9_000, raising=False)
    sample = inspect_sample("a", 1, "4", "C")
    for sizes, said in (
        ([12_000], "x.eval: one of its files unpacks to 1.2\\de-05 GB, and at most 9e-06 GB are read"),
        ([8_000, 8_000], "x.eval: it unpacks to 1.6\\de-05 GB, and at most 1.5e-05 GB are read"),
    ):
        with zipfile.ZipFile(tmp_path / "x.eval", "w", zipfile.ZIP_DEFLATED) as archive:
            for i, size in enumerate(sizes):
                archive.writestr(f"samples/{i}.json", json.dumps({"x": "0" * size, **sample}))
        with pytest.raises(DiverError, match=said):
            diver.read(tmp_path / "x.eval")
    write_zstd(tmp_path / "x.eval", {"samples/0.json": {"x": "0" * 12_000, **sample}})
    with pytest.raises(DiverError, match=r"x.eval: .* \(samples/0.json unpacks to more than it says\)"):
        diver.read(tmp_path / "x.eval")
    write_zstd(tmp_path / "x.eval", {"samples/0.json": {"x": "0" * 8_000, **sample}})
    assert [len(group) for group in diver.read(tmp_path / "x.eval")] == [1]


def test_csv_and_json_of_any_origin_by_model(tmp_path):
    rows = [
        {"prompt": "Q", "response": "a,\n1", "correct": "True", "model": "x", "step": "2", "entropy": "0.5"},
        {"prompt": "Q", "response": "b", "correct": "False", "model": "x", "step": "2", "entropy": "0.7"},
        {"prompt": "Q", "response": "c", "correct": "1", "model": "y", "step": "2", "entropy": ""},
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "x.csv", index=False, encoding="utf-8-sig")
    write_json(tmp_path / "x.json", rows)
    for name in ("x.csv", "x.json"):
        groups = diver.read(tmp_path / name, by="model")
        assert shape(groups) == [("problem-1", 2, ["a,\n1", "b"], [1, 0]), ("problem-1", 2, ["c"], [1])]
        assert [g.problem.meta["by"] for g in groups] == ["x", "y"]
        frame = groups.frame()
        assert list(frame["by"]) == ["x", "x", "y"] and frame["entropy"][:2].tolist() == [0.5, 0.7]
        assert frame["outcome"].tolist() == [1, 0, 1] and "advantage" not in frame and "grade" not in frame
    with pytest.raises(DiverError, match="x.csv: no column 'modle', which --by names: found prompt, response"):
        diver.read(tmp_path / "x.csv", by="modle")
    with pytest.raises(DiverError, match=r"responses: unknown key, did you mean 'response'\?"):
        diver.read(tmp_path / "x.csv", responses="a")


def test_a_file_of_a_folder_that_is_none_of_rollouts(tmp_path):
    write_rows(tmp_path / "a.jsonl", [{"prompt": "Q", "response": "a", "reward": 1}])
    write_rows(tmp_path / "problems.jsonl", [{"problem": "Q", "answer": "7"}])
    groups = diver.read(tmp_path)
    assert len(groups) == 1 and "problems.jsonl:1: no response: found problem, answer" in groups.notes[1]
    with pytest.raises(DiverError, match=r"problems.jsonl:1: no response: .*\(--response names another\)"):
        diver.read(tmp_path / "problems.jsonl")


@pytest.mark.parametrize("content", [{"env": "gsm8k", "num_examples": 2}, {"env": "gsm8k", "metrics": ["a", "b"]}, {}])
def test_a_json_object_without_rows_beside_rollouts_is_left_out(tmp_path, content):
    """As verifiers' `metadata.json` beside `results.jsonl`."""
    write_rows(tmp_path / "results.jsonl", [{"prompt": "Q", "completion": "a", "reward": 1}])
    metadata = write_json(tmp_path / "metadata.json", content)
    groups = diver.read(tmp_path)
    assert shape(groups) == [("problem-1", None, ["a"], [1])] and len(groups.notes) == 2
    assert groups.notes[1].startswith(str(metadata)) and groups.notes[1].endswith(": left out")
    with pytest.raises(DiverError, match="metadata.json"):
        diver.read(metadata)
    write_json(metadata, {"train": ROWS, "test": ROWS})  # rows, of which nobody says which
    with pytest.raises(DiverError, match="metadata.json: must be a list of rows, .* here keys are train, test"):
        diver.read(tmp_path)


def test_a_folder_of_json_objects_without_rows_is_refused(tmp_path):
    for name in "ab":
        write_json(tmp_path / f"{name}.json", {"env": name})
    with pytest.raises(DiverError, match="a.json: must be a list of rows, not a dict"):
        diver.read(tmp_path)


@pytest.mark.parametrize("unknown", [{"my_reward": None}, {"my_reward": float("nan")}, {}])
def test_a_reward_of_trl_that_the_first_row_does_not_have(tmp_path, unknown):
    rows = [{"prompt": "P", "completion": "a", "advantage": 0.1, "step": 4, "my_reward": r} for r in (1.0, 0.0)]
    first = {key: value for key, value in rows[0].items() if key != "my_reward"} | unknown
    (group,) = found = diver.read(write_rows(tmp_path / "x.jsonl", [first, *rows]))
    assert [r.reward and r.reward.outcome for r in group.rollouts] == [None, 1, 0]
    assert found.notes[0].endswith("2 with an outcome; outcome: my_reward") and len(found.notes) == 1
    two = [first | {"other": 1.0}, *rows]  # which of two is not known, although the first row has one alone
    (group,) = found = diver.read(write_rows(tmp_path / "x.jsonl", two))
    assert not any(r.reward for r in group.rollouts) and "the outcome column is ambiguous" in found.notes[1]
    texts = [{**row, "my_reward": str(row["my_reward"])} for row in rows]  # as a text it may be a label
    assert "the outcome column is ambiguous" in diver.read(write_rows(tmp_path / "x.jsonl", texts)).notes[1]


def test_a_table_of_trl_as_csv(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(",step,prompt,completion,accuracy_reward,advantage\n0,10,P,a,,0.5\n1,10,P,b,1.0,-0.5\n")
    (group,) = diver.read(path)
    assert [r.reward and r.reward.outcome for r in group.rollouts] == [None, 1] and group.problem.meta["step"] == 10
    path.write_text(",step,prompt,completion,a,b,advantage\n0,10,P,a,1.0,0.0,0.5\n")
    said = "the outcome column is ambiguous; --outcome names one of step, prompt, completion, a, b, advantage"
    assert diver.read(path).notes[1] == f"{path}: {said}"
    assert diver.read(path, outcome="b")[0].outcomes.tolist() == [0]


def test_an_outcome_inside_a_column_of_trl_that_the_user_names(tmp_path):
    """It was another column, the only one of numbers."""
    row = {"prompt": "P", "completion": "a", "advantage": 0.1, "format": 1.0, "all": {"accuracy": 0.0}}
    path = write_rows(tmp_path / "x.jsonl", [row])
    assert diver.read(path, outcome="all.accuracy")[0].outcomes.tolist() == [0]


def test_damaged_archives_are_one_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_1.json", json.dumps(inspect_sample("a", 1, "4", "C")))
    content = bytearray((tmp_path / "a.eval").read_bytes())
    begin = content.find(b".json") + len(".json")
    content[begin : begin + 4] = b"\xff" * 4  # no stream of deflate begins so
    (tmp_path / "a.eval").write_bytes(content)
    with pytest.raises(DiverError, match=r"a.eval: not a readable log of inspect_ai \(Error -3"):
        diver.read(tmp_path / "a.eval")
    terabyte = (1 << 40).to_bytes(8, "little")  # the length of a text, of bytes, of an array of bytes
    longs = [(f"long{code}", b"\x80\x05" + bytes([code]) + terabyte + b"abc.") for code in (0x8D, 0x8E, 0x96)]
    for name, pickled in (("cut", b"\x80\x02}q\x00(X\x07\x00"), ("empty", b""), ("pop", b"\x80\x020."), *longs):
        with zipfile.ZipFile(tmp_path / f"{name}.pt", "w") as archive:
            archive.writestr("x/data.pkl", pickled)
        with pytest.raises(DiverError, match=f"{name}.pt: not the rollout data of slime"):
            diver.read(tmp_path / f"{name}.pt")


@pytest.mark.parametrize(
    "step", [{"step": ["2", "2", "2", "2"]}, {"gen_step": [2, 2, 2, 2]}]
)  # Megatron's is the second
def test_ms_swift(tmp_path, step):
    """A line for each time that is logged, with the last batch, which may be that of the line before."""
    batch = {"prompt": ["P", "P", "Q", "Q"], "completion": ["a", "b", "c", "d"], "Acc": [1.0, 0.0, None, 1.0]}
    first = {name: [1 if type(of[0]) is int else "1"] * 4 for name, of in step.items()} | batch
    first["advantages"] = [0.5, -0.5, 0.0, 1.0]
    later = {**step, **batch, "completion": ["e", "f", "g", "h"], "advantages": [0.0] * 4}
    path = write_rows(tmp_path / "completions.jsonl", [first, {**first, **step}, later])
    found = diver.read(path)
    assert shape(found)[0] == ("problem-1", 1, ["a", "b"], [1, 0]) and len(found) == 4
    assert [(g.problem.prompt, g.problem.meta["step"]) for g in found] == [("P", 1), ("Q", 1), ("P", 2), ("Q", 2)]
    assert [r.advantage for g in found[:2] for r in g.rollouts] == [0.5, -0.5, 0.0, 1.0]
    assert found[1].outcomes.tolist()[1] == 1 and found[1].rollouts[0].reward is None
    assert f"{path}:2: the same completions as in the row before, logged again; left out" in found.notes
    assert "ms-swift: 8 responses to 2 problems in 4 groups of 2" in found.notes[0] and "outcome: Acc" in found.notes[0]
    write_rows(path, [{**first, "Acc": [1.0]}])
    with pytest.raises(
        DiverError, match="completions.jsonl:1: the lists of a batch must have the same length, not .*Acc 1"
    ):
        diver.read(path)


def test_rows_of_another_program_with_the_columns_of_ms_swift(tmp_path):
    """Each is one response, whose advantages are those of its tokens."""
    rows = [{"prompt": "P", "completion": r, "reward": i, "advantages": [0.5, 0.5]} for i, r in enumerate("ab")]
    assert shape(diver.read(write_rows(tmp_path / "x.jsonl", rows))) == [("problem-1", None, ["a", "b"], [0, 1])]
