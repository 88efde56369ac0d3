"""Tables as CSV, LaTeX, parquet and Markdown, figures as PNG, SVG and PDF: what the commands print and write."""

import csv
import dataclasses
import io
import json
import math
import os
import subprocess
import sys
import warnings

import pandas as pd
import pytest
from diver_command import diver, fails, succeeds
from rows import write_rows

from diver.core.figures import write_intervals
from diver.core.files import to_json
from diver.core.statistics import Estimate
from diver.core.tables import Measure, Table, export, markdown, write_table
from diver.core.types import DiverError, Grade, Problem
from diver.evaluate.evaluate import Sample, reduce

TABLE = Table(
    "model_name",
    [Measure("problems"), Measure("pass@1", "Pass@1", 100), Measure("td", "TD", digits=3), Measure("note")],
    {
        r"a_b & 50% {x} \y ~ ^": [1319, Estimate(0.5, 0.25, 0.75), 0.12345, "–"],
        "c,d": [2, Estimate(1.0, math.nan, math.nan), math.nan, None],
    },
)


def test_a_table_without_any_interval_is_no_figure(tmp_path):
    table = Table("model", [Measure("problems")], {"a": [3]})
    with pytest.raises(DiverError, match="--figures: no measure of this table has an interval"):
        write_intervals(table, tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_the_intervals_have_room_beside_long_names(tmp_path):
    """The names of evaluations are their paths. Without room, matplotlib warns that the axes have no size."""
    names = [f"runs/a-method-with-a-long-name/eval/step_{i}.json: countdown Pass@{i}" for i in range(2)]
    table = Table("m", [Measure("gain")], {name: [Estimate(0.5, 0.2, 0.8)] for name in names})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_intervals(table, tmp_path / "x.svg")
    assert names[0] in (tmp_path / "x.svg").read_text()


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_a_table_in_every_format(tmp_path):
    first, second = rows_of(export(TABLE, "csv"))
    assert first == {
        "model_name": r"a_b & 50% {x} \y ~ ^", "problems": "1319", "pass@1": "0.5", "pass@1_low": "0.25",
        "pass@1_high": "0.75",
        "td": "0.12345", "note": "–",
    }  # fmt: skip
    assert second["model_name"] == "c,d" and (second["pass@1"], second["pass@1_low"], second["td"]) == ("1.0", "", "")
    latex = export(TABLE, "latex").splitlines()
    assert latex[0] == r"\begin{tabular}{lrrrr}" and latex[-1] == r"\end{tabular}"
    assert latex[2] == r"model\_name & problems & Pass@1 & TD & note \\"
    name = r"a\_b \& 50\% \{x\} \textbackslash{}y \textasciitilde{} \textasciicircum{}"
    assert latex[4] == rf"{name} & 1,319 & 50.0 [25.0, 75.0] & 0.123 & -- \\"
    assert latex[5] == r"c,d & 2 & 100.0 & -- & -- \\"
    read = pd.read_parquet(write_table(TABLE, tmp_path, "parquet"))
    assert read["pass@1_low"][0] == 0.25 and math.isnan(read["td"][1]) and read["problems"].tolist() == [1319, 2]
    assert "| 50.0 [25.0, 75.0] |" in export(TABLE, "markdown")


def test_no_cell_of_csv_is_a_formula_and_numbers_stay_numbers(tmp_path):
    """OWASP, "CSV Injection": an apostrophe before = + - @, tab and newline, and the same signs of full width.

    A return, behind which a row would begin, is replaced as everywhere else.
    """
    formulas = ["=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\n=1", "\uff1d1+1", "-x", "--", "-inf"]
    others = ["a=1", "'=1", "-1", "+1.5", "-2.5e-3", "-.5", "–", "", " =1", "model-a"]
    rows = {name: [-0.5, -3, Estimate(-0.1, -0.2, 0.1), name] for name in formulas + others}
    names = [Measure("change"), Measure("-count"), Measure("estimate"), Measure("text")]
    header, *found = csv.reader(io.StringIO(export(Table("=of", names, rows), "csv"), newline=""))
    assert header == ["'=of", "change", "'-count", "estimate", "estimate_low", "estimate_high", "text"]
    assert [row[0] for row in found] == [f"'{name}" for name in formulas] + others
    assert all(row[1:6] == ["-0.5", "-3", "-0.1", "-0.2", "0.1"] and row[6] == row[0] for row in found)
    assert export(Table("of", [], {"a\r=1+1": []}), "csv") == "of\na\ufffd=1+1\n"
    assert export(Table("=of", [], {}), "csv") == "'=of\n"
    responses = [{"problem": "Q", "response": "a", "model": name} for name in ("=cmd|' /C calc'!A0", "b")]
    path = write_rows(tmp_path / "x.jsonl", responses)
    assert succeeds("measure", path, "--by", "model", "--format", "csv").splitlines()[1].startswith("'=cmd|")


def test_names_that_latex_markdown_and_mathtext_would_read_as_their_own(tmp_path):
    table = Table("m", [Measure("n")], {"[base] a|b": [1], "*c": [2], "d\ne": [3], "$\\x{$": [Estimate(0.5, 0.2, 0.8)]})
    latex = export(table, "latex").splitlines()
    assert latex[4:8] == [
        r"{}[base] a|b & 1 \\", r"{}*c & 2 \\", r"d e & 3 \\", r"\$\textbackslash{}x\{\$ & 0.5 [0.2, 0.8] \\",
    ]  # fmt: skip
    lines = export(table, "markdown").splitlines()
    assert len(lines) == 6 and lines[2].startswith(r"| [base] a\|b |") and lines[4].startswith("| d e ")
    assert markdown(["", r"a\|b"], []).startswith(r"|  | a\|b |")  # escaped already
    write_intervals(table, tmp_path / "x.svg")
    assert r"$\x{$" in (tmp_path / "x.svg").read_text()


def test_numbers_of_latex_have_a_minus_sign_and_names_a_hyphen():
    measures = [Measure("gain", sign="+", scale=100), Measure("note")]
    table = Table("m", measures, {"lr -1": [Estimate(-0.006, -0.014, 0.002), "a-b, 1e-05, -3"]})
    row = export(table, "latex").splitlines()[4]
    assert row == r"lr -1 & $-$0.6 [$-$1.4, 0.2] & a-b, 1e-05, $-$3 \\"


def test_the_best_of_a_column_is_bold_in_latex_and_uncertainty_is_as_chosen():
    """Where the highest is best: the mean, and what is shown as equal to it; nothing is best among one or equals."""
    measures = [Measure("pass@1", "Pass@1", 100, best=True), Measure("length")]
    rows = {
        "a": [Estimate(0.5, 0.4, 0.62), Estimate(7.0, 6.0, 8.0)],
        "b": [Estimate(0.5001, 0.45, 0.55), Estimate(3.0, 1.0, 5.0)],
        "c": [Estimate(0.2, math.nan, math.nan), Estimate(math.nan, math.nan, math.nan)],
    }
    table = Table("m", measures, rows)
    first, *lines = export(table, "latex").splitlines()
    assert (
        first == "% Bold: the highest mean of the column, whether or not its difference from the others is significant."
    )
    assert lines[4:7] == [
        r"a & \textbf{50.0} [40.0, 62.0] & 7.0 [6.0, 8.0] \\", r"b & \textbf{50.0} [45.0, 55.0] & 3.0 [1.0, 5.0] \\",
        r"c & 20.0 & -- \\",
    ]  # fmt: skip
    halves = dataclasses.replace(table, uncertainty="plus-minus")
    assert halves.text()[1:] == [
        ["a", "50.0 ± 11.0", "7.0 ± 1.0"],
        ["b", "50.0 ± 5.0", "3.0 ± 2.0"],
        ["c", "20.0", "–"],
    ]
    assert r"a & \textbf{50.0} $\pm$ 11.0 & 7.0 $\pm$ 1.0 \\" in export(halves, "latex")
    assert dataclasses.replace(table, uncertainty="none").text()[1] == ["a", "50.0", "7.0"]
    for few in (["a"], ["a", "b"]):
        assert "textbf" not in export(Table("m", measures, {name: rows[name] for name in few}), "latex")


def test_kinds_of_figures_with_spaces_or_commas(rollouts, tmp_path):
    for number, words in enumerate((["--figures", "pdf", "svg"], ["--figures", "pdf,svg"], ["--figures=pdf,svg"])):
        out = tmp_path / str(number)
        before = [rollouts] if number else []
        after = [] if number else [rollouts]
        succeeds("measure", *before, "--out", out, *words, *after)
        assert sorted(path.name for path in out.glob("table.*")) == ["table.pdf", "table.svg"]


@pytest.fixture
def rollouts(tmp_path):
    rows = [
        {"prompt": q, "response": f"so $ {i} + {len(q)} $ is it", "correct": i < 2, "step": s, "model": m}
        for m in ("x", "y") for s in (1, 2) for q in ("Q", "QQ") for i in range(4)
    ]  # fmt: skip
    return write_rows(tmp_path / "mine.jsonl", rows)


def test_measure_and_browse_pipe_their_tables(rollouts, tmp_path):
    """Pass@1 of every group is 1/2, and each model is a row."""
    done = diver("measure", rollouts, "--by", "model", "--format", "csv", "--out", tmp_path / "out")
    assert done.returncode == 0 and [(r["rollouts"], r["problems"], r["pass@1"]) for r in rows_of(done.stdout)] == [
        ("x", "2", "0.5"),
        ("y", "2", "0.5"),
    ]
    assert "written: groups.jsonl, index.html, summary.json, table.csv" in done.stderr
    assert (tmp_path / "out" / "table.csv").read_text() == done.stdout
    page = tmp_path / "page.html"
    done = diver("browse", rollouts, "--by", "model", "--format", "latex", "--out", page)
    assert done.stdout.startswith(r"\begin{tabular}") and done.stderr.split()[-2:] == [
        str(page),
        str(page.with_suffix(".tex")),
    ]


@pytest.mark.slow
def test_figures_of_measure_and_browse(rollouts, tmp_path):
    succeeds("measure", rollouts, "--by", "model", "--out", tmp_path / "out", "--figures", "svg")
    assert ">Pass@1</text>" in (tmp_path / "out" / "table.svg").read_text()
    page = tmp_path / "page.html"
    succeeds("browse", rollouts, "--by", "model", "--out", page, "--figures", "svg,pdf,png")
    assert ">Pass@1, per cent</text>" in page.with_suffix(".svg").read_text()
    assert page.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "backend",
    [
        "module://matplotlib_inline.backend_inline",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("inline", "no-backend")),
    ],
)
def test_figures_are_saved_whatever_the_backend_of_the_notebook(rollouts, tmp_path, backend):
    """A notebook's `!diver` inherits MPLBACKEND, which may name a module of another environment."""
    page = tmp_path / "page.html"
    command = [
        sys.executable,
        "-m",
        "diver",
        "browse",
        str(rollouts),
        "--by",
        "model",
        "--out",
        str(page),
        "--figures",
        "png",
    ]
    environment = {**os.environ, "MPLBACKEND": backend}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def results(correct):
    """An evaluation of two problems, four samples each, `correct` of them correct."""
    problems = [Problem("a", "?", "7"), Problem("b", "?", "8")]
    right, wrong = Sample(Grade.CORRECT, "7", "x"), Sample(Grade.WRONG, "1", None)
    reduced = reduce(problems, {p.id: [right] * correct + [wrong] * (4 - correct) for p in problems}, (1, 2), "auto")
    about = {"title": "Sums", "problems": 2, "samples": 4, "k": [1, 2], "random_baseline": None, "template": "plain",
             "temperature": 1.0, "max_tokens": 8, "graders": ["math"]}  # fmt: skip
    return json.loads(to_json({"model": "m", "benchmarks": {"sums": {**about, **reduced}}}))


