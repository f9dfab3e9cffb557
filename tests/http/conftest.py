"""A front, and a client of its account with a queue."""

import pytest

import front


@pytest.fixture
def f(db):
    """It has to end well too: under the sanitizers an exit code of 0 means that nothing was found,
    and nothing leaked."""
    started = front.Front(db)
    yield started
    if started.program.process.returncode is None:
        assert started.stop() == 0, started.program.output()


@pytest.fixture
def c(f):
    client = f.client()
    client.create("mail")
    yield client
    client.close()
