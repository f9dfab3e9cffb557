"""An explicit-state model of the steps of one job: every interleaving of two workers that claim the job, run its steps
and save them, of deaths, of leases that end while their worker goes on, of takeovers, and of an operator.

A worker runs a step, asks to save it, and goes on when the answer comes. Saving locks the row of the job if the receipt
holds it, stores the value, and commits. The server may die before the commit. Each end of an attempt locks the row too.
A worker may die at any point. A worker whose lease has ended goes on until an answer says so.

Promises: a saved value is never replaced, and its step never runs again for the holder of the job. If a worker is told
that a step is saved, it is saved. A worker without a lease saves nothing, records nothing, and runs at most one more
step. One worker at a time holds the job. The job ends once. A step runs once, and once more for each attempt that was
cut between its work and its saving.
"""

import collections

ERRORS = {
    "save-unchecked": "a step is saved without a look at the receipt",
    "save-unlocked": "the receipt is looked at, and the row is not locked",
    "save-expired": "a lease that has ended still counts for a step",
    "told-early": "a worker goes on before the commit",
    "not-handed-out": "a claim does not hand out the steps",
    "read-before": "a claim reads the steps before it locks the job",
    "failed-drops": "an attempt that failed deletes the steps",
    "retry-drops": "a plain retry deletes the steps",
    "ok-keeps": "the steps of a job that has succeeded are kept",
    "from-start-keeps": "a retry from the start keeps the steps",
    "end-unchecked": "an end is recorded without a look at the receipt",
    "edit-claimed": "a job that is claimed is changed, and is ready again",
    "takeover-lives": "a start that takes over gives the job back while the old worker goes on",
}

STEPS, WORKERS = 2, 2
READY, DELAYED, ENDED = "ready", "delayed", "ended"
IDLE, READS, WORK, DID, LOCKED = "idle", "reads", "work", "did", "locked"

# job: READY, DELAYED, ENDED or (receipt, live) of its lease. saved: value of each step, a (life, run), or None.
# ever: the values that were saved in this life. ran, cut: of each step. life: grows with each retry from the start.
# left: what may happen yet, of claims and of each kind of trouble. wrong: a promise that a step has broken.
State = collections.namedtuple("State", "job cancel ok saved ever ran cut life receipts left workers wrong")
# known: the values that it knows. value: of the step that it is at. over: its lease has ended. extra: steps run since.
Worker = collections.namedtuple("Worker", "at receipt known value over extra", defaults=(IDLE, 0, None, None, False, 0))
NOTHING = (None,) * STEPS
LIMITS = {"claim": 3, "expire": 1, "die": 1, "crash": 1, "fail": 1, "snooze": 1, "take": 1, "edit": 1, "cancel": 1}
LIMITS.update({"retry": 1, "from-start": 1})


def put(values, n, value):
    return (*values[:n], value, *values[n + 1 :])


def holds(state, worker):
    return state.job == (worker.receipt, True)


def explore(troubles, broken=None, **more):
    """troubles: kinds of LIMITS that may happen. more: other limits. Returns the first broken promise and the steps
    that lead to it. If there is none, returns None and the number of states."""
    left = tuple(sorted((kind, {**LIMITS, **more}[kind]) for kind in ("claim", *troubles)))
    zeros = (0,) * STEPS
    first = State(READY, False, 0, NOTHING, NOTHING, zeros, zeros, 0, 0, left, (Worker(),) * WORKERS, None)
    before, todo = {first: None}, collections.deque([first])
    while todo:
        state = todo.popleft()
        wrong = broken_promise(state)
        if wrong:
            way = []
            while state:
                way.append(state)
                state = before[state]
            return wrong, way[::-1]
        for new in moves(state, broken):
            if new not in before:
                before[new] = state
                todo.append(new)
    return None, len(before)


def broken_promise(state):
    if state.wrong:
        return state.wrong
    if state.ok > 1:
        return "the job has succeeded twice"
    if state.job == ENDED and state.ok and state.saved != NOTHING:
        return "a job that has succeeded has steps"
    for n in range(STEPS):
        if state.saved[n] and state.saved[n] != state.ever[n]:
            return f"the value of step {n} was replaced"
        if state.saved[n] and state.saved[n][0] != state.life:
            return f"step {n} is from before the start"
        unsaved = sum(w.value is not None and w.value[:2] == (state.life, n) for w in state.workers)
        if state.ran[n] != (state.ever[n] is not None) + state.cut[n] + unsaved:
            return f"step {n} ran more often than it was cut"
    return None


def spend(state, kind):
    """The state after one more of this kind, or None if there were enough."""
    left = dict(state.left)
    if not left.get(kind):
        return None
    return state._replace(left=tuple(sorted({**left, kind: left[kind] - 1}.items())))


def locked(state):
    return any(w.at == LOCKED for w in state.workers)


def cut_off(state, worker):
    """What the worker ran and did not save is run again."""
    if worker.value and worker.value[0] == state.life:
        return state._replace(cut=put(state.cut, worker.value[1], state.cut[worker.value[1]] + 1))
    return state


def end(state, outcome):
    """The job has ended, or comes again, with the row locked. ENDED: it is dead or cancelled."""
    if state.cancel and outcome != "ok" or outcome == ENDED:
        return state._replace(job=ENDED, cancel=False)
    if outcome == "ok":
        return state._replace(job=ENDED, cancel=False, ok=state.ok + 1, saved=NOTHING)
    return state._replace(job=outcome)


