"""`diver browse`: what its page says of rollouts of others, and how much of them it reads."""

import base64
import csv
import gzip
import io
import json
import math
import os
import re
import socket
import struct
import threading
import urllib.error
import urllib.request

import pandas as pd
import pytest
from diver_command import fails, succeeds
from rows import write_rows

import diver.pages.browse as browse
from diver.core.types import Group, Problem, Reward, Rollout
from diver.diversity import textual_diversity
from diver.pages import serve
from diver.pages.dump_page import render, runs_of, summary
from diver.pages.serve import Page, server
from diver.pages.source import Sample, Source
from diver.rollouts import problems as measure
from diver.rollouts import read_rollouts
from diver.rollouts.columns import Columns
from diver.rollouts.formats import rows_within
from diver.rollouts.problems import PAIR_KINDS, diversity_values, outcome_values


def verl_row(prompt, output, score, step, **more):
    return {"input": prompt, "output": output, "gts": "7", "score": score, "step": step, **more}


def write_step(folder, step, rows):
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / f"{step}.jsonl", rows)


def dump(folder, steps=(1, 2, 3)):
    """Two groups of four a step: P has as many correct as the step says, Q none. Entropy: right 0.1, wrong 0.5.

    Every group has the same four responses, in turned order, so that they stand at one place no more than by chance.
    """
    for step in steps:
        rows = []
        for prompt, correct in (("P", step), ("Q", 0)):
            for i in range(4):
                score = float(i < correct)
                n = (i + step + 2 * (prompt == "Q")) % 4
                rows.append(verl_row(prompt, rf"so \( {n} + 1 = {n + 1} \)", score, step, entropy=0.5 - 0.4 * score))
        write_step(folder, step, rows)
    return folder


def source(path, groups=10, **columns):
    made = Source(path.name, path, Columns(**columns), "", groups, 0.5)
    made.look()
    return made


def test_a_file_that_goes_away_while_a_run_is_watched_is_left_out(tmp_path):
    """As when a resumed run removes the rollouts of steps that it makes again."""
    made = source(dump(tmp_path / "run"))
    (tmp_path / "run" / "2.jsonl").unlink()
    assert made.read(None, 3, growing=True) and len(made.contents) == 3
    assert sorted(step for content in made.contents.values() for step in {*content.table.get("step", ())}) == [1, 3]
    with pytest.raises(FileNotFoundError):
        gone = source(dump(tmp_path / "other"))
        (tmp_path / "other" / "2.jsonl").unlink()
        gone.read(None, 3)


def data_of(html):
    found = re.search(r'<script type="text/plain" id="data">(.*?)</script>', html)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def lines(data, metric):
    (panel,) = (panel for panel in data["curves"]["panels"] if panel["id"] == metric)
    return {(line["run"], line["of"]): (line["steps"], line["values"]) for line in panel["lines"]}


def test_curves_by_right_and_wrong_kinds_and_alerts(tmp_path):
    folder = dump(tmp_path / "grpo")
    page = tmp_path / "page.html"
    printed = succeeds("browse", folder, f"other={dump(tmp_path / 'b', (1, 2))}", "--out", page)
    html = page.read_text(encoding="utf-8")
    data = data_of(html)
    assert data["runs"] == ["grpo", "other"] and printed.endswith(f"{page}\n")
    # Pass@1 of P is step/4, of Q 0; Pass@2 of P with 1, 2, 3 correct of 4: 1 - C(3,2)/6, 1 - C(2,2)/6, 1.
    assert lines(data, "pass@1")[0, ""] == ([1, 2, 3], [0.125, 0.25, 0.375])
    assert lines(data, "pass@2")[0, ""][1] == pytest.approx([0.25, 5 / 12, 0.5], abs=1e-5)
    assert lines(data, "pass@1")[1, ""] == ([1, 2], [0.125, 0.25])
    assert lines(data, "group/mixed")[0, ""][1] == [0.5] * 3 and lines(data, "group/solve_none")[0, ""][1] == [0.5] * 3
    assert lines(data, "policy/entropy")[0, "correct"][1] == pytest.approx([0.1] * 3)
    assert lines(data, "policy/entropy")[0, "wrong"][1] == pytest.approx([0.5] * 3)
    # Every correct response writes another formula: distinct@4 of P is how many are correct.
    assert lines(data, "distinct@4")[0, ""][1] == [0.5, 1, 1.5]
    assert "diversity/textual" in {panel["id"] for panel in data["curves"]["panels"]}
    assert "response/truncated" not in {panel["id"] for panel in data["curves"]["panels"]}  # nothing says so
    (group,) = (
        g
        for g in data["browser"]["groups"]
        if (g["run"], g["step"], g["answer"]) == (0, 3, "7") and g["problem"] == "problem-1"
    )
    assert [r["grade"] for r in group["responses"]] == ["correct"] * 3 + ["wrong"]
    assert [r["entropy"] for r in group["responses"]] == pytest.approx([0.1, 0.1, 0.1, 0.5])
    assert "connect-src" not in html and "data.version" in html


