import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from diver.core.types import Group, Problem, Rollout
from diver.train.batches import Row, collate, micro_batches, rows_of


def row(prompt, response, start=1):
    ids = list(range(start, start + prompt + response))
    own = np.ones(response, bool)
    return Row(ids[:prompt], np.array(ids[prompt:]), own, np.arange(response, dtype=np.float32), 0.5, 0.25, start)


def test_collate_by_hand():
    batch = collate([row(1, 3, 1), row(3, 1, 11)], device=torch.device("cpu"))
    assert batch.ids.tolist() == [[0, 0, 1, 2, 3, 4], [11, 12, 13, 14, 0, 0]]
    assert batch.attention.tolist() == [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]
    assert batch.position.tolist() == [[0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 3, 3]]
    assert batch.tokens.tolist() == [[2, 3, 4], [14, 0, 0]]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]
    assert batch.old_logprobs.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert batch.token_index.tolist() == [[1, 2, 3], [11, 0, 0]]


def test_rows_know_their_place_among_the_tokens_of_the_mini_batch():
    def group(name, prompt, *lengths):
        rollouts = tuple(Rollout("", [7] * n, logprobs=np.zeros(n), advantage=n) for n in lengths)
        return Group(Problem(name, "", ""), rollouts, prompt_tokens=prompt)

    rows = rows_of([group("a", (1,), 2, 0), group("b", (2, 2), 3, 1)], [0.1, 0.2, 0.3, 0.4])
    assert [row.start for row in rows] == [0, 2, 2, 5] and [row.weight for row in rows] == [0.1, 0.2, 0.3, 0.4]
    assert [row.prompt for row in rows] == [(1,), (1,), (2, 2), (2, 2)] and [row.advantages for row in rows] == [
        2,
        0,
        3,
        1,
    ]


def test_padding_is_by_position_not_by_id():
    """A token of the pad's id inside a response is a token (in many models PAD equals EOS)."""
    response = Row([5], np.array([7, 0]), np.ones(2, bool), np.zeros(2, np.float32), 1.0, 1.0)
    batch = collate([response], device=torch.device("cpu"))
    assert batch.mask.tolist() == [[True, True]] and batch.attention.tolist() == [[1, 1, 1]]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 30)), min_size=1, max_size=40), st.integers(1, 200))
def test_micro_batches_hold_every_row_once_within_the_budget(sizes, budget):
    rows = [row(p, r) for p, r in sizes]
    batches = micro_batches(rows, budget)
    assert sorted(id(r) for b in batches for r in b) == sorted(id(r) for r in rows)
    for batch in batches:
        padded = len(batch) * (max(len(r.prompt) for r in batch) + max(len(r.tokens) for r in batch))
        assert padded <= budget or len(batch) == 1
    longest = [b[0].length for b in batches]
    assert longest == sorted(longest, reverse=True)


def test_a_shared_prompt_counts_once_in_a_batch():
    rows = [row(10, 5, start=1) for _ in range(4)] + [row(8, 5, start=50)]
    assert [len(batch) for batch in micro_batches(rows, 45, shared=True)] == [5]  # 2 x 10 + 5 x 5
    assert [len(batch) for batch in micro_batches(rows, 44, shared=True)] == [4, 1]
    assert [len(batch) for batch in micro_batches(rows, 44)] == [2, 2, 1]


def test_collate_names_the_first_row_of_each_prompt():
    rows = [row(2, 1, 5), row(1, 1, 5), row(2, 3, 5), row(1, 2, 5)]
    assert collate(rows, device=torch.device("cpu")).prompt_row.tolist() == [0, 1, 0, 1]
