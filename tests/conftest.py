"""No test asks the network, and none of a property fails by its time, since a busy machine is slow and not wrong.

The hub of every test is one on this machine, empty until a test fills it, with a cache of this session. It is set before
anything imports huggingface_hub, which reads these variables once.

`make test` tries 10 examples of each property, `make test-slow` 100; a test that needs n times as many asks for
`settings(max_examples=n * settings().max_examples)`.
"""

import os
import tempfile

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

HUB = LocalHub()
HOME = tempfile.TemporaryDirectory(prefix="hub-")
os.environ |= {"HF_ENDPOINT": HUB.url, "HF_HOME": HOME.name, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}
os.environ |= {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
# Without the certificates of the system, which every client of a server would read again.
os.environ["SSL_CERT_DIR"] = HOME.name
os.environ.pop("SSL_CERT_FILE", None)


@pytest.fixture(scope="session")
def hub():
    return HUB
