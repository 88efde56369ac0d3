"""From a response to a grade: what a text answers, and whether the answer is right.

This room imports `diver.core` and no other room, so it can be used without the trainer.

Four nouns:

- A `Problem` has a question, a reference answer, and the name of the grader that judges its responses.
- A statement (`extraction.Statement`) is the text that a response marks as its answer: by a box, tags or a sentence.
- A `Grade` is correct, wrong, no_answer, truncated, timeout or error. Only the first two are judgements of an answer.
- A `Grader` finds the statement and compares it with the reference answer: math, gsm8k, choice, math-verify, a function
  of the user, or one that a task adds.

Three entry points:

- `grade(pairs)` grades (response, problem) pairs; `verdicts(pairs)` also says where each answer ends.
- `verify(groups)` grades the sampled groups of a training step; `with_keys(groups)` adds which responses are the same.
- `get_grader(name)` gives the grader itself, whose `version` is stored with each grade.

A response to a mathematical problem passes three stages:

1. Find the answer: `extraction` finds boxes, tags and closing sentences, `prose` reads free text in the words of
   `languages`. `echo` drops a formula that only repeats the question.
2. Read it: `spelling` gives each sign and command one spelling, `measures` drops units, `names` and `notation` rewrite
   what math-verify cannot read.
3. Compare it: `exact` decides numbers and `clock` times and dates in this process. The rest goes to a worker process
   (`workers`, within `bounds`). There `equivalence` asks math-verify, `statements` corrects what math-verify takes for
   equal, and `conditions` drops the conditions on the letters of an answer.

A rule stays if it changes the grade of a response that a model wrote, of a public report, or of a hack. Hacks are
answers that a policy under reward would find (`tests/grading/hacks.toml`).
"""

from typing import TYPE_CHECKING

from diver.core.extensions import on_first_use

if TYPE_CHECKING:
    from diver.grading.base import Grader, Verdict
    from diver.grading.environment import EnvironmentGrader
    from diver.grading.extraction import in_thought, opens_thought
    from diver.grading.grading import DEFAULT, GRADERS, get_grader, grade, verdicts, verify, with_keys
    from diver.grading.settings import Verification

__all__ = [
    "DEFAULT",
    "GRADERS",
    "EnvironmentGrader",
    "Grader",
    "Verdict",
    "Verification",
    "get_grader",
    "grade",
    "in_thought",
    "opens_thought",
    "verdicts",
    "verify",
    "with_keys",
]

# A recipe needs the settings alone, and the patterns of the graders take a quarter of the time of `diver --help`.
__getattr__ = on_first_use(
    __name__,
    {
        **dict.fromkeys(("Grader", "Verdict"), "base"),
        "EnvironmentGrader": "environment",
        **dict.fromkeys(("in_thought", "opens_thought"), "extraction"),
        **dict.fromkeys(("DEFAULT", "GRADERS", "get_grader", "grade", "verdicts", "verify", "with_keys"), "grading"),
        "Verification": "settings",
    },
)
