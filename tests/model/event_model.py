"""An explicit-state model of events: every interleaving of transactions that send an event, of
transactions that defer a job that waits for that event, of two workers that process notes, of time
limits, and of housekeeping.

A transaction is seen by nobody before it commits, and each may be rolled back. A worker takes a
note that no other one has taken, reads the next job that waits, locks it, decides about it with a
new snapshot, and commits. It may die between any two of these steps. A slice of a note is one job.

Promises: when all is done, a job has the event if one counts for it, and waits or is timed out
otherwise. It is decided once. The event that it got stays. No step waits for ever.
"""

import collections
import itertools

ERRORS = {
    "no-event-note": "who sends an event leaves no note",
    "no-job-note": "who defers a job that waits leaves no note",
    "two-commits": "the note is removed before the job is decided",
    "unlocked": "a job is decided without its lock",
    "rest-forgotten": "a note with more jobs than a slice has is removed with the first slice",
    "kept-unseen": "an event from before the job does not count",
    "limit-first": "the time limit is looked at before the events",
    "forget-at-once": "an event is removed while a transaction is open that began before the end of `keep`",
    "forget-waited": "an event is removed although a job waits that gets it",
    "forget-got": "an event is removed although a job has got it",
}

EVENTS, JOBS = ("kept", "sent"), ("limit", "wait")  # kinds of producers; an event that is only sent is not kept
WORKERS = 2
STATES_MAX = 300000  # of a world. A change that adds kinds of states fails the test soon, and does not seem to hang it

# order: producers in the order of the times that they took. reach: (event, job) where the event counts for the job,
# which is known when the later of both took its time. over: events that are kept no longer. passed: jobs whose time
# limit is over.
# events: those that are there; came: also those that were removed. jobs: (number, what it got), which is an event,
# LATE or None. due: jobs for which an event was there when their time limit passed. twice: a job was decided again.
# notes: (kind, number, after). open: of each producer. workers: what each is at. marks: (event, producers whose
# transactions were open when housekeeping found it over).
State = collections.namedtuple("State", "order reach over passed events came jobs due twice notes open workers marks")
# What a worker is at: TOOK a note, has READ a job and whether there are more, has it LOCKED, has DECIDED what it gets.
Worker = collections.namedtuple("Worker", "step note job more said", defaults=(None, None, False, None))
IDLE, TOOK, READ, LOCKED, DECIDED = range(5)
NEW, OPEN, OVER = range(3)
LATE = "late"
NONE = frozenset()


def event_of(state, job, broken=None):
    """As deferred.__event_of(): the last one from before the job, else the first one since then."""
    place = state.order.index
    found = sorted((e for e in state.events if (e, job) in state.reach), key=place)
    before = [e for e in found if place(e) < place(job)]
    if broken == "kept-unseen":
        found, before = [e for e in found if e not in before], []
    return before[-1] if before else found[0] if found else None


def explore(kinds, broken=None):
    """kinds: of each producer. Returns the first broken promise and the steps that lead to it. If
    there is none, returns None and the number of states."""
    idle = (Worker(IDLE),) * WORKERS
    first = State((), NONE, NONE, NONE, NONE, NONE, (), NONE, False, NONE, (NEW,) * len(kinds), idle, NONE)
    before, todo = {first: None}, collections.deque([first])
    while todo:
        if len(before) > STATES_MAX:
            return f"the world has more than {STATES_MAX} states", []
        state = todo.popleft()
        moves = set(steps(state, kinds, broken))
        wrong = broken_promise(state, moves)
        if wrong:
            way = []
            while state:
                way.append(state)
                state = before[state]
            return wrong, way[::-1]
        for new in moves:
            if new not in before:
                before[new] = state
                todo.append(new)
    return None, len(before)


def broken_promise(state, moves):
    if state.twice:
        return "a job was decided twice"
    for job, got in state.jobs:
        if got == LATE and job in state.due:
            return f"job {job} was timed out, although its event was there in time"
        if got not in (None, LATE) and not (got in state.events and (got, job) in state.reach):
            return f"job {job} has an event that is gone, or does not count"
    busy = any(w.step != IDLE for w in state.workers)
    if busy and not any(new.workers != state.workers for new in moves):
        return "workers wait for each other"
    if busy or state.notes or any(p != OVER for p in state.open):
        return None
    for job, got in state.jobs:
        if got is None and any((e, job) in state.reach for e in state.came):
            return f"job {job} waits for an event that came"
    return None


def steps(state, kinds, broken):
    for n, kind in enumerate(kinds):
        yield from producer_steps(state, n, kinds, broken)
        if kind == "kept" and n in state.order and n not in state.over:
            yield state._replace(over=state.over | {n})
        if kind == "limit" and n in state.order and n not in state.passed and dict(state.jobs).get(n) is None:
            due = state.due if event_of(state, n) is None else state.due | {n}
            yield state._replace(passed=state.passed | {n}, due=due)
    for n, worker in enumerate(state.workers):
        if n == 0 or worker != state.workers[n - 1]:  # two that are at the same are one
            yield from worker_steps(state, n, worker, broken)
    for e in state.events & state.over:
        yield from housekeeping_steps(state, e, broken)


