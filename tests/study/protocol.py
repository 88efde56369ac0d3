"""What the history of this repository says of a study's protocol, a study.toml."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)


def commits_in_history(records):
    """The commits of the records; a run that was resumed at another commit has both, A..B. A clone without them
    skips."""
    commits = {commit for record in records for commit in record["commit"].split("..")}
    if any(git("cat-file", "-e", commit).returncode for commit in commits):
        pytest.skip("the history of this clone does not reach the runs")
    return commits


def check_descent(protocol, records):
    """Every record is of a commit after the one that added the protocol, and of no changed tree, which + marks."""
    assert not any(commit.endswith("+") for record in records for commit in record["commit"].split(".."))
    added = git("log", "--format=%H", "--diff-filter=A", "--", protocol).stdout.split()
    if not added:
        pytest.skip("the history of this clone does not reach the protocol")
    commits = commits_in_history(records)
    assert all(git("merge-base", "--is-ancestor", added[-1], commit).returncode == 0 for commit in commits)


def check_only_added_to(protocol, records):
    """No line of the protocol has been changed or removed since the first run."""
    for commit in commits_in_history(records):
        changed = git("diff", "--numstat", commit, "--", protocol).stdout.split()
        assert not changed or changed[1] == "0"  # lines removed
