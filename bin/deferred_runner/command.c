/* SPDX-License-Identifier: MIT */
#include "program_message.h"
#include "runner_process.h"

#include "base/job.h"
#include "base/span.h"
#include "base/step.h"
#include "port/trusted.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define EXIT_CANCEL 79 /* behind those of <sysexits.h>, which programs mean otherwise */
#define SNOOZE_MAX_MS (365.0 * 86400 * 1000)
#define BATCH_LINE_MAX (2 * JOB_TEXT_MAX) /* bytes of the output that are kept for each job of a batch */
#define PROGRESS_FD 3 /* where a command may say how far it is; the environment tells it the number */
/* Behind it: where it reads how the jobs ended that its own waited for, and what earlier attempts have saved. */
#define TEXTS_FD 4

/* The first bytes of a command's standard output, and the last bytes of its standard error. */
struct output {
	int fd;
	bool keep_last;
	size_t len, size;
	char *data;
};

/* The jobs that a command has. It has one, unless its function takes batches. */
struct given {
	const struct deferred_call *const *calls;
	size_t n;
	bool batch; /* they are lines of its input */
};

static void output_add(struct output *out, const char *data, size_t n)
{
	size_t room;

	if (out->keep_last && n > out->size - out->len) {
		size_t drop = out->len + n - out->size;

		memmove(out->data, out->data + drop, out->len - drop);
		out->len -= drop;
	}
	room = out->size - out->len;
	if (n < room)
		room = n;
	memcpy(out->data + out->len, data, room);
	out->len += room;
}

/* Returns 0 at the end, or when nothing more is there. */
static bool read_output(struct output *out)
{
	char buf[4096];
	ssize_t n = read(out->fd, buf, sizeof(buf));

	if (n <= 0)
		return n < 0 && errno == EINTR;
	output_add(out, buf, (size_t)n);
	return true;
}

static const char *const job_variables[] = {
	"DEFERRED_BATCH",
	"DEFERRED_JOB_ID",
	"DEFERRED_JOB_ATTEMPT",
	"DEFERRED_JOB_RECEIPT",
	"DEFERRED_JOB_LABEL",
	"DEFERRED_TICK",
	"DEFERRED_PREVIOUS_TICK",
	"DEFERRED_PARENTS_FD",
	"DEFERRED_STEPS_FD",
	"TRACEPARENT",
	"TRACESTATE",
};

/* Put the parts of the label of a hook, "CAUSE NAME: SENTENCE", into its environment. */
static void set_alert(const char *label)
{
	const char *blank = strchr(label, ' '), *colon = blank ? strstr(blank, ": ") : NULL;
	char word[160];

	if (!colon)
		return;
	snprintf(word, sizeof(word), "%.*s", (int)(blank - label), label);
	setenv("DEFERRED_ALERT_CAUSE", word, 1);
	snprintf(word, sizeof(word), "%.*s", (int)(colon - blank - 1), blank + 1);
	setenv("DEFERRED_ALERT_NAME", word, 1);
	setenv("DEFERRED_ALERT_TEXT", colon + 2, 1);
}

/* The time of a tick in the format of RFC 3339. It has microseconds if the rule is about seconds or less, or a person
 * ran the schedule. */
static void set_tick(const char *name, int64_t us)
{
	time_t at = (time_t)(us / 1000000);
	char text[64];
	struct tm tm;
	size_t n;

	if (us <= 0 || !gmtime_r(&at, &tm))
		return;
	n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	if (us % 1000000)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ".%06d", (int)(us % 1000000));
	snprintf(text + n, sizeof(text) - n, "Z");
	setenv(name, text, 1);
}