def moves(state, broken):
    for n, worker in enumerate(state.workers):
        if n == 0 or worker != state.workers[n - 1]:  # two that are at the same are one
            yield from worker_moves(state, n, worker, broken)
    free, held = not locked(state) or broken == "save-unlocked", isinstance(state.job, tuple)
    if held and state.job[1] and (new := spend(state, "expire")):
        workers = (w._replace(over=w.over or w.receipt == state.job[0]) for w in state.workers)
        yield new._replace(job=(state.job[0], False), workers=tuple(sorted(workers, key=repr)))
    if held and not state.job[1] and free:
        yield end(state, READY)  # the job is taken from a lease that has ended
    if state.job == DELAYED:
        yield state._replace(job=READY)
    if (not held or broken == "edit-claimed") and state.job != ENDED and free and (new := spend(state, "edit")):
        yield new._replace(job=READY)
    if state.job != ENDED and free and (new := spend(state, "cancel")):
        yield new._replace(cancel=True) if held else end(new, ENDED)
    if state.job == ENDED and not state.ok and free:
        if new := spend(state, "retry"):
            yield new._replace(job=READY, saved=NOTHING if broken == "retry-drops" else state.saved)
        if new := spend(state, "from-start"):
            kept = state.saved if broken == "from-start-keeps" else NOTHING
            zeros = (0,) * STEPS
            yield new._replace(job=READY, saved=kept, ever=NOTHING, ran=zeros, cut=zeros, life=state.life + 1)


def worker_moves(state, n, worker, broken):
    def to(new, state=state, **changes):
        workers = sorted((*state.workers[:n], new, *state.workers[n + 1 :]), key=repr)
        return state._replace(workers=tuple(workers), **changes)

    others = state.workers[:n] + state.workers[n + 1 :]
    free = not any(w.at == LOCKED for w in others) or broken == "save-unlocked"
    if worker.at == IDLE:
        if state.job == READY and not locked(state) and (new := spend(state, "claim")):
            number = state.receipts + 1
            known = NOTHING if broken == "not-handed-out" else state.saved
            busy = any(w.at not in (IDLE, READS) and not w.over for w in others)
            wrong = "the job is claimed while a worker with a lease runs it" if busy else None
            yield to(Worker(WORK, number, known), new, job=(number, True), receipts=number, wrong=wrong)
        if broken == "read-before" and isinstance(state.job, tuple):
            yield to(Worker(READS, 0, state.saved))
        return
    if worker.at == READS:
        if state.job == READY and not locked(state) and (new := spend(state, "claim")):
            number = state.receipts + 1
            yield to(Worker(WORK, number, worker.known), new, job=(number, True), receipts=number)
        return
    if new := spend(state, "die"):
        yield to(Worker(), cut_off(new, worker))
    if worker.at == LOCKED:
        yield from store_moves(state, worker, to, broken)
        return
    mine = holds(state, worker)
    if mine and free and (new := spend(state, "take")):
        yield to(worker if broken == "takeover-lives" else Worker(), cut_off(end(new, READY), worker))
    if worker.at == WORK:
        yield from work_moves(state, worker, to, free, broken)
    elif worker.at == DID and free:
        late = broken == "save-expired" and state.job == (worker.receipt, False)
        if mine or late or broken == "save-unchecked":
            wrong = None if mine else "a worker without a lease saves a step"
            yield to(worker._replace(at=LOCKED), wrong=wrong)
        else:
            yield to(Worker(), cut_off(state, worker))  # the answer says so, and the function ends


def work_moves(state, worker, to, free, broken):
    mine = holds(state, worker)
    step = worker.known.index(None) if None in worker.known else None
    if step is not None:
        wrong = f"step {step} runs again, although it was saved" if mine and state.ever[step] else None
        extra = worker.extra + (not mine)
        if extra > 1:
            wrong = "a worker without a lease runs on"
        new = state._replace(ran=put(state.ran, step, state.ran[step] + 1), wrong=wrong)
        value = (state.life, step, worker.receipt)
        yield to(worker._replace(at=DID, value=value, extra=extra), new)
    outcomes = [("fail", READY), ("fail", ENDED), ("snooze", DELAYED)]
    for kind, outcome in outcomes if mine and free else []:
        if new := spend(state, kind):
            new = new._replace(saved=NOTHING) if broken == "failed-drops" and kind == "fail" else new
            yield to(Worker(), end(new, outcome))
    if step is None and (mine and free or broken == "end-unchecked"):
        new = end(state, "ok")
        yield to(Worker(), new._replace(saved=state.saved) if broken == "ok-keeps" else new)
    elif step is None and not mine:
        yield to(Worker())


def store_moves(state, worker, to, broken):
    """It has locked the row, and commits, or the server dies."""
    _, step, _ = worker.value
    known = put(worker.known, step, worker.value[:1] + worker.value[2:])
    done = worker._replace(at=WORK, known=known, value=None)
    wrong = None
    if state.ever[step] or state.saved[step]:
        wrong = f"the value of step {step} was replaced"
    elif broken == "save-unlocked" and not (isinstance(state.job, tuple) and state.job[0] == worker.receipt):
        wrong = "a worker without a lease saves a step"
    value = known[step]
    saved, ever = put(state.saved, step, value), put(state.ever, step, value)
    yield to(done, saved=saved, ever=ever, wrong=wrong)
    if new := spend(state, "crash"):
        told = "a worker was told that a step is saved, and it is not" if broken == "told-early" else None
        yield to(done if told else worker._replace(at=DID), new, wrong=told)


def worlds():
    """What may happen together. Everything at once has too many states."""
    yield ("die", "expire", "fail", "snooze")
    yield ("die", "expire", "crash", "take")
    yield ("expire", "edit", "snooze", "cancel", "retry")
    yield ("die", "cancel", "retry", "from-start", "expire")
    yield ("fail", "retry", "from-start", "take", "edit")