def producer_steps(state, n, kinds, broken):
    def to(what, **changes):
        return state._replace(open=state.open[:n] + (what,) + state.open[n + 1 :], **changes)

    event = kinds[n] in EVENTS
    if state.open[n] == NEW:
        others = [o for o in state.order if (kinds[o] in EVENTS) != event]
        if event:
            reach = {(n, job) for job in others if job not in state.passed}
        else:
            reach = {(e, n) for e in others if e not in state.over}
        over = state.over | {n} if kinds[n] == "sent" else state.over
        yield to(OPEN, order=state.order + (n,), reach=state.reach | reach, over=over)
    elif state.open[n] == OPEN:
        without = tuple(o for o in state.order if o != n)
        yield to(
            OVER,
            order=without,
            reach=frozenset(pair for pair in state.reach if n not in pair),
            over=state.over - {n},
            passed=state.passed - {n},
            due=state.due - {n},
        )
        noted = broken != ("no-event-note" if event else "no-job-note")
        notes = state.notes | {("e" if event else "l", n, -1)} if noted else state.notes
        if event:
            yield to(OVER, events=state.events | {n}, came=state.came | {n}, notes=notes)
        else:
            yield to(OVER, jobs=tuple(sorted(state.jobs + ((n, None),))), notes=notes)


def worker_steps(state, n, worker, broken):
    def to(new, **changes):
        workers = sorted((*state.workers[:n], new, *state.workers[n + 1 :]), key=repr)
        return state._replace(workers=tuple(workers), **changes)

    others = state.workers[:n] + state.workers[n + 1 :]
    waits = [job for job, got in state.jobs if got is None]
    free = not any(w.step >= LOCKED and w.job == worker.job for w in others)
    if worker.step == IDLE:
        for note in state.notes - {w.note for w in others}:
            yield to(Worker(TOOK, note), notes=state.notes - {note} if broken == "two-commits" else state.notes)
        for job in [job for job in waits if job in state.passed][:1]:
            yield to(Worker(READ, None, job))
        return
    yield to(Worker(IDLE))  # it dies
    if worker.step == TOOK:
        kind, number, after = worker.note
        jobs = [job for job in waits if job > after] if kind == "e" else [number]
        if jobs:
            yield to(worker._replace(step=READ, job=jobs[0], more=len(jobs) > 1))
        else:
            yield to(Worker(IDLE), notes=state.notes - {worker.note})
    elif worker.step == READ and broken == "unlocked":
        yield to(worker._replace(step=DECIDED, said=decide(state, worker.job, broken)))
    elif worker.step == READ and free:
        yield to(worker._replace(step=LOCKED))
    elif worker.step == LOCKED:
        yield to(worker._replace(step=DECIDED, said=decide(state, worker.job, broken)))
    elif worker.step == DECIDED:
        jobs = dict(state.jobs)
        twice = worker.said is not None and jobs[worker.job] is not None
        jobs[worker.job] = jobs[worker.job] if worker.said is None else worker.said
        notes = state.notes - {worker.note}
        if worker.more and broken != "rest-forgotten":
            notes |= {(*worker.note[:2], worker.job)}
        yield to(Worker(IDLE), jobs=tuple(sorted(jobs.items())), notes=notes, twice=twice)


def decide(state, job, broken):
    """What a job gets; None: nothing yet, or it has been decided."""
    if dict(state.jobs)[job] is not None:
        return None
    event = event_of(state, job, broken)
    if job in state.passed and (event is None or broken == "limit-first"):
        return LATE
    return event


def housekeeping_steps(state, e, broken):
    """The event is looked at twice: all transactions that were open the first time must have ended."""
    marked = dict(state.marks).get(e)
    if marked is None:
        yield state._replace(marks=state.marks | {(e, frozenset(n for n, p in enumerate(state.open) if p == OPEN))})
        return
    if broken != "forget-at-once" and any(state.open[n] != OVER for n in marked):
        return
    if broken != "forget-got" and any(got == e for _, got in state.jobs):
        return
    if broken != "forget-waited" and any(got is None and (e, job) in state.reach for job, got in state.jobs):
        return
    yield state._replace(events=state.events - {e})


def worlds():
    """One event and two jobs, and two events and one job: those with less than STATES_MAX states."""
    for event, jobs in itertools.product(EVENTS, (("limit", "wait"), ("wait", "wait"))):
        yield (event, *jobs)
    for events in itertools.combinations_with_replacement(EVENTS, 2):
        yield (*events, "wait")
