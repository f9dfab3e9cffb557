/* SPDX-License-Identifier: MIT */
#include "runner_process.h"

#include "port/beneath.h"
#include "base/clock.h"
#include "base/job.h"
#include "base/text/names.h"
#include "port/params.h"
#include "run/orphan.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRESS_MS 250 /* so often what the process of a call says of its progress is passed on */
#define BATCH_DEFAULT 100
#define NOT_REPORTED (-2) /* result of a call whose process has not come to its end */

/* Text handed back, kept until the function returns: the last one counts. */
struct text {
	char data[JOB_TEXT_MAX];
	size_t len;
	bool set;
};

/* A call that is being run, and what the function says about it. */
struct current {
	struct deferred_call call;
	struct frame_call fixed;
	unsigned int slot_no;
	struct board_slot *slot; /* of the board, or of the page of the function's process; so is the next one */
	struct board_progress *progress;
	struct text result, error;
	size_t asks, ask_bytes; /* what it wants done after its success */
	bool asked_too_much;
	bool has_outcome; /* of its own */
	int outcome;
	struct params_object *parents; /* once the function has asked for one */
	struct steps steps;
};

static struct current *current_of(const struct deferred_call *call)
{
	return call->host_data;
}

static void keep(struct text *text, const char *data, size_t len)
{
	static const char mark[] = " [truncated]";

	text->set = true;
	text->len = len;
	if (len > sizeof(text->data)) {
		text->len = sizeof(text->data);
		memcpy(text->data, data, text->len - (sizeof(mark) - 1));
		memcpy(text->data + text->len - (sizeof(mark) - 1), mark, sizeof(mark) - 1);
	} else if (len > 0) {
		memcpy(text->data, data, len);
	}
}

/* ---- what a function may ask for -------------------------------------------------------------- */

static void host_result(const struct deferred_call *call, const char *text, size_t len)
{
	keep(&current_of(call)->result, text, len);
}

static void host_error(const struct deferred_call *call, const char *text, size_t len)
{
	keep(&current_of(call)->error, text, len);
}

static void host_retry_after(const struct deferred_call *call, int64_t delay_ms)
{
	current_of(call)->slot->retry_after_ms = delay_ms < 0 ? 0 : delay_ms;
}

static int host_cancelled(const struct deferred_call *call)
{
	return atomic_load_explicit(&current_of(call)->slot->cancelled, memory_order_relaxed) != 0;
}

static int host_stop_asked(const struct deferred_call *call)
{
	return atomic_load_explicit(state.stop, memory_order_relaxed) != 0 || host_cancelled(call);
}

static void host_progress(const struct deferred_call *call, int64_t done, int64_t total, const char *text, size_t len)
{
	board_report(current_of(call)->progress, done, total, text, text ? len : 0, clock_ns());
}

static void host_log(const struct deferred_call *call, int level, const char *text, size_t len)
{
	int32_t level32 = level;
	struct frame_part parts[] = { { &level32, sizeof(level32) },
				      { text, len < JOB_TEXT_MAX ? len : JOB_TEXT_MAX } };

	send_frame(FRAME_LOG, current_of(call)->slot_no, parts, 2);
	flush_frames();
}

static const char *host_setting(const struct deferred_call *call, const char *name)
{
	(void)call;
	for (size_t i = 0; i + 1 < state.settings_len; i += 2)
		if (strcmp(state.settings[i], name) == 0)
			return state.settings[i + 1];
	return NULL;
}

static bool is_object(const char *json)
{
	return json[strspn(json, " \t\r\n")] == '{' && params_check(json, strlen(json), NULL) == 0;
}

/* May it ask for so much more? Once it has asked for too much the attempt has failed, whatever it returns. */
static bool may_ask(struct current *c, size_t bytes)
{
	c->asks++;
	c->ask_bytes += bytes + FRAME_ASK_BYTES;
	if (c->asks > FRAME_ASKS_MAX || c->ask_bytes > FRAME_ASK_BYTES_MAX)
		c->asked_too_much = true;
	return !c->asked_too_much;
}

