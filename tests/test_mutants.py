"""scripts/mutants.toml keeps up with the code, so that `python scripts/mutants.py` can run at any commit."""

import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "mutants.py"))


def test_every_mutant_can_be_made_and_has_a_test():
    mutants = SCRIPT["chosen"]([])
    assert len(mutants) > 40 and [fault for m in mutants if (fault := SCRIPT["fault"](m))] == []
