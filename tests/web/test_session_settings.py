"""Settings that a role, a database or the server has for each session change nothing that the programs do or print."""

import contextlib
import os
import re

import front
import harness

SETTINGS = {
    "default_transaction_isolation": ["serializable", "repeatable read"],
    "statement_timeout": ["1s"],
    "lock_timeout": ["1ms", "1s"],
    "idle_in_transaction_session_timeout": ["500ms"],
    "idle_session_timeout": ["500ms"],
    "TimeZone": ["America/New_York", "Asia/Kolkata", "Pacific/Auckland", "Europe/Berlin"],
    "DateStyle": ["SQL, DMY", "German, DMY", "Postgres, MDY", "ISO, YMD"],
    "IntervalStyle": ["iso_8601", "sql_standard", "postgres_verbose"],
    "bytea_output": ["escape"],
    "extra_float_digits": ["-15", "0", "3"],
    "standard_conforming_strings": ["off"],
    "escape_string_warning": ["on", "off"],
    "backslash_quote": ["off", "on"],
    "quote_all_identifiers": ["on"],
    "search_path": ["public", "shadow, pg_catalog", "pg_temp", "no_such_schema"],
    "row_security": ["off"],
    "array_nulls": ["off"],
    "transform_null_equals": ["on"],
    "client_min_messages": ["error", "debug1"],
    "check_function_bodies": ["off"],
    "xmlbinary": ["hex"],
    "gin_fuzzy_search_limit": ["1"],
    "jit": ["on"],
    "jit_above_cost": ["0"],
    "plan_cache_mode": ["force_custom_plan", "force_generic_plan"],
    "work_mem": ["64kB"],
    "join_collapse_limit": ["1"],
    "from_collapse_limit": ["1"],
    "geqo_threshold": ["2"],
    "synchronous_commit": ["off", "local"],
    **{
        "enable_" + what: ["off"]
        for what in "seqscan indexscan indexonlyscan bitmapscan tidscan sort incremental_sort hashagg material memoize "
        "nestloop mergejoin hashjoin".split()
    },
}

FLOW = '{"jobs": [{"fn": "noop"}], "then": [{"fn": "noop", "on": "ended"}]}'
RULE = "select n as id, timestamptz '2099-01-31 14:30+00' as at, interval '90 min' as span from generate_series(1, 3) n"
COMMANDS = [
    ["add", "noop", '{"ratio": 0.1}', "--run-at", "2099-01-31 14:30", "--label", "far", "--tag", "a"],
    ["add", "noop", "--delay", "2h", "--expires", "3d", "--queue", "other", "--tag", "a"],
    ["add", "noop", "--key", "k"],
    ["queue", "set", "other", "--rate", "20/min", "--max-running", "2"],
    ["queue", "pause", "other"],
    ["function", "set", "noop", "--max-running", "3"],
    ["schedule", "set", "nightly", "30 2 * * *", "noop", "--timezone", "Europe/Berlin"],
    ["schedule", "set", "often", "every 90 min", "noop"],
    ["schedule", "pause", "often"],
    ["schedule", "ls", "--json"],
    ["schedule", "next", "0 9 31 1 *", "--ticks", "2"],
    ["rule", "add", "rows", "noop", RULE, "--key", "id"],
    ["rule", "test", "rows"],
    ["rule", "run", "rows"],
    ["rule", "ls", "--json"],
    ["flow", "add", "-"],
    ["flow", "ls"],
    ["index", "add", "label"],
    ["cancel", "2", "3"],
]
LOOKS = [
    ["ls"],
    ["ls", "--json"],
    ["ls", "--label", "far"],
    ["ls", "--tag", "a"],
    ["ls", "--since", "2026-01-02 03:04"],
    ["show", "1"],
    ["show", "1", "--json"],
    ["show", "4", "--json"],
    ["queue", "ls"],
    ["queue", "ls", "--json"],
    ["function", "ls"],
    ["functions", "--json"],
    ["status", "--json"],
    ["why"],
    ["why", "1"],
    ["why", "2", "--json"],
    ["flow", "ls", "--json"],
    ["index", "ls"],
    ["alert", "--json"],
    ["account", "ls"],
    ["graph", "2"],
    ["history", "publication"],
    ["purge", "--older-than", "30d"],
    ["migrate"],
]
PAGES = "/jobs /jobs?tag=a /jobs/1 /jobs/2 /queues /functions /recurring /recurring/nightly /flows"


def plain(db, text):
    """Without what differs from run to run: times near now, in the one form that they have, ages, and long numbers."""
    text = text.replace(db.dir, "DIR").replace(db.name, "NAME")
    text = re.sub(r'(value="|PopReceipt\': \')[\w-]{11,}', r"\1TOKEN", text)
    text = re.sub(r'("search_path" ?: ?")(\\.|[^"\\])*', r"\1PATH", text)  # a rule keeps the one of its owner
    text = re.sub(r"\b20[2-8]\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?", "TIME", text)
    text = re.sub(r"(\b\d+(\.\d+)? ?(us|µs|ms|s|min|h|d|days?|bytes|kB|KiB|MiB)\b ?)+", "AMOUNT ", text)
    text = re.sub(r'("\w+_(s|ms|us|kb)" ?: ?)[\d.]+', r"\1N", text)
    text = re.sub(r"\b(?!20[89]\d-)\d\d+(?!:\d\d [+-])\b", "N", text)
    return re.sub(r"(&nbsp;|\s|-{3,})+", " ", text)