/* A file in memory, so that a command which never reads it blocks nobody. */
static int text_file(const char *name, const char *text, size_t len)
{
	int fd = memfd_create(name, MFD_CLOEXEC);
	size_t at = 0;

	while (fd >= 0 && at < len) {
		ssize_t n = write(fd, text + at, len - at);

		if (n < 0 && errno != EINTR) {
			close(fd);
			return -1;
		}
		at += n > 0 ? (size_t)n : 0;
	}
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

/* JSON without the line breaks between its values. */
static void put_json_line(FILE *f, const char *json)
{
	for (; *json; json++)
		putc(*json == '\n' || *json == '\r' ? ' ' : *json, f);
}

/* Have the command read a text from this descriptor, if there is one. Returns the next descriptor. */
static int put_text_file(const char *variable, int to, const char *text, size_t len)
{
	char number[32];
	int fd;

	if (len == 0)
		return to;
	fd = text_file(variable, text, len);
	if (fd >= 0)
		fd = fcntl(fd, F_DUPFD, 10); /* as for progress */
	if (fd < 0 || dup2(fd, to) < 0)
		_exit(EX_OSERR);
	snprintf(number, sizeof(number), "%d", to);
	setenv(variable, number, 1);
	return to + 1;
}

/* The lines that a command reads for its batch. Each is the head of a call in deferred_program(7), with its params and
 * parents as members. */
static int batch_file(const struct given *given)
{
	static struct message_head head;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int fd = -1;

	for (size_t i = 0; f && i < given->n; i++) {
		const struct deferred_call *call = given->calls[i];

		message_begin(&head, "call");
		message_put_call(&head, call, call->timeout_ms > 0 ? call->timeout_ms : -1);
		fwrite(head.data, 1, head.len, f);
		fputs(",\"params\":", f);
		put_json_line(f, call->params);
		if (call->parents_len > 0) {
			fputs(",\"parents\":", f);
			put_json_line(f, call->parents);
		}
		if (call->steps_len > 0) {
			fputs(",\"steps\":", f);
			put_json_line(f, call->steps);
		}
		fputs("}\n", f);
	}
	if (f && fclose(f) == 0)
		fd = text_file("batch", text, len);
	free(text);
	return fd;
}

/* Describe the job of a command in its environment. */
static void put_job_variables(const struct deferred_call *call)
{
	char number[32];

	snprintf(number, sizeof(number), "%lld", (long long)call->id);
	setenv("DEFERRED_JOB_ID", number, 1);
	snprintf(number, sizeof(number), "%d", call->attempt);
	setenv("DEFERRED_JOB_ATTEMPT", number, 1);
	snprintf(number, sizeof(number), "%lld", (long long)call->receipt);
	setenv("DEFERRED_JOB_RECEIPT", number, 1);
	setenv("DEFERRED_JOB_LABEL", call->label, 1);
	set_tick("DEFERRED_TICK", call->tick);
	set_tick("DEFERRED_PREVIOUS_TICK", call->previous_tick);
	if (call->traceparent[0])
		setenv("TRACEPARENT", call->traceparent, 1);
	if (strcmp(call->fn, JOB_HOOK_FN) == 0)
		set_alert(call->label);
}

static void exec_command(const struct command *command, const struct given *given, pid_t parent, int in, int out,
			 int err, int progress)
{
	const struct deferred_call *call = given->calls[0];
	char number[32];
	sigset_t none;
	int end;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EX_OSERR); /* it died before that */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (!command->new_privileges)
		keep_privileges();
	limit_cpu(state.cpu_ms);
	/* The worker may itself have been started for a job. */
	for (size_t i = 0; i < sizeof(job_variables) / sizeof(job_variables[0]); i++)
		unsetenv(job_variables[i]);
	snprintf(number, sizeof(number), "%d", PROGRESS_FD);
	setenv("DEFERRED_PROGRESS_FD", number, 1);
	setenv("DEFERRED_JOB_FN", call->fn, 1);
	snprintf(number, sizeof(number), "%zu", given->n);
	if (given->batch)
		setenv("DEFERRED_BATCH", number, 1);
	else
		put_job_variables(call);
	progress = fcntl(progress, F_DUPFD, 10); /* off the number it is to have, where dup2() would do nothing */
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0 ||
	    dup2(progress, PROGRESS_FD) < 0)
		_exit(EX_OSERR);
	end = TEXTS_FD;
	if (!given->batch) {
		end = put_text_file("DEFERRED_PARENTS_FD", end, call->parents, call->parents_len);
		end = put_text_file("DEFERRED_STEPS_FD", end, call->steps, call->steps_len);
	}
	syscall(SYS_close_range, (unsigned int)end, ~0u, 0u);
	execv(command->argv[0], command->argv);
	dprintf(STDERR_FILENO, "cannot execute '%s': %s", command->argv[0], strerror(errno));
	_exit(127);
}

/* Lines of progress, the last of which may be incomplete. Text longer than a line is cut. */
struct progress {
	int fd;
	size_t len;
	char refused[256];               /* a step that was not saved; "": none */
	char line[STEP_VALUE_MAX + 256]; /* "step", a name, a value and a NUL */
};

