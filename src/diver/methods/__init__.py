"""Methods by name."""

from diver.methods.method import METHODS, OBSERVED, Decode, Method, PassAtK, Selection, select

__all__ = ["METHODS", "OBSERVED", "Decode", "Method", "PassAtK", "Selection", "select"]