static int host_defer(const struct deferred_call *call, const char *fn, const char *params, const char *opts)
{
	struct current *c = current_of(call);
	struct frame_part parts[3];

	if (!params)
		params = "{}";
	if (!opts)
		opts = "";
	if (!names_is_function(fn) || strlen(params) + strlen(opts) + 1024 > FRAME_FROM_RUNNER_MAX ||
	    params_check(params, strlen(params), NULL) < 0 || (*opts && !is_object(opts)))
		return -1;
	parts[0] = (struct frame_part){ fn, strlen(fn) + 1 };
	parts[1] = (struct frame_part){ params, strlen(params) + 1 };
	parts[2] = (struct frame_part){ opts, strlen(opts) + 1 };
	if (!may_ask(c, parts[0].len + parts[1].len + parts[2].len))
		return -1;
	send_frame(FRAME_FOLLOW, c->slot_no, parts, 3);
	return 0;
}

static int host_remove_after(const struct deferred_call *call, const char *path)
{
	struct current *c = current_of(call);
	struct frame_part part;

	if (!path || path[0] != '/' || strlen(path) > 4095)
		return -1;
	while (path[1] == '/')
		path++; /* two of them begin a ticket */
	part = (struct frame_part){ path, strlen(path) + 1 };
	if (!may_ask(c, part.len))
		return -1;
	send_frame(FRAME_REMOVE_AFTER, c->slot_no, &part, 1);
	return 0;
}

static int host_remove_beneath(const struct deferred_call *call, const char *dir, const char *path, int fd)
{
	char *ticket = beneath_ticket(dir, path, fd);
	struct current *c = current_of(call);
	struct frame_part part;
	int rc;

	if (!ticket)
		return -1;
	part = (struct frame_part){ ticket, strlen(ticket) + 1 };
	rc = may_ask(c, part.len) ? 0 : -1;
	if (rc == 0)
		send_frame(FRAME_REMOVE_AFTER, c->slot_no, &part, 1);
	free(ticket);
	return rc;
}

static int host_parent(const struct deferred_call *call, const char *name, const char **outcome, const char **result)
{
	struct current *c = current_of(call);
	const struct params_object *parent;

	if (!c->parents && call->parents_len > 0)
		c->parents = params_read(call->parents, call->parents_len);
	parent = c->parents && name ? params_member(c->parents, name) : NULL;
	if (outcome)
		*outcome = parent ? params_text(parent, "outcome") : NULL;
	if (result)
		*result = parent ? params_text(parent, "result") : NULL;
	return !parent ? -1 : params_has(parent, "cut");
}

static void host_outcome(const struct deferred_call *call, int result)
{
	struct current *c = current_of(call);

	c->has_outcome = true;
	c->outcome = result < 0 ? DEFERRED_FAILED : result;
}

static int host_step(const struct deferred_call *call, const char *name, const char *value)
{
	return steps_save(&current_of(call)->steps, current_of(call)->slot, name, value);
}

static const char *host_step_get(const struct deferred_call *call, const char *name)
{
	return steps_get(&current_of(call)->steps, name);
}

int call_send_step(const struct deferred_call *call, const char *name, const char *value)
{
	return steps_send(&current_of(call)->steps, name, value);
}

bool call_step_answered(const struct deferred_call *call, int *result)
{
	return steps_answered(&current_of(call)->steps, current_of(call)->slot, result);
}

static const struct deferred_host host = {
	.size = sizeof(host),
	.result = host_result,
	.error = host_error,
	.retry_after = host_retry_after,
	.stop_asked = host_stop_asked,
	.log = host_log,
	.setting = host_setting,
	.defer = host_defer,
	.remove_after = host_remove_after,
	.remove_beneath = host_remove_beneath,
	.cancelled = host_cancelled,
	.progress = host_progress,
	.parent = host_parent,
	.outcome = host_outcome,
	.step = host_step,
	.step_get = host_step_get,
};

/* ---- one call --------------------------------------------------------------------------------- */

