"""An explicit-state model of deferred.__enqueue_key(): every interleaving of three producers that defer one job each
with the same key, of the workers that run these jobs, and of housekeeping, statement by statement.

A producer reads what is committed, and what it has written itself. It waits for another one at two unique indexes
only: that of hot rows with the key, and that of rows of __deferred_key. The table of these rows grows at once, whether
or not the producer commits, and housekeeping may truncate it when it is empty.

Promises: at each commit at most one job holds the key, and no producers wait for each other.
"""

import collections
import itertools

KINDS = ("end", "start", "span")
ERRORS = {
    "unread": "a job with an ordinary key does not look for rows of keys",
    "size-once": "it looks whether there are such rows before it stores its hot row, and not after",
    "row-unseen": "the row of a key is taken from whoever has it",
    "holder-unseen": "the row of a key is taken without a look at its job",
    "swept": "the row of a job that runs, and has given its key up, is removed",
    "unlocked": "a skipped call does not keep a job with key_until start from starting",
}

# Steps of a producer.
BEGIN, LOOK, LOCK, PLACE, STORE, SIZE, SEE, CHECK, TAKE, MET, WRITTEN, OVER = range(12)

# hot: (job, has the key in its row, started) of committed jobs. row: job of the committed row, or None. kept: jobs that
# have ended and keep the key. pages: the table of rows has any.
State = collections.namedtuple("State", "hot row kept pages producers")
# hot, row: what it has written and not committed: None, or (as in State,).
# share: job that it has locked. seen: job of the row as it was read. place: the hot row gets the key. rows: there were
# rows of keys when it began. wrong: it was skipped for a job that does not hold the key.
Producer = collections.namedtuple("Producer", "step hot row share seen place rows wrong", defaults=(None,) * 7)


def holders(state, kinds, me=None):
    """Jobs that hold the key, as producer `me` sees it."""
    hot, row = dict((h[0], h) for h in state.hot), state.row
    if me is not None and state.producers[me].hot:
        hot[me] = state.producers[me].hot
    if me is not None and state.producers[me].row:
        row = state.producers[me].row[0]
    held = {j for j, key, started in hot.values() if key and not (kinds[j] == "start" and started)}
    if row is not None and (row in state.kept or (row in hot and not (kinds[row] == "start" and hot[row][2]))):
        held.add(row)
    return held


def explore(kinds, broken=None):
    """The first broken promise with the steps that lead to it, or None. Number of states."""
    first = State((), None, frozenset(), False, (Producer(BEGIN),) * len(kinds))
    before, todo = {first: None}, collections.deque([first])
    while todo:
        state = todo.popleft()
        wrong = broken_promise(state, kinds)
        if wrong:
            way = []
            while state:
                way.append(state)
                state = before[state]
            return wrong, way[::-1]
        moves = list(steps(state, kinds, broken))
        waiting = [p for p in state.producers if p.step != OVER]
        if waiting and all(n.producers == state.producers for n in moves):
            return "producers wait for each other", [state]
        for new in moves:
            if new not in before:
                before[new] = state
                todo.append(new)
    return None, len(before)


def broken_promise(state, kinds):
    held = {j for j, key, started in state.hot if not (kinds[j] == "start" and started)} | set(state.kept)
    if len(held) > 1:
        return f"jobs {sorted(held)} hold the key"
    for n, p in enumerate(state.producers):
        if p.wrong:
            return f"producer {n} was skipped for a job that has given its key up"
        if p.share is not None and any(j == p.share and started for j, _, started in state.hot) and p.step == WRITTEN:
            return f"job {p.share} has started while producer {n} has not committed"
    return None


def steps(state, kinds, broken):
    for n, p in enumerate(state.producers):
        for new in producer_steps(state, n, p, kinds, broken):
            yield new
    for job, key, started in state.hot:
        rest = tuple(h for h in state.hot if h[0] != job)
        if not started and (broken == "unlocked" or not any(p.share == job for p in state.producers)):
            yield state._replace(hot=tuple(sorted(rest + ((job, key, True),))))
        if started:
            yield state._replace(hot=rest, kept=state.kept | ({job} if kinds[job] == "span" else set()))
    for job in state.kept:
        yield state._replace(kept=state.kept - {job})
    if state.row is not None and not holders(state, kinds) and not any(p.row for p in state.producers):
        if broken == "swept" or not any(j == state.row or key for j, key, _ in state.hot):
            yield state._replace(row=None)
    # A statement that has begun keeps the pages of rows that were removed since, and so does a row that was written.
    if (
        state.pages
        and state.row is None
        and all(p.rows is None or (p.step == WRITTEN and not p.row) for p in state.producers)
    ):
        yield state._replace(pages=False)


def producer_steps(state, n, p, kinds, broken):
    def to(step, pages=None, **changes):
        producers = list(state.producers)
        producers[n] = p._replace(step=step, **changes)
        return state._replace(producers=tuple(producers), pages=state.pages if pages is None else pages)

    others = [q for i, q in enumerate(state.producers) if i != n]
    mine = kinds[n]
    held = holders(state, kinds, n) - {n}
    started = {j for j, key, s in state.hot if key and s and kinds[j] == "start"}
    with_key = {j for j, key, _ in state.hot if key}
    # Another one has changed a row of that key and not committed.
    key_busy = any(q.hot and q.hot[1] for q in others)
    row_busy = any(q.row for q in others)
    row = p.row[0] if p.row else state.row

    if p.step == BEGIN:
        rows = mine != "end" or (state.pages and broken != "unread")
        yield to(LOOK if rows else STORE, place=True, rows=rows)
    elif p.step == MET:
        yield to(BEGIN) if state.pages or not with_key else to(WRITTEN, wrong=bool(started))
    elif p.step == LOOK:
        if not held:
            yield to(PLACE)
        elif any(kinds[j] == "start" for j in held):
            yield to(LOCK, share=min(j for j in held if kinds[j] == "start"))
        else:
            yield to(WRITTEN)
    elif p.step == LOCK:
        free = any(j == p.share and not s for j, _, s in state.hot)
        yield to(WRITTEN) if free else to(BEGIN, share=None)
    elif p.step == PLACE:
        yield to(STORE, place=not started)
    elif p.step == STORE:
        if not p.place:
            yield to(SIZE, hot=(n, False, False))
        elif not key_busy:
            yield to(BEGIN if p.rows else MET) if with_key else to(SIZE, hot=(n, True, False))
    elif p.step == SIZE:
        done = mine == "end" and (not state.pages or broken == "unread" or (broken == "size-once" and not p.rows))
        yield to(WRITTEN if done else SEE)
    elif p.step == SEE:
        yield to(CHECK, seen=row)
    elif p.step == CHECK:
        yield to(BEGIN, hot=None) if held and broken != "holder-unseen" else to(TAKE)
    elif p.step == TAKE:
        if not row_busy:
            free = row is None or row == p.seen or broken == "row-unseen"
            yield to(WRITTEN, row=(n,), pages=True) if free else to(BEGIN, hot=None)
    elif p.step == WRITTEN:
        over = Producer(OVER)
        producers = list(state.producers)
        producers[n] = over
        hot = tuple(sorted(state.hot + ((p.hot,) if p.hot else ())))
        yield state._replace(hot=hot, row=p.row[0] if p.row else state.row, producers=tuple(producers))
        yield state._replace(producers=tuple(producers))


def worlds():
    return itertools.combinations_with_replacement(KINDS, 3)
