/* SPDX-License-Identifier: MIT */
#include "run/runner.h"

#include "base/clock.h"
#include "base/log.h"
#include "run/ending.h"
#include "run/inbox.h"
#include "run/token.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define REMOVALS_MAX (1u << 20) /* bytes of requests that wait for a runner to read them */
#define TORN_NS NS_PER_S        /* the rest of a frame comes within this time */

struct runner {
	struct child child;
	struct calls calls;
	struct inbox inbox;
	struct frame_buf out;
	struct runner_output output;
	struct ending_kill kill;
	struct attempt *ended, **ended_tail;
};

int runner_spawn(struct runner **out, const struct runner_setup *setup, struct deferred_error *err)
{
	struct runner *r = calloc(1, sizeof(*r));
	int rc;

	*out = NULL;
	if (!r || runner_setup_send(setup, &r->out) < 0) {
		if (r)
			frame_buf_clear(&r->out);
		free(r);
		return error_set(err, DEFERRED_ENOMEM, "runner", "out of memory");
	}
	r->ended_tail = &r->ended;
	rc = child_start(&r->child, setup, err);
	if (rc < 0) {
		runner_free(r);
		return rc;
	}
	r->calls.board = r->child.board;
	*out = r;
	runner_flush(r);
	return 0;
}

void runner_free(struct runner *r)
{
	struct attempt *a;

	if (!r)
		return;
	job_list_free(runner_recall(r));
	while ((a = runner_take(r)))
		attempt_free(a);
	child_close(&r->child);
	inbox_clear(&r->inbox);
	frame_buf_clear(&r->out);
	free(r);
}

pid_t runner_pid(const struct runner *r)
{
	return r->child.pid;
}

bool runner_ready(const struct runner *r)
{
	return r->inbox.ready && !r->inbox.broken && !r->kill.killed;
}

void runner_pollfds(const struct runner *r, struct pollfd fds[2])
{
	int events = (r->inbox.paused ? 0 : POLLIN) | (r->out.at < r->out.len ? POLLOUT : 0);

	fds[0] = (struct pollfd){ r->child.socket, (short)events, 0 };
	fds[1] = (struct pollfd){ r->child.output, POLLIN, 0 };
}

size_t runner_load(const struct runner *r)
{
	return r->calls.load;
}

/* ---- calls ------------------------------------------------------------------------------------ */

/* more: calls of its batch that follow. Returns 0, or -1 when out of memory. */
static int put_call(struct runner *r, unsigned int slot, const struct job *job, const struct call_terms *terms,
		    unsigned int more)
{
	struct frame_call fixed = {
		.id = job->id,
		.created_at_us = job->created_at_us,
		.ready_at_us = job->ready_at_us,
		.tick_us = job->tick_us,
		.previous_tick_us = job->previous_tick_us,
		.timeout_ms = terms->timeout_ms,
		.plain_crash = terms->plain_crash,
		.more = more,
		.token = token_of(job->receipt, job->id),
		.attempt = job->attempt,
		.params_len = job->params_len,
		.parents_len = job->parents_len,
		.steps_len = job->steps_len,
	};
	struct frame_part parts[] = {
		{ &fixed, sizeof(fixed) },
		{ job->fn, strlen(job->fn) + 1 },
		{ job->label, strlen(job->label) + 1 },
		{ job->params, (size_t)job->params_len + 1 },
		{ job->parents, (size_t)job->parents_len + 1 },
		{ job->steps, (size_t)job->steps_len + 1 },
	};

	memcpy(fixed.traceparent, job->traceparent, sizeof(fixed.traceparent));
	return frame_put(&r->out, FRAME_CALL, slot, parts, 6);
}

bool runner_send(struct runner *r, struct job *jobs, const struct call_terms *terms)
{
	size_t unsent = r->out.len - r->out.at;
	unsigned int n = 0, i = 0;

	for (const struct job *job = jobs; job; job = job->next)
		n++;
	if (r->child.socket < 0 || r->calls.used + n > BOARD_SLOTS)
		return false;
	for (const struct job *job = jobs; job; job = job->next, i++)
		if (put_call(r, calls_slot(&r->calls, r->calls.used + i), job, terms, n - 1 - i) < 0) {
			r->out.len = r->out.at + unsent; /* a batch is sent whole or not at all */
			return false;
		}
	calls_add(&r->calls, jobs, n, terms);
	return true;
}

bool runner_remove_file(struct runner *r, const char *path)
{
	return r->child.socket >= 0 && r->out.len - r->out.at < REMOVALS_MAX &&
	       frame_put_texts(&r->out, FRAME_REMOVE, path, NULL) == 0;
}

