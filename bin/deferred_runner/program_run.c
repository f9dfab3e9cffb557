/* SPDX-License-Identifier: MIT */
#include "program_process.h"

#include "base/clock.h"
#include "base/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#define NO_FUNCTION "program '%s' does not have function '%s'"
#define NO_BATCH \
	"function '%s' of program '%s' takes one job at a time\n" \
	"hint: remove batch from its section, or let it take a list of jobs"

static struct program *programs;
static size_t programs_len;

/* The batch that a program has, mostly of one job. */
static struct run {
	const struct deferred_call *const *calls;
	size_t n, left; /* jobs, and those that are not done */
	struct job_of_run {
		bool done, cancel_sent;
		char refused[200]; /* a deferred job that was refused; "": none */
	} job[DEFERRED_BATCH_MAX];
	struct board_slot *slot;
	struct process *process; /* NULL: it has none, or that has ended */
	bool over;
	int result;
	bool timed_out, stop_sent, term_sent;
	uint64_t cpu_us; /* of the process, before the job */
	bool stepping;  /* a step was not answered yet, */
	size_t step_of; /* of this job */
} run;

/* ---- settings ----------------------------------------------------------------------------------- */

static void *program_memory(void *memory)
{
	if (!memory)
		_exit(EX_OSERR);
	return memory;
}

void program_take(const char *payload, size_t len)
{
	struct program *p;
	char *text = memcpy(program_memory(malloc(len + 1)), payload, len + 1);
	size_t at = sizeof(p->limits), n = 0, arguments;

	programs = program_memory(realloc(programs, (programs_len + 1) * sizeof(*programs)));
	p = &programs[programs_len++];
	memset(p, 0, sizeof(*p));
	memcpy(&p->limits, text, sizeof(p->limits));
	p->name = (char *)frame_text(text, len, &at);
	p->directory = (char *)frame_text(text, len, &at);
	arguments = p->limits.arguments;
	p->argv = program_memory(calloc(arguments + 1, sizeof(*p->argv)));
	for (size_t i = 0; i < arguments; i++)
		p->argv[i] = (char *)frame_text(text, len, &at);
	p->watch = program_memory(calloc(len + 1, sizeof(*p->watch)));
	while ((p->watch[n] = (char *)frame_text(text, len, &at)))
		n++;
}

struct program *program_find(const char *name)
{
	for (size_t i = 0; i < programs_len; i++)
		if (strcmp(programs[i].name, name) == 0)
			return &programs[i];
	return NULL;
}

/* ---- the start of the runner -------------------------------------------------------------------- */

/* NULL: it does not have the function. */
static const struct announced *find_announced(const struct program *program, const char *name)
{
	for (size_t i = 0; i < program->functions_len; i++)
		if (strcmp(program->functions[i].name, name) == 0)
			return &program->functions[i];
	return NULL;
}

static bool any_starting(void)
{
	for (size_t i = 0; i < programs_len; i++)
		if (programs[i].now && programs[i].now->state == PROCESS_STARTING)
			return true;
	return false;
}

void programs_end(void)
{
	uint64_t limit_ns = clock_ns() + ((uint64_t)state.start.kill_after_ms + 1000) * NS_PER_MS;
	struct pollfd none;

	for (size_t i = 0; i < programs_len; i++)
		if (programs[i].now && programs[i].now->state == PROCESS_STARTING)
			process_kill(programs[i].now); /* it has begun nothing */
		else if (programs[i].now)
			process_leave(programs[i].now, false);
	while (process_any() && clock_ns() < limit_ns)
		process_poll(NULL, &none, 0, limit_ns);
}

static void report_wrong(const struct program *p, const char *text)
{
	struct frame_function none = { 0 };
	struct frame_part parts[] = { { &none, sizeof(none) },
				      { p->name, strlen(p->name) + 1 },
				      { text, strlen(text) + 1 } };

	send_frame(FRAME_CLASH, 0, parts, 3);
}

static void report_probed(const struct program *p)
{
	char text[300];

	if (!p->now) {
		report_wrong(p, p->why);
		return;
	}
	if (process_is_large(p->now)) {
		snprintf(text, sizeof(text), "program '%s' has %llu KiB before its first job, more than max_memory",
			 p->name, (unsigned long long)process_rss_kb(p->now));
		report_wrong(p, text);
	}
	for (size_t i = 0; i < state.commands_len; i++) {
		const struct command *c = &state.commands[i];
		const struct announced *f = find_announced(p, c->name);

		if (c->program != p || (f && (c->batch <= 1 || f->batch > 0)))
			continue;
		if (f)
			snprintf(text, sizeof(text), NO_BATCH, c->name, p->name);
		else
			snprintf(text, sizeof(text), NO_FUNCTION, p->name, c->name);
		report_wrong(p, text);
	}
}

