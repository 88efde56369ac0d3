"""How diverse are any model's responses? Pure: groups in, tables out."""

from diver.measure.problems import ProblemTable, measured, problem_table, summary

__all__ = ["ProblemTable", "measured", "problem_table", "summary"]
