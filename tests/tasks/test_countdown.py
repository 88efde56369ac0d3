import itertools
import json
import random
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diver.core.seeds import is_held_out
from diver.core.types import DiverError, Grade
from diver.diversity import textual_dissimilarity
from diver.recipe.data import Countdown, Source
from diver.tasks.countdown import (
    LEVELS,
    CountdownGrader,
    calculate,
    derive,
    draw,
    key,
    parse,
    problems,
    question,
    response,
    solution,
)
from diver.tasks.sources import load_problems

PROBLEM = problems(Countdown(), 1, held_out=True)[0]
GRADER = CountdownGrader()


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 }", True),
        (r"first \( 9 - 5 = 4 \) then \( 4 \times 6 = 24 \), so \boxed{24}", True),
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 25 }", False),  # boxed something else
        (r"\( 9 - 5 = 5 \) \( 5 \times 6 = 24 \) \boxed{ 24 }", False),  # untrue steps
        (r"\( 6 \times 5 = 30 \) \boxed{ 30 }", False),  # 9 left over, another target
        (r"\( 4 \times 6 = 24 \) \boxed{ 24 }", False),  # 4 is not at hand
        (r"\( 9 - 5 = 4 \) \( 6 \times 4 = 24 \) \( 24 \times 1 = 24 \) \boxed{ 24 }", False),  # there is no 1
        (r"\boxed{ 24 }", False),  # no steps
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \)", False),  # no box
        (r"\( __import__('os') \) \boxed{ 24 }", False),
        (r"<think>\( 9 - 6 = 3 \), no</think> \( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 }", True),
        (r"<think>\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 }</think> I do not know", False),
        ("x " * 4000 + r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 }", True),
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 }" + " x" * 4000 + r" \boxed{ 25 }", False),  # the last box
        # The last box counts, whatever stands in it; one that does not close is none.
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 } \boxed{ no solution }", False),
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 } \boxed{ -64 }", False),
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 } \boxed{\frac{1}{2}}", False),
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 } \boxed{}", False),
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ x } \boxed{ 24 }", True),
        (r"\( 9 - 5 = 4 \) \( 4 \times 6 = 24 \) \boxed{ 24 } \boxed{ 25", True),
        ("\\( 9 - 5 = 4 \\) \\( 4 \\times 6 = 24 \\) \\boxed{ \u0662\u0664 }", False),  # 24 in Arabic digits
        ("\\( \u0669 - 5 = 4 \\) \\( 4 \\times 6 = 24 \\) \\boxed{ 24 }", False),
        ("", False),
    ],
)
def test_solution_by_hand(text, right):
    assert (solution(text, [5, 6, 9], 24) is not None) is right


def test_canonical_form_forgets_the_order_of_terms_and_of_steps():
    numbers = [2, 3, 4, 5]
    one = r"\( 3 \times 4 = 12 \) \( 12 + 5 = 17 \) \( 17 + 2 = 19 \) \boxed{ 19 }"
    two = r"\( 4 \times 3 = 12 \) \( 5 + 12 = 17 \) \( 2 + 17 = 19 \) \boxed{ 19 }"
    three = r"\( 5 + 2 = 7 \) \( 3 \times 4 = 12 \) \( 7 + 12 = 19 \) \boxed{ 19 }"
    four = r"\( 3 \times 4 = 12 \) \( 5 + 2 = 7 \) \( 7 + 12 = 19 \) \boxed{ 19 }"
    forms = [solution(t, numbers, 19) for t in (one, two, three, four)]
    assert None not in forms
    assert forms[0] == forms[1] and forms[2] == forms[3] and forms[0] != forms[2]


def test_calculate_stays_with_whole_positive_numbers():
    assert calculate(12, r"\div", 4) == 3 and calculate(12, r"\div", 5) is None and calculate(3, r"\div", 0) is None
    assert calculate(3, "-", 3) is None and calculate(3, "-", 5) is None
    assert calculate(802, r"\div", 2) is None and calculate(0, r"\div", 5) is None and calculate(800, r"\div", 2) == 400
    assert calculate(20, r"\times", 20) == 400 and calculate(20, r"\times", 21) is None


def test_derivations_are_graded_correct_and_their_ruins_wrong():
    rng = random.Random(3)
    for _ in range(300):
        numbers, steps = draw(rng.choice(list(LEVELS.values())), rng)
        target, text = steps[-1].result, response(steps)
        assert solution(text, numbers, target)
        assert solution(text, numbers, target + 1) is None
        assert solution(text, [*numbers, 1], target) is None
        assert solution(text.replace(str(steps[0]), ""), numbers, target) is None


def test_problems_are_seeded_different_and_disjoint():
    train = problems(Countdown(), 500, held_out=False)
    apart = problems(Countdown(), 200, held_out=True)
    assert train == problems(Countdown(), 500, held_out=False)
    assert train != problems(Countdown(seed=1), 500, held_out=False)
    assert len({p.id for p in train + apart}) == 700
    elsewhere = problems(Countdown(seed=5, mix={"four": 1.0}), 200, held_out=True)
    assert not {p.id for p in elsewhere} & {p.id for p in train}
    for p in train:
        numbers, target = p.meta["numbers"], p.meta["target"]
        assert not is_held_out(key(numbers, target)) and p.prompt == question(numbers, target)


