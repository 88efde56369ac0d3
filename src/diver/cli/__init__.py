"""The command `diver`."""

from diver.cli.main import main

__all__ = ["main"]
