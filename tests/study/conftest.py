import pytest
from in_this_process import runs_in_this_process


@pytest.fixture
def in_this_process():
    with runs_in_this_process():
        yield
