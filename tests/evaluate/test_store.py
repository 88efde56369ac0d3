"""The append-only store: half rows, locks, identity."""

import json

import pytest

from diver.core.files import JsonlLog
from diver.core.run_folder import RunFolder
from diver.core.seeds import digest
from diver.core.types import DiverError
from diver.evaluate.results import ResultFolder, read_results


def test_a_half_row_is_skipped_and_cut_off_before_the_next_append(tmp_path):
    journal = JsonlLog(tmp_path / "deep" / "rows.jsonl")
    assert list(journal.rows()) == []
    with journal:
        journal.append({"a": 1})
        journal.append({"a": "line\nbreak ü \udc80"})
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + b'{"a": 3, "te')
    assert [row["a"] for row in journal.rows()] == [1, "line\nbreak ü \udc80"]
    assert journal.path.read_bytes() == whole + b'{"a": 3, "te'  # reading changes nothing
    with journal:
        journal.append({"a": 4})
    assert journal.path.read_bytes() == whole + b'{"a": 4}\n'


@pytest.mark.parametrize("length", [1, 70_000, 200_000])
def test_a_half_row_of_any_length_is_cut_off(tmp_path, length):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n' + b"x" * length)
    with JsonlLog(path) as journal:
        journal.append({"a": 2})
    assert path.read_bytes() == b'{"a": 1}\n{"a": 2}\n'
    path.write_bytes(b"x" * length)
    with JsonlLog(path) as journal:
        journal.append({"a": 2})
    assert path.read_bytes() == b'{"a": 2}\n'


def test_a_whole_line_that_is_no_row_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\nnonsense\n{"a": 2}\n')
    with pytest.raises(DiverError, match="rows.jsonl:2"):
        list(JsonlLog(path).rows())


def test_a_folder_belongs_to_one_model_and_one_process(tmp_path):
    with (
        ResultFolder(tmp_path / "out", "m@1", {}),
        pytest.raises(DiverError, match="another process"),
        ResultFolder(tmp_path / "out", "m@1", {}),
    ):
        pass
    with ResultFolder(tmp_path / "out", "m@1", {}):
        assert json.loads((tmp_path / "out" / "config.json").read_text())["identity"] == {"model": "m@1"}
    with pytest.raises(DiverError, match="another model .model was 'm@1', now 'm@2'"):
        ResultFolder(tmp_path / "out", "m@2", {})


def test_folders_that_hold_something_else_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text('{"recipe": {}}')
    RunFolder(tmp_path / "full", {}, {"engine": "built-in", "data.columns": {}}).begin()
    with pytest.raises(DiverError, match="full: has a training run; choose another --out$"):
        ResultFolder(tmp_path / "full", "m", {})
    for name, told in (("file", "is a file"), ("thesis", "no config.json"), ("run", "is not the config.json")):
        with pytest.raises(DiverError, match=told):
            ResultFolder(tmp_path / name, "m", {})
    for name in ("absent", "thesis", "run"):
        with pytest.raises(DiverError, match="results.json"):
            read_results(tmp_path / name)
    (tmp_path / "run" / "results.json").write_text('{"model": 1}')
    with pytest.raises(DiverError, match="is not the results of an evaluation"):
        read_results(tmp_path / "run")


def test_a_command_records_where_what_it_adds_comes_from_once(tmp_path):
    for commit in "abc":
        with ResultFolder(tmp_path / "out", "m@1", {"commit": commit}) as folder:
            for _ in range(2):
                if commit != "b":  # which added nothing
                    folder.record_provenance()
    assert [row["commit"] for row in JsonlLog(tmp_path / "out" / "provenance.jsonl").rows()] == ["a", "c"]


def test_digest_sees_every_part():
    assert len({digest(1, "a"), digest("1", "a"), digest(1, "b"), digest([1, "a"]), digest(1, {"a": None})}) == 5
    assert digest({"t": 0.6}) == digest({"t": 0.6}) and len(digest("x")) == 16
    assert json.loads(f'"{digest(chr(0xDC80))}"')  # a lone surrogate is text too


def test_a_kill_while_the_first_file_is_written_leaves_a_usable_folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".lock").write_text("")
    (tmp_path / "out" / ".config.json.part").write_text('{"half')
    with ResultFolder(tmp_path / "out", "m@1", {}):
        assert json.loads((tmp_path / "out" / "config.json").read_text())["identity"] == {"model": "m@1"}
