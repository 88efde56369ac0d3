"""Dumps of trainers that are not installed here, with the fields that their code writes (read in August 2026)."""

import json
import struct
import zipfile

import pandas as pd
import pytest
from rollout_files import shape
from rows import write_rows

import diver
from diver.types import DiverError


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


def test_inspect_ais_logs(tmp_path):
    """Both formats of inspect_ai 0.3.285; a member of its zip is compressed by zstd, which zipfile does not have."""
    import pyarrow

    samples = [inspect_sample("a", 1, "4", "C"), inspect_sample("a", 2, "5", "I"), inspect_sample("b", 1, "", "N")]
    header = {"version": 2, "status": "success", "eval": {"task": "arith", "model": "openai/x"}}
    write_json(tmp_path / "json" / "2026_arith.json", {**header, "samples": samples})
    log = tmp_path / "zip" / "2026_arith.eval"
    log.parent.mkdir()
    members = {"header.json": header, **{f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}}
    with zipfile.ZipFile(log, "w") as archive:
        for name, content in members.items():
            packed = pyarrow.compress(json.dumps(content).encode(), codec="zstd", asbytes=True)
            archive.writestr(name, packed)
    content = log.read_bytes()
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # the method of each member: 93, zstd
        at = content.find(signature)
        while at >= 0:
            content = content[: at + offset] + struct.pack("<H", 93) + content[at + offset + 2 :]
            at = content.find(signature, at + 4)
    log.write_bytes(content)
    for folder in ("json", "zip"):
        groups = diver.read(tmp_path / folder)
        assert "inspect_ai" in groups.notes[0]
        assert shape(groups) == [("a", None, ["4", "5"], [1, 0]), ("b", None, [""], [0])]
        assert (groups[0].problem.source, groups[0].problem.meta["by"], groups[0].problem.answer) == (
            "arith",
            "openai/x",
            "4",
        )


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
    with pytest.raises(DiverError, match="responses: no such column; choose from problem, response"):
        diver.read(tmp_path / "x.csv", responses="a")


def test_a_file_of_a_folder_that_is_none_of_rollouts(tmp_path):
    write_rows(tmp_path / "a.jsonl", [{"prompt": "Q", "response": "a", "reward": 1}])
    write_rows(tmp_path / "problems.jsonl", [{"problem": "Q", "answer": "7"}])
    groups = diver.read(tmp_path)
    assert len(groups) == 1 and "problems.jsonl:1: no response: found problem, answer" in groups.notes[1]
    with pytest.raises(DiverError, match=r"problems.jsonl:1: no response: .*\(--response names another\)"):
        diver.read(tmp_path / "problems.jsonl")


def test_damaged_archives_are_one_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_1.json", json.dumps(inspect_sample("a", 1, "4", "C")))
    content = bytearray((tmp_path / "a.eval").read_bytes())
    begin = content.find(b".json") + len(".json")
    content[begin : begin + 4] = b"\xff" * 4  # no stream of deflate begins so
    (tmp_path / "a.eval").write_bytes(content)
    with pytest.raises(DiverError, match=r"a.eval: not a readable log of inspect_ai \(Error -3"):
        diver.read(tmp_path / "a.eval")
    for name, pickled in (("cut", b"\x80\x02}q\x00(X\x07\x00"), ("empty", b""), ("pop", b"\x80\x020.")):
        with zipfile.ZipFile(tmp_path / f"{name}.pt", "w") as archive:
            archive.writestr("x/data.pkl", pickled)
        with pytest.raises(DiverError, match=f"{name}.pt: not the rollout data of slime"):
            diver.read(tmp_path / f"{name}.pt")
