import math
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from by_hand import KNOWN
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import zscore

import diver
from diver.core.settings import settings
from diver.core.types import DiverError, Group, Problem, Progress, Reward, Rollout
from diver.methods import METHODS, method_named
from diver.methods.diver import DiverMix
from diver.methods.grpo import Grpo

SAME, OTHER = r"we add \( a + b = c \)", r"rather multiply $ d * e = f $ now"  # TD 0.5, 0.5, 1 and ED 0, 0, 1
RESPONSES, OUTCOMES, IDS = [SAME, SAME, OTHER] * 2, [1, 0, 1, 1, 1, 1], ["a"] * 3 + ["b"] * 3
EXPECTED = [*zscore([1.025, 0.0, 1.065]), *zscore([0.025, 0.025, 0.065])]  # tests/test_methods.py has the rewards


def test_advantages_by_hand():
    result = diver.advantages(RESPONSES, OUTCOMES, IDS)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, EXPECTED, atol=1e-9)


@given(st.permutations(range(6)))
def test_rows_may_come_in_any_order(order):
    columns = ([column[i] for i in order] for column in (RESPONSES, OUTCOMES, IDS))
    np.testing.assert_allclose(diver.advantages(*columns), np.array(EXPECTED)[order], atol=1e-9)


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
def test_a_group_id_that_is_missing_is_named(missing):
    """Two rows without an id are not two responses to one prompt."""
    with pytest.raises(ValueError, match="^row 2: has no group id: "):
        diver.advantages(["a", "b", "c", "d"], [1, 0, 1, 0], [0, 0, missing, missing], "grpo")
    for ids in (["None", "None", ("a", 0), ("a", 0)], [0, 0, "", ""]):  # texts, tuples and 0 are ids
        assert diver.advantages([*"abcd"], [1, 0, 1, 0], ids, "grpo").tolist() == [1, -1, 1, -1]


def test_method_and_progress():
    grpo = [*zscore([1, 0, 1]), 0, 0, 0]
    np.testing.assert_allclose(diver.advantages(RESPONSES, OUTCOMES, IDS, "grpo"), grpo)
    np.testing.assert_allclose(diver.advantages(RESPONSES, OUTCOMES, IDS, progress=1.0), grpo)
    np.testing.assert_allclose(diver.advantages(RESPONSES, OUTCOMES, IDS, progress=Progress(9, 9)), grpo)
    td = method_named("diver-td", shaping={"coef": 0.2})
    shaped = [*zscore([1.1, 0, 1.13]), *zscore([0.5, 0.5, 0.65])]
    np.testing.assert_allclose(diver.advantages(RESPONSES, OUTCOMES, IDS, td), shaped, atol=1e-9)
    with pytest.raises(DiverError, match="did you mean 'diver-mix'"):
        diver.advantages(RESPONSES, OUTCOMES, IDS, "divermix")


@pytest.mark.parametrize("given", [{"method": DiverMix}, {"method": None}, {"progress": None}, {"progress": (1, 9)}])
def test_a_method_or_progress_of_another_type_is_named(given):
    """Such as the class of a method in place of a method."""
    with pytest.raises(ValueError, match=f"^{next(iter(given))}: must be a .*, not "):
        diver.advantages(RESPONSES, OUTCOMES, IDS, **given)


def test_pass_at_k_training():
    """k = 4 of 5, one correct: the only set without it fails. R = 4/5, s = 2/5; a wrong one is in 4 sets,
    1 of them failed."""
    a = diver.advantages(["a", "b", "c", "d", "e"], [0, 0, 1, 0, 0], [7] * 5, method="pass-at-k")
    np.testing.assert_allclose(a, np.array([-0.05, -0.05, 0.2, -0.05, -0.05]) / 0.4)
    with pytest.raises(DiverError, match="method.k is 4 with G = 3: k must be below G"):
        diver.advantages(["a", "b", "c"], [0, 0, 1], [7] * 3, method="pass-at-k")


def test_a_method_of_ones_own():
    given = ["a", "b", "c", "d"], [1, 0, 0, 1], [7] * 4
    assert diver.advantages(*given, method="own_methods:MaxRl").tolist() == [1, -1, -1, 1]
    logprobs = [np.log([0.5, 0.5]), np.log([0.5]), np.log([0.5]), np.log([0.25, 1])]
    by_hand = zscore([0.75, -0.5, -0.5, 0.75])
    for column in (logprobs, [values.tolist() for values in logprobs]):
        result = diver.advantages(*given, method="own_methods:Likelihood", logprobs=column)
        np.testing.assert_allclose(result, by_hand, atol=1e-6)
    told = "method 'own_methods:Likelihood' needs logprobs, which diver.advantages without `logprobs` does not provide"
    with pytest.raises(DiverError) as error:
        diver.advantages(*given, method="own_methods:Likelihood")
    assert str(error.value) == told
    with pytest.raises(ValueError, match="4 responses, 4 outcomes, 4 group_ids, 3 logprobs"):
        diver.advantages(*given, method="own_methods:Likelihood", logprobs=logprobs[1:])


