"""Data sets and models by hub name, fetched by the real libraries from a hub on this machine, or refused by it."""

import inspect
import io
import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from local_hub import COMMIT, GATED

from diver.core.types import DiverError
from diver.evaluate.config import EvalConfig
from diver.evaluate.run import sampler
from diver.recipe.sections import Model
from diver.tasks.hub import newest_commit
from diver.tasks.testbeds import policy_folder

pytestmark = pytest.mark.skipif(
    not (find_spec("datasets") and find_spec("transformers")), reason="datasets or transformers is not installed"
)

CHAT = [{"role": "system", "content": "Think."}, {"role": "user", "content": "2+2?"}]
GSM8K = {"question": "How many?", "answer": "It is 8.\n#### 8"}
VERL = {  # LUFFY's layout: verl's columns, and answers of another model that are not used
    "data_source": "openai/gsm8k",
    "prompt": CHAT,
    "target": [{"role": "assistant", "content": "4"}],
    "ability": "math",
    "reward_model": {"ground_truth": "4", "style": "rule"},
    "extra_info": {"index": -1, "split": "default"},
}
TRL = {"prompt": CHAT[1:], "solution": r"$\frac{1}{2}$"}
CARD = b"""---
configs:
- config_name: main
  data_files: [{split: train, path: main/train.jsonl}, {split: test, path: main/test.jsonl}]
- config_name: socratic
  data_files: [{split: train, path: socratic/train.jsonl}]
---
"""


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(*rows):
    import pyarrow
    from pyarrow.parquet import write_table

    file = io.BytesIO()
    write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


@pytest.fixture(scope="module")
def hub(hub):
    gsm8k = {f"{place}.jsonl": jsonl(GSM8K, GSM8K) for place in ("main/train", "main/test", "socratic/train")}
    other = jsonl({"question": "How much?", "answer": "#### 9"})
    hub.repositories |= {
        "datasets/openai/gsm8k": {"README.md": CARD, **gsm8k, "main/test.jsonl": other},
        "datasets/luffy/math": {"train.parquet": parquet(VERL)},
        "datasets/trl/math": {"train-00000-of-00001.parquet": parquet(TRL)},
        "datasets/lab/secret": GATED,
        "datasets/lab/wordless": {"train.jsonl": jsonl({"text": "No question."})},
        "datasets/lab/torn": {"train.jsonl": b'{"question": "How'},
        "lab/countdown": {file.name: file.read_bytes() for file in policy_folder().iterdir()},
        "lab/secret": GATED,
        "lab/empty": {"README.md": b"Nothing yet."},
    }
    return hub


NOWHERE = "http://127.0.0.1:9"  # the port is closed


def data(**settings):
    from diver.core.types import DiverError
    from diver.recipe.data import Source
    from diver.tasks.sources import load_problems

    try:
        found = load_problems(Source(**settings))
    except DiverError as error:
        return str(error)
    rows = [[list(p.prompt) if isinstance(p.prompt, tuple) else p.prompt, p.answer, p.verifier, p.id] for p in found]
    return {"rows": rows, "notes": found.notes}


def model(**settings):
    from diver.sample.policy import load_policy

    try:
        policy = load_policy(Model(**settings))
    except DiverError as error:
        return str(error)
    return {"tokens": policy.tokenizer("Use 3")["input_ids"], "parameters": policy.model.num_parameters()}


PROGRAM = f"""
import json, sys, time
slept, sleep = [], time.sleep
time.sleep = lambda seconds: (slept.append(seconds), sleep(seconds))
{inspect.getsource(data)}
print(json.dumps([data(**settings) for settings in json.loads(sys.argv[1])]))
print(sum(slept))
"""


