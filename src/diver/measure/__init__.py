"""How diverse are any model's responses? Pure: groups in, tables out."""

from diver.measure.problems import ProblemTable, problem_table, summary

__all__ = ["ProblemTable", "problem_table", "summary"]
