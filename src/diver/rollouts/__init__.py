"""Rollouts of any origin as groups: files, or the folders that a trainer leaves.

| layout | what is read | a group is | response | outcome |
|---|---|---|---|---|
| diver train | a run folder, or one rollouts/step_NNNN.jsonl | a problem in a step | `response` | `reward.outcome` |
| diver eval | a result folder, or one generations/NAME.jsonl | a problem, drawn one way | `response` | its grade |
| verl | a `rollout_data_dir`, or one of its N.jsonl | a `uid`, else an `input`, in a step | `output` | `score` |
| TRL | completions/, or one of its *.parquet | a `prompt` in a step | `completion` | its one reward |
| lm-eval | samples_*.jsonl, or a folder of them | a document | each of `resps` | its one metric |
| named columns | any JSONL or parquet | a `problem` | `response`, or a list of them | `correct`, `score`, ... |

For the last one `layouts.PROBLEMS` and its like are tried in turn, and `Columns` names what is called otherwise.
"""

from diver.rollouts.layouts import Columns
from diver.rollouts.reader import Rollouts, read_groups, read_rollouts

__all__ = [
    "Columns",
    "Rollouts",
    "read_groups",
    "read_rollouts",
]