def data_without_hub(cases, home, offline):
    """`data` in a process of its own: `datasets` reads once where the hub is and whether HF_HUB_OFFLINE is set."""
    env = {**os.environ, "HF_ENDPOINT": NOWHERE, "HF_HOME": str(home), "HF_HUB_OFFLINE": str(int(offline))}
    command = [sys.executable, "-c", PROGRAM, json.dumps(cases)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found, slept = done.stdout.splitlines()
    assert float(slept) < 1  # the libraries' own retries sleep 24 seconds a name
    return json.loads(found)


DATA = [
    {"path": "openai/gsm8k", "config": "main"},
    {"path": "openai/gsm8k", "config": "main", "split": "test", "revision": "main"},
    {"path": "luffy/math"},
    {"path": "trl/math", "revision": COMMIT},
]
WRONG_DATA = [
    ({"path": "openai/gsm8k"}, ("openai/gsm8k", "Config name is missing", "['main', 'socratic']")),
    ({"path": "openai/gsm8k", "config": "man"}, ("openai/gsm8k", "'man' not found", "['main', 'socratic']")),
    (
        {"path": "openai/gsm8k", "config": "main", "split": "dev"},
        ("openai/gsm8k", 'Unknown split "dev"', "['train', 'test']"),
    ),
    ({"path": "openai/gsm9k"}, ("openai/gsm9k", "no such dataset", "hf auth login")),
    ({"path": "lab/secret"}, ("lab/secret", "gated", "{hub}/datasets/lab/secret", "hf auth login")),
    ({"path": "lab/wordless"}, ("lab/wordless, row 1", "no prompt: found text")),
    ({"path": "lab/torn"}, ("lab/torn", "JSON", "check config and split")),
    ({"path": "broken/data"}, ("broken/data", "refused by the hub", "500")),
    ({"path": "openai/gsm8k", "revision": "v7"}, ("openai/gsm8k", "no revision 'v7'")),
]
WRONG_MODEL = [
    ({"path": "lab/none"}, ("model.path lab/none", "no such model", "hf auth login")),
    ({"path": "lab/secret"}, ("model.path lab/secret", "gated", "{hub}/lab/secret", "hf auth login")),
    ({"path": "lab/empty"}, ("model.path 'lab/empty'", "cannot be loaded", "config.json")),
    ({"path": "/no/such/folder"}, ("model.path /no/such/folder", "neither here nor a name")),
    ({"path": "{torn}"}, ("model.path", "torn", "cannot be loaded", "give a folder")),
    ({"path": "lab/countdown", "revision": "v7"}, ("model.path lab/countdown", "no revision 'v7'")),
]


@pytest.fixture(scope="module")
def online(hub):
    return [data(**case) for case in DATA]


def check_errors(found, expected, **places):
    for line, words in zip(found, expected, strict=True):
        assert isinstance(line, str), line
        assert "\n" not in line and all(word.format(**places) in line for word in words), line


def test_data_sets_of_every_layout_come_from_the_hub(online):
    assert [result["rows"] for result in online] == [
        [["How many?", "8", "gsm8k", "gsm8k-0"]],
        [["How much?", "9", "gsm8k", "gsm8k-0"]],
        [[CHAT, "4", "gsm8k", "-1"]],
        [[CHAT[1:], r"$\frac{1}{2}$", "math", "math-0"]],
    ]
    duplicates = [any("1 duplicate rows" in note for note in result["notes"]) for result in online]
    assert duplicates == [True, False, False, False]
    assert all(result["notes"][0].endswith(f": revision {COMMIT}") for result in online)


def test_data_sets_come_from_the_cache_offline(online):
    *found, error = data_without_hub([*DATA[:3], {"path": "lab/wordy"}], os.environ["HF_HOME"], offline=True)
    assert [result["rows"] for result in found] == [result["rows"] for result in online[:3]]
    check_errors([error], [("lab/wordy", "HF_HUB_OFFLINE is set", "not downloaded before", "local .jsonl")])


def test_what_is_wrong_with_a_data_set_is_told_in_one_line(hub):
    check_errors([data(**case) for case, _ in WRONG_DATA], [words for _, words in WRONG_DATA], hub=hub.url)


def test_a_hub_out_of_reach_is_told_at_once(tmp_path, monkeypatch):
    told = (NOWHERE, "cannot be reached", "HF_HUB_OFFLINE=1")
    check_errors(
        data_without_hub(DATA[:1], tmp_path, offline=False),
        [("openai/gsm8k", "a .jsonl, .json, .csv or .parquet file", *told)],
    )
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", NOWHERE)
    monkeypatch.setattr("time.sleep", None)
    check_errors([model(path="lab/countdown")], [("lab/countdown", "a folder", *told)])


def test_a_model_comes_from_the_hub_and_then_from_the_cache(hub, monkeypatch):
    found = model(path="lab/countdown")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", NOWHERE)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert found == model(path="lab/countdown") == model()
    # The name of an evaluation: a node without a network goes on with what another began.
    assert sampler(EvalConfig(model="lab/countdown")).model == f"lab/countdown@{COMMIT}"
    assert newest_commit("lab/countdown", "model", COMMIT) == COMMIT and newest_commit("lab/other", "model") is None


def test_a_base_model_of_the_hub_is_downloaded_to_be_blended(hub, tmp_path, monkeypatch):
    """Weights in safetensors, configuration and tokenizer; then from the cache."""
    from diver.sample.blend import blend, model_folder

    monkeypatch.setitem(hub.repositories["lab/countdown"], "pytorch_model.bin", b"pickled")
    for revision in (None, COMMIT):
        folder = model_folder(Model(path="lab/countdown", revision=revision))
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == {
            p.name: p.read_bytes() for p in policy_folder().iterdir()
        }
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    blend(model_folder(Model(path="lab/countdown")), policy_folder(), 0.5, tmp_path / "out")
    weights = [(f / "model.safetensors").read_bytes() for f in (policy_folder(), tmp_path / "out")]
    assert weights[0] == weights[1]  # between a model and itself
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(DiverError, match="lab/secret: is gated"):
        model_folder(Model(path="lab/secret"))
    assert model_folder(Model(path="countdown")) == policy_folder()


def test_what_is_wrong_with_a_model_is_told_in_one_line(hub, tmp_path):
    torn = tmp_path / "torn"
    torn.mkdir()
    for file in policy_folder().iterdir():
        (torn / file.name).write_bytes(file.read_bytes()[:20_000])
    found = [model(**{key: value.format(torn=torn) for key, value in case.items()}) for case, _ in WRONG_MODEL]
    check_errors(found, [words for _, words in WRONG_MODEL], hub=hub.url)