void programs_start(void)
{
	struct pollfd parent = { FRAME_SOCKET_FD, POLLRDHUP, 0 };

	for (size_t i = 0; i < programs_len; i++)
		if (!programs[i].limits.declared || state.start.probe)
			process_start(&programs[i]);
	while (any_starting()) {
		process_poll(NULL, &parent, 1, UINT64_MAX);
		if (parent.revents) { /* it needs us no longer */
			programs_end();
			_exit(0);
		}
	}
	for (size_t i = 0; i < programs_len; i++) {
		struct program *p = &programs[i];
		struct frame_part parts[] = { { p->name, strlen(p->name) + 1 }, { p->why, strlen(p->why) + 1 } };

		if (state.start.probe)
			report_probed(p);
		else if (!p->limits.declared && !p->now)
			send_frame(FRAME_REFUSED, 1, parts, 2);
		for (size_t k = 0; !p->limits.declared && p->now && k < p->functions_len; k++) {
			const struct announced *f = &p->functions[k];
			struct command *c = command_add(f->name, f->timeout_ms, f->max_attempts);

			c->program = p;
			c->batch = f->batch;
			c->batch_wait_ms = f->batch_wait_ms;
			c->progress_resets = f->progress_resets;
		}
	}
	flush_frames(); /* a fork of this process must not send them again */
}

void program_describe(const struct program *p, char *text, size_t size)
{
	snprintf(text, size, "%s%s%s", p->name, p->version[0] && !p->limits.declared ? " " : "",
		 p->limits.declared ? "" : p->version);
}

bool programs_changed(void)
{
	for (size_t i = 0; i < programs_len; i++)
		if (programs[i].changed && !programs[i].limits.declared)
			return true;
	return false;
}

size_t programs_files(void)
{
	return programs_len * PROGRAM_FILES;
}

void programs_wait(void)
{
	struct pollfd parent = { FRAME_SOCKET_FD, POLLIN, 0 };

	while (process_any() && !parent.revents && !programs_changed())
		process_poll(NULL, &parent, 1, UINT64_MAX);
}

/* ---- how the job ends --------------------------------------------------------------------------- */

static void end_run(int result)
{
	run.result = result;
	run.over = true;
}

/* The error of the attempt: what is wrong, then what the program said or printed. */
static void __attribute__((format(printf, 2, 3))) set_run_error(const char *detail, const char *fmt, ...)
{
	char text[JOB_TEXT_MAX];
	size_t n;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = strlen(text);
	snprintf(text + n, sizeof(text) - n, "%s%s", *text && *detail ? "\n" : "", detail);
	for (n = strlen(text); n > 0 && text[n - 1] == '\n'; n--)
		;
	for (size_t i = 0; n > 0 && i < run.n; i++)
		run.calls[i]->host->error(run.calls[i], text, n);
}

static void end_timed_out(const char *detail)
{
	set_run_error(detail, "time limit of %lld ms exceeded", (long long)run.calls[0]->timeout_ms);
	end_run(BOARD_TIMED_OUT);
}

static void note_usage(const struct process *p)
{
	run.slot->user_us = process_cpu_us(p) - run.cpu_us;
	run.slot->max_rss_kb = process_rss_kb(p);
}

static void fault_job(struct process *p, const char *text)
{
	note_usage(p);
	run.process = NULL;
	if (run.timed_out) {
		end_timed_out(p->tail);
		return;
	}
	set_run_error(p->tail, "program '%s' broke the protocol, and is replaced: %s", p->program->name, text);
	end_run(BOARD_BROKEN);
}

static void end_job(struct process *p, int status, const struct rusage *used)
{
	uint64_t cpu_us = tv_us(used->ru_utime) + tv_us(used->ru_stime);

	run.process = NULL;
	run.slot->user_us = cpu_us > run.cpu_us ? cpu_us - run.cpu_us : 0;
	run.slot->max_rss_kb = (uint64_t)used->ru_maxrss;
	if (WIFSIGNALED(status))
		run.slot->signal = WTERMSIG(status);
	else
		run.slot->exit_code = WEXITSTATUS(status);
	if (run.timed_out) {
		end_timed_out(p->tail);
		return;
	}
	set_run_error(p->tail, "%s", "");
	end_run(-1); /* the parent says how it ended */
}

