/* SPDX-License-Identifier: MIT */
#include "run/ending.h"

#include "base/clock.h"
#include "deferred_plugin.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define RETRY_AFTER_MAX_MS (365ll * 86400 * 1000)
#define USAGE_MAX (1ull << 50) /* processor time and memory that a runner reports are believed up to this */

static void __attribute__((format(printf, 2, 3))) set_error(struct attempt *a, const char *fmt, ...)
{
	char text[JOB_TEXT_MAX];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	attempt_set_text(&a->error, &a->error_len, text,
			 n < 0                      ? 0
			 : (size_t)n < sizeof(text) ? (size_t)n
						    : sizeof(text) - 1);
}

/* End the first call. said: what the board reports about it, which is limited to what is possible. */
static struct attempt *end_call(struct calls *calls, struct runner_output *output, const struct board_slot *said)
{
	struct call *c = calls_first(calls);
	struct attempt *a = calloc(1, sizeof(*a));
	uint64_t now = clock_ns(),
		 earliest = c->job->claimed_ns > calls->ended_ns ? c->job->claimed_ns : calls->ended_ns;

	if (!a)
		abort(); /* an attempt must not be lost silently */
	a->job = c->job;
	a->outcome = JOB_FAILED;
	a->plugin = c->plugin;
	a->batch = c->batch;
	a->retry_after_ms = -1;
	a->exit_code = -1;
	a->finished_ns = calls_clamp(said->finished_ns, earliest, now);
	a->started_ns = calls_clamp(said->started_ns, earliest, a->finished_ns);
	a->user_us = calls_clamp(said->user_us, 0, USAGE_MAX);
	a->sys_us = calls_clamp(said->sys_us, 0, USAGE_MAX);
	a->max_rss_kb = calls_clamp(said->max_rss_kb, 0, USAGE_MAX);
	a->error = c->error;
	a->error_len = c->error_len;
	a->result = c->result;
	a->result_len = c->result_len;
	a->follow = c->asks.follow;
	a->remove = c->asks.remove;
	a->step = calls_take_step(calls, c->job);
	attempt_hold(a, c->asks.bytes);
	if (c->more == 0) /* the others of its batch began when it did */
		calls->ended_ns = a->finished_ns;
	output->crashing = false;
	calls_drop_first(calls, now);
	calls->load--;
	return a;
}