def test_a_comparison_as_csv_with_its_figure(tmp_path):
    for name, correct in (("before", 1), ("after", 3)):
        (tmp_path / f"{name}.json").write_text(json.dumps(results(correct)))
    flags = ["--format", "csv", "--out", tmp_path / "out", "--figures", "svg"]
    printed = succeeds("compare", tmp_path / "before.json", tmp_path / "after.json", *flags)
    by_name = {row["measure"]: row for row in rows_of(printed)}
    first = by_name["Sums Pass@1"]
    assert (first["base"], first["other"], first["change"]) == ("0.25", "0.75", "0.5")
    assert float(first["change_low"]) <= 0.5 <= float(first["change_high"]) and first["significant"] in "01"
    assert by_name["Sums Written differently"]["base"] == "1.0"
    assert (tmp_path / "out" / "comparison.csv").read_text() == printed
    assert "change, in points" in (tmp_path / "out" / "comparison.svg").read_text()
    assert "| Sums Pass@1 " in (tmp_path / "out" / "comparison.md").read_text()


def test_an_evaluation_without_figures(tmp_path):
    small = ("--model", "countdown", "--limit", 1, "--samples", 1, "--out", tmp_path / "out")
    assert "results:" in succeeds("eval", *small, "--figures", "") and not [*tmp_path.rglob("*.png")]


def test_where_an_export_cannot_go_is_one_line(rollouts):
    assert "--format parquet: is written to a file; name a folder with --out" in fails(
        "measure", rollouts, "--format", "parquet"
    )
    assert "figures.0: should be 'png', 'svg' or 'pdf', not 'gif'" in fails("browse", rollouts, "--figures", "gif")
    assert "--figures: is written to a file; name a folder with --out" in fails("grade", rollouts, "--figures", "png")
    assert "figures.0: should be 'png', 'svg' or 'pdf', not ','" in fails("measure", rollouts, "--figures", ",")
    told = "--format: parquet is a file; name a folder with --out"
    assert told in fails("eval", "runs/quickstart", "--format", "parquet")  # before anything is sampled, or read
    told = "--format parquet: is written to a file; name a folder with --out"
    assert told in fails("compare", "a.json", "b.json", "--format", "parquet")
    assert "--watch: writes nothing" in fails("browse", rollouts, "--watch", "--format", "csv")