static void send_text(enum frame_type type, unsigned int slot, const struct text *text)
{
	struct frame_part part = { text->data, text->len };

	if (text->set)
		send_frame(type, slot, &part, 1);
}

/* Returns the outcome of the calls that have none of their own; below 0, of all. */
static int call_function(const struct plugin_function *fn, const struct command *command, struct current *const *list,
			 size_t n)
{
	const struct deferred_call *calls[DEFERRED_BATCH_MAX];
	int result;

	for (size_t i = 0; i < n; i++)
		calls[i] = &list[i]->call;
	if (command && command->program)
		return program_run(command->program, calls, n, list[0]->slot);
	if (command)
		return command_run(command, calls, n, list[0]->slot);
	if (!fn->fn.run_many)
		return fn->fn.run(calls[0]);
	result = fn->fn.run_many(calls, n);
	return result < 0 ? DEFERRED_FAILED : result;
}

/* Run the function, and send its outcomes and texts. */
static void run_function(const struct plugin_function *fn, const struct command *command, struct current *const *list,
			 size_t n)
{
	sigset_t mask;
	int result;

	if (command)
		hold_sigterm(&mask); /* until what the command said has been sent */
	result = call_function(fn, command, list, n);
	if (is_a_copy())
		_exit(0); /* which the function forked and let return: only the original speaks for the job */

	if (!socket_is_ours())
		result = BOARD_ANSWER_LOST;
	for (size_t i = 0; i < n; i++) {
		struct current *c = list[i];

		c->slot->result = c->has_outcome && result >= 0 ? c->outcome : result;
		if (result < 0 && n > 1)
			c->result.set = false; /* it was cut off with the others */
		if (result == BOARD_ANSWER_LOST)
			continue;
		if (c->asked_too_much) {
			keep(&c->error, FRAME_ASKS_TEXT, sizeof(FRAME_ASKS_TEXT) - 1);
			c->slot->result = DEFERRED_FAILED;
		}
		send_text(FRAME_RESULT, c->slot_no, &c->result);
		send_text(FRAME_ERROR, c->slot_no, &c->error);
	}
	if (result == BOARD_ANSWER_LOST)
		return;
	if (state.out.len > state.out.at)
		flush_frames();
	if (command)
		sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* The tighter of two limits, 0 being none. */
static int64_t tighter(int64_t a, int64_t b)
{
	return a > 0 && (b <= 0 || a < b) ? a : b;
}

/* Pass on what the process of a job sends, frame by frame. The parent then only gets whole frames about that job,
 * whatever the process writes into descriptors it finds. */
struct relay {
	struct current *current;
	int fd;   /* our end; the process has the other one in the place of the socket */
	int bell; /* rung when it is to look at its page; it has it in the place of ours */
	struct board_page *page;
	uint32_t reported; /* number of the last report passed on */
	struct frame_buf in;
	uint64_t bytes; /* passed on */
	bool broken;    /* something came that is no frame of this job: nothing behind it is understood */
};

static bool may_pass(const struct relay *relay, const struct frame_head *head)
{
	return head->slot == relay->current->slot_no &&
	       (head->type == FRAME_RESULT || head->type == FRAME_ERROR || head->type == FRAME_LOG ||
		head->type == FRAME_FOLLOW || head->type == FRAME_REMOVE_AFTER || head->type == FRAME_STEP);
}

/* Pass on what has arrived. Returns false when nothing more can come. */
static bool relay_read(struct relay *relay)
{
	struct frame_head head;
	char *payload;
	int rc = frame_fill(&relay->in, relay->fd, MSG_DONTWAIT);

	if (rc <= 0)
		return rc < 0 && errno == EAGAIN;
	while (!relay->broken && (rc = frame_take(&relay->in, &head, &payload, FRAME_FROM_RUNNER_MAX)) != 0) {
		struct frame_part part = { payload, head.len };

		relay->broken = rc < 0 || !may_pass(relay, &head);
		if (relay->broken)
			break;
		send_frame(head.type, head.slot, &part, 1);
		relay->bytes += sizeof(head) + head.len;
	}
	if (relay->broken)
		relay->in.at = relay->in.len = 0;
	flush_frames();
	return true;
}

/* Pass on what the parent asks of the process, and what that says of its progress. */
static void relay_page(struct relay *relay, bool rung)
{
	const struct current *c = relay->current;
	struct board_progress copy;
	uint64_t one = 1;

	if (rung && read(FRAME_STOP_FD, &one, sizeof(one)) == sizeof(one)) {
		atomic_store(&relay->page->stop, atomic_load(&state.board->stop));
		atomic_store(&relay->page->slot.cancelled, atomic_load(&c->slot->cancelled));
		atomic_store(&relay->page->slot.step, atomic_load(&c->slot->step));
		if (write(relay->bell, &one, sizeof(one)) < 0)
			return; /* it has rung already */
	}
	if (!board_read_progress(&relay->page->progress, &copy) || copy.seq == relay->reported)
		return;
	relay->reported = copy.seq;
	board_report(c->progress, copy.done, copy.total, copy.text, copy.text_len, copy.reported_ns);
}

/* Pass on what the process sends until it ends. A process it left behind may keep the other end open. */
static void relay_until_end(struct relay *relay, int pidfd)
{
	struct pollfd fds[] = { { .fd = relay->fd, .events = POLLIN },
				{ .fd = pidfd, .events = POLLIN },
				{ .fd = FRAME_STOP_FD, .events = POLLIN } };

	while (!(fds[1].revents & POLLIN)) {
		if (poll(fds, 3, PROGRESS_MS) < 0 && errno != EINTR)
			_exit(EX_OSERR);
		if (fds[0].revents && !relay_read(relay))
			fds[0].fd = -1;
		relay_page(relay, fds[2].revents != 0);
	}
	for (int i = 0; i < 100 && fds[0].fd >= 0 && poll(fds, 1, 0) > 0; i++)
		if (!relay_read(relay))
			break;
}

static void fail(struct current *c, const char *what, const char *why)
{
	char text[256];
	struct frame_part part = { text, (size_t)snprintf(text, sizeof(text), "%s%s", what, why) };

	send_frame(FRAME_ERROR, c->slot_no, &part, 1);
	flush_frames();
	c->slot->result = DEFERRED_FAILED;
}

/* From here on the function only reaches its own page, socket and bell, and nothing that a later call will have. */
static void leave_runner(const struct relay *relay, const int pair[2])
{
	leave_board();
	process_forget_all();
	relay->current->slot = &relay->page->slot;
	relay->current->progress = &relay->page->progress;
	state.stop = &relay->page->stop;
	talk_to_runner(pair);
	if (dup3(relay->bell, FRAME_STOP_FD, O_CLOEXEC) < 0)
		_exit(EX_OSERR);
	close(relay->bell);
}

static void __attribute__((noreturn))
run_in_child(const struct relay *relay, const struct plugin_function *fn, const struct command *command,
	     const int pair[2], const sigset_t *mask)
{
	int64_t cpu_ms = tighter(fn ? fn->fn.cpu_ms : 0, state.start.cpu_ms);
	int64_t memory = tighter(fn ? fn->fn.memory_bytes : 0, state.start.memory_bytes);
	int64_t files = tighter(fn ? fn->fn.files : 0, state.start.files);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != state.pid)
		_exit(EX_OSERR); /* it died before that */
	begin_process();
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (!command)
		keep_privileges();
	leave_runner(relay, pair);
	state.cpu_ms = cpu_ms;
	if (!command)
		limit_cpu(cpu_ms);
#if !defined(__SANITIZE_ADDRESS__) /* the sanitizer reserves terabytes of address space */
	if (memory > 0)
		set_limit(RLIMIT_AS, memory, memory);
#endif
	(void)memory;
	if (files > 0)
		set_limit(RLIMIT_NOFILE, files, files);
	run_function(fn, command, &relay->current, 1);
	relay->page->slot.bytes_sent = state.bytes_sent;
	_exit(0);
}

