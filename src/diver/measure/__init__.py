"""How diverse are any model's responses, and do the metrics of it agree? Pure: groups in, tables out."""

from diver.measure.problems import ProblemTable, measured, problem_table, summary
from diver.measure.validity import Validity, validity

__all__ = ["ProblemTable", "Validity", "measured", "problem_table", "summary", "validity"]