def outputs(db, settings, start_web_on):
    """Sets these, starts the programs anew, and returns what each step printed."""
    for name, value in settings.items():
        value = value if name == "search_path" else f"'{value}'"
        db.sql(f"alter database {db.name} set {name} = {value}")
    said = {}

    def note(step, text):
        text = str(text)
        said[f"{len(said)} {plain(db, step)}"] = plain(db, text)

    def command(*args):
        done = db.run(args, input=FLOW if args[-1] == "-" else "")
        note(" ".join(args), f"{done.returncode} {done.stdout} {done.stderr}")

    at = '{"run_at": "2099-01-31 14:30+00", "expires": "4d"}'
    # The limits of an application bind its own statements.
    with db.connect(options="-c statement_timeout=0 -c lock_timeout=0") as caller, caller.cursor() as cursor:
        for statement in (
            f"select deferred.defer('noop', '{{\"x\": 1e-7}}', '{at}')",
            "select deferred.schedule('sql', 'every 90 min', 'noop')",
            "select * from deferred.schedule_next('0 9 31 1 *', 2, 'Asia/Tokyo', '2098-01-01 00:00+00')",
            "select deferred.send_mail(array['Ann \"B\" <a@b.example>'], 's', 'text', \"from\" => 'c@d.example')",
            f"select deferred.defer_flow('{FLOW}')",
        ):
            cursor.execute(statement)
            rows = [tuple(str(value) for value in row if not hasattr(value, "tzinfo")) for row in cursor]
            note(statement, repr(rows))
    caller.close()
    for args in COMMANDS:
        command("deferred", *args)
    mail = '{"to": [["a@b.example", null]], "from": ["c@d.example", "C"], "text": "t"}'
    command(os.path.join(harness.BUILD, "tests", "harness", "mail_call"), "-d", db.conninfo, mail)
    command("check_deferred", "--cnt", "0")
    for args in LOOKS:
        command("deferred", *args)
    command("deferred", "doctor")
    server = front.Front(db)
    client = server.client()
    client.create("letters", colour="red")
    sent = client.put("letters", "text", "?messagettl=7200")
    for answer in (client.peek("letters"), client.get("letters", query="&visibilitytimeout=60")):
        note("message", repr([{name: text for name, text in m.items() if "Time" not in name} for m in answer]))
        note("times", repr([re.sub(r"\d+|[A-Z][a-z]{2}\b", "N", m["ExpirationTime"]) for m in answer]))
    note("delete", client.delete("letters", sent).status)
    note("queues", client.call("GET", "/?comp=list").body.decode())
    client.close()
    assert server.stop() == 0
    web = start_web_on(db)
    for path in PAGES.split():
        note(path, web.page(path))
        note(path + " json", web.page(re.sub(r"(?=[?]|$)", ".json", path, count=1)))
    fields = {"token": web.token("/queues/other")}
    note("resume", web.step("/queues/other/resume", fields)[0])
    web.stop()
    command("deferred", "queue", "ls")
    return said


def draw(rng, n):
    """The first time a value of each."""
    names = rng.sample(sorted(SETTINGS), len(SETTINGS) if n == 1 else rng.choice([1, 2, 5, 12]))
    return {name: rng.choice(SETTINGS[name]) for name in names}


@contextlib.contextmanager
def database(admin, cluster, template, name):
    """What a command prints depends on what was done before, so each draw has a database of its own."""
    admin.execute(f"create database {name} template {template} strategy file_copy")
    db = harness.Db(cluster, name)
    try:
        yield db
    finally:
        db.close()
        admin.execute(f"drop database {name} with (force)")


def test_drawn_settings_change_nothing(cluster, admin, db, start_web_on, rng):
    def drawn(n, settings):
        with database(admin, cluster, db.name, f"{db.name}_{n}") as own:
            return outputs(own, settings, start_web_on)

    usual = drawn(0, {})
    refused = [step for step, text in usual.items() if re.match("(64|70|7[78]) ", text)]
    assert refused == [], [usual[step] for step in refused]
    for n in range(1, 1 + int(os.environ.get("DEFERRED_TEST_DRAWS", "2"))):
        settings = draw(rng, n)
        got = drawn(n, settings)
        assert sorted(got) == sorted(usual)
        changed = [step for step in usual if got[step] != usual[step]]
        assert changed == [], f"{settings}:" + "".join(f"\n{step}:\n- {usual[step]}\n+ {got[step]}" for step in changed)
