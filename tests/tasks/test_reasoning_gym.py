"""reasoning-gym's tasks as a source of problems: every one loads and accepts its own answer, twenty train."""

import ast
import json
import sys
from dataclasses import replace

import pytest
from diver_command import fails, succeeds

from diver.core.files import read_jsonl
from diver.core.types import DiverError, Grade, Group, Rollout
from diver.grading import Verification, grade, verify, with_keys
from diver.recipe.data import Data, ReasoningGym, Source
from diver.tasks.testbeds import generate, is_testbed

PATIENT = Verification(timeout_s=120.0)  # on a busy machine 5 seconds of the clock are few of the processor


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(DiverError, match=r"reasoning_gym: not installed, .*: pip install .*\[reasoning-gym\]"):
        generate(Source(path="reasoning-gym:graph_color"), Data(), 1, held_out=False)


def test_a_function_in_a_module_that_is_called_as_a_testbed_is_no_testbed():
    assert is_testbed("maze") and is_testbed("reasoning-gym:maze") and is_testbed("reasoning-gym")
    assert not is_testbed("maze:problems") and not is_testbed("my_maze")


NO_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Tasks whose entries have no answer of their own."""


def one(task, **sizes):
    (problem,) = generate(
        Source(path=f"reasoning-gym:{task}"), Data(reasoning_gym=ReasoningGym(sizes=sizes)), 1, held_out=False
    )
    return problem


@pytest.fixture(scope="module")
def gym():
    pytest.importorskip("reasoning_gym")
    from diver.tasks import reasoning_gym

    return reasoning_gym


def evaluated(gym, task):
    """Its first problem whose reference answer SymPy did not leave as an integral."""
    return next(p for p in gym.problems(ReasoningGym(), 5, held_out=False, task=task) if "Integral" not in p.answer)


def echoes(problem, every_line):
    """The question, what it is made of, this under an operator, and with `every_line` its lines and parts of them."""
    entry = ast.literal_eval(problem.meta["entry"])["metadata"]
    premises, integrands = entry.get("premises", []), [entry["integrand"]] if "integrand" in entry else []
    lines = [line.strip() for line in problem.prompt.splitlines() if line.strip() and every_line]
    parts = [part.strip(" .?") for line in lines for part in (line, *line.split(":"), line.partition(" ")[2])]
    variable = entry.get("variable", "x")  # X in simple_integration
    of = [variable, problem.answer, *premises, *integrands]
    operators = [f"{name}({text}, {variable})" for name in ("Integral", "Derivative") for text in of]
    said = dict.fromkeys([problem.prompt, *parts, *premises, *operators])
    return [answer for answer in said if answer and not same(answer, problem.answer)]


@pytest.mark.parametrize("task", ["simple_integration", "intermediate_integration", "propositional_logic"])
def test_the_question_is_no_answer(gym, task):
    drawn = gym.problems(ReasoningGym(), 3, held_out=False, task=task)
    asked = [(answer, problem) for problem in drawn for answer in [*echoes(problem, every_line=False), "nan", ""]]
    entry = ast.literal_eval(drawn[0].meta["entry"])["metadata"]
    assert len(asked) >= 20 and (entry.get("integrand") or entry.get("premises"))
    grades = grade([(f"<answer>{answer}</answer>", problem) for answer, problem in asked], PATIENT)
    assert [answer for (answer, _), g in zip(asked, grades, strict=True) if g is Grade.CORRECT] == []


def test_an_evaluated_integral_and_a_conclusion_are_answers(gym):
    integral = evaluated(gym, "intermediate_integration")
    logic = one("propositional_logic")
    premises = repr({"answer": None, "metadata": {"premises": ["(P ∧ Q)", "(Q → R)"], "variables": ["P", "Q", "R"]}})
    logic = replace(logic, meta={**logic.meta, "entry": premises})
    answers = [(integral.answer, integral), ("(R ∨ P)", logic), ("(P ∧ Q)", logic), ("P∧Q", logic), ("(P → R)", logic)]
    grades = grade([(f"<answer>{answer}</answer>", problem) for answer, problem in answers], PATIENT)
    assert [str(g) for g in grades] == ["correct", "correct", "wrong", "wrong", "correct"]


@pytest.mark.slow
def test_the_question_is_no_answer_to_any_task(gym):
    asked = []
    for task in gym.tasks():
        drawn = gym.problems(ReasoningGym(), 2, held_out=False, task=task)
        asked += [(answer, problem) for problem in drawn for answer in echoes(problem, every_line=True)]
    grades = grade([(f"<answer>{answer}</answer>", problem) for answer, problem in asked], PATIENT)
    right = [(p.meta["task"], answer) for (answer, p), g in zip(asked, grades, strict=True) if g is Grade.CORRECT]
    assert right == []


@pytest.mark.slow
def test_every_task_loads_and_its_verifier_accepts_its_own_answer_in_a_worker(gym):
    problems = {task: one(task) for task in gym.tasks()}
    assert len(problems) > 100
    assert {task for task, problem in problems.items() if problem.answer == gym.UNKNOWN} == NO_ANSWER
    problems["intermediate_integration"] = evaluated(gym, "intermediate_integration")
    own = {task: problem for task, problem in problems.items() if task not in NO_ANSWER}
    grades = grade([(f"so\n<answer>{problem.answer}</answer>", problem) for problem in own.values()], PATIENT)
    assert {task for task, g in zip(own, grades, strict=True) if g is not Grade.CORRECT} == set()
    grades = grade([("<answer>\U0001f7e5 neither of them</answer>", problem) for problem in problems.values()], PATIENT)
    others = {task: g for task, g in zip(problems, grades, strict=True) if g is not Grade.WRONG}
    assert others == {"prime_factorization": Grade.ERROR}


HOSTILE = """
0 1 -1 2 1/0 nan NaN nan+nanj inf 1e400 {} [] [[]] [[0]] null true None yes No {"a":NaN} 6*4*1*1
""".split()


def same(answer, reference):
    """Whether it is the reference answer, as a number where both are one."""
    try:
        return float(answer) == float(reference)
    except ValueError:
        return answer.lower() == reference.lower()


@pytest.mark.slow
def test_no_constant_and_no_other_problems_answer_is_right(gym):
    """Of any task, unless it is the reference answer. Those that raise are the ones that docs/testbeds.md names."""
    asked = []
    for task in gym.tasks():
        drawn = gym.problems(ReasoningGym(), 2, held_out=False, task=task)
        for problem, other in zip(drawn, reversed(drawn), strict=True):
            asked += [(answer, problem) for answer in ["", *HOSTILE, other.answer] if not same(answer, problem.answer)]
    grades = grade([(f"<answer>{answer}</answer>", problem) for answer, problem in asked], PATIENT)
    graded = [(answer, problem.meta["task"], g) for (answer, problem), g in zip(asked, grades, strict=True)]
    assert [(answer, task) for answer, task, g in graded if g is Grade.CORRECT] == []
    raising = {task for _, task, g in graded if g not in (Grade.WRONG, Grade.NO_ANSWER)}
    assert raising == {"boxnet", "coin_flip", "game_of_life", "prime_factorization"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "entry", "right", "wrong"),
    [
        ("coin_flip", {"answer": "0.375"}, "0.375 3/8 0.37501", "0 0.3 0.37 0.3748 0.38"),
        ("coin_flip", {"answer": "3.051757812e-05"}, "1/32768 0.00003051 3.05e-5", "0 0.0 0.00003 0.0001 1"),
        ("coin_flip", {"answer": "0.9999694824"}, "32767/32768 0.9999695", "1 0.9 0.9999"),
        ("coin_flip", {"answer": "1"}, "1 1.0 8/8", "0.99999 1.00001 11"),
        ("complex_arithmetic", {"metadata": {"result": (3, -2)}}, "3-2i 3.0-2.0i", "nan NaN nan+nanj 3 inf"),
        ("game_of_life_halting", {"answer": "False"}, "False false", "True 0 no"),
        ("gsm_symbolic", {"answer": "1"}, "1 1.0 +1", "-1 1/2 1,2 01:1"),
        ("spell_backward", {"answer": "ytehtomoh"}, "ytehtomoh", "ytehtomohs ytehtomo"),  # 9 times 1/9 is above 1
        ("countdown", {"metadata": {"numbers": [1, 5, 2], "target": 3}}, "5-2*1", "1.5*2 5//2+1 5-2"),
        # 7/2*(8-1) is 24.5
        (
            "puzzle24",
            {"metadata": {"numbers": [2, 7, 8, 1]}},
            "2*8+7+1 8*(7-1)/2",
            "6*4*1*1 7/2*(8-1) 7//2*8*1 8*(2+1**7)",
        ),
    ],
)
def test_what_the_library_takes_for_right_and_is_not(gym, task, entry, right, wrong):
    problem = one(task)
    problem = replace(problem, meta={**problem.meta, "entry": repr(entry)})
    answers = [*right.split(), *wrong.split()]
    grades = grade([(f"<answer>{answer}</answer>", problem) for answer in answers], PATIENT)
    assert [a for a, g in zip(answers, grades, strict=True) if g is Grade.CORRECT] == right.split()


@pytest.mark.slow
def test_an_entry_with_fractions_reaches_its_verifier(gym):
    drawn = gym.problems(ReasoningGym(), 60, held_out=False, task="gsm_symbolic")
    entries = [ast.literal_eval(problem.meta["entry"]) for problem in drawn]
    assert any("1/" in str(value) for entry in entries for value in entry["metadata"]["variables"].values())


@pytest.mark.slow
def test_a_colouring_is_judged_by_the_library_and_keyed_up_to_the_names_of_the_colours(gym):
    problem = one("graph_color", min_num_vertices=3, max_num_vertices=3, edge_probability=0.9)
    vertices, edges = (
        json.loads(problem.prompt.partition(name)[2].partition("\n")[0].replace("(", "[").replace(")", "]"))
        for name in ("Vertices: ", "Edges: ")
    )
    assert vertices == [0, 1, 2]
    texts = [
        f'<answer>{{"0": {a}, "1": {b}, "2": {c}}}</answer>' for a in range(5) for b in range(1, 4) for c in range(1, 4)
    ]
    texts += [
        r'\boxed{ {"0": 1, "1": 2, "2": 3} }',
        r'<answer>{"0": 1, "1": 2}</answer>',
        "[1, 2, 3]",
        "<answer></answer>",
    ]
    (group,) = with_keys(verify([Group(problem, tuple(Rollout(text) for text in texts))]))
    for k, text in enumerate(texts[:45]):
        colours = json.loads(text.removeprefix("<answer>").removesuffix("</answer>"))
        right = colours["0"] in (1, 2, 3) and all(colours[str(a)] != colours[str(b)] for a, b in edges)
        assert (group.rollouts[k].grade is Grade.CORRECT) == right
    correct = {r.key for r in group.rollouts if r.grade is Grade.CORRECT}
    patterns = {"0 0 0", "0 0 1", "0 1 0", "0 1 1", "0 1 2"}
    assert correct == {p for p in patterns if all(p.split()[a] != p.split()[b] for a, b in edges)}
    assert [r.grade for r in group.rollouts[45:]] == [Grade.CORRECT, Grade.WRONG, Grade.NO_ANSWER, Grade.NO_ANSWER]


@pytest.mark.slow
def test_answers_that_would_be_evaluated_cannot_call_anything(gym, tmp_path):
    """And a part of a score is not right."""
    touch = tmp_path / "touched"
    code = f"__import__('pathlib').Path('{touch}').touch()"
    assert {*gym.EVALUATED} <= {*gym.tasks()}
    for task in gym.EVALUATED:
        problem = one(task)
        attacks = [code, f"[{code}]", f"1+({code} or 1)", f"x*{code}", f"[x for x in [{code}]]"]
        grades = grade([(f"<answer>{attack}</answer>", problem) for attack in attacks])
        assert {*grades} == {Grade.WRONG} and not touch.exists()
    problem = one("countdown")
    assert 0 < gym.score("1+1", problem) < 1 and grade([("<answer>1+1</answer>", problem)]) == [Grade.WRONG]


@pytest.mark.slow
def test_wrong_tasks_and_sizes_are_named(gym):
    for task, sizes, message in [
        ("", {}, "reasoning-gym:TASK: unknown choice ''; choices: .*graph_color"),
        ("graph_colour", {}, "unknown choice 'graph_colour', did you mean 'graph_color'"),
        (
            "graph_color",
            {"vertices": 3},
            "sizes of graph_color: unknown choice 'vertices'.*num_colors, min_num_vertices",
        ),
        ("graph_color", {"seed": 3}, "unknown choice 'seed'"),
        (
            "graph_color",
            {"num_colors": "three"},
            "sizes of graph_color: num_colors: should be a valid integer, not 'three'",
        ),
        ("graph_color", {"edge_probability": True}, "edge_probability: should be a valid number, not True"),
        ("chain_sum", {"allow_negation": "maybe"}, "allow_negation: should be a valid boolean, not 'maybe'"),
        ("graph_color", {"num_colors": "true"}, "num_colors: should be a valid integer, not 'true'"),
        ("chain_sum", {"min_terms": 2.5}, "sizes of chain_sum: min_terms: should be a valid integer.*, not 2.5"),
        ("graph_color", {"edge_probability": 2.0}, "sizes of graph_color: edge_probability must be less than 1"),
    ]:
        with pytest.raises(DiverError, match=message):
            one(task, **sizes)
    with pytest.raises(DiverError, match="only .* different problems, fewer than 100"):
        sizes = {"min_num_vertices": 2, "max_num_vertices": 2}
        generate(
            Source(path="reasoning-gym:graph_color"), Data(reasoning_gym=ReasoningGym(sizes=sizes)), 100, held_out=False
        )


@pytest.mark.slow
def test_true_and_false_of_the_command_line_are_booleans(gym):
    """A text is read as what it says: `one` gives it as the library's own settings have it."""
    for text, value in (("true", True), ("false", False), ("True", True)):
        problem = one("chain_sum", allow_negation=text)
        assert problem.prompt == one("chain_sum", allow_negation=value).prompt
        assert grade([(f"<answer>{problem.answer}</answer>", problem)], PATIENT) == [Grade.CORRECT]