int runner_flush(struct runner *r)
{
	if (r->child.socket < 0 || r->out.at == r->out.len)
		return 0;
	return frame_flush(&r->out, r->child.socket, MSG_DONTWAIT);
}

struct job *runner_recall(struct runner *r)
{
	return calls_recall(&r->calls, r->child.reaped);
}

const struct job *runner_running(struct runner *r, uint64_t *started_ns, int64_t *timeout_ms)
{
	return calls_running(&r->calls, started_ns, timeout_ms);
}

const struct job *runner_current(const struct runner *r, unsigned int *n)
{
	const struct call *c = calls_current(&r->calls, n);

	return c ? c->job : NULL;
}

size_t runner_running_jobs(struct runner *r)
{
	unsigned int n = 0;
	size_t jobs = 0;

	while (calls_running_job(&r->calls) && calls_current(&r->calls, &n))
		jobs++;
	return jobs;
}

uint64_t runner_limit_ns(struct runner *r, int64_t *timeout_ms)
{
	return calls_limit_ns(&r->calls, r->inbox.paused, timeout_ms);
}

bool runner_has_key(const struct runner *r, const struct job *job)
{
	return calls_have_key(&r->calls, job);
}

void runner_each_job(const struct runner *r, void (*f)(void *data, struct job *job), void *data)
{
	for (unsigned int i = 0; i < BOARD_SLOTS; i++)
		if (r->calls.call[i].job)
			f(data, r->calls.call[i].job);
}

void runner_each_progress(struct runner *r, void (*f)(void *data, const struct job_progress *progress), void *data)
{
	struct job_progress progress;
	const struct call *c;
	unsigned int n = 0;

	while (calls_running_job(&r->calls) && (c = calls_current(&r->calls, &n)))
		if (calls_progress(&r->calls, c, &progress))
			f(data, &progress);
}

struct job_step *runner_step(const struct runner *r)
{
	return r->calls.step;
}

void runner_answer_step(struct runner *r, int result)
{
	calls_answer_step(&r->calls, result);
	child_ring(&r->child);
}

void runner_ask_stop(struct runner *r)
{
	atomic_store(&r->child.board->stop, 1);
	child_ring(&r->child);
}

void runner_ask_cancelled(struct runner *r)
{
	const struct call *c;
	unsigned int n = 0;

	while ((c = calls_current(&r->calls, &n)))
		if (c->job->gone == JOB_GONE_CANCELLED)
			atomic_store(&r->child.board->slot[c - r->calls.call].cancelled, 1);
	child_ring(&r->child);
}

/* ---- attempts --------------------------------------------------------------------------------- */

static void runner_add_ended(struct runner *r, struct attempt *a)
{
	*r->ended_tail = a;
	r->ended_tail = &a->next;
}

/* The first call is done, by the board. */
static void runner_take_done(struct runner *r)
{
	const struct board_slot said = r->child.board->slot[r->calls.first];
	uint64_t received = r->inbox.bytes_received;
	bool torn = r->inbox.broken || inbox_is_torn(&r->inbox, &r->child);

	runner_add_ended(r, ending_done(&r->calls, &r->output, &said,
					said.bytes_sent > received            ? ENDING_SHORT
					: torn && said.bytes_sent == received ? ENDING_TORN
									      : ENDING_WHOLE));
}

/* The first call is done. Have all its texts come, or will no more of them come? */
static bool is_whole(const struct runner *r)
{
	uint64_t sent = r->child.board->slot[r->calls.first].bytes_sent, received = r->inbox.bytes_received,
		 done_ns = r->calls.call[r->calls.first].done_ns;

	if (sent != received)
		return sent < received || r->inbox.drained;
	return !inbox_is_torn(&r->inbox, &r->child) || (done_ns && clock_ns() >= done_ns + TORN_NS);
}

/* Take up to `most` calls from the front that the runner has finished. A call whose texts may still be in the socket
 * waits for a later turn, and so do all calls behind it. */
static void runner_take_over(struct runner *r, unsigned int most)
{
	for (; most > 0 && r->calls.used > 0 && calls_first_is_over(&r->calls); most--) {
		struct call *c = calls_first(&r->calls);

		if (!c->job) {
			calls_drop_first(&r->calls, clock_ns());
		} else if (is_whole(r)) {
			runner_take_done(r);
		} else {
			if (!c->done_ns)
				c->done_ns = clock_ns();
			return;
		}
	}
}

int runner_read(struct runner *r, struct deferred_error *err)
{
	/* First the board, then the socket: the texts of a call that the board says is done have been sent. */
	unsigned int over = calls_over(&r->calls);
	int rc;

	runner_output_read(&r->output, &r->child, &r->calls);
	rc = inbox_read(&r->inbox, &r->child, &r->calls, err);
	runner_take_over(r, over);
	if (rc == 0 && calls_are_forged(&r->calls))
		rc = error_set(err, DEFERRED_EFAILED, "runner",
			       "the shared memory of runner %d was overwritten\nfind the function that does so",
			       (int)r->child.pid);
	return rc;
}