def test_mix_sets_the_levels():
    sources = Counter(p.source for p in problems(Countdown(mix={"three": 0.25, "four": 0.75}), 1000, held_out=False))
    assert 650 < sources["countdown/four"] < 850
    assert {p.source for p in problems(Countdown(mix={"three": 1}), 50, held_out=False)} == {"countdown/three"}
    with pytest.raises(ValueError, match="no level 'six'; there are three, four"):
        Countdown(mix={"six": 1})


def test_harder_levels_draw_what_they_say():
    for name in ("four-large", "five"):
        level = LEVELS[name]
        drawn = problems(Countdown(mix={name: 1}), 100, held_out=False)
        assert {len(p.meta["numbers"]) for p in drawn} == {level.numbers}
        assert all(level.smallest <= p.meta["target"] <= level.target for p in drawn)
        assert max(max(p.meta["numbers"]) for p in drawn) <= level.largest


def all_responses(numbers):
    """Every true sequence of steps that uses up the numbers, by exhaustion, with what it comes to."""
    if len(numbers) == 1:
        yield (), numbers[0]
    for i, j in itertools.permutations(range(len(numbers)), 2):
        rest = [n for k, n in enumerate(numbers) if k not in (i, j)]
        for sign in ("+", "-", r"\times", r"\div"):
            a, b = Fraction(numbers[i]), Fraction(numbers[j])
            result = a + b if sign == "+" else a - b if sign == "-" else a * b if sign == r"\times" else a / b
            if result.denominator == 1 and 1 <= result <= 400:
                for steps, end in all_responses([*rest, int(result)]):
                    yield ((numbers[i], sign, numbers[j], int(result)), *steps), end


@given(st.lists(st.integers(1, 13), min_size=2, max_size=3), st.data())
def test_the_verifier_agrees_with_exhaustive_search(numbers, data):
    """Of the responses with true steps, and of those in which one number or sign is changed, the same are correct."""
    responses = sorted(all_responses(numbers))
    steps, end = data.draw(st.sampled_from(responses))
    target = data.draw(st.sampled_from([end, *range(1, 30)]))
    if data.draw(st.booleans()):
        k, field = data.draw(st.integers(0, len(steps) - 1)), data.draw(st.integers(0, 3))
        new = data.draw(st.sampled_from(["+", "-", r"\times", r"\div"]) if field == 1 else st.integers(0, 30))
        steps = tuple((*s[:field], new, *s[field + 1 :]) if i == k else s for i, s in enumerate(steps))
    text = " ".join([rf"\( {a} {sign} {b} = {r} \)" for a, sign, b, r in steps] + [rf"\boxed{{ {target} }}"])
    assert (solution(text, numbers, target) is not None) == ((steps, target) in responses)


def test_the_grader_reads_only_a_bounded_part():
    assert GRADER.grade("", PROBLEM) is Grade.NO_ANSWER
    assert GRADER.grade(r"\boxed{ 7 }", PROBLEM) is Grade.WRONG
    assert GRADER.grade(r"\( " * 1_000_000, PROBLEM) is Grade.NO_ANSWER
    assert parse(r"\( 99999999999999999999 + 1 = 2 \) \boxed{ 2 }") == (None, 2)
    assert GRADER.grade(r"\boxed{ 7 } \boxed{ none }", PROBLEM) is Grade.NO_ANSWER


def test_a_target_that_no_step_may_reach_stops_at_its_problem(tmp_path):
    """25 x 20 is above the largest result."""
    for target, told in ((400, ""), ("24", ""), (500, "500"), (0, "0"), (-3, "-3"), ("nan", "nan")):
        row = {"problem": "Use 25 and 20.", "answer": "?", "meta": {"numbers": [25, 20], "target": target}}
        (tmp_path / "own.jsonl").write_text(json.dumps({**row, "verifier": "countdown", "id": "mine"}))
        source = Source(path=str(tmp_path / "own.jsonl"), verifier="countdown")
        if not told:
            assert len(load_problems(source)) == 1
            continue
        message = f"problem 'mine': its target is {told}, not a number from 1 to 400, which verifier countdown needs"
        with pytest.raises(DiverError, match=message):
            load_problems(source)


def solutions_of(numbers, target):
    """Nearly every correct response up to canonical form, by random derivations."""
    rng, found = random.Random(0), {}
    for _ in range(1000):
        steps = derive(numbers, rng)
        if steps[-1].result == target:
            text = response(steps)
            found.setdefault(solution(text, numbers, target), text)
    return list(found.values())


def test_textual_diversity_sees_degrees_between_correct_solutions():
    """At least half of the dissimilarities between different correct solutions lie strictly between 0 and 1."""
    inside = total = 0
    for p in problems(Countdown(), 20, held_out=True):
        texts = solutions_of(p.meta["numbers"], p.meta["target"])[:8]
        if len(texts) < 2:
            continue
        matrix = textual_dissimilarity(texts)
        for i, j in itertools.permutations(range(len(texts)), 2):
            inside += 1e-9 < matrix[i, j] < 1 - 1e-9
            total += 1
    assert total > 300 and inside / total >= 0.5