static struct board_page *new_page(const struct board_slot *slot)
{
	struct board_page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	atomic_store_explicit(&page->stop, atomic_load(&state.board->stop), memory_order_relaxed);
	atomic_store_explicit(&page->slot.cancelled, atomic_load(&slot->cancelled), memory_order_relaxed);
	page->slot.result = NOT_REPORTED;
	page->slot.exit_code = slot->exit_code;
	page->slot.retry_after_ms = slot->retry_after_ms;
	return page;
}

/* How the process ended, and what it said before. */
static void take_page(struct board_slot *slot, const struct relay *relay, int status, const struct rusage *ru)
{
	const struct board_slot said = relay->page->slot;

	take_usage(slot, ru);
	slot->result = said.result;
	slot->exit_code = said.exit_code;
	slot->signal = said.signal;
	slot->retry_after_ms = said.retry_after_ms;
	if (WIFSIGNALED(status)) {
		slot->result = -1;
		slot->signal = WTERMSIG(status);
	} else if (WEXITSTATUS(status) != 0 || said.result == NOT_REPORTED) {
		slot->result = -1;
		slot->signal = 0;
		slot->exit_code = WEXITSTATUS(status);
	} else if (relay->broken || relay->in.at < relay->in.len || relay->bytes != said.bytes_sent) {
		slot->result = BOARD_ANSWER_LOST;
	}
}

