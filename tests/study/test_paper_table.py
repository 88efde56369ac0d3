import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diver.core.tables import escape_latex, escape_markdown
from diver.core.types import DiverError
from diver_paper import paper
from diver_paper.paper import Row
from diver_paper.paper_table import (
    beside_paper,
    latex,
    markdown,
    score,
    write_paper_table,
)
from diver_paper.reproduce import Arguments, reproduce

IN = {"aime24": 30.0, "aime25": 20.0, "amc": 50.0, "math500": 80.0, "minerva": 30.0, "olympiad": 40.0}
OUT = {"arc-c": 90.0, "gpqa": 30.0, "mmlu-pro": 45.0}


def cells(line):
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


def test_a_markdown_table_in_full():
    lines = [
        Row("base", {"aime24": 11.84, "aime25": 6.3, "amc": 43.1}),
        Row("a_b", {**IN, **OUT}, std={"amc": 1.25}, notes={"in": "why"}, group="Ours"),
    ]
    caption, blank, *rest = markdown(lines, "Main results").splitlines()
    assert (caption, blank) == ("Main results", "")
    assert [cells(row) for row in (rest[0], *rest[2:5])] == [
        [
            "Model",
            "AIME 24/25",
            "AMC",
            "MATH-500",
            "Minerva",
            "Olympiad",
            "Avg.",
            "ARC-c",
            "GPQA\\*",
            "MMLU-Pro",
            "Avg.",
        ],
        ["base", "11.8/6.3", "43.1", *"––––––––"],
        ["*Ours*", *[""] * 10],
        [
            "a\\_b",
            "**30.0**/**20.0**",
            "**50.0 ± 1.2**",
            "80.0",
            "30.0",
            "40.0",
            "41.7<sup>a</sup>",
            "90.0",
            "30.0",
            "45.0",
            "55.0",
        ],
    ]
    assert rest[5:] == ["", "<sup>a</sup> why", "", "\\* GPQA-diamond"]


def test_a_latex_table_in_full():
    lines = [
        Row("R&D_1", {"aime24": 10.0, "aime25": math.nan, "countdown": 50.0}, notes={"countdown": "50% of them"}),
        Row("b", {"aime25": 20.0, "countdown": 60.04}, std={"countdown": 0.5}, group="Ours #2"),
    ]
    assert latex(lines, "100% {real}") == (
        "\\begin{table*}[t]\n"
        "\\centering\n"
        "\\caption{100\\% \\{real\\}}\n"
        "\\begin{tabular}{lcccccc|c}\n"
        "\\toprule\n"
        " & \\multicolumn{6}{c}{\\textbf{In-Domain Performance}} & \\multicolumn{1}{c}{\\textbf{}} \\\\\n"
        "\\textbf{Model} & \\textbf{AIME 24/25} & \\textbf{AMC} & \\textbf{MATH-500} & \\textbf{Minerva} & "
        "\\textbf{Olympiad} & \\textbf{Avg.} & \\textbf{Countdown} \\\\\n"
        "\\midrule\n"
        "R\\&D\\_1 & 10.0/-- & -- & -- & -- & -- & -- & 50.0$^{a}$ \\\\\n"
        "\\midrule\n"
        "\\multicolumn{8}{c}{Ours \\#2} \\\\\n"
        "\\midrule\n"
        "b & --/20.0 & -- & -- & -- & -- & -- & \\textbf{60.0 $\\pm$ 0.5} \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\smallskip{\\footnotesize $^{a}$ 50\\% of them}\n"
        "\\end{table*}\n"
    )


@pytest.mark.parametrize("missing", [*IN, *OUT])
def test_an_average_only_where_all_its_parts_are_there(missing):
    scores = {**IN, **OUT}
    del scores[missing]
    line = Row("m", scores)
    assert math.isnan(score(line, "in")) == (missing in IN) and math.isnan(score(line, "out")) == (missing in OUT)
    assert score(Row("m", {**IN, **OUT}), "in") == pytest.approx(250 / 6) and score(Row("m", OUT), "out") == 55
    assert score(Row("m", {**IN, "in": 42.8}), "in") == 42.8  # printed averages are kept


def test_blocks_without_a_score_are_left_out():
    assert cells(markdown([Row("m", {"countdown": 5.0})]).splitlines()[0]) == ["Model", "Countdown"]
    assert cells(markdown([Row("m", {"mine": 5.0})]).splitlines()[0]) == ["Model", "mine"]
    assert "Out-of-Domain" not in latex([Row("m", IN)]) and "Performance" not in latex([Row("m", {"mine": 1.0})])


def test_the_best_as_printed_is_bold_and_ties_are_all_bold():
    lines = [Row("a", {"amc": 50.04}), Row("b", {"amc": 50.01}), Row("c", {"amc": 49.9})]
    column = [cells(row)[2] for row in markdown(lines).splitlines()[2:]]
    assert column == ["**50.0**", "**50.0**", "49.9"]
    assert "**" not in markdown(lines[:1])


def test_equal_notes_share_a_mark_and_many_notes_have_one_each():
    shared = [Row(str(i), {"amc": 1.0 + i}, notes={"amc": "same"}) for i in range(3)]
    assert markdown(shared).count("<sup>a</sup>") == 4 and "<sup>b</sup>" not in markdown(shared)
    many = markdown([Row(str(i), {"amc": 1.0}, notes={"amc": f"note {i}"}) for i in range(28)])
    assert all(f"<sup>{mark}</sup> note {i}\n" in many for i, mark in ((0, "a"), (25, "z"), (26, "aa"), (27, "ab")))


