"""Whether the time of a refusal tells a stranger which accounts there are."""

import base64
import contextlib
import random
import selectors
import time

import pytest

import front
from front import now

WRONG = base64.b64encode(b"w" * 64).decode()
PAIRS_AT_ONCE = 50


def race(f, raws, kinds, rounds):
    """How often the first kind was refused later than the second, of PAIRS_AT_ONCE pairs a round.

    A pair is sent at the same moment, one of each kind, and a coin says which goes first. Where the
    two take the same time the coin alone decides who is later, whatever else slows the machine: so
    the count is binomial with p = 1/2."""
    later = 0
    for _ in range(rounds):
        requests = [kind() for kind in kinds]
        sent, back, waiting = {}, {}, selectors.DefaultSelector()
        for pair in range(PAIRS_AT_ONCE):
            for kind in random.sample((0, 1), 2):
                raw = raws[pair][kind]
                sent[raw] = time.perf_counter()
                raw.send(requests[kind])
                waiting.register(raw.socket, selectors.EVENT_READ, raw)
        while waiting.get_map():
            for key, _ in waiting.select(30):
                back[key.data] = time.perf_counter()
                waiting.unregister(key.data.socket)
                got = key.data.answer()
                assert (got.status, got.code) == (403, "AuthenticationFailed"), got
        later += sum(back[a] - sent[a] > back[b] - sent[b] for a, b in raws)
        for pair in raws:  # which connection is whose is drawn anew as well
            if random.random() < 0.5:
                pair.reverse()
    return later


@pytest.mark.long
def test_ten_thousand_tries_do_not_tell_an_account_from_none(db):
    f = front.Front(db)
    ours, nobodys = f.client(key=WRONG), f.client("x" * len(f.ACCOUNT), WRONG)
    wrong_key = lambda: ours.bytes("GET", "/mail/messages", date=now())  # noqa: E731
    no_account = lambda: nobodys.bytes("GET", "/mail/messages", date=now())  # noqa: E731
    unsigned = lambda: ours.bytes("GET", "/mail/messages", signed=False)  # noqa: E731
    with contextlib.ExitStack() as stack:
        raws = [[stack.enter_context(contextlib.closing(f.connect())) for _ in range(2)] for _ in range(PAIRS_AT_ONCE)]

        def judge(first, second, rounds):
            """By how many standard deviations the count is off; beyond 5 by chance once in 1.7 million times."""
            n = rounds * PAIRS_AT_ONCE
            z = (race(f, raws, (first, second), rounds) - n / 2) / (n / 4) ** 0.5
            print(f"{n} pairs: {z:+.1f} standard deviations")
            return abs(z)

        assert judge(wrong_key, unsigned, 4) > 5, "what is answered early is seen by this"
        assert judge(wrong_key, no_account, 100) < 5
    assert f.stop() == 0, f.program.output()