/* A line "step NAME VALUE" is a step, if NAME is a name and VALUE is JSON, or larger than a value may be. Returns false
 * for another line, such as "step two of three": that is progress. In a batch the command goes on for the other jobs
 * if the lease of one has ended. */
static bool save_line(const struct given *given, const struct deferred_call *call, char *line, struct progress *p)
{
	static const char *const why[] = { "", "it is not valid", "the steps of the job are too many or too large",
					   "the lease has ended", "the database refused it" };
	char *name = line + 5, *value;
	int result;

	if (strncmp(line, "step ", 5) != 0)
		return false;
	value = strchr(name, ' ');
	if (!value)
		return false;
	*value++ = '\0';
	result = call->host->step(call, name, value);
	if (result == DEFERRED_STEP_INVALID && strlen(value) <= STEP_VALUE_MAX) {
		value[-1] = ' ';
		return false;
	}
	if (result != DEFERRED_STEP_SAVED && (result != DEFERRED_STEP_GONE || given->n == 1))
		snprintf(p->refused, sizeof(p->refused), "step '%.127s' was not saved: %s", name, why[-result]);
	return true;
}

/* The job of this id; NULL: it is none of them. */
static const struct deferred_call *given_find(const struct given *given, int64_t id)
{
	for (size_t i = 0; i < given->n; i++)
		if (given->calls[i]->id == id)
			return given->calls[i];
	return NULL;
}

/* A line of progress: DONE[/TOTAL][ TEXT], or text alone. In a batch, the id of a job and a blank are in front of it.
 */
static void report_line(const struct given *given, struct progress *p)
{
	const struct deferred_call *call = given->calls[0];
	int64_t done = -1, total = -1;
	char *line = p->line, *text = line, *end;

	if (given->batch) {
		call = given_find(given, strtoll(line, &line, 10));
		if (!call || *line != ' ')
			return;
		text = ++line;
	}
	if (save_line(given, call, line, p))
		return;
	if (isdigit((unsigned char)line[0])) {
		done = strtoll(line, &end, 10);
		if (*end == '/' && isdigit((unsigned char)end[1]))
			total = strtoll(end + 1, &end, 10);
		if (*end == '\0' || isspace((unsigned char)*end))
			text = end;
		else
			done = total = -1; /* "3d model" is no number */
	}
	while (isspace((unsigned char)*text))
		text++;
	call->host->progress(call, done, total, text, strlen(text));
}

static bool read_progress(const struct given *given, struct progress *p)
{
	char buf[4096];
	ssize_t n = read(p->fd, buf, sizeof(buf));

	if (n <= 0)
		return n < 0 && errno == EINTR;
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] == '\n') {
			p->line[p->len] = '\0';
			report_line(given, p);
			p->len = 0;
		} else if (p->len < sizeof(p->line) - 1) {
			p->line[p->len++] = buf[i];
		}
	}
	return true;
}

/* The bell has rung: silence it. It may have been for an earlier call. Returns false when the bell is of no further
 * use. Then the command has been asked to end, or a plugin has replaced the descriptor. */
static bool hear_bell(const struct given *given, int pidfd)
{
	uint64_t rung;
	ssize_t n = read(FRAME_STOP_FD, &rung, sizeof(rung));

	if (n != sizeof(rung) && !(n < 0 && errno == EAGAIN))
		return false;
	for (size_t i = 0; i < given->n; i++)
		if (!given->calls[i]->host->cancelled(given->calls[i]))
			return true;
	syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0);
	return false;
}

static size_t trimmed(const struct output *out)
{
	size_t len = out->len;

	while (len > 0 && (out->data[len - 1] == '\n' || out->data[len - 1] == '\r'))
		len--;
	return len;
}

/* The error of all jobs. */
static void set_error(const struct given *given, const char *text, size_t len)
{
	for (size_t i = 0; i < given->n; i++)
		given->calls[i]->host->error(given->calls[i], text, len);
}

static int failed(const struct given *given, const char *what)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "%s: %s", what, strerror(errno));

	set_error(given, text, (size_t)n);
	return DEFERRED_FAILED;
}

/* The delay that a command asks for by EX_TEMPFAIL and a single span with a unit on standard output. Any other output
 * asks for no delay. -1: no delay. */