@pytest.mark.parametrize("narrower", [True, False])
def test_pass_at_1_that_rises_while_pass_at_k_falls_is_an_alert(tmp_path, narrower):
    """Of eight problems at every step: first six are solved once in four, later four (or all) always."""
    for step in range(40):
        first = step < 20
        solved, times = (6, 1) if first else (4 if narrower else 8, 4)
        rows = [
            verl_row(f"{step} {p}", "so", float(i < times and (p + step % 2) % 8 < solved), step)
            for p in range(8)
            for i in range(4)
        ]
        write_step(tmp_path / "run", step, rows)
    page = tmp_path / "page.html"
    succeeds("browse", tmp_path / "run", "--out", page)
    assert ("Pass@1 rises while Pass@4 falls" in page.read_text()) == narrower


def test_a_problem_at_two_steps_counts_once(tmp_path):
    """Pass@1 by hand: P 2 of 2 and 0 of 2, so 1/2; Q 0 of 2: the mean 1/4, with the interval of `diver measure`."""
    outcomes = [(1, "P", 1), (1, "P", 1), (1, "Q", 0), (1, "Q", 0), (2, "P", 0), (2, "P", 0)]
    rows = [{"prompt": p, "response": f"r {i}", "correct": c, "step": s} for i, (s, p, c) in enumerate(outcomes)]
    of = source(write_rows(tmp_path / "x.jsonl", rows))
    of.read(None, 10)
    (row,) = summary(runs_of([of])).records()
    expected = measure.summary(measure.problem_table([*read_rollouts(tmp_path / "x.jsonl")], (1,)))["pass@1"]
    assert row["pass@1"] == 0.25 and (row["pass@1_low"], row["pass@1_high"]) == (expected.low, expected.high)


def test_entropy_of_log_probabilities_and_one_model_beside_another(tmp_path):
    rows = [
        {"prompt": "Q", "response": r, "correct": c, "logprobs": lp, "model": m}
        for m, r, c, lp in (
            ("x", "a", True, [-1.0, -2.0]), ("x", "b", False, [-4.0]), ("y", "a", True, None), ("y", "c", True, [-3.0]),
        )
    ]  # fmt: skip
    (tmp_path / "x.json").write_text(json.dumps(rows))
    of = source(tmp_path / "x.json", by="model")
    of.read(None, 10)
    table = {r["run"]: r for r in summary(runs_of([of])).records()}
    assert [*table] == ["x", "y"]
    assert table["x"]["policy/entropy:correct"] == 1.5 and table["x"]["policy/entropy:wrong"] == 4
    assert table["x"]["policy/entropy"] == pytest.approx((1.5 + 4) / 2) and table["y"]["policy/entropy"] == 3
    assert table["y"]["pass@1"] == 1 and table["y"]["group/solve_all"] == 1 and table["x"]["group/mixed"] == 1
    assert 'id="curves"' not in render([of], 10, 0.5)  # nothing says of which step the rollouts are