static void log_of_job(const char *line, size_t len)
{
	run.calls[0]->host->log(run.calls[0], DEFERRED_LOG_INFO, line, len);
}

/* ---- what it sends ------------------------------------------------------------------------------ */

/* The program is idle again. Its outcomes are those of the jobs. */
static void end_answered(struct process *p, const char *detail)
{
	process_drain_output(p);
	p->state = PROCESS_IDLE;
	if (run.timed_out)
		end_timed_out(detail);
	else
		end_run(DEFERRED_OK);
}

static const char *take_done(struct process *p, const struct message *m, const char *body, size_t which)
{
	const struct deferred_call *call = run.calls[which];
	struct job_of_run *job = &run.job[which];
	int result = message_outcome(m);
	char detail[JOB_TEXT_MAX];

	if (result < 0)
		return "its outcome is unknown";
	p->jobs++;
	job->done = true;
	snprintf(detail, sizeof(detail), "%.*s", result == DEFERRED_OK ? 0 : (int)m->bytes, body);
	if (result == DEFERRED_OK && job->refused[0]) {
		call->host->error(call, job->refused, strlen(job->refused));
		result = DEFERRED_FAILED;
	} else if (m->bytes > 0 && result == DEFERRED_OK && !run.timed_out) {
		call->host->result(call, body, (size_t)m->bytes);
	} else if (m->bytes > 0) {
		call->host->error(call, body, (size_t)m->bytes);
	}
	if (m->after_ms >= 0)
		call->host->retry_after(call, m->after_ms);
	call->host->outcome(call, result);
	/* The rest of its params would be read as a message. */
	if (m->last || (run.left == 1 && p->out_len > 0))
		p->jobs_max = 0;
	if (--run.left == 0)
		end_answered(p, detail);
	return NULL;
}

static const char *take_defer(const struct message *m, const char *body, size_t which)
{
	const struct deferred_call *call = run.calls[which];
	size_t params_len = (size_t)m->params, opts_len = (size_t)m->bytes - params_len;
	char *params = program_memory(strndup(body, params_len)),
	     *opts = program_memory(strndup(body + params_len, opts_len));

	if (strlen(params) != params_len || strlen(opts) != opts_len ||
	    call->host->defer(call, m->name, params_len ? params : NULL, opts_len ? opts : NULL) < 0)
		snprintf(run.job[which].refused, sizeof(run.job[which].refused),
			 "the job '%.64s' that it deferred was refused: name, params or options are not valid, or "
			 "there are too many",
			 m->name);
	free(params);
	free(opts);
	return NULL;
}

static void send_stepped(struct process *p, size_t which, int result)
{
	static const char *const outcomes[] = { "saved", "invalid", "full", "gone", "refused" };
	char *text = p->outgoing[which].stepped;
	int n = snprintf(text, sizeof(p->outgoing[which].stepped),
			 "{\"type\":\"stepped\",\"job\":\"%lld\",\"outcome\":\"%s\"}\n",
			 (long long)run.calls[which]->id, outcomes[-result]);

	process_send(p, text, (size_t)n);
}

/* It waits for the answer, so another step before that is a fault. */
static const char *take_step(struct process *p, const struct message *m, const char *body, size_t which)
{
	char *value;
	int result;

	if (run.stepping)
		return "it sent a step before the answer to the last one";
	value = program_memory(strndup(body, (size_t)m->bytes));
	result = strlen(value) == (size_t)m->bytes ? call_send_step(run.calls[which], m->name, value)
						   : DEFERRED_STEP_INVALID;
	free(value);
	run.stepping = result == 0;
	run.step_of = which;
	if (!run.stepping)
		send_stepped(p, which, result);
	return NULL;
}

static const char *take_of_job(struct process *p, const struct message *m, const char *body)
{
	const struct deferred_call *call;
	size_t which = 0;

	if (m->type == MESSAGE_FUNCTION || m->type == MESSAGE_READY)
		return "it had said before that it is ready";
	while (which < run.n && (m->job != run.calls[which]->id || run.job[which].done))
		which++;
	if (which == run.n)
		return "it names another job than its own";
	call = run.calls[which];
	switch (m->type) {
	case MESSAGE_PROGRESS:
		call->host->progress(call, m->done, m->total, m->text, strlen(m->text));
		return NULL;
	case MESSAGE_LOG:
		call->host->log(call,
				m->level >= DEFERRED_LOG_ERROR && m->level <= DEFERRED_LOG_DEBUG ? (int)m->level
												 : DEFERRED_LOG_INFO,
				body, (size_t)m->bytes);
		return NULL;
	case MESSAGE_DEFER:
		return take_defer(m, body, which);
	case MESSAGE_STEP:
		return take_step(p, m, body, which);
	default:
		return take_done(p, m, body, which);
	}
}