static int64_t snooze_ms(const struct output *out)
{
	size_t len = trimmed(out);
	char text[64];
	double span;

	if (len == 0 || len >= sizeof(text) || memchr(out->data, '\0', len))
		return -1;
	memcpy(text, out->data, len);
	text[len] = '\0';
	if (span_is_bare(text) || !span_parse(text, &span) || !(span >= 0 && span <= SNOOZE_MAX_MS))
		return -1;
	return (int64_t)span;
}

static void note_memory_limit(struct output *err, int sig)
{
	const char *hint = memory_limit_hint(sig);

	if (!hint)
		return;
	err->len = trimmed(err);
	if (err->len > 0)
		output_add(err, "\n", 1);
	output_add(err, hint, strlen(hint));
}

/* One line of outcome for each job. Returns NULL, or what is wrong with a line. */
static const char *take_lines(const struct given *given, struct output *out, size_t *line)
{
	bool told[DEFERRED_BATCH_MAX] = { false };
	const char *wrong;

	for (char *at = out->data, *end = at + out->len, *next; at < end; at = next) {
		char *stop = memchr(at, '\n', (size_t)(end - at));
		const struct deferred_call *call;
		struct message m;
		size_t i = 0;

		next = stop ? stop + 1 : end;
		++*line;
		if (at + strspn(at, " \t\r") == stop)
			continue;
		if ((wrong = message_read_outcome(at, (size_t)((stop ? stop : end) - at), &m)))
			return wrong;
		while (i < given->n && given->calls[i]->id != m.job)
			i++;
		if (i == given->n)
			return "it names another job than those of the batch";
		if (told[i])
			return "it is the second one for its job";
		told[i] = true;
		call = given->calls[i];
		call->host->outcome(call, message_outcome(&m));
		if (m.after_ms >= 0)
			call->host->retry_after(call, m.after_ms);
		if (message_outcome(&m) == DEFERRED_OK && *m.text)
			call->host->result(call, m.text, strlen(m.text));
		else if (*m.text)
			call->host->error(call, m.text, strlen(m.text));
	}
	for (size_t i = 0; i < given->n; i++)
		if (!told[i]) {
			static const char none[] = "the command printed no outcome for this job";

			given->calls[i]->host->error(given->calls[i], none, sizeof(none) - 1);
			given->calls[i]->host->outcome(given->calls[i], DEFERRED_FAILED);
		}
	return NULL;
}

static int batch_outcome(const struct given *given, struct output *out)
{
	size_t line = 0;
	const char *wrong;
	char text[256];

	out->data[out->len] = '\0';
	wrong = take_lines(given, out, &line);
	if (!wrong)
		return DEFERRED_OK;
	snprintf(text, sizeof(text), "line %zu of its output is not an outcome: %s", line, wrong);
	set_error(given, text, strlen(text));
	return BOARD_BROKEN;
}

/* The exit code gives the outcome. 0: done, or for a batch, as its lines say. 65 (data error): failed for good. 75
 * (temporary) with a span: not yet. 79: cancelled. Any other: try again. With several jobs, nobody knows which of them
 * any code but 0 is about. */
static int outcome(const struct given *given, struct board_slot *slot, int status, struct output *out,
		   struct output *err)
{
	const struct deferred_call *call = given->calls[0];
	int n, sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	int exited = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	int64_t again_ms = exited == EX_TEMPFAIL ? snooze_ms(out) : -1;
	char text[64];

	if (sig == SIGPROF && state.cpu_ms > 0)
		sig = SIGXCPU; /* its timer: limit_cpu() */
	note_memory_limit(err, sig);
	if (!given->batch && trimmed(out) > 0 && again_ms < 0)
		call->host->result(call, out->data, trimmed(out));
	if (sig)
		slot->signal = sig;
	else
		slot->exit_code = exited;
	if (exited == 0) {
		if (trimmed(err) > 0)
			call->host->log(call, DEFERRED_LOG_INFO, err->data, trimmed(err));
		return given->batch ? batch_outcome(given, out) : DEFERRED_OK;
	}
	if (trimmed(err) > 0) {
		set_error(given, err->data, trimmed(err));
	} else if (!sig) {
		n = snprintf(text, sizeof(text), "exit status %d", exited);
		set_error(given, text, (size_t)n);
	}
	if (sig)
		return -1; /* which the parent puts in front */
	if (given->n > 1)
		return BOARD_BROKEN;
	if (again_ms >= 0) {
		call->host->retry_after(call, again_ms);
		return DEFERRED_SNOOZE;
	}
	return exited == EX_DATAERR ? DEFERRED_DEAD : exited == EXIT_CANCEL ? DEFERRED_CANCEL : DEFERRED_FAILED;
}

