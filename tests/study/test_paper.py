import os
import re
from pathlib import Path

import pytest

from diver.core.types import Grade, Problem
from diver.grading import grade
from diver.tasks.benchmarks import load
from diver.tasks.templates import QUESTION, TEMPLATES, render
from diver_paper import paper

DATA = Path(os.environ.get("DIVER_DATA", Path(__file__).parents[3] / "shared" / "data"))
TEX = DATA.parent / "paper" / "diver.tex"
LABELS = {
    "main": "tab:main_results",
    "pass@k": "tab:pass@k",
    "larger-pass@k": "tab:larger_pass@k",
    "models": "tab:main_other_models",
    "hyperparameters": "tab:hyperparameter_comparison",
}
NUMBER = r"\d+(?:\.\d+)?"


def find(model, table="main", group=None):
    """The first row of that model, and group where one is given."""
    return next(r for r in paper.TABLES[table] if r.model == model and group in (None, r.group))


def printed_rows(label):
    """(model, [(score, std or None)]) of every row of a table of the paper's source."""
    body = TEX.read_text(encoding="utf-8").split(rf"\label{{{label}}}")[1].split(r"\end{tabular}")[0]
    body = "\n".join(line for line in body.splitlines() if not line.lstrip().startswith("%"))
    body = re.sub(r"\\c?midrule(\(lr\))?(\{\d+-\d+\})?", "", body)
    for words in (r"\\textcolor\{my_blue\}", r"\\textbf", r"\\underline", r"[{}$]"):
        body = re.sub(words, "", body)
    rows = []
    for line in body.split(r"\\"):
        cells = [cell.strip() for cell in line.replace(r"\pm", "±").split("&")]
        first = next((i for i, c in enumerate(cells) if re.fullmatch(rf"{NUMBER}(\s*±\s*{NUMBER})?(\s*/.*)?", c)), None)
        if first:
            scores = re.findall(rf"({NUMBER})(?:\s*±\s*({NUMBER}))?", " ".join(cells[first:]))
            rows.append((cells[first - 1], [(float(a), float(b) if b else None) for a, b in scores]))
    return rows


@pytest.mark.skipif(not TEX.is_file(), reason="no copy of the paper's source beside DIVER_DATA")
@pytest.mark.parametrize("table", LABELS)
def test_every_number_is_the_one_in_the_paper(table):
    printed, ours = printed_rows(LABELS[table]), paper.TABLES[table]
    assert len(printed) == len(ours)
    for (model, cells), row in zip(printed, ours, strict=True):
        spelt = model.replace("GPRO", "GRPO").replace("DVIER", "DIVER").replace("Higher", "higher")
        assert spelt.replace("(ours)", "") == row.model
        assert [score for score, _ in cells] == list(row.scores.values())
        assert [std for _, std in cells if std is not None] == list(row.std.values())


def test_tables_have_as_many_numbers_as_the_paper_prints():
    counts = {name: sum(len(r.scores) + len(r.std) for r in rows) for name, rows in paper.TABLES.items()}
    # rows x scores, and of Pass@k the 7 in-domain columns have a std
    assert counts == {
        "main": 10 * 11,
        "pass@k": 25 * (11 + 7),
        "larger-pass@k": 15 * 4,
        "models": 8 * 11,
        "hyperparameters": 8 * 7,
    }


def test_the_errata_are_exactly_the_averages_that_rounding_cannot_explain():
    """Columns and average are each rounded to 0.1: together they can be off by 0.1, counted in tenths here."""
    off = set()
    for table, rows in paper.TABLES.items():
        for row in rows:
            for average, columns in paper.AVERAGES.items():
                if average in row.scores:
                    tenths = [round(10 * row.scores[c]) for c in columns]
                    if abs(sum(tenths) - len(columns) * round(10 * row.scores[average])) > len(columns):
                        off.add((table, row.group, row.model, average))
    errata = {e[:4] for e in paper.ERRATA if e.text.startswith("the printed average")}
    assert off == errata
    assert errata == {
        ("pass@k", "k=16", "Qwen2.5-Math-7B", "in"),
        ("pass@k", "k=32", "Entropy-RL", "in"),
        ("pass@k", "k=32", "DIVER", "in"),
        ("models", "LLaMA-3.1-8B-Instruct", "GRPO w/ Clip-higher", "in"),
        ("hyperparameters", "t = 0.6", "DIVER", "in"),
    }


def test_the_errata_say_the_right_means():
    for erratum in paper.ERRATA:
        if erratum.text.startswith("the printed average"):
            row = find(erratum.model, erratum.table, erratum.group)
            printed, mean = re.findall(NUMBER, erratum.text)
            columns = paper.AVERAGES[erratum.column]
            assert float(printed) == row.scores[erratum.column]
            assert float(mean) == pytest.approx(sum(row.scores[c] for c in columns) / len(columns), abs=0.0051)
            assert row.notes[erratum.column] == erratum.text


