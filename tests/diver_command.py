"""`diver` as it is given in a shell, in the process of the tests:
to start one takes longer than most of what they ask."""

import contextlib
import io
import os
import sys
from typing import NamedTuple

import pytest

from diver import cli
from diver.core.progress import QUIET


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def diver(*words, cwd="."):
    """The command with these words in the folder `cwd`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["diver", *map(str, words)])
        patch.setattr(sys, "path", [*sys.path])  # main adds the folder where the command is given
        patch.setenv(QUIET, os.environ.get(QUIET, ""))  # main sets it by --quiet
        patch.setenv("MPLBACKEND", "agg")  # main sets it
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
    return Done(code, out.getvalue(), err.getvalue())


def succeeds(*words, cwd="."):
    """The standard output of a command that ends with exit code 0."""
    done = diver(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fails(*words, cwd="."):
    """The one line of a command that ends with exit code 2, after its progress bar."""
    done = diver(*words, cwd=cwd)
    line = done.stderr.rpartition("\r")[2].strip()
    assert done.returncode == 2 and line.count("\n") == 0 and line.startswith("diver: "), line
    return line
