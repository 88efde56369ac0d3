"""Anyone's stored rollouts: read, measured, graded. This room needs core, diversity and grading, and no trainer.

Four nouns:

- A *file* has rows. Its first row decides its *layout* (layouts.toml); docs/measure.md lists the layouts. In a file of
  any other origin the names of core/columns.toml are tried in turn, and `Columns` gives the names that differ.
- A *part* is the content of one row: responses to one problem, and the ids that may tell problems apart.
- A *group* has all responses to one problem, from one source, at one step, of one origin. Parts become groups.
- *Rollouts* are the groups of a path, with notes on what was left out and why.

Three entry points:

- `read(path)`, which is `diver.read`: the rollouts of a file or of a folder.
- `diver.rollouts.measure.run(Measure(...))`: their diversity and Pass@k, as `diver measure`.
- `diver.rollouts.grade.run(GradeConfig(...))`: their grades against reference answers, as `diver grade`.

The files in order: `columns`, `values` (what a cell holds), `marks` (turns in a text), `named` (a row by its columns),
`layouts` (a row by its layout), `cut` (prompts in front), `grouping`, `reader`. Then come `problems` (values of
groups), `dependence`, `known` (the problem of a group), `measure` and `grade`.
"""

from diver.rollouts.columns import Columns
from diver.rollouts.reader import Rollouts, read, read_rollouts

__all__ = ["Columns", "Rollouts", "read", "read_rollouts"]
