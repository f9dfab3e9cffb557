"""The bench measures the plain build: its tests are of that one alone."""

import harness

collect_ignore = ["test_bench.py"] if harness.SAN else []
