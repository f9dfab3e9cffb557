/* SPDX-License-Identifier: MIT */
#include "run/calls.h"

#include "base/clock.h"
#include "base/text/names.h"
#include "port/params.h"
#include "run/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START_NS NS_PER_S        /* a runner begins its next call within this time */
#define STALL_NS (10 * NS_PER_S) /* a runner that takes longer than this is broken */

static uint32_t state_of(const struct calls *calls, unsigned int slot)
{
	return atomic_load_explicit(&calls->board->slot[slot].state, memory_order_acquire);
}

static bool state_is_over(const struct call *call, uint32_t state)
{
	return call->job ? state == BOARD_DONE : state != BOARD_RECALLED;
}

static bool slot_is_over(const struct calls *calls, unsigned int slot)
{
	return state_is_over(&calls->call[slot], state_of(calls, slot));
}

unsigned int calls_over(const struct calls *calls)
{
	unsigned int n = 0;

	while (n < calls->used && slot_is_over(calls, calls_slot(calls, n)))
		n++;
	return n;
}

bool calls_first_is_over(const struct calls *calls)
{
	return slot_is_over(calls, calls->first);
}

bool calls_first_is_queued(const struct calls *calls)
{
	return state_of(calls, calls->first) == BOARD_QUEUED;
}

/* -1: none. Each state is read once, for a forger may change it between two looks. */
static int running_slot(const struct calls *calls)
{
	for (unsigned int i = 0; calls->load > 0 && i < calls->used; i++) {
		unsigned int slot = calls_slot(calls, i);
		uint32_t state = state_of(calls, slot);

		if (!state_is_over(&calls->call[slot], state))
			return calls->call[slot].job && state == BOARD_RUNNING ? (int)slot : -1;
	}
	return -1;
}

const struct call *calls_current(const struct calls *calls, unsigned int *n)
{
	int running = running_slot(calls);
	unsigned int slot = running >= 0 ? (unsigned int)running : calls->first;

	while (*n <= calls->call[slot].more) {
		const struct call *c = &calls->call[(slot + (*n)++) % BOARD_SLOTS];

		if (c->job)
			return c;
	}
	return NULL;
}

void calls_add(struct calls *calls, struct job *jobs, unsigned int n, const struct call_terms *terms)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned int slot = calls_slot(calls, calls->used);
		struct board_slot *s = &calls->board->slot[slot];
		struct call *c = &calls->call[slot];

		atomic_store_explicit(&s->cancelled, 0, memory_order_relaxed);
		atomic_store_explicit(&s->step, 0, memory_order_relaxed);
		atomic_store_explicit(&s->state, BOARD_QUEUED, memory_order_release);
		c->job = jobs;
		jobs = jobs->next;
		c->job->next = NULL;
		c->timeout_ms = terms->timeout_ms;
		c->grace_ms = terms->grace_ms;
		c->plugin = terms->plugin;
		c->batch = n;
		c->more = n - 1 - i;
		if (calls->used++ == 0)
			calls->first_ns = clock_ns();
		calls->load++;
	}
}

void calls_drop_first(struct calls *calls, uint64_t now)
{
	atomic_store_explicit(&calls->board->slot[calls->first].state, BOARD_FREE, memory_order_relaxed);
	memset(calls_first(calls), 0, sizeof(struct call));
	calls->first = calls_slot(calls, 1);
	calls->first_ns = now;
	calls->used--;
}

bool calls_are_forged(const struct calls *calls)
{
	const struct call *c = &calls->call[calls->first];
	uint32_t state = calls->used > 0 && c->job ? state_of(calls, calls->first) : BOARD_DONE;

	return calls->forged ||
	       (state != BOARD_RUNNING && state != BOARD_DONE && (state != BOARD_QUEUED || c->begun_ns));
}

/* Since when the first call runs; 0: it has not begun. It counts as begun START_NS after it could have begun, whatever
 * the runner says. Its word is read once. */
static uint64_t begun_ns(struct calls *calls)
{
	struct call *c = calls_first(calls);
	uint64_t said = calls->board->slot[calls->first].started_ns;

	if (!c->begun_ns && state_of(calls, calls->first) != BOARD_QUEUED)
		c->begun_ns = calls_clamp(calls_clamp(said, c->job->claimed_ns, clock_ns()), calls->ended_ns,
					  calls->first_ns + START_NS);
	return c->begun_ns;
}

const struct job *calls_running(struct calls *calls, uint64_t *started_ns, int64_t *timeout_ms)
{
	int slot = running_slot(calls);

	if (slot < 0)
		return NULL;
	*started_ns = slot == (int)calls->first
			      ? begun_ns(calls)
			      : calls_clamp(calls->board->slot[slot].started_ns, calls->ended_ns, clock_ns());
	*timeout_ms = calls->call[slot].timeout_ms;
	return calls->call[slot].job;
}

const struct job *calls_running_job(const struct calls *calls)
{
	int slot = running_slot(calls);

	return slot >= 0 ? calls->call[slot].job : NULL;
}

/* A limit may be as long as an int64_t allows, which is longer than the clock runs. */
static uint64_t later_ns(uint64_t start_ns, int64_t ms)
{
	return (uint64_t)ms > (UINT64_MAX - start_ns) / NS_PER_MS ? UINT64_MAX : start_ns + (uint64_t)ms * NS_PER_MS;
}

