"""`diver judge` as a whole, against a server on loopback that plays the judge."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from diver_command import fails
from judge_server import ranking, serving, solutions
from rows import write_rows
from waiting import until

from diver.cli import main
from diver.core.types import DiverError
from model_judge.answers import read_cases
from model_judge.run import Judge, run

pytest.importorskip("openai")

MODELS = {"short": "yes {}", "middle": "it is so, {}", "longer": "it is so because of {} and all that"}


@pytest.fixture
def files(tmp_path):
    """NAME=PATH of three models, with one answer each to six problems."""
    return tuple(f"{name}={written(tmp_path / f'{name}.jsonl', text)}" for name, text in MODELS.items())


def written(path, text, problems=6, **more):
    rows = [{"problem": f"Is {i} a number?", "response": text.format(i), **more} for i in range(problems)]
    return write_rows(path, rows)


def judged(server, files, out, **settings):
    told = []
    run(Judge(models=files, url=server.url, out=out, **settings), told.append)
    return json.loads((out / "ranks.json").read_text()), "\n".join(told)


def first_is_best(messages):
    return ranking(range(len(solutions(messages))))


def longest_is_best(messages):
    shown = solutions(messages)
    return ranking(sorted(range(len(shown)), key=lambda place: -len(shown[place])))


def test_a_judge_that_looks_at_the_answers(files, tmp_path):
    with serving(longest_is_best) as server:
        result, told = judged(server, files, tmp_path / "out", price="1,10")
    found = result["standings"]["Overall Avg."]
    assert {name: found[name]["rank"]["mean"] for name in MODELS} == {"short": 3, "middle": 2, "longer": 1}
    assert [share["mean"] for share in found["middle"]["shares"]] == [0, 1, 0]
    assert result["comparisons"] == result["in_whole_rounds"] == result["requests"] == 18 == len(server.asked)
    assert result["mean_rank_by_position"] == [2, 2, 2]
    assert (result["prompt_tokens"], result["tokens"]) == (1800, 180)
    assert result["dollars"] == pytest.approx((1800 * 1 + 180 * 10) / 1e6)
    assert "6 of 6 problems ranked" in told and "$0.0036" in told and "judge-model" in told
    assert not any(name in json.dumps(server.asked) for name in ("short", "middle.jsonl", "longer"))
    rows = [json.loads(line) for line in (tmp_path / "out" / "comparisons.jsonl").open()]
    assert len(rows) == 18 and rows[0]["ranks"] == {"short": 3, "middle": 2, "longer": 1}


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("rank", [first_is_best, lambda messages: ranking([1, 2, 0])])
def test_a_judge_that_goes_by_places_ends_with_equal_ranks(files, tmp_path, rank, rounds):
    with serving(rank) as server:
        result, told = judged(server, files, tmp_path / "out", rounds=rounds)
    for standing in result["standings"]["Overall Avg."].values():
        assert standing["rank"] == {"mean": 2, "low": 2, "high": 2}
        assert [share["mean"] for share in standing["shares"]] == pytest.approx([1 / 3] * 3)
    assert sorted(result["mean_rank_by_position"]) == [1, 2, 3] and "shown first" in told
    assert result["comparisons"] == 18 * rounds


def test_equal_ranks(files, tmp_path):
    with serving(lambda messages: "RANKING: A = B = C") as server:
        result, _ = judged(server, files, tmp_path / "out")
    for standing in result["standings"]["Overall Avg."].values():
        assert [share["mean"] for share in standing["shares"]] == [1, 0, 0]


def test_nonsense_gives_no_verdict(files, tmp_path):
    with serving(lambda messages: "I am a teapot \ud83e\udd16 RANKING A > B") as server:
        result, told = judged(server, files, tmp_path / "out")
    assert len(server.asked) == 36 and result["repairs"] == 18  # every repair is asked for once
    assert result["no_verdict"] == 18 and result["problems_ranked"] == 0
    assert "| Overall Avg.: short  |             – |" in (tmp_path / "out" / "table.md").read_text()
    rows = [json.loads(line) for line in (tmp_path / "out" / "comparisons.jsonl").open()]
    assert all(row["ranks"] is None and "no line that begins" in row["no_verdict"] for row in rows)
    assert "no verdict, most often (18 times): it has no line" in told


def test_a_repair_is_asked_for_once(files, tmp_path):
    def late(messages):
        return longest_is_best(messages) if len(messages) == 3 else "Solution A, of course."

    with serving(late) as server:
        result, _ = judged(server, files, tmp_path / "out")
        assert (result["requests"], result["repairs"], result["no_verdict"]) == (36, 18, 0)
        assert result["standings"]["Overall Avg."]["longer"]["rank"]["mean"] == 1
        assert judged(server, files, tmp_path / "out")[0] == result and len(server.asked) == 36


def test_structured_output(files, tmp_path):
    """It thinks once: the repair of what was cut off asks for the ranking alone."""

    def cut_off_once(messages):
        if len(messages) == 1 and "Is 3 a" in messages[0]["content"]:
            return '{"reasoning": "A'
        said = ranking(range(3)).partition("RANKING: ")[2]
        return json.dumps({"ranking": said} if len(messages) == 3 else {"reasoning": "So it is.", "ranking": said})

    with serving(cut_off_once) as server:
        result, _ = judged(server, files, tmp_path / "out", structured_output=True)
        assert (result["requests"], result["repairs"], result["no_verdict"]) == (21, 3, 0)
        assert all(s["rank"]["mean"] == 2 for s in result["standings"]["Overall Avg."].values())
        for asked, form in zip(server.asked, server.forms, strict=True):
            keys = [*form["json_schema"]["schema"]["properties"]]
            assert keys == (["ranking"] if len(asked) == 3 else ["reasoning", "ranking"])
        assert judged(server, files, tmp_path / "out", structured_output=True)[0] == result and len(server.asked) == 21
        judged(server, files, tmp_path / "out")  # another judging
        assert server.forms[21:] == [None] * 36


def test_a_round_counts_as_a_whole(files, tmp_path):
    """Without one of its orders the places would decide."""

    def mute_for_once(messages):
        nothing = "Is 3 a" in messages[0]["content"] and solutions(messages)[0].startswith("yes")
        return "nothing" if nothing else first_is_best(messages)

    with serving(mute_for_once) as server:
        result, told = judged(server, files, tmp_path / "out")
    assert (result["no_verdict"], result["in_whole_rounds"], result["problems_ranked"]) == (1, 15, 5)
    assert all(s["rank"]["mean"] == 2 for s in result["standings"]["Overall Avg."].values())
    assert "5 of 6 problems ranked, 18 comparisons, 1 without a verdict" in told


@pytest.mark.slow
def test_killed_and_started_again_it_asks_nothing_twice(files, tmp_path):
    out = tmp_path / "out"
    with serving(longest_is_best, seconds=0.05) as server:
        command = [sys.executable, "-c", "from diver.cli import main; main()", "judge", *files]
        command += ["--url", server.url, "--out", str(out), "--concurrency", "2"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
        replies = out / "replies.jsonl"
        until(lambda: replies.exists() and replies.read_bytes().count(b"\n") >= 5, process)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -9
        with replies.open("ab") as file:
            file.write(b'{"key": "cut o')
        there = replies.read_bytes().count(b"\n")
        asked = len(server.asked)
        assert 5 <= there <= asked <= there + 3 < 18  # at most those in flight are lost
        result, told = judged(server, files, out)
        assert f"{18 - there} to request, {there} replies stored" in told
        assert len(server.asked) == asked + 18 - there
        assert result["requests"] == 18 and result["no_verdict"] == 0
        again, _ = judged(server, files, out, judge="judge-model")
        assert again == result and len(server.asked) == asked + 18 - there
    assert judged(server, files, out, judge="judge-model")[0] == result  # the server is no longer needed


def test_more_rounds_and_another_judge_keep_what_is_there(files, tmp_path):
    with serving(longest_is_best) as server:
        judged(server, files, tmp_path / "out")
        judged(server, files, tmp_path / "out", rounds=2)
        assert len(server.asked) == 36
        judged(server, files, tmp_path / "out", judge="another")
        assert len(server.asked) == 54
        judged(server, files, tmp_path / "out", limit=2)
        assert len(server.asked) == 54


def test_the_command(files, tmp_path, monkeypatch, capsys):
    with serving(first_is_best) as server:
        monkeypatch.setattr(
            sys, "argv", ["diver", "judge", *files, "--url", server.url, "--out", str(tmp_path / "out")]
        )
        main()
    assert "Rank 3 (worst)" in capsys.readouterr().out
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        ".lock", "replies.jsonl", "comparisons.jsonl", "ranks.json", "table.md", "table.tex",
    }  # fmt: skip


def test_which_answer_of_several(tmp_path):
    rows = [("first", False), ("right", True), ("right too", True)]
    several = tmp_path / "several.jsonl"
    write_rows(several, ({"problem": "Q", "response": r, "correct": c} for r, c in rows))
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"problem": "Q", "response": "other", "correct": False}) + "\n")
    files = (f"a={several}", f"b={other}")
    with serving(first_is_best) as server:
        judged(server, files, tmp_path / "one")
        assert {*solutions(server.asked[0])} == {"first", "other"}
        judged(server, files, tmp_path / "two", answer="correct")
        assert {*solutions(server.asked[-1])} == {"right", "other"}


def test_benchmarks_give_the_texts_of_evaluations(tmp_path):
    problems = tmp_path / "set.jsonl"
    write_rows(problems, ({"id": f"p{i}", "problem": f"What is {i}?", "answer": "1"} for i in range(2)))
    for model in "ab":
        folder = tmp_path / model / "generations"
        folder.mkdir(parents=True)
        row = {"key": "k", "sample": 0, "response": f"by {model}", "tokens": 1, "truncated": False, "logprob": None}
        write_rows(folder / "set.jsonl", ({**row, "problem": f"p{i}"} for i in range(2)))
    files = tuple(f"{model}={tmp_path / model}" for model in "ab")
    with serving(first_is_best) as server:
        with pytest.raises(DiverError, match=r"'p0' of set: its text is not in these rollouts; --benchmarks names"):
            judged(server, files, tmp_path / "out")
        judged(server, files, tmp_path / "out", benchmarks=str(problems), concurrency=1)
        assert "<problem>\nWhat is 0?\n</problem>" in server.asked[0][0]["content"]


def evaluated(folder, **benchmarks):
    """Generations as `diver eval` keeps them: benchmark -> ids."""
    row = {"key": "k", "sample": 0, "tokens": 1, "truncated": False, "logprob": None}
    for name, ids in benchmarks.items():
        rows = [{**row, "problem": i, "response": f"{folder.name} to {name} {i}"} for i in ids]
        file = folder / "generations" / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_rows(file, rows)
    return folder


@pytest.fixture
def alike(tmp_path):
    """Two sets of problems that number theirs alike, the second with one more."""
    for name, ids in (("first", "12"), ("second", "123")):
        rows = [{"id": i, "problem": f"Problem {i} of {name}?", "answer": "1"} for i in ids]
        write_rows(tmp_path / f"{name}.jsonl", rows)
    return tmp_path / "first.jsonl", tmp_path / "second.jsonl"


def cases(models, problems):
    found = read_cases(models, ",".join(map(str, problems)), "first", None, print)
    return [(case.benchmark, case.problem, *case.answers) for case in found]


def test_problems_of_two_benchmarks_are_not_mixed_up(alike, tmp_path):
    models = {m: evaluated(tmp_path / m, first="12", second="23") for m in "ab"}
    assert cases(models, alike) == [
        (name, f"Problem {i} of {name}?", f"a to {name} {i}", f"b to {name} {i}")
        for name, i in (("first", 1), ("first", 2), ("second", 2), ("second", 3))
    ]
    with pytest.raises(DiverError, match="problem '2' of second: its text is not in these rollouts"):
        cases(models, alike[:1])
    models["c"] = evaluated(tmp_path / "c", third="12")
    with pytest.raises(DiverError, match="a and b and c: no problem is answered by all .* benchmarks and ids"):
        cases(models, alike)


def test_a_benchmark_under_another_name(alike, tmp_path):
    """A file named otherwise has the texts; a file copied out of its folder is of the only benchmark with its ids."""
    evaluation = evaluated(tmp_path / "a", mine="12")
    copied = shutil.copy(evaluated(tmp_path / "b", mine="12") / "generations" / "mine.jsonl", tmp_path / "b.jsonl")
    expected = [("first", f"Problem {i} of first?", f"a to mine {i}", f"b to mine {i}") for i in (1, 2)]
    assert cases({"a": evaluation, "b": copied}, alike[:1]) == expected
    with pytest.raises(DiverError, match="problem '1' of mine: its text"):  # AMC's are AMC's
        cases({"a": evaluation, "b": copied}, [f"amc={alike[0]}"])
    assert cases({"a": copied, "b": copied}, [f"amc={alike[0]}"]) == [
        ("AMC", f"Problem {i} of first?", f"b to mine {i}", f"b to mine {i}") for i in (1, 2)
    ]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"models": ("a=x.jsonl",)}, "name 2 to 10 models as NAME=PATH; 1 are named"),
        ({"models": ("x.jsonl", "b=y.jsonl")}, "x.jsonl: must be NAME=PATH"),
        ({"models": ("a=x", "a=y")}, "a=y: another model is named 'a'"),
        ({"url": "localhost"}, "--url localhost: must begin with http"),
        (
            {"structured_output": True, "models": [f"{i}=x" for i in range(6)]},
            "--structured-output: takes at most 5 models, .*; 6 are named",
        ),
        (
            {"structured_output": True, "extra": '{"response_format": {}}'},
            "--extra: has response_format, which --structured-output sets",
        ),
        ({"extra": "[1]"}, r"--extra \[1\]: must be a JSON object"),
        ({"price": "1"}, "--price 1: must be two numbers"),
        ({"price": "1,nan"}, "--price 1,nan: must be two numbers"),
    ],
)
def test_wrong_settings(settings, told):
    with pytest.raises(DiverError, match=told):
        Judge(**{"models": ("a=x", "b=y"), **settings})


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--rounds", "0"), "command line: rounds: must be at least 1, not 0"),
        (("--max-tokens", "0"), "command line: max_tokens: must be at least 1, not 0"),
        (("--temperature", "-1"), "command line: temperature: must be at least 0, not -1.0"),
        (("--temperature", "nan"), "command line: temperature: should be a finite number, not nan"),
    ],
)
def test_numbers_out_of_range(flags, told):
    assert told in fails("judge", "a=x", "b=y", *flags)


def test_wrong_input(files, tmp_path):
    other = written(tmp_path / "other.jsonl", "{}")
    other.write_text(other.read_text().replace("Is ", "Was "))
    with pytest.raises(DiverError, match="short and other: no problem is answered by all of them"):
        run(Judge(models=(files[0], f"other={other}"), out=tmp_path / "out"), print)
    with pytest.raises(DiverError, match=r"gone.jsonl: no such file or folder"):
        run(Judge(models=(files[0], f"other={tmp_path}/gone.jsonl"), out=tmp_path / "out"), print)
    with pytest.raises(DiverError, match=r"other.jsonl: no folder can be made here"):
        run(Judge(models=files, out=other), print)
    assert not (tmp_path / "out").exists()
    (run_folder := tmp_path / "run").mkdir()
    (run_folder / "config.json").write_text("{}")
    with pytest.raises(DiverError, match="has other work, that of its config.json"):
        run(Judge(models=files, out=run_folder), print)
    (tmp_path / "theirs").mkdir()
    theirs = written(tmp_path / "theirs" / "comparisons.jsonl", "yes {}")
    with pytest.raises(DiverError, match="would replace .*comparisons.jsonl, which is read"):
        run(Judge(models=(files[0], f"theirs={theirs}"), out=theirs.parent), print)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "table.md").write_text("mine")
    with pytest.raises(DiverError, match="would replace .*table.md, which this command did not write"):
        run(Judge(models=files, out=tmp_path / "mine"), print)
    assert (tmp_path / "mine" / "table.md").read_text() == "mine"
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "replies.jsonl").write_text('{"reply": "Dear sir"}\n')
    with pytest.raises(DiverError, match="replies.jsonl: has rows that are no replies of a judge"):
        run(Judge(models=files, judge="any", out=tmp_path / "foreign"), print)
    with pytest.raises(DiverError, match="no answer .*is the server up"):
        run(Judge(models=files, url="http://127.0.0.1:9/v1", out=tmp_path / "out"), print)


def test_problems_that_only_some_have_answered(files, tmp_path):
    few = written(tmp_path / "few.jsonl", "no {}", problems=2)
    with serving(first_is_best) as server:
        result, told = judged(server, (files[0], f"few={few}"), tmp_path / "out")
    assert result["problems"] == 2 and "short: 4 problems skipped" in told


def test_a_text_of_two_problems_is_left_out(tmp_path):
    """Two images under one question: the judge reads the text alone, and each model has an answer to each image."""
    rows = [{"problem": "What is in it?", "image": f"{i}.png", "response": f"a {i}"} for i in "12"]
    rows.append({"problem": "1 + 1?", "response": "2"})
    paths = [write_rows(tmp_path / f"{name}.jsonl", rows[::way]) for name, way in (("a", 1), ("b", -1))]
    with serving(first_is_best) as server:
        result, told = judged(server, (f"a={paths[0]}", f"b={paths[1]}"), tmp_path / "out")
    assert result["problems"] == 1 and {text for m in server.asked for text in solutions(m)} == {"2"}
    for name in "ab":
        assert f"{name}: 1 text of several problems each, which no judge can tell apart: left out" in told


def test_half_of_a_surrogate_pair_in_an_answer(files, tmp_path):
    """JSON can contain it and UTF-8 cannot, so that no request could."""
    broken = written(tmp_path / "broken.jsonl", "a \ud83e {}")
    with serving(first_is_best) as server:
        result, _ = judged(server, (files[0], f"broken={broken}"), tmp_path / "out")
    assert result["problems_ranked"] == 6 and "a ? 0" in {text for m in server.asked for text in solutions(m)}


def test_a_server_that_does_not_count_prompts(files, tmp_path, monkeypatch):
    monkeypatch.setattr("judge_server.USAGE", {"completion_tokens": 10})
    with serving(first_is_best) as server:
        result, told = judged(server, files, tmp_path / "out", price="1,10")
    assert (result["prompt_tokens"], result["prompts_not_counted"]) == (0, 18)
    assert "the server did not count the prompts of 18 requests, which cost more" in told
