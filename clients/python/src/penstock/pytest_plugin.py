"""The fixture ``penstock_server``: a server in memory for each test, with a virtual clock."""
from typing import Iterator

import pytest

from .testing import Server, start_penstock


@pytest.fixture
def penstock_server() -> Iterator[Server]:
    with start_penstock(clock="virtual") as server:
        yield server