/* Say how it ended, then what a command had said, the last bytes that it printed, and the backtrace. */
static void __attribute__((format(printf, 3, 4)))
describe_end(const struct runner_output *o, struct attempt *a, const char *fmt, ...)
{
	bool new_line = o->tail_len && o->trace_len && o->tail[o->tail_len - 1] != '\n';
	size_t trace_len = o->trace_len;
	char what[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	while (trace_len > 0 && o->trace[trace_len - 1] == '\n')
		trace_len--;
	set_error(a, "%s%s%.*s%s%.*s%s%.*s", what, a->error_len ? "\n" : "", (int)a->error_len,
		  a->error_len ? a->error : "", o->tail_len || o->trace_len ? "\n" : "", (int)o->tail_len, o->tail,
		  new_line ? "\n" : "", (int)trace_len, o->trace);
}

static void describe_signal(const struct runner_output *o, struct attempt *a, int sig)
{
	a->outcome = JOB_CRASHED;
	a->signal = sig;
	describe_end(o, a, "killed by signal %d (%s)", sig, strsignal(sig));
}

static void describe_exit(const struct runner_output *o, struct attempt *a, int exit_code)
{
	a->outcome = JOB_FAILED;
	a->exit_code = exit_code;
	describe_end(o, a, "the function ended its process with status %d", exit_code);
}

/* The call was cut off. Of a batch, all attempts end as interrupted. A job that has been killed for its own sake, and a
 * takeover, stay what they are. */
static void blame_batch(struct attempt *a)
{
	if (a->batch < 2 || a->outcome == JOB_SUPERSEDED || (a->outcome == JOB_LOST && a->job->gone))
		return;
	a->outcome = JOB_INTERRUPTED;
	a->shared = true;
	set_error(a, "in a batch of %u jobs: %.*s", a->batch, (int)a->error_len, a->error ? a->error : "");
}

static void describe_lost_answer(struct attempt *a)
{
	set_error(a, "the function wrote into, or closed, a descriptor that is not its own: its answer is lost");
}

/* The function returned something else than success. */
static void take_failure(struct attempt *a, const struct board_slot *said)
{
	if (said->result == DEFERRED_CANCEL)
		a->outcome = JOB_CANCELLED;
	else if (said->result == DEFERRED_SNOOZE)
		a->outcome = JOB_SNOOZED;
	a->dead = said->result == DEFERRED_DEAD;
	a->unready = said->result == DEFERRED_UNREADY;
	/* Without a delay the usual one applies. A delay of 0 would use up all attempts at once. */
	if ((said->result == DEFERRED_LATER || said->result == DEFERRED_SNOOZE) && said->retry_after_ms >= 0)
		a->retry_after_ms =
			said->retry_after_ms < RETRY_AFTER_MAX_MS ? said->retry_after_ms : RETRY_AFTER_MAX_MS;
	if (a->error_len == 0 && said->result >= DEFERRED_FAILED && said->result <= DEFERRED_SNOOZE)
		set_error(a, "without saying why");
	else if (a->error_len == 0)
		set_error(a, "returned %d", said->result);
}

static void take_result(const struct runner_output *o, struct attempt *a, const struct board_slot *said)
{
	a->exit_code = said->exit_code;
	if (said->result == -1 && said->signal > 0 && said->signal < NSIG)
		describe_signal(o, a, said->signal);
	else if (said->result == -1 && said->exit_code >= 0)
		describe_exit(o, a, said->exit_code);
	else if (said->result == BOARD_ANSWER_LOST)
		describe_lost_answer(a);
	else if (said->result == BOARD_TIMED_OUT)
		a->outcome = JOB_TIMEOUT;
	else if (said->result == BOARD_BROKEN)
		a->outcome = JOB_FAILED;
	else if (said->result == DEFERRED_OK)
		a->outcome = JOB_OK;
	else
		take_failure(a, said);
	if (said->result < 0)
		blame_batch(a);
}

struct attempt *ending_done(struct calls *calls, struct runner_output *output, const struct board_slot *said,
			    enum ending_answer answer)
{
	static const struct runner_output none; /* what a program prints is in the error that came */
	bool asked_too_much = calls_first(calls)->asks.too_many, of_program = calls_first(calls)->grace_ms > 0;
	struct attempt *a = end_call(calls, output, said);

	if (answer == ENDING_SHORT)
		set_error(a, "the answer of the function did not arrive whole");
	else if (answer == ENDING_TORN)
		describe_lost_answer(a);
	else if (asked_too_much)
		set_error(a, "%s", FRAME_ASKS_TEXT);
	else
		take_result(of_program ? &none : output, a, said);
	output->trace_len = 0;
	return a;
}

struct attempt *ending_died(struct calls *calls, struct runner_output *output, const struct ending_kill *kill,
			    int status)
{
	struct board_slot said = calls->board->slot[calls->first];
	struct attempt *a;

	said.finished_ns = UINT64_MAX;
	a = end_call(calls, output, &said);
	if (kill->killed && kill->job != a->job->id) {
		a->outcome = JOB_INTERRUPTED; /* it began when the job that was meant had just ended */
		set_error(a, "its runner was killed for another job");
	} else if (kill->killed) {
		a->outcome = kill->outcome;
		a->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		set_error(a, "%s%s%.*s", kill->text, a->error_len ? "\n" : "", (int)a->error_len,
			  a->error_len ? a->error : "");
	} else if (WIFSIGNALED(status)) {
		describe_signal(output, a, WTERMSIG(status));
	} else {
		describe_exit(output, a, WEXITSTATUS(status));
	}
	blame_batch(a);
	return a;
}
