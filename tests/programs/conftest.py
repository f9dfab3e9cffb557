"""How each test of programs ends."""

import pytest

from harness import wait_for


@pytest.fixture(autouse=True)
def nothing_left(request):
    """No runner, no program and no child of a program outlives a test."""
    db = request.getfixturevalue("db") if "db" in request.fixturenames else None
    yield
    if db:
        wait_for(lambda: not db.orphans(), 20, "the end of all processes of the test")