def test_no_rows():
    for table in (markdown, latex):
        for lines in ([], [Row("m", {})]):
            with pytest.raises(ValueError, match="at least one row with a score"):
                table(lines)


def test_escapes():
    assert escape_latex("a\\b~c^d&e%f$g#h_i{j}") == (
        r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\&e\%f\$g\#h\_i\{j\}"
    )
    assert escape_markdown("a|b*c_d`e<f>[g]\nh\\") == r"a\|b\*c\_d\`e\<f\>\[g\] h\\"


@given(st.text("ab0 \\~^&%$#_{}|*<>/=+", max_size=30))
def test_escaped_text_means_itself_to_a_reader_of_latex(text):
    reader = pytest.importorskip("pylatexenc.latex2text").LatexNodes2Text()
    read = reader.latex_to_text(escape_latex(text)).replace("\N{MODIFIER LETTER CIRCUMFLEX ACCENT}", "^")
    assert read.split() == text.split()
    unescaped = re.sub(r"\\[\\&%$#_{}]", "", latex([Row(text, {"amc": 1.0}, notes={"amc": text}, group=text)], text))
    assert unescaped.count("{") == unescaped.count("}")


def test_ours_beside_the_paper():
    ours = {"DIVER-MIX": {**IN, **OUT}, "my model": IN}
    lines = beside_paper(ours)
    names = [line.model for line in lines]
    assert names.index("DIVER-MIX, paper") == names.index("DIVER-MIX, ours") + 1 and names[-1] == "my model"
    assert len(lines) == len(paper.TABLES["main"]) + 2


def test_the_bold_numbers_of_the_main_table_are_the_bold_ones_of_the_paper():
    """Bold in the paper: the best of each column."""
    bold = {
        "SimpleRL-Zoo": ["25.2"],
        "OpenReasoner-Zero": ["47.1", "58.7"],
        "PRIME-Zero": ["39.0"],
        "DIVER-TD": ["16.9", "42.3"],
        "DIVER-MIX": ["60.9", "84.4", "43.1", "84.1", "58.8"],
    }
    found = {}
    for row in markdown(beside_paper({})).splitlines():
        if numbers := re.findall(r"\*\*([\d.]+)\*\*", row):
            found[cells(row)[0].removesuffix(", paper")] = numbers
    assert found == bold


def test_errata_stand_at_their_numbers():
    text = markdown([row for row in beside_paper({}, "pass@k") if row.group == "k=32"])
    diver = cells(next(row for row in text.splitlines() if row.startswith("| DIVER")))
    marks = dict(re.findall(r"^<sup>(\w+)</sup> (.*)$", text, re.MULTILINE))
    assert len(marks) == 5
    average = re.search(r"70\.5 ± 0\.1\*\*<sup>(\w)</sup>", diver[6])[1]
    assert marks[average] == "the printed average is 70.5, the mean of the printed columns is 71.5"
    aime = re.search(r"48\.9 ± 1\.9\*\*<sup>(\w)</sup>", diver[1])[1]
    assert "50.0 in the paper's text" in marks[aime]


@pytest.mark.parametrize("table", paper.TABLES)
def test_every_table_of_the_paper_can_be_laid_out(table):
    rows = len(paper.TABLES[table])
    assert sum(", paper " in row for row in markdown(beside_paper({}, table)).splitlines()) == rows
    text = latex(beside_paper({}, table))
    body = [row for row in text.splitlines() if ", paper &" in row]
    width = len(re.search(r"\\begin\{tabular\}\{([lc|]+)\}", text)[1].replace("|", ""))
    assert len(body) == rows and {row.count(" & ") + 1 for row in body} == {width}


def test_the_table_is_written_from_results(tmp_path):
    found = {name: {"samples": 4, "estimates": {"avg@4": {"mean": 0.125}}} for name in ("math500", "countdown", "mine")}
    (tmp_path / "results.json").write_text(json.dumps({"model": "m", "benchmarks": found}))
    text = write_paper_table({"DIVER-MIX": tmp_path, "m": tmp_path}, tmp_path / "out")
    ours = [cells(row) for row in text.splitlines() if "DIVER-MIX, ours" in row or row.startswith("| m ")]
    assert len(ours) == 2 and all(row[3] == "12.5" and row.count("12.5") == 1 for row in ours)
    assert (tmp_path / "out" / "paper.md").read_text() == text and "tabular" in (
        tmp_path / "out" / "paper.tex"
    ).read_text()


def test_the_command_takes_methods_and_rows_by_name(tmp_path, capsys):
    found = {"math500": {"samples": 1, "estimates": {"avg@1": {"mean": 0.5}}}}
    (tmp_path / "results.json").write_text(json.dumps({"model": "m", "benchmarks": found}))
    results = (f"diver-mix={tmp_path}", f"SimpleRL-Zoo={tmp_path}")
    reproduce(Arguments(name="main", results=results, out=tmp_path))
    assert re.findall(r"\| ([\w-]+), ours", capsys.readouterr().out) == ["SimpleRL-Zoo", "DIVER-MIX"]
    with pytest.raises(DiverError, match="--results x: must be NAME=FOLDER"):
        reproduce(Arguments(name="main", results=("x",)))
    with pytest.raises(DiverError, match="--results: is for main, not for judge"):
        reproduce(Arguments(name="judge", results=results))