@pytest.mark.slow
def test_sizes_by_which_no_problem_is_ever_found_are_named(gym, monkeypatch):
    monkeypatch.setattr(gym, "FIRST_ENTRY_SECONDS", 2.0)
    told = (
        r'data.reasoning_gym.sizes of graph_color: \{"num_colors": 0\} gave no problem within 2 seconds; choose others'
    )
    with pytest.raises(DiverError, match=told):
        one("graph_color", num_colors=0)
    assert one("graph_color", num_colors=4)


@pytest.mark.slow
def test_the_default_sizes_of_every_task_are_allowed(gym):
    """Given as they are: an annotation of the library may be wrong."""
    from dataclasses import fields

    for task in gym.tasks():
        defaults = {field.name: field.default for field in fields(gym.library()[task][1]) if field.name not in gym.OURS}
        plain = {key: value for key, value in defaults.items() if isinstance(value, bool | int | float | str)}
        gym.dataset_of(task, plain, 0, 1)


TRAINED = """
base_conversion basic_arithmetic binary_alternation caesar_cipher chain_sum count_bits countdown decimal_arithmetic
fraction_simplification gcd graph_color isomorphic_strings lcm leg_counting letter_counting number_filtering
prime_factorization products puzzle24 word_ladder
""".split()
RECIPE = """
[sample]
group_size = 2
max_tokens = 12
[method]
name = "clip-higher"
[train]
steps = 2
batch_size = 2
mini_batch_size = 2
[evaluate]
problems = 0
[data.reasoning_gym]
problems = 4
"""


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory):
    """The folder of a model of one token a byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = ["<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    folder = tmp_path_factory.mktemp("bytes")
    PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", pad_token="<eos>").save_pretrained(folder)
    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(alphabet), max_position_embeddings=2048, eos_token_id=0, pad_token_id=0, **size)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_twenty_tasks_train_two_steps(gym, byte_level, tmp_path):
    assert len(TRAINED) == 20 and {*TRAINED} <= {*gym.tasks()}
    (tmp_path / "tiny.toml").write_text(RECIPE)
    for task in TRAINED:
        words = ["tiny.toml", "--model", byte_level, "--data", f"reasoning-gym:{task}", "--run.folder", task]
        succeeds("train", *words, cwd=tmp_path)
        rows = [row for _, row in read_jsonl(tmp_path / task / "metrics.jsonl") if "time/update" in row]
        assert [row["step"] for row in rows] == [1, 2] and not any(row.get("verify/error") for row in rows)
    line = fails("train", "tiny.toml", "--model", byte_level, "--data", "reasoning-gym:sums", cwd=tmp_path)
    assert "reasoning-gym:TASK: unknown choice 'sums'" in line