def test_base_and_clip_higher_are_equal_out_of_domain_at_every_k_and_no_other_pair_is():
    for k in (2, 4, 8, 16, 32):
        scores = {
            r.model: tuple(r.scores[c] for c in paper.OUT_OF_DOMAIN)
            for r in paper.TABLES["pass@k"]
            if r.group == f"k={k}"
        }
        equal = {(a, b) for a in scores for b in scores if a < b and scores[a] == scores[b]}
        assert equal == {("GRPO w/ Clip-higher", "Qwen2.5-Math-7B")}
        assert any(e.group == f"k={k}" and e.column == "out" for e in paper.ERRATA)


def test_the_other_oddities_are_in_the_numbers():
    assert find("DIVER", "pass@k", "k=32").scores["aime25"] == 48.9
    assert find("DIVER", "pass@k", "k=32").scores["olympiad"] == 69.0
    pair = [find(m, "models", "Qwen2.5-Math-1.5B").scores for m in ("GRPO w/ Clip-higher", "DIVER")]
    assert [(s["arc-c"], s["gpqa"]) for s in pair] == [(59.5, 30.1), (33.2, 59.1)]
    aime = [[find(m).scores[c] for c in ("aime24", "aime25")] for m in ("DIVER-ED", "Pass@k Training")]
    assert aime[0] == aime[1] == [20.9, 15.7]


def test_every_erratum_belongs_to_a_number_and_no_number_has_two():
    for erratum in paper.ERRATA:
        assert erratum.column in find(erratum.model, erratum.table, erratum.group).scores
    assert len({e[:4] for e in paper.ERRATA}) == len(paper.ERRATA)
    assert set(find("DIVER", "pass@k", "k=32").notes) == {"in", "aime25", "olympiad"}
    assert find("DIVER-MIX").notes == {}


@pytest.mark.skipif(not TEX.is_file(), reason="no copy of the paper's source beside DIVER_DATA")
def test_the_text_says_what_the_errata_say_it_does():
    sentence = next(s for s in TEX.read_text(encoding="utf-8").splitlines() if s.startswith("Moreover, Pass@32"))
    assert r"\textbf{50.0} on AIME25" in sentence and r"\textbf{68.9} points on OlympiadBench" in sentence


PROBLEM = Problem("p", "What is {1} + 1?", "2")
ASKED = {  # template -> how its prompt begins and ends, and a response in the form that the model was trained to give
    "qwen-math": (
        "<|im_start|>system\nPlease reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n",
        "<|im_start|>user\nWhat is {1} + 1?<|im_end|>\n<|im_start|>assistant\n",
        "To add, count on. The answer is \\(\\boxed{2}\\).",
    ),
    "qwen-boxed": (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nWhat is {1} + 1?\n",
        "\nPlease reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n<|im_start|>assistant\n",
        "First, 1.\nThen, 1 more.\n\nThe final answer is: $\\boxed{2}$",
    ),
    "open-reasoner-zero": (
        "A conversation between User and Assistant. The User asks",
        "by the \\boxed{} tag.\nThis is the problem:\nWhat is {1} + 1?\nAssistant: <think>",
        " It could be \\boxed{3}. No: 2. </think> <answer> The sum is \\boxed{2}. </answer>",
    ),
    "prime-zero": (
        "A conversation between User and Assistant. The user asks",
        "</answer>. User: What is {1} + 1?\n\nPresent the answer in LaTex format: \\boxed{Your answer}. Assistant:",
        " <think> Is it 3? No. </think> <answer> \\boxed{2} </answer>",
    ),
}


def test_public_models_are_rows_of_the_main_table_and_have_templates():
    assert {m.row for m in paper.MODELS} == {
        r.model for r in paper.TABLES["main"] if r.group in ("", "Previous RLVR methods")
    }
    assert {m.template for m in paper.MODELS} == {*ASKED} <= {*TEMPLATES}
    assert all(m.path.count("/") == 1 and m.source.startswith("arXiv:") for m in paper.MODELS)


@pytest.mark.parametrize("template", ASKED)
def test_prompts_and_answers_of_public_models(template):
    begins, ends, response = ASKED[template]
    prompt = render(PROBLEM, template)
    assert prompt.startswith(begins) and prompt.endswith(ends)
    assert prompt.count(PROBLEM.prompt) == 1 and QUESTION not in prompt
    assert grade([(response, PROBLEM)]) == [Grade.CORRECT]
    assert grade([(response.replace("\\boxed{2}", "\\boxed{3}"), PROBLEM)]) == [Grade.WRONG]
    countdown = load("countdown", 0, limit=1).problems[0]
    assert countdown.prompt in render(countdown, template)
