"""One scenario a file: TITLE, and run(b), which measures and fills b.report. See bench.py for what b offers."""

# In the order they run. Those of LONG only when named.
NAMES = (
    "execute",
    "isolate",
    "batches",
    "programs",
    "backlog",
    "queues",
    "crowd",
    "held",
    "agents",
    "singles",
    "defer",
    "bulk",
    "memory",
    "wal",
    "start",
    "latency",
    "history",
    "http",
    "limits",
    "plans",
    "flow",
    "schedule",
    "shards",
)
LONG = ("programs", "history", "http", "limits", "plans", "flow", "schedule", "shards")