def test_a_budget_reads_beginnings_of_files_over_all_steps_and_whole_groups_only(tmp_path, monkeypatch):
    monkeypatch.setattr("diver.pages.source.POINTS", points := 5)
    text = "word " * 400
    for step in range(1, 2 * points + 1):
        write_step(tmp_path / "big", step, [verl_row(f"P{i // 4}", f"{text}{i}", 1.0, step) for i in range(20)])
    of = source(tmp_path / "big")
    one = of.files[0].size
    of.read(points * one // 2, measured=4)
    assert len(of.contents) == points and {f.step for f in of.contents} >= {1, 2 * points}
    tables = [content.table for content in of.contents.values()]
    assert {size for table in tables for size in table["responses"]} == {4} and {*map(len, tables)} == {2}
    assert not any(content.whole for content in of.contents.values())
    html = render([of], 10, 0.5)
    assert "read so far is the beginning of 5 of its 10 files, evenly spaced over the steps; groups smaller" in html
    of.read(None, 4)  # the others, whole
    assert not of.missing and len(runs_of([of])[0].table) == points * 2 + points * 5
    whole = source(tmp_path / "big")
    whole.read(None, 4)
    assert len(runs_of([whole])[0].table) == 2 * points * 5 and "--all" not in render([whole], 10, 0.5)
    assert len(whole.contents) * 1 >= sum(len(c.sample.groups()) for c in whole.contents.values())


def test_a_group_that_the_share_of_a_file_cuts_off_is_not_counted(tmp_path):
    """Four wrong responses, then four right ones, to P and then to Q:
    a quarter of the file has half of the first group."""
    rows = [verl_row(p, f"{'word ' * 100}{i}", float(i >= 4), 1) for p in "PQ" for i in range(8)]
    write_step(tmp_path / "run", 1, rows)
    of = source(tmp_path / "run")
    of.read(of.files[0].size // 4, 4)
    (table,) = (run.table for run in runs_of([of]))
    assert (len(table), table["pass@1"].mean(), table["group/mixed"].mean()) == (2, 0.5, 1)


def test_diversity_is_measured_of_each_model_at_random(tmp_path, monkeypatch):
    """Of x all of the first 50 groups are alike, and the last 50 are not: a TD of 1/2 is expected, not 0."""
    rows = [
        {"model": m, "problem": f"{i}", "response": f"{r if i >= 50 or m == 'y' else 'a'} {m}", "correct": 1}
        for m in "xy"
        for i in range(100)
        for r in "bc"
    ]
    of = source(write_rows(tmp_path / "x.jsonl", rows), by="model")
    of.read(None, measured=40)
    x, y = (run.table for run in runs_of([of]))
    assert (len(x), len(y)) == (100, 100) and x["pass@1"].count() == 100
    x, y = x["diversity/textual"], y["diversity/textual"]
    assert x.count() == y.count() == 20 and 0 < x.mean() < y.mean()
    many = source(write_rows(tmp_path / "steps.jsonl", [r | {"step": int(r["problem"]) % 10} for r in rows]))
    many.read(None, measured=4)  # fewer than there are steps
    measured = [*runs_of([many])[0].table.groupby("step")["diversity/textual"].count()]
    assert len(measured) == 10 and sum(measured) == 4 and max(measured) == 1


def test_a_port_in_use_is_told_before_anything_is_read(tmp_path):
    with server(Page(), 0) as other:
        port = other.server_port
        message = fails("browse", tmp_path / "none", "--watch", "--port", port)
    assert f"--port {port}: Address already in use; choose another, or 0 for a free one" in message


def watched(of):
    """A look as --watch takes it; whether there was anything else to show."""
    return of.read_more(browse.BYTES, browse.MEASURED)


def test_a_run_that_is_watched_says_what_is_true_now(tmp_path):
    """A folder that is made later, a row that is being written, a file that is written anew with as many bytes."""
    of = Source("run", tmp_path / "run", Columns(), "", 10, 0.5)
    assert watched(of) and not watched(of) and of.notes == [f"{tmp_path / 'run'}: no such file or folder in {tmp_path}"]
    dump(tmp_path / "run", (1,))
    file = tmp_path / "run" / "1.jsonl"
    content = file.read_text()
    file.write_text(content[:-30])
    assert watched(of) and "1.jsonl:8: not JSON" in of.notes[0] and len(of.notes) == 1
    file.write_text(content)
    assert watched(of) and of.notes == [] and runs_of([of])[0].table["pass@1"].mean() == 0.125
    assert not watched(of)
    file.write_text(content.replace('"score": 1.0', '"score": 0.0'))
    os.utime(file, (2e9, 2e9))
    (tmp_path / "run" / "2.jsonl").symlink_to("nowhere")
    assert file.stat().st_size == len(content) and watched(of)
    assert of.notes == [] and runs_of([of])[0].table["pass@1"].mean() == 0
    file.unlink()
    assert watched(of) and "no .jsonl" in of.notes[0]


def test_a_folder_that_cannot_be_looked_at_is_looked_at_again(tmp_path, monkeypatch):
    of = source(dump(tmp_path / "run"))
    watched(of)

    def gone(*_):
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr("diver.pages.source.rollout_files", gone)
        assert watched(of) and of.notes == ["[Errno 116] Stale file handle"]
    assert watched(of) and of.notes == [] and len(runs_of([of])[0].table) == 6


def test_a_client_that_leaves_early_is_no_error(capsys):
    """Both before the answer, which is longer than any buffer, and in the middle of its request."""
    page = Page()
    page.replace("1", "x" * 20_000_000)
    with server(page, 0) as http:
        serving = threading.Thread(target=http.serve_forever, daemon=True)
        serving.start()
        before = {*threading.enumerate()}
        for request in (f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{http.server_port}\r\n\r\n", "GET / HT"):
            with socket.create_connection(("127.0.0.1", http.server_port)) as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closes by a reset
                client.sendall(request.encode())
                client.recv(1) if request.endswith("\n") else None
        with urllib.request.urlopen(f"http://127.0.0.1:{http.server_port}/version") as answer:
            assert answer.read() == b"1"  # it still answers, and has taken the two before
        for thread in {*threading.enumerate()} - before:
            thread.join()
        http.shutdown()
    assert capsys.readouterr().err == ""


def test_what_was_read_in_part_is_read_on(tmp_path):
    """Of 200 groups of two an eighth, a quarter and half; then all, and nothing more."""
    rows = [{"problem": f"{i // 2:03}", "response": f"some words {i:03}", "correct": 1} for i in range(400)]
    file = write_rows(tmp_path / "x.jsonl", rows)
    of, size = source(file), file.stat().st_size // 8
    groups = []
    while of.read(size, 4, growing=True):
        groups.append(len(runs_of([of])[0].table))
    assert groups == [25, 50, 100, 200] and not of.missing
    of, size = source(write_rows(tmp_path / "y.jsonl", rows)), file.stat().st_size // 8
    assert of.read(size, 4, growing=True) and of.read(size, 4, growing=True)
    write_rows(tmp_path / "y.jsonl", [*rows, rows[-1]])
    of.look()  # it has grown: what is shown of it does not become less
    assert of.read(size, 4, growing=True) and len(runs_of([of])[0].table) == 50


@pytest.mark.parametrize("count", [1, 2])
def test_a_response_longer_than_what_is_read_at_first_is_read(tmp_path, monkeypatch, count):
    """As one of 42 million characters, of which 40 are read; here 5,000 of which 1,000."""
    monkeypatch.setattr(browse, "BYTES", 1000)
    rows = [{"prompt": "P", "response": "word " * 1000, "reward": i} for i in range(count)]
    printed = succeeds("browse", write_rows(tmp_path / "x.jsonl", rows), "--out", tmp_path / "x.html")
    assert "1000.0" in printed and ("Pass@2" in printed) == (count == 2)


def test_what_is_read_is_counted_in_bytes_of_the_file_and_not_of_its_texts(tmp_path):
    """Rows of NeMo-RL and prime-rl are mostly numbers of tokens."""
    numbers = list(range(2000))
    rows = [{"prompt": f"Q{i // 2}", "response": "r", "correct": 1, "token_ids": numbers} for i in range(40)]
    path = tmp_path / "x.jsonl"
    write_rows(path, rows)
    assert rows_within(path, path.stat().st_size // 4) in (9, 10) and rows_within(path, 1) == 1
    of = source(path)
    of.read(path.stat().st_size // 4, 4)
    assert runs_of([of])[0].table["responses"].sum() in (8, 10)
    pd.DataFrame(rows).to_parquet(tmp_path / "x.parquet")
    assert rows_within(tmp_path / "x.parquet", (tmp_path / "x.parquet").stat().st_size // 4) in (9, 10)
    (tmp_path / "y.parquet").write_bytes(b"cut off")
    assert rows_within(tmp_path / "x.csv", 10) is rows_within(tmp_path / "y.parquet", 3) is None


def test_a_batch_that_trl_logs_twice_counts_once_and_a_broken_file_is_left_out(tmp_path):
    folder = tmp_path / "completions"
    folder.mkdir()
    for step, texts in ((1, "ab"), (2, "ab"), (3, "cd")):
        table = {"step": step, "prompt": "Q", "completion": [*texts], "accuracy": [1.0, 0.0], "advantage": [0.5, -0.5]}
        pd.DataFrame(table).to_parquet(folder / f"completions_{step:05d}.parquet")
    (folder / "completions_00004.parquet").write_bytes(b"cut off")
    of = source(tmp_path)
    of.read(None, 10)
    (run,) = runs_of([of])
    assert sorted({*run.table["step"]}) == [1, 3] and run.table["responses"].sum() == 4
    notes = " ".join(of.notes)
    assert (
        "completions_00002.parquet: the same completions" in notes
        and "completions_00004.parquet: not a readable" in notes
    )


def test_what_trl_logs_twice_is_read_in_any_order(tmp_path, monkeypatch):
    """First the first and the last of four files, then the others, which repeat them."""
    monkeypatch.setattr("diver.pages.source.POINTS", 2)
    for step, texts in ((1, "ab"), (2, "ab"), (3, "cd"), (4, "cd")):
        rows = [{"step": step, "prompt": "Q", "completion": t, "accuracy": 1.0, "advantage": 0.5} for t in texts]
        write_rows(tmp_path / "completions" / f"completions_{step:05d}.jsonl", rows)
    of = source(tmp_path)
    assert of.read(2 * of.files[0].size, 4) and of.read(2 * of.files[0].size, 4) and not of.missing
    assert (
        sorted({*runs_of([of])[0].table["step"]}) == [1, 4]
        and "completions_00001.jsonl, which TRL logs again" in of.notes[0]
    )


def test_a_sample_is_bounded_and_does_not_depend_on_the_order():
    groups = [Group(Problem(f"p{i}", "", ""), (Rollout("x" * 10),)) for i in range(50)]
    first, second = Sample(5, 1000), Sample(5, 1000)
    for a, b in zip(groups, reversed(groups), strict=True):
        first.add(a, {})
        second.add(b, {})
    assert {g.problem.id for g, _ in first.groups()} == {g.problem.id for g, _ in second.groups()}
    assert len(first.groups()) == 5
    first.limit(5, 25)
    assert len(first.groups()) == 2
    large = Sample(5, 1)
    large.add(groups[0], {})
    assert large.groups() == [(groups[0], {})]


def get(port, path="/", host=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host} if host else {})
    with urllib.request.urlopen(request, timeout=100) as answer:
        return answer.read().decode()


def test_a_run_that_goes_on_is_served_to_this_machine_alone(tmp_path, monkeypatch, capsys):
    folder = dump(tmp_path / "run", (1,))
    servers, serving = [], threading.Event()

    def known(page, port):
        servers.append(server(page, port))
        serving.set()
        return servers[0]

    monkeypatch.setattr(serve, "EVERY", 0.05)
    monkeypatch.setattr(serve, "server", known)
    config = browse.Browse(rollouts=(str(folder),), watch=True)
    thread = threading.Thread(target=browse.run, args=(config,))
    thread.start()
    try:
        assert serving.wait(30)
        (http,) = servers
        port = http.server_port
        assert http.server_address[0] == "127.0.0.1"
        html = get(port)
        assert lines(data_of(html), "pass@1")[0, ""] == ([1], [0.125]) and "; connect-src 'self'\"" in html
        version = get(port, "/version")
        assert data_of(html)["version"] == version == "1"
        for path, host, code in (("/../etc/passwd", None, 404), ("/", "evil.example:80", 403)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                get(port, path, host)
            assert refused.value.code == code
        (folder / "2.jsonl").write_text('{"input": "P", "out')  # half a row, which is being written
        dump(folder, (2,))
        for _ in range(600):
            if get(port, "/version") not in ("1", "2") or lines(data_of(get(port)), "pass@1")[0, ""][0] == [1, 2]:
                break
        assert lines(data_of(get(port)), "pass@1")[0, ""] == ([1, 2], [0.125, 0.25])
    finally:
        servers[0].shutdown()
        thread.join(30)
    assert not thread.is_alive() and f"http://127.0.0.1:{port}/" in capsys.readouterr().out


def test_what_cannot_be_shown_is_one_line(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"problem": "Q", "answer": "7"}\n')
    (tmp_path / "y.jsonl").write_text("")
    assert "x.jsonl:1: no response: found problem, answer" in fails("browse", tmp_path / "x.jsonl")
    assert "y.jsonl: empty, not one response" in fails("browse", tmp_path / "y.jsonl")
    assert "name at least one file or folder of rollouts" in fails("browse")
    assert "two of the paths have the same name" in fails("browse", f"x={tmp_path / 'x.jsonl'}", tmp_path / "x.jsonl")


def test_what_is_not_its_own_page_is_not_replaced(tmp_path):
    """Not what it reads, neither by the page nor by a table beside it, and no file of another origin."""
    rows = "problem,response\nQ,a\nQ,b\n"
    for name in ("a.csv", "new.csv", "notes.html"):
        (tmp_path / name).write_text(rows)
    for options, message in [
        (["--out", "a.csv"], "--out: would replace a.csv, which is read; choose another --out"),
        (["--out", "a.html", "--format", "csv"], "--out: would replace a.csv, which is read"),
        (["--out", "new.html", "--format", "csv"], "--out: would replace new.csv, which this command did not write"),
        (["--out", "notes.html"], "--out notes.html: exists and is not a page that diver wrote; name another file"),
        (["--out", "."], "--out .: is a folder; name the page, such as page.html"),
    ]:
        assert message in fails("browse", "a.csv", *options, cwd=tmp_path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == dict.fromkeys(
        ("a.csv", "new.csv", "notes.html"), rows
    )
    for _ in range(2):  # its own page is replaced
        succeeds("browse", "a.csv", "--out", "b.html", "--format", "csv", cwd=tmp_path)


def test_what_has_no_value_is_said_in_the_terminal_and_on_the_page(tmp_path):
    """A response alone differs from none: its diversity is not defined. TD is over Q and R."""
    rows = [
        {"problem": p, "response": r, "correct": c} for p, r, c in (("P", "a b", 1), ("Q", "a b", 1), ("Q", "c d", 0))
    ]
    write_rows(tmp_path / "x.jsonl", [*rows, {"problem": "R", "response": "e"}, {"problem": "R", "response": "e"}])
    notes = (
        "x: 2 of 5 responses have no outcome: Pass@k leaves them out\n",
        "x: 1 of 3 groups are single responses, whose diversity is not defined: it is left out",
    )
    printed = succeeds("browse", "x.jsonl", cwd=tmp_path)
    page = (tmp_path / "browse.html").read_text()
    for note in notes:
        assert note in printed and note.strip() in page
    assert re.search(r"\| TD +\| +0.500 \[", printed)  # of Q 1 and of R 0
    unknown = succeeds("browse", write_rows(tmp_path / "y.jsonl", [{"problem": "Q", "response": "a"}]), cwd=tmp_path)
    assert "y: no response has an outcome, so no Pass@k; --outcome names its column" in unknown


def test_a_response_without_an_outcome_is_left_out_of_its_group_as_in_diver_eval(tmp_path):
    """P has 1 of 3 known ones correct, and Q 2 of 2: Pass@1 is 2/3 and Pass@2 is (2/3 + 1) / 2. They were those of Q.

    All pairs of correct responses differ, so 2 samples of P have 2/3 solutions, and those of Q have 2.
    """
    known = {"P": (1, 0, 0, None), "Q": (1, 1, None, None), "R": (None, None, None, None)}
    rows = [{"problem": p, "response": f"$x = {i}$", "correct": c} for p, of in known.items() for i, c in enumerate(of)]
    (group, _, unknown) = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert measure.group_row(group, (1, 2, 4)) | {"words": 0} == pytest.approx(
        {"pass@1": 1 / 3, "pass@2": 2 / 3, "pass@4": math.nan, "words": 0} | dict.fromkeys(PAIR_KINDS, math.nan),
        nan_ok=True,
    )
    assert math.isnan(measure.group_row(unknown, (1,))["pass@1"])
    kinds = [name for name in outcome_values(group, 0.5) if name.startswith("group/")]
    assert not kinds and diversity_values(group, 0.5)["distinct@2"] == pytest.approx(2 / 3)
    measured = succeeds("measure", tmp_path / "x.jsonl", "--k", "1,2,4", "--format", "csv")
    (record,) = csv.DictReader(io.StringIO(measured))
    assert float(record["pass@1"]) == pytest.approx(2 / 3) and float(record["pass@2"]) == pytest.approx(5 / 6)
    browsed = succeeds("browse", tmp_path / "x.jsonl", "--out", tmp_path / "page.html")
    assert re.search(r"\| Pass@1 +\| +66.7 \[", browsed) and re.search(r"\| Pass@2 +\| +83.3 \[", browsed)
    assert re.search(r"\| written differently@2 +\| +1.3 \[", browsed)


def test_of_a_large_group_the_diversity_of_the_first_64_is_measured():
    """A page of 10 GB would else take hours: TD is of all pairs."""
    texts = [f"{i} and {i * i} make {i + i * i}" for i in range(70)]
    many, few = (
        Group(Problem("p", "?", "1"), tuple(Rollout(t, reward=Reward(float(i % 2))) for i, t in enumerate(texts[:n])))
        for n in (70, 64)
    )
    found = diversity_values(many, 0.5)
    assert found == diversity_values(few, 0.5) and found["diversity/textual"] == pytest.approx(
        textual_diversity(texts[:64]).mean()
    )


def test_intervals_end_where_values_do(tmp_path):
    """Student's interval of TD 0 and 1 over two groups is 0.5 +- 12.7 * 0.5, and that of 2 and 1 words 1.5 +- 6.4."""
    rows = [
        {"problem": p, "response": r, "correct": 0} for p, r in (("Q", "a b"), ("Q", "c d"), ("R", "e"), ("R", "e"))
    ]
    printed = succeeds("browse", write_rows(tmp_path / "x.jsonl", rows), "--out", tmp_path / "x.html")
    assert re.search(r"\| TD +\| 0.500 \[0.000, 1.000\] \|", printed), printed
    assert re.search(r"\| TD, wrong +\| 0.500 \[0.000, 1.000\] \|", printed), printed
    assert re.search(r"\| words +\| +1.5 \[0.0, 7.9\] \|", printed), printed


def test_steps_in_the_names_of_files_make_the_groups_of_measure(tmp_path):
    for step in (1, 2, 3):
        rows = [{"problem": p, "response": f"{step} {i}"} for p in "PQR" for i in range(2)]
        write_rows(tmp_path / "run" / f"step_{step}.jsonl", rows)
    of = source(tmp_path / "run")
    of.read(None, 9)
    browsed = {
        (g.problem.id, g.problem.meta["step"], *g.responses) for c in of.contents.values() for g, _ in c.sample.groups()
    }
    measured = {(g.problem.id, g.problem.meta["step"], *g.responses) for g in read_rollouts(tmp_path / "run")}
    assert browsed == measured and len(measured) == 9 and sorted({*runs_of([of])[0].table["step"]}) == [1, 2, 3]