int command_run(const struct command *command, const struct deferred_call *const *calls, size_t n,
		struct board_slot *slot)
{
	static char out_data[JOB_TEXT_MAX], err_data[JOB_TEXT_MAX]; /* static: one call at a time, and large */
	const struct given given = { calls, n, command->batch > 0 };
	struct output out = { .data = out_data, .size = sizeof(out_data) },
		      err = { .data = err_data, .size = sizeof(err_data), .keep_last = true };
	int out_pipe[2] = { -1, -1 }, err_pipe[2] = { -1, -1 }, progress_pipe[2] = { -1, -1 };
	int in = given.batch ? batch_file(&given) : text_file("params", calls[0]->params, calls[0]->params_len),
	    exited = -1, status = 0, rc;
	static struct progress progress;
	int bell = FRAME_STOP_FD;
	struct deferred_error refusal = { 0 };
	struct rusage used;
	pid_t self = getpid(), pid = -1;

	if (trusted_check_program(command->argv[0], state.start.owner_uid, &refusal) < 0) {
		set_error(&given, refusal.message, strlen(refusal.message));
		rc = DEFERRED_UNREADY;
		goto done;
	}
	if (given.batch) {
		out.size = n * BATCH_LINE_MAX;
		out.data = malloc(out.size + 1);
		if (!out.data)
			_exit(EX_OSERR);
	}
	if (in < 0 || pipe2(out_pipe, O_CLOEXEC) < 0 || pipe2(err_pipe, O_CLOEXEC) < 0 ||
	    pipe2(progress_pipe, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		rc = failed(&given, "cannot start the command");
		goto done;
	}
	if (pid == 0)
		exec_command(command, &given, self, in, out_pipe[1], err_pipe[1], progress_pipe[1]);
	exited = (int)syscall(SYS_pidfd_open, pid, 0);
	close(out_pipe[1]);
	close(err_pipe[1]);
	close(progress_pipe[1]);
	out_pipe[1] = err_pipe[1] = progress_pipe[1] = -1;
	out.fd = out_pipe[0];
	err.fd = err_pipe[0];
	progress.fd = progress_pipe[0];
	progress.len = 0;
	progress.refused[0] = '\0';

	/* Read until the command is gone. Later output of its children is not waited for. */
	for (;;) {
		struct pollfd fds[] = { { out.fd, POLLIN, 0 },
					{ err.fd, POLLIN, 0 },
					{ exited, POLLIN, 0 },
					{ progress.fd, POLLIN, 0 },
					{ bell, POLLIN, 0 } };

		if (poll(fds, 5, -1) < 0)
			continue;
		if (fds[0].revents && !read_output(&out))
			out.fd = -1;
		if (fds[1].revents && !read_output(&err))
			err.fd = -1;
		if (fds[3].revents && (!read_progress(&given, &progress) || progress.refused[0])) {
			progress.fd = -1;
			if (progress.refused[0])
				syscall(SYS_pidfd_send_signal, exited, SIGTERM, NULL, 0);
		}
		if (fds[4].revents && !hear_bell(&given, exited))
			bell = -1;
		if ((fds[2].revents && !fds[0].revents && !fds[1].revents && !fds[3].revents) ||
		    (exited < 0 && out.fd < 0 && err.fd < 0))
			break;
	}
	while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR)
		;
	take_usage(slot, &used);
	if (progress.refused[0]) { /* the outcome that the command wrote does not count */
		set_error(&given, progress.refused, strlen(progress.refused));
		rc = n > 1 ? BOARD_BROKEN : DEFERRED_FAILED;
	} else {
		rc = outcome(&given, slot, status, &out, &err);
	}
done:
	for (size_t i = 0; i < 2; i++) {
		if (out_pipe[i] >= 0)
			close(out_pipe[i]);
		if (err_pipe[i] >= 0)
			close(err_pipe[i]);
		if (progress_pipe[i] >= 0)
			close(progress_pipe[i]);
	}
	if (in >= 0)
		close(in);
	if (exited >= 0)
		close(exited);
	if (out.data != out_data)
		free(out.data);
	return rc;
}