/* ---- the job ------------------------------------------------------------------------------------ */

static void send_call(struct process *p, size_t which, uint64_t limit_ns)
{
	const struct deferred_call *call = run.calls[which];
	struct message_head *h = &p->outgoing[which].call;
	uint64_t now = clock_ns();

	message_begin(h, "call");
	message_put_call(h, call,
			 limit_ns == UINT64_MAX ? -1
			 : limit_ns > now       ? (int64_t)((limit_ns - now) / NS_PER_MS)
						: 0);
	if (which + 1 < run.n)
		message_put_number(h, "more", (int64_t)(run.n - which - 1));
	message_put_number(h, "params", (int64_t)call->params_len);
	message_put_number(h, "parents", (int64_t)call->parents_len);
	message_put_number(h, "steps", (int64_t)call->steps_len);
	message_put_number(h, "bytes", (int64_t)(call->params_len + call->parents_len + call->steps_len));
	message_end(h);
	process_send(p, h->data, h->len);
	process_send(p, call->params, call->params_len);
	process_send(p, call->parents, call->parents_len);
	process_send(p, call->steps, call->steps_len);
}

static void send_stop(struct process *p, size_t which, bool cancelled)
{
	char *text = p->outgoing[which].stop[cancelled];
	int n = snprintf(text, sizeof(p->outgoing[which].stop[cancelled]),
			 "{\"type\":\"stop\",\"job\":\"%lld\",\"why\":\"%s\"}\n", (long long)run.calls[which]->id,
			 cancelled ? "cancelled" : "stopping");

	process_send(p, text, (size_t)n);
}

/* Was each of the jobs that are not done cancelled? */
static bool no_job_wanted(void)
{
	for (size_t i = 0; i < run.n; i++)
		if (!run.job[i].done && !run.calls[i]->host->cancelled(run.calls[i]))
			return false;
	return true;
}

/* Does the worker stop? */
static bool worker_stops(void)
{
	return atomic_load_explicit(state.stop, memory_order_relaxed) != 0;
}

/* The events of a run besides those of processes. The signal stays pending: it ends this process after the run. */
enum { FD_BELL, FD_TERM, RUN_FDS };

static void wait_for_event(struct process *p, struct pollfd fds[static RUN_FDS], uint64_t limit_ns)
{
	uint64_t rung;

	process_poll(p, fds, RUN_FDS, limit_ns);
	if (fds[FD_BELL].revents && read(FRAME_STOP_FD, &rung, sizeof(rung)) < 0 && errno != EAGAIN)
		fds[FD_BELL].fd = -1; /* a plugin has replaced the descriptor */
}

/* Returns the process, IDLE; NULL: the run is over. */
static struct process *await_program(struct program *program, struct pollfd fds[static RUN_FDS], uint64_t limit_ns)
{
	const struct announced *f;

	if (program->now && process_watched_changed(program->now, clock_ns()))
		process_leave(program->now, true);
	if (!program->now && clock_ns() >= program->retry_ns)
		process_start(program);
	while (program->now && program->now->state == PROCESS_STARTING) {
		if (no_job_wanted()) {
			set_run_error("", "%s", "cancelled");
			end_run(DEFERRED_CANCEL);
			return NULL;
		}
		if (fds[FD_TERM].revents || worker_stops() || clock_ns() >= limit_ns) {
			set_run_error(program->now->tail, "program '%s' was not ready in time", program->name);
			end_run(DEFERRED_UNREADY);
			return NULL;
		}
		wait_for_event(program->now, fds, limit_ns);
	}
	f = find_announced(program, run.calls[0]->fn);
	if (program->now && f && (run.n == 1 || f->batch > 0))
		return program->now;
	if (!program->now)
		set_run_error("", "%s", program->why);
	else if (!f)
		set_run_error("", NO_FUNCTION, program->name, run.calls[0]->fn);
	else
		set_run_error("", NO_BATCH, f->name, program->name);
	end_run(DEFERRED_UNREADY);
	return NULL;
}

