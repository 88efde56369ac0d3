"""What one room adds to another without an import: a name, and the place where its object is defined."""

GRADERS: dict[str, str] = {}
"""Name of a grader -> "module:class". `diver.grading.get_grader` imports the class at its first use."""