/* Returns the process, -1 with errno if there is none. */
static pid_t fork_call(struct relay *relay, int *pidfd, const struct plugin_function *fn, const struct command *command,
		       const sigset_t *mask)
{
	int pair[2];
	pid_t pid;

	if (!relay->page || relay->bell < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		run_in_child(relay, fn, command, pair, mask);
	close(pair[1]);
	relay->fd = pair[0];
	*pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
	if (pid > 0 && *pidfd < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return -1;
	}
	return pid;
}

/* In a process of its own, forked from this one with the plugins loaded and nothing else done. */
static void run_forked(struct current *c, const struct plugin_function *fn, const struct command *command)
{
	struct relay relay = {
		.current = c, .fd = -1, .bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .page = new_page(c->slot)
	};
	struct rusage ru;
	int pidfd = -1, status;
	sigset_t mask;
	pid_t pid;

	hold_sigterm(&mask);
	pid = fork_call(&relay, &pidfd, fn, command, &mask);
	if (pid < 0) {
		fail(c, "cannot start a process for the job: ", strerror(errno));
	} else {
		relay_until_end(&relay, pidfd);
		while (wait4(pid, &status, 0, &ru) < 0 && errno == EINTR)
			;
		take_page(c->slot, &relay, status, &ru);
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	frame_buf_clear(&relay.in);
	if (relay.page)
		munmap(relay.page, sizeof(*relay.page));
	if (pidfd >= 0)
		close(pidfd);
	if (relay.bell >= 0)
		close(relay.bell);
	if (relay.fd >= 0)
		close(relay.fd);
}

/* Does each call run in a process of its own? fn is NULL for a command. */
static bool call_is_forked(const struct plugin_function *fn)
{
	if (state.start.debug == FRAME_DEBUG_HERE)
		return false;
	return state.start.isolate_job || state.start.cpu_ms > 0 ||
	       (fn && ((fn->fn.flags & DEFERRED_ISOLATE_JOB) || fn->fn.cpu_ms || fn->fn.memory_bytes || fn->fn.files));
}

int32_t call_batch(const struct plugin_function *fn, const struct command *command)
{
	if (call_is_forked(fn) || (command ? command->batch == 0 : !fn->fn.run_many))
		return 1;
	return command ? command->batch : fn->fn.batch > 0 ? fn->fn.batch : BATCH_DEFAULT;
}

/* Begin a call: payload of FRAME_CALL, which stays until its end. False: it was recalled before we came to it. */
static bool begin_call(struct current *c, unsigned int slot_no, const char *payload, size_t len)
{
	struct board_slot *slot = &state.board->slot[slot_no % BOARD_SLOTS];
	struct deferred_call *call = &c->call;
	uint32_t expected = BOARD_QUEUED;
	size_t at = sizeof(c->fixed);

	slot->result = NOT_REPORTED;
	slot->exit_code = -1;
	slot->signal = 0;
	slot->retry_after_ms = -1;
	slot->bytes_sent = 0;
	slot->user_us = slot->sys_us = slot->max_rss_kb = 0;
	slot->started_ns = clock_ns();
	if (!atomic_compare_exchange_strong(&slot->state, &expected, BOARD_RUNNING)) {
		atomic_store(&slot->state, BOARD_FREE); /* recalled before we came to it */
		return false;
	}
	c->slot = slot;
	c->slot_no = slot_no % BOARD_SLOTS;
	c->progress = &state.board->progress[c->slot_no];
	if (atomic_load_explicit(&c->progress->seq, memory_order_relaxed) != 0)
		atomic_store_explicit(&c->progress->seq, 0, memory_order_relaxed); /* of a call long ago */
	c->result.set = c->error.set = c->asked_too_much = c->has_outcome = false;
	c->asks = c->ask_bytes = 0;
	memcpy(&c->fixed, payload, sizeof(c->fixed));
	memset(call, 0, sizeof(*call));
	call->size = sizeof(*call);
	call->id = c->fixed.id;
	call->attempt = c->fixed.attempt;
	call->created_at_us = c->fixed.created_at_us;
	call->ready_at = c->fixed.ready_at_us;
	call->timeout_ms = c->fixed.timeout_ms;
	call->fn = frame_text(payload, len, &at);
	call->label = frame_text(payload, len, &at);
	call->params = frame_text(payload, len, &at);
	call->params_len = c->fixed.params_len;
	call->parents = frame_text(payload, len, &at);
	call->parents_len = c->fixed.parents_len;
	call->steps = frame_text(payload, len, &at);
	call->steps_len = c->fixed.steps_len;
	call->host = &host;
	call->host_data = c;
	call->receipt = c->fixed.token;
	call->tick = c->fixed.tick_us;
	call->previous_tick = c->fixed.previous_tick_us;
	call->traceparent = c->fixed.traceparent;
	steps_begin(&c->steps, call, c->slot_no);
	return true;
}

static void finish_call(struct current *c)
{
	params_free(c->parents);
	c->parents = NULL;
	c->slot->finished_ns = clock_ns();
	c->slot->bytes_sent = state.bytes_sent;
	atomic_store_explicit(&c->slot->state, BOARD_DONE, memory_order_release);
}

/* The calls of a batch ended together, and used the processor in equal parts. */
static void share_usage(struct current *const *list, size_t n)
{
	struct board_slot *first = list[0]->slot;

	first->user_us /= n;
	first->sys_us /= n;
	for (size_t i = 1; i < n; i++) {
		struct board_slot *slot = list[i]->slot;

		slot->exit_code = first->exit_code;
		slot->signal = first->signal;
		slot->user_us = first->user_us;
		slot->sys_us = first->sys_us;
		slot->max_rss_kb = first->max_rss_kb;
	}
}

static struct rusage before; /* what this process had used before its next call; ru_maxrss 0: not known */

static void call_here(const struct plugin_function *fn, struct current *const *list, size_t n)
{
	struct board_slot *slot = list[0]->slot;
	struct rusage after;

	if (before.ru_maxrss == 0)
		getrusage(RUSAGE_SELF, &before);
	run_function(fn, NULL, list, n);
	getrusage(RUSAGE_SELF, &after);
	slot->user_us = tv_us(after.ru_utime) - tv_us(before.ru_utime);
	slot->sys_us = tv_us(after.ru_stime) - tv_us(before.ru_stime);
	slot->max_rss_kb = (uint64_t)after.ru_maxrss;
	before = after;
}

static void run_processes(const struct plugin_function *fn, const struct command *command, struct current *const *list,
			  size_t n)
{
	/* The next job may be another role's. Setuid programs are left to the parent, which may kill them. */
	bool sweeps = !command || !command->new_privileges;

	if (sweeps)
		orphan_init();
	if (call_is_forked(fn))
		run_forked(list[0], fn, command);
	else
		run_function(NULL, command, list, n);
	if (sweeps)
		orphan_end();
}

static void run_some(const struct plugin_function *fn, const struct command *command, struct current *const *list,
		     size_t n)
{
	if (command && command->program) {
		run_function(NULL, command, list, n);
		before.ru_maxrss = 0; /* what this process itself has used meanwhile is of no later function */
	} else if (command || call_is_forked(fn)) {
		run_processes(fn, command, list, n);
	} else {
		call_here(fn, list, n);
	}
	if (n > 1)
		share_usage(list, n);
}

/* Run calls of one function that have begun. */
static void run_calls(struct current *const *list, size_t n)
{
	static struct deferred_error err; /* static: large, and only written on failure */
	const char *name = list[0]->call.fn;
	const struct command *command = command_find(name);
	const struct plugin_function *fn;
	size_t at_once = n;

	catalog_look(list[0]->slot->started_ns);
	state.stop = &state.board->stop;
	error_clear(&err);
	fn = command ? NULL : catalog_find(name, &err);
	state.plugin = fn ? fn->plugin : NULL;
	state.plain_crash = list[0]->fixed.plain_crash;
	for (size_t i = 0; !command && !fn && i < n; i++) {
		keep(&list[i]->error, err.message, strlen(err.message));
		send_text(FRAME_ERROR, list[i]->slot_no, &list[i]->error);
		flush_frames();
		list[i]->slot->result = DEFERRED_UNREADY; /* another runner may have it */
	}
	/* The runner that told of the function may have loaded another file, or have other settings. */
	if ((fn || command) && call_batch(fn, command) == 1)
		at_once = 1;
	if (state.start.debug == FRAME_DEBUG_STOP)
		stop_for_debugger(fn);
	for (size_t i = 0; (command || fn) && i < n; i += at_once)
		run_some(fn, command, list + i, at_once);
	for (size_t i = 0; i < n; i++)
		finish_call(list[i]);
	if (list[0]->slot->result == BOARD_ANSWER_LOST && !socket_is_ours())
		_exit(EX_OSERR); /* nobody hears us any more */
}

/* The calls of a batch that have come. */
static struct batch {
	struct batch_call {
		unsigned int slot_no;
		char *payload;
		size_t len;
	} call[DEFERRED_BATCH_MAX];
	size_t n;
} batch;

bool call_waits(void)
{
	return batch.n > 0;
}

static void *batch_memory(void *memory)
{
	if (!memory)
		_exit(EX_OSERR);
	return memory;
}

static void run_batch(void)
{
	static struct current *currents;
	struct current *list[DEFERRED_BATCH_MAX];
	size_t n = 0;

	if (!currents)
		currents = batch_memory(calloc(DEFERRED_BATCH_MAX, sizeof(*currents)));
	for (size_t i = 0; i < batch.n; i++)
		if (begin_call(&currents[i], batch.call[i].slot_no, batch.call[i].payload, batch.call[i].len))
			list[n++] = &currents[i];
	if (n > 0)
		run_calls(list, n);
	while (batch.n > 0)
		free(batch.call[--batch.n].payload);
}

void call_run(unsigned int slot_no, const char *payload, size_t len)
{
	static struct current single;
	struct current *list[] = { &single };
	struct batch_call *c;
	uint32_t more;

	memcpy(&more, payload + offsetof(struct frame_call, more), sizeof(more));
	if (more == 0 && batch.n == 0) {
		if (begin_call(&single, slot_no, payload, len))
			run_calls(list, 1);
		return;
	}
	c = &batch.call[batch.n++];
	*c = (struct batch_call){ slot_no, batch_memory(malloc(len + 1)), len };
	memcpy(c->payload, payload, len + 1); /* with its NUL */
	if (more == 0)
		run_batch();
}