uint64_t calls_limit_ns(struct calls *calls, bool paused, int64_t *timeout_ms)
{
	const struct call *c = calls_first(calls);
	uint64_t stall_ns = calls->first_ns + STALL_NS, begun, limit_ns;

	*timeout_ms = 0;
	if (calls->used == 0)
		return UINT64_MAX;
	if (!c->job)
		return stall_ns;
	begun = begun_ns(calls);
	if (c->done_ns) /* the rest of its texts must come, unless reading is paused */
		stall_ns = paused ? UINT64_MAX : c->done_ns + STALL_NS;
	else if (begun)
		stall_ns = UINT64_MAX;
	limit_ns = c->timeout_ms > 0 && !(c->done_ns && paused)
			   ? later_ns(later_ns(begun ? begun : calls->first_ns + START_NS, c->timeout_ms), c->grace_ms)
			   : UINT64_MAX;
	if (limit_ns >= stall_ns)
		return stall_ns;
	*timeout_ms = begun ? c->timeout_ms : 0;
	return limit_ns;
}

bool calls_have_key(const struct calls *calls, const struct job *job)
{
	for (unsigned int i = 0; i < calls->used; i++) {
		const struct job *other = calls->call[calls_slot(calls, i)].job;

		if (other && job_same_key(other, job))
			return true;
	}
	return false;
}

/* Take one back. False: the runner was faster. Then all calls before its batch have ended, because it takes them in
 * order. */
static bool recall_slot(struct calls *calls, unsigned int i, bool dead)
{
	unsigned int slot = calls_slot(calls, i);
	uint32_t expected = BOARD_QUEUED;

	if (!calls->call[slot].job || dead ||
	    atomic_compare_exchange_strong(&calls->board->slot[slot].state, &expected, BOARD_RECALLED))
		return true;
	for (unsigned int more = calls->call[slot].more; i-- > 0;) {
		slot = calls_slot(calls, i);
		if (calls->call[slot].more != ++more)
			calls->forged |= calls->call[slot].job && state_of(calls, slot) != BOARD_DONE;
	}
	return false;
}

struct job *calls_take_job(struct calls *calls, struct call *call)
{
	struct job *job = call->job;

	asks_clear(&call->asks);
	free(calls_take_step(calls, job));
	free(call->error);
	free(call->result);
	memset(call, 0, sizeof(*call));
	calls->load--;
	return job;
}

struct job *calls_recall(struct calls *calls, bool dead)
{
	unsigned int first = dead ? 0 : 1 + calls_first(calls)->more;
	struct job *list = NULL;

	/* From the end, so that the runner is met once. A living runner has begun the first batch, or is about to. */
	for (unsigned int i = calls->used; i-- > first && recall_slot(calls, i, dead);) {
		struct call *call = &calls->call[calls_slot(calls, i)];

		if (call->job)
			job_list_push(&list, calls_take_job(calls, call));
	}
	return list;
}

int calls_add_step(struct calls *calls, unsigned int slot, const char *payload, size_t len)
{
	struct job_step *step;
	uint32_t number;
	size_t at = sizeof(number);

	if (calls->step || len < sizeof(number))
		return -1;
	memcpy(&number, payload, sizeof(number));
	step = malloc(sizeof(*step) + len + 1);
	if (!step)
		return -1;
	memcpy(step->text, payload, len + 1);
	*step = (struct job_step){ .job = calls->call[slot].job, .number = number, .asked_ns = clock_ns() };
	step->name = frame_text(step->text, len, &at);
	step->value = step->name ? frame_text(step->text, len, &at) : NULL;
	/* The runner has checked this, so a runner that sends something else lies. */
	if (!step->value || !names_is_function(step->name) || strlen(step->value) > STEP_VALUE_MAX ||
	    params_check(step->value, strlen(step->value), NULL) < 0) {
		free(step);
		return -1;
	}
	calls->step = step;
	calls->step_slot = slot;
	return 0;
}

void calls_answer_step(struct calls *calls, int result)
{
	atomic_store(&calls->board->slot[calls->step_slot].step, BOARD_STEP(calls->step->number, result));
	free(calls->step);
	calls->step = NULL;
}

struct job_step *calls_take_step(struct calls *calls, const struct job *job)
{
	struct job_step *step = calls->step;

	if (!step || step->job != job)
		return NULL;
	calls->step = NULL;
	return step;
}

bool calls_progress(const struct calls *calls, const struct call *call, struct job_progress *progress)
{
	struct board_progress copy;
	char *text = NULL;
	size_t len = 0;

	if (!board_read_progress(&calls->board->progress[call - calls->call], &copy))
		return false;
	progress->job = call->job;
	progress->number = copy.seq;
	progress->done = copy.done;
	progress->total = copy.total;
	progress->reported_ns = calls_clamp(copy.reported_ns, progress->job->claimed_ns, clock_ns());
	attempt_set_text(&text, &len, copy.text, copy.text_len);
	snprintf(progress->text, sizeof(progress->text), "%s", text ? text : "");
	free(text);
	return true;
}