def test_arrays_are_taken():
    arrays = np.array(RESPONSES), np.array(OUTCOMES, dtype=np.float32), np.array(IDS, dtype=object)
    np.testing.assert_allclose(diver.advantages(*arrays), EXPECTED, atol=1e-9)


def test_tensors_are_taken():
    torch = pytest.importorskip("torch")
    outcomes = torch.tensor(OUTCOMES, dtype=torch.bfloat16, requires_grad=True)
    ids = torch.tensor([7, 7, 7, 9, 9, 9])
    np.testing.assert_allclose(diver.advantages(RESPONSES, outcomes, ids), EXPECTED, atol=1e-9)
    np.testing.assert_allclose(diver.advantages(RESPONSES, list(outcomes), list(ids)), EXPECTED, atol=1e-9)
    discounted = method_named("diver-td", shaping={"discount": 0.5})
    tokens = [torch.arange(n) for n in (0, 1, 2, 0, 1, 2)]  # 0.5^T d = 0.5, 0.25, 0.25
    shaped = [*zscore([1.05, 0, 1.025]), *zscore([0.5, 0.25, 0.25])]
    result = diver.advantages(RESPONSES, outcomes, ids, discounted, tokens=tokens)
    np.testing.assert_allclose(result, shaped, atol=1e-9)


def test_outcomes_count_as_correct_from_the_threshold_on():
    # 0.1 and 0.4 are not correct, 0.5 is: r' = 0.1, 0.4, 0.565
    result = diver.advantages([SAME, SAME, OTHER], [0.1, 0.4, 0.5], [0, 0, 0])
    np.testing.assert_allclose(result, zscore([0.1, 0.4, 0.565]), atol=1e-9)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "a", "a", "b", "b", "a"], "group 'b' has 2 rows where 4 belong"),
        ([0, 0, 1, 1, 2, 3], "group 2 has 1 rows where 2 belong"),
        (range(6), "group 0 has 1 rows where 2 belong"),
        ([0, 0, 0, 1, 1], "6 responses, 6 outcomes, 5 group_ids"),
    ],
)
def test_groups_must_be_whole(ids, message):
    with pytest.raises(ValueError, match=message):
        diver.advantages(RESPONSES, OUTCOMES, ids)


def test_bad_columns():
    with pytest.raises(ValueError, match="problem 'a', rollout 1: the outcome is nan"):
        diver.advantages(RESPONSES, [1, float("nan"), 1, 1, 1, 1], IDS)
    with pytest.raises(ValueError, match=r"row 1: a response is a text \(str\), not list"):
        diver.advantages([SAME, [3, 4]], [1, 0], [0, 0])
    with pytest.raises(
        DiverError, match="method 'diver-td' needs tokens, which diver.advantages without `tokens` does not"
    ):
        diver.advantages(RESPONSES, OUTCOMES, IDS, method_named("diver-td", shaping={"discount": 0.9}))
    with pytest.raises(DiverError, match="a selection drops responses"):
        diver.advantages(RESPONSES, OUTCOMES, IDS, method_named("grpo", selection={"keep": "most"}))
    assert diver.advantages([], [], []).shape == (0,)


@pytest.mark.parametrize("column", [1, None, "1010", np.array(1.0)])
def test_a_column_that_is_one_value_is_named(column):
    """A text is no column of characters."""
    for i, name in enumerate(("responses", "outcomes", "group_ids")):
        given = [[SAME, OTHER] * 2, [1, 0, 1, 0], [0, 0, 1, 1]]
        given[i] = column
        with pytest.raises(ValueError, match=f"^{name}: must be a list, an array or a tensor, with a value for each"):
            diver.advantages(*given)


def test_the_diversities_are_public():
    assert diver.textual_diversity([SAME, SAME, OTHER]).tolist() == [0.5, 0.5, 1.0]
    assert diver.equational_diversity([SAME, SAME, OTHER]).tolist() == [0.0, 0.0, 1.0]


def test_everything_exported_exists_and_the_version_is_the_distributions():
    assert all(hasattr(diver, name) for name in diver.__all__)
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["version"] == diver.__version__