void runner_pause(struct runner *r, bool pause)
{
	r->inbox.paused = pause;
}

struct attempt *runner_take(struct runner *r)
{
	struct attempt *a = r->ended;

	if (a) {
		r->ended = a->next;
		if (!r->ended)
			r->ended_tail = &r->ended;
		a->next = NULL;
	}
	return a;
}

struct runner_function *runner_take_functions(struct runner *r, size_t *len)
{
	return inbox_take_functions(&r->inbox, len);
}

/* ---- the end ---------------------------------------------------------------------------------- */

void runner_kill(struct runner *r, int sig, enum job_outcome why, const char *text)
{
	if (!r->kill.killed) {
		unsigned int n = 0;
		const struct job *job = runner_current(r, &n);

		r->kill = (struct ending_kill){ .killed = true, .job = job ? job->id : 0, .outcome = why };
		snprintf(r->kill.text, sizeof(r->kill.text), "%s", text);
	}
	child_kill(&r->child, sig);
}

bool runner_deaf(const struct runner *r)
{
	return r->child.socket < 0 && !r->child.reaped;
}

bool runner_killed(const struct runner *r)
{
	return r->kill.killed;
}

void runner_quit(struct runner *r)
{
	if (r->child.socket >= 0)
		shutdown(r->child.socket, SHUT_WR);
}

/* The runner has died. A job may be found unbegun once. The next time it counts as begun. A function that kills its
 * runner may also write to the board that its job has not begun. */
static bool was_begun(struct runner *r)
{
	struct call *c = calls_first(&r->calls);
	bool queued = calls_first_is_queued(&r->calls), begun = !queued || c->begun_ns || c->job->found_unbegun;

	c->job->found_unbegun = queued;
	return begun;
}

/* The first call, and the others of its batch. */
static void end_batch(struct runner *r, int status)
{
	bool meant = calls_first(&r->calls)->job->id == r->kill.job;

	for (unsigned int left = calls_first(&r->calls)->more + 1; left > 0; left--) {
		const struct job *job = calls_first(&r->calls)->job;

		if (job && meant)
			r->kill.job = job->id;
		if (job)
			runner_add_ended(r, ending_died(&r->calls, &r->output, &r->kill, status));
		else
			calls_drop_first(&r->calls, clock_ns());
	}
}

const char *runner_reaped(struct runner *r, int status)
{
	/* Other members of its group must not outlive it. */
	kill(-r->child.pid, SIGKILL);
	r->child.reaped = true;
	runner_read(r, NULL);
	r->inbox.drained = true; /* nothing more can come */
	runner_take_over(r, r->calls.used);
	while (r->calls.used > 0 && !calls_first(&r->calls)->job)
		calls_drop_first(&r->calls, clock_ns());
	if (r->calls.used > 0 && was_begun(r))
		end_batch(r, status);
	child_close_socket(&r->child);
	return r->inbox.ready ? NULL : r->inbox.loading;
}

static const struct job *first_job(const struct runner *r)
{
	return r->calls.used > 0 ? r->calls.call[r->calls.first].job : NULL;
}

void runner_log_alive(const struct runner *r)
{
	const struct job *job = first_job(r);

	if (job && job->id == r->kill.job)
		log_job(LOG_L_WARNING, job, "job %lld %s attempt %d: %s; its runner %d was killed and does not die",
			(long long)job->id, job->fn, job->attempt, r->kill.text, (int)r->child.pid);
	else
		log_line(LOG_L_WARNING, "runner %d was killed and does not die: %s", (int)r->child.pid, r->kill.text);
}

struct job *runner_give_up(struct runner *r)
{
	unsigned int left = r->calls.used > 0 ? calls_first(&r->calls)->more + 1 : 0;
	struct job *list = NULL;

	r->child.reaped = true; /* as far as we are concerned */
	log_line(LOG_L_ERROR, "runner %d cannot be ended: it is stuck in the kernel, and left to itself",
		 (int)r->child.pid);
	for (unsigned int i = 0; i < left; i++) {
		struct call *c = &r->calls.call[calls_slot(&r->calls, i)];

		if (!c->job)
			continue;
		log_job(LOG_L_ERROR, c->job,
			"job %lld %s attempt %d: given up with its runner; it stays claimed until its lease ends",
			(long long)c->job->id, c->job->fn, c->job->attempt);
		job_list_push(&list, calls_take_job(&r->calls, c));
	}
	return list;
}