static void limit_program_cpu(const struct process *p)
{
	rlim_t seconds = (rlim_t)((process_cpu_us(p) / 1000 + (uint64_t)state.start.cpu_ms + 999) / 1000);
	struct rlimit rl;

	if (state.start.cpu_ms <= 0 || prlimit(p->pid, RLIMIT_CPU, NULL, &rl) < 0)
		return;
	rl.rlim_cur = rl.rlim_max < seconds ? rl.rlim_max : seconds;
	prlimit(p->pid, RLIMIT_CPU, &rl, NULL);
}

static void begin_job(struct process *p, uint64_t limit_ns)
{
	run.process = p;
	run.cpu_us = process_cpu_us(p);
	limit_program_cpu(p);
	p->tail_len = 0;
	p->tail[0] = '\0';
	p->state = PROCESS_BUSY;
	if (p->outgoing_len < run.n) {
		free(p->outgoing);
		p->outgoing = program_memory(calloc(run.n, sizeof(*p->outgoing)));
		p->outgoing_len = run.n;
	}
	for (size_t i = 0; i < run.n; i++)
		send_call(p, i, limit_ns);
	process_flush(p);
}

/* Ask the job to end when the worker stops, it is cancelled, or its time is up; end it when that was in vain. */
static void watch_job(struct process *p, struct pollfd fds[static RUN_FDS], uint64_t *limit_ns)
{
	bool stops = worker_stops() && !run.stop_sent;
	int result;

	if (run.stepping && call_step_answered(run.calls[run.step_of], &result)) {
		run.stepping = false;
		send_stepped(p, run.step_of, result);
	}

	for (size_t i = 0; i < run.n; i++) {
		bool cancelled = run.calls[i]->host->cancelled(run.calls[i]) && !run.job[i].cancel_sent;

		if (run.job[i].done || run.job[i].cancel_sent || (!cancelled && !stops))
			continue;
		send_stop(p, i, cancelled);
		run.job[i].cancel_sent = cancelled;
	}
	run.stop_sent |= stops;
	if (!run.term_sent && no_job_wanted()) {
		kill(p->pid, SIGTERM);
		run.term_sent = true;
	}
	if (fds[FD_TERM].revents) {
		kill(p->pid, SIGTERM);
		fds[FD_TERM].fd = -1;
		fds[FD_TERM].revents = 0;
	}
	if (clock_ns() < *limit_ns)
		return;
	if (!run.timed_out) {
		run.timed_out = true;
		kill(p->pid, SIGTERM);
		*limit_ns = clock_ns() + (uint64_t)state.start.kill_after_ms * NS_PER_MS;
		return;
	}
	process_drain_output(p);
	note_usage(p);
	run.process = NULL;
	run.slot->signal = SIGKILL;
	end_timed_out(p->tail);
	process_kill(p);
}

static void recycle(struct process *p)
{
	if (p->jobs >= p->jobs_max || process_is_large(p))
		process_leave(p, !atomic_load(&state.board->stop));
}

static const struct process_handlers job_handlers = {
	.take = take_of_job,
	.faulted = fault_job,
	.ended = end_job,
	.log = log_of_job,
};

int program_run(struct program *program, const struct deferred_call *const *calls, size_t n, struct board_slot *slot)
{
	static int term_fd = -1;
	int64_t limit_ms = calls[0]->timeout_ms;
	uint64_t limit_ns = limit_ms > 0 && (uint64_t)limit_ms < (UINT64_MAX >> 1) / NS_PER_MS
				    ? slot->started_ns + (uint64_t)limit_ms * NS_PER_MS
				    : UINT64_MAX;
	struct pollfd fds[RUN_FDS] = { { FRAME_STOP_FD, POLLIN, 0 } };
	struct process *p;
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	if (term_fd < 0)
		term_fd = signalfd(-1, &term, SFD_CLOEXEC);
	fds[FD_TERM] = (struct pollfd){ term_fd, POLLIN, 0 };
	run = (struct run){ .calls = calls, .n = n, .left = n, .slot = slot };
	process_handlers = &job_handlers;
	p = await_program(program, fds, limit_ns);
	if (p)
		begin_job(p, limit_ns);
	while (!run.over) {
		wait_for_event(p, fds, limit_ns);
		if (!run.over)
			watch_job(p, fds, &limit_ns);
	}
	if (run.process && program->now == p) { /* else it has ended since it answered */
		note_usage(p);
		recycle(p);
	}
	run.process = NULL;
	return run.result;
}
