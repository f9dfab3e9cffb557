"""A value for each option of a job, and the options that must be given together with it."""

VALUES = {
    "queue": "q",
    "label": "l",
    "priority": 1,
    "delay": "1h",
    "run_at": "2030-01-01",
    "expires": "1d",
    "expires_at": "2031-01-01",
    "key": "k",
    "key_until": "1h",
    "on_duplicate": "skip",
    "max_attempts": 2,
    "timeout": "1s",
    "backoff_floor": "1s",
    "backoff_ceiling": "2s",
    "backoff_exponent": 2,
    "concurrency_key": "c",
    "concurrency": 1,
    "tags": ["t"],
    "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
    "after": [1],
    "wait_for": "e",
    "flow": 1,
}
# Options that the row of a job has.
STORED = set(VALUES) - {"delay", "expires", "on_duplicate", "after", "wait_for", "flow"}
# Options whose column is NAME_ms.
SPANS = {"key_until", "timeout", "backoff_floor", "backoff_ceiling"}
TOGETHER = {
    "concurrency": {"concurrency_key": "c"},
    "on_duplicate": {"key": "k"},
    "key_until": {"key": "k", "on_duplicate": "replace"},
}