def test_importing_diver_is_light():
    code = (
        "import sys; before = set(sys.modules); import diver; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; print(*sorted(new - sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["diver"]


@pytest.mark.parametrize("same", [[1, 1.0], [frozenset({0, 8}), frozenset({8, 0})], [(1, "x"), (1, "x")], [None, None]])
def test_keys_are_the_same_where_they_are_equal(same):
    by_hand = diver.advantages(["a"] * 4, [1, 1, 0, 0], [7] * 4, "darling", keys=["a", "a", "b", "c"])
    found = diver.advantages(["a"] * 4, [1, 1, 0, 0], [7] * 4, "darling", keys=[*same, "1", "b"])
    np.testing.assert_array_equal(found, by_hand)


def test_a_key_that_cannot_be_compared_is_told():
    with pytest.raises(ValueError, match=r"row 1: a key is a text, a number or a tuple of them, not \[1, 2\]"):
        diver.advantages(["a", "b"], [1, 0], ["p", "p"], "darling", keys=["x", [1, 2]])


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_without_a_key_a_response_has_no_answer(missing):
    """In poly-epo it adds no diversity: the pairs of three responses are worth 1/4, 1/4 and 0, with the mean 1/6."""
    found = diver.advantages(["a"] * 3, [1, 0, 0], [7] * 3, method_named("poly-epo", k=2), keys=["a", missing, "a"])
    np.testing.assert_allclose(found, [1 / 12, -1 / 24, -1 / 24], rtol=1e-6)


def test_keys_that_are_saved_are_texts_or_whole_numbers():
    state: dict = {}
    given = ["a", "b"], [1, 0], ["p", "p"], method_named("outcome-ucb-con", mask_answer=False)
    diver.advantages(*given, keys=["12", 12], state=state)
    assert state["counts"] == {"p": {"12": 1, "int 12": 1}}
    with pytest.raises(ValueError, match=r"row 1: with `state` a key is a text or a whole number, not 1\.5"):
        diver.advantages(*given, keys=["12", 1.5], state=state)


@pytest.mark.parametrize(
    "ends", [pd.Series([1, None, 2, 1]), pd.Series([1, None, 2, 1], dtype="Int64"), [1.0, pd.NA, 2, 1]]
)
def test_missing_answer_ends_are_unknown(ends):
    """Up to their ends the texts of the second group are "ab" and "a"."""
    columns = ["ax", "bx", "ab", "ac"], [1, 0, 1, 1], [0, 0, 1, 1]
    given = diver.advantages(*columns, answer_ends=ends, truncated=[False] * 4)
    expected = diver.advantages(*columns, answer_ends=[1, None, 2, 1], truncated=[False] * 4)
    assert given.tolist() == expected.tolist()
    with pytest.raises(ValueError, match="an answer end is a number of characters from 0 to 2, or None, not 1.5"):
        diver.advantages(*columns, answer_ends=[1.5, 1, 1, 1], truncated=[False] * 4)


def test_a_missing_truncated_and_a_list_as_an_id_are_named():
    columns = ["ax", "bx"], [1, 0]
    with pytest.raises(ValueError, match="row 1: truncated is true or false, not <NA>"):
        diver.advantages(*columns, [0, 0], answer_ends=[1, 1], truncated=pd.array([True, None], dtype="boolean"))
    with pytest.raises(ValueError, match=r"row 0: a group id is a text, a number or a tuple of them, not \[1\]"):
        diver.advantages(*columns, [[1], [1]], "grpo")


def test_a_set_has_no_order_and_ids_of_one_text_share_no_state():
    with pytest.raises(ValueError, match="responses: must be a list"):
        diver.advantages({"a", "b"}, [1, 0], ["g"] * 2, "grpo")
    with pytest.raises(ValueError, match="two ids have one text, such as 1 and '1'"):
        method = method_named("outcome-ucb-con", mask_answer=False)
        diver.advantages([*"abcd"], [1, 0, 1, 0], [1, 1, "1", "1"], method, keys=[*"xyxz"], state={})
    with pytest.raises(ValueError, match="row 1: an outcome is true, false or a number"):
        diver.advantages(["a", "b"], [1, 10**400], ["g"] * 2, "grpo")


SIZES = [2, 4, 3, 4]
UNEQUAL = [i for i, size in enumerate(SIZES) for _ in range(size)]


def unequal(method, ids=UNEQUAL):
    """The advantages of groups of two, four, three and four responses, and of each group alone."""
    outcomes = [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0]
    columns = {
        "tokens": [[1] * (i % 3 + 1) for i in range(13)],
        "logprobs": [[-0.1 * (i + 1)] * (i % 3 + 1) for i in range(13)],
        "keys": [*"abcabcabcabca"],
        "answer_ends": [1] * 13,
        "truncated": [False] * 13,
    }

    def of(rows):
        given = {name: [column[i] for i in rows] for name, column in columns.items()}
        found = diver.advantages(
            ["abcdefghijklm"[i] for i in rows],
            [outcomes[i] for i in rows],
            [ids[i] for i in rows],
            method,
            decode=str,
            state={},
            **given,
        )
        return [np.atleast_1d(a) for a in found]

    together = np.concatenate(of(range(13)))
    alone = [of([i for i in range(13) if ids[i] == name]) for name in dict.fromkeys(ids)]
    return together, np.concatenate([a for group in alone for a in group])


# They select responses, replay them, or need grades or a model.
NOT_HERE = {"psr", "nsr", "dapo", "evol-rl", "verified-replay", "dra-grpo", "rep-exp", "outcome-ucb-con"}
NOT_HERE |= {"dph-rl", "pba"}  # they sample the starting policy
NOT_HERE |= {"outcome-ucb-mean"}  # with counts over the run, which a group alone does not have


@pytest.mark.parametrize("name", sorted({*METHODS} - NOT_HERE))
def test_groups_of_unequal_size_are_accepted_by_methods_that_do_not_depend_on_it(name):
    method = method_named(name, **({"k": 2} if hasattr(method_named(name), "k") else {}))
    if method.any_size:
        found, alone = unequal(method)
        np.testing.assert_allclose(found, alone, atol=1e-12)
        assert found.any()
    else:
        with pytest.raises(ValueError, match="^group 0 has 2 rows where 4 belong: .* all of one size and at least 2$"):
            unequal(method)


def test_which_methods_depend_on_the_size_of_a_group():
    depends = {name for name in KNOWN if not method_named(name).any_size}
    assert depends == {
        *("diver-td", "diver-ed", "diver-mix", "diver-annealed", "diver-actions", "dra-grpo", "rep-exp", "evol-rl"),
        *("pass-at-k", "max-at-k", "pkpo", "poly-epo", "uniqueness-aware", "bbg"),
    }


def test_a_response_alone_is_no_group():
    """Also for a method that accepts any size: most likely its group id is wrong."""
    with pytest.raises(ValueError, match="^group 1 has 1 rows where 2 belong: .* need whole groups, at least 2$"):
        diver.advantages([*"abc"], [1, 0, 1], [0, 0, 1], "grpo")


@pytest.mark.parametrize("text", ["1", "true", "0.5", "nan", " 1 ", ""])
def test_a_text_is_no_outcome(text):
    with pytest.raises(ValueError, match=f"^row 1: an outcome is true, false or a number, not {text!r}$"):
        diver.advantages([*"ab"], [1, text], [0, 0], "grpo")


@pytest.mark.parametrize("value", [1, True, 1.0, np.float32(1), np.int64(1), np.bool_(True)])
def test_a_number_or_a_truth_is_an_outcome(value):
    assert diver.advantages([*"ab"], [value, 0], [0, 0], "grpo").tolist() == [1, -1]


@settings
class Doubled(Grpo):
    name: str = "doubled"

    def rewards(self, group, context):
        return [reward._replace(length=reward.outcome) for reward in super().rewards(group, context)]


@pytest.mark.parametrize(
    "method",
    [
        *(method_named(name) for name in ("grpo", "dr-grpo", "max-rl", "clip-higher", "gspo", "siren")),
        method_named("grpo", divisor="sample-std", tolerance=0.2),
        Doubled(divisor="none"),
        *(method_named(name) for name in ("qae", "f-grpo", "difficulty-weight")),
    ],
    ids=lambda method: method.name,
)
def test_outcomes_alone_give_what_whole_rollouts_give(method):
    """Groups of which only outcomes count are not made of rollouts. A formula of another class is not passed by."""
    random = np.random.default_rng(0)
    outcomes, ids = random.random(96).round(1), random.permutation(np.repeat(np.arange(12), 8))
    texts = ["a"] * 96
    groups = [
        Group(Problem(str(i), "", ""), tuple(Rollout("a", index=int(n), reward=Reward(outcomes[n])) for n in rows))
        for i in range(12)
        for rows in [np.flatnonzero(ids == i)]
    ]
    expected = np.empty(96)
    for group in method.apply(groups, 0.0):
        expected[[r.index for r in group.rollouts]] = group.advantages
    assert diver.advantages(texts, outcomes, ids, method).tolist() == expected.tolist()
    with pytest.raises(ValueError, match="the outcome is nan"):
        diver.advantages(texts, [math.nan, *outcomes[1:]], ids, method)
