/* SPDX-License-Identifier: MIT */
/* unruly - functions that do what no function should, each in one way. */
#include "run/frame.h"

#include <deferred_plugin.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* A crash on purpose must reach the kernel, in a sanitizer build as well. */
#define REAL_CRASH __attribute__((noinline, no_sanitize("undefined"), no_sanitize("address")))

static void pause_ms(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

/* A member of params, as a number or text; def where it is missing. */
static int64_t number(const struct deferred_call *call, const char *name, int64_t def)
{
	json_t *params = json_loads(call->params, 0, NULL), *v = json_object_get(params, name);
	int64_t value = json_is_integer(v) ? json_integer_value(v) : json_is_boolean(v) ? json_is_true(v) : def;

	json_decref(params);
	return value;
}

static void text(const struct deferred_call *call, const char *name, char *value, size_t size)
{
	json_t *params = json_loads(call->params, 0, NULL);
	const char *v = json_string_value(json_object_get(params, name));

	snprintf(value, size, "%s", v ? v : "");
	json_decref(params);
}

static void append_line(const char *file, const char *line)
{
	int fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		perror(file);
	if (fd >= 0)
		close(fd);
}

/* ---- ends by a signal ------------------------------------------------------------------------- */

REAL_CRASH static int segv(const struct deferred_call *call)
{
	volatile int *volatile p = NULL;

	*p = 1;
	(void)call;
	return DEFERRED_OK;
}

static int abort_(const struct deferred_call *call)
{
	(void)call;
	abort();
}

REAL_CRASH static int fpe(const struct deferred_call *call)
{
	volatile int zero = 0, one = 1;

	one = one / zero;
	(void)call;
	signal(SIGFPE, SIG_DFL); /* this processor does not trap */
	raise(SIGFPE);
	return DEFERRED_OK;
}

REAL_CRASH static int ill(const struct deferred_call *call)
{
	(void)call;
#if defined(__x86_64__) || defined(__i386__)
	__asm__ volatile("ud2");
#else
	raise(SIGILL);
#endif
	return DEFERRED_OK;
}

REAL_CRASH static int eat_stack(unsigned long levels)
{
	volatile char frame[4096];

	frame[0] = (char)levels;
	return levels ? eat_stack(levels - 1) + frame[0] : 0;
}

static int stack_overflow(const struct deferred_call *call)
{
	(void)call;
	return eat_stack(100000000ul);
}

/* ---- ends its process ------------------------------------------------------------------------- */

static int exit0(const struct deferred_call *call)
{
	(void)call;
	exit(0);
}

static int exit0_at_once(const struct deferred_call *call)
{
	(void)call;
	_exit(0);
}

static int exit0_quick(const struct deferred_call *call)
{
	(void)call;
	quick_exit(0);
}

/* ---- does not end ----------------------------------------------------------------------------- */

static int spin(const struct deferred_call *call)
{
	(void)call;
	for (volatile unsigned long i = 0;; i++)
		;
	return DEFERRED_OK;
}

static int hang(const struct deferred_call *call)
{
	(void)call;
	for (;;)
		pause_ms(1000);
	return DEFERRED_OK;
}

static int hang_blocking_signals(const struct deferred_call *call)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	return hang(call);
}

static int hang_ignoring_sigterm(const struct deferred_call *call)
{
	signal(SIGTERM, SIG_IGN);
	return hang(call);
}

/* ---- takes too much --------------------------------------------------------------------------- */

/* Touches every page, up to {"bytes"}; reports failure where it is refused more. */
static int eat_memory(const struct deferred_call *call)
{
	int64_t limit = number(call, "bytes", INT64_C(1) << 40);

	for (int64_t got = 0; got < limit; got += 1 << 20) {
		char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED) {
			call->host->error(call, "out of memory", 13);
			return DEFERRED_FAILED;
		}
		memset(p, 1, 1 << 20);
	}
	return DEFERRED_OK;
}

/* Opens {"n"} files and forgets them. */
static int leak_fds(const struct deferred_call *call)
{
	for (int64_t i = number(call, "n", 10); i > 0; i--)
		if (open("/dev/null", O_RDONLY) < 0) {
			call->host->error(call, strerror(errno), strlen(strerror(errno)));
			return DEFERRED_FAILED;
		}
	return DEFERRED_OK;
}

/* Its result is the number of open descriptors. */
static int count_fds(const struct deferred_call *call)
{
	DIR *dir = opendir("/proc/self/fd");
	char result[16];
	int n = -3; /* ".", ".." and that of the folder itself */

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	call->host->result(call, result, (size_t)snprintf(result, sizeof(result), "%d", n));
	return DEFERRED_OK;
}

static int close_all_fds(const struct deferred_call *call)
{
	(void)call;
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	return DEFERRED_OK;
}

/* Of {"n"} bytes, which begin no message. */
static int junk_on_fds(const struct deferred_call *call)
{
	char junk[512];

	memset(junk, 'J', sizeof(junk));
	for (int fd = 3; fd < 1024; fd++)
		if (write(fd, junk, (size_t)number(call, "n", sizeof(junk))) < 0)
			continue;
	return DEFERRED_OK;
}

/* Begins a message to the host that never comes to its end, in front of its answer. */
static int swallow_answer(const struct deferred_call *call)
{
	const struct frame_head head = { .len = 1 << 20, .type = FRAME_RESULT };

	call->host->result(call, "the answer", 10);
	return write(FRAME_SOCKET_FD, &head, sizeof(head)) == (ssize_t)sizeof(head) ? DEFERRED_OK : DEFERRED_DEAD;
}

/* A result, longer than the host would take it, for the first job of this runner. */
static int raw_result(const struct deferred_call *call)
{
	static const struct {
		struct frame_head head;
		char text[100000];
	} frame = { { 100000, FRAME_RESULT, 0 }, "result" };

	(void)call;
	return write(FRAME_SOCKET_FD, &frame, sizeof(frame)) == (ssize_t)sizeof(frame) ? DEFERRED_OK : DEFERRED_DEAD;
}

/* ---- talks ------------------------------------------------------------------------------------ */

static int print(const struct deferred_call *call)
{
	(void)call;
	printf("a line on standard output\n");
	fflush(stdout);
	fprintf(stderr, "a line on standard error\n");
	return DEFERRED_OK;
}

/* Without end: prints lines as short and as fast as it can, or with {"log"} has them logged. */
static int chatter(const struct deferred_call *call)
{
	static char lines[8000];
	bool log = number(call, "log", 0);

	memset(lines, '\n', sizeof(lines));
	for (size_t i = 0; !log && i < sizeof(lines); i += 2)
		lines[i] = 'x';
	for (;;) {
		if (log)
			call->host->log(call, DEFERRED_LOG_INFO, lines, sizeof(lines));
		else if (write(STDOUT_FILENO, lines, sizeof(lines)) < 0)
			return DEFERRED_FAILED;
	}
}

/* {"bytes": 100, "nul": true, "invalid_utf8": true, "error": true}: with error it fails by that text. */
static int big_result(const struct deferred_call *call)
{
	size_t len = (size_t)number(call, "bytes", 100);
	char *p = malloc(len + 2);

	if (!p)
		return DEFERRED_FAILED;
	memset(p, 'x', len);
	if (len > 2 && number(call, "nul", 0))
		p[1] = '\0';
	if (len > 2 && number(call, "invalid_utf8", 0))
		p[2] = (char)0xff;
	if (number(call, "error", 0))
		call->host->error(call, p, len);
	else
		call->host->result(call, p, len);
	free(p);
	return number(call, "error", 0) ? DEFERRED_FAILED : DEFERRED_OK;
}

/* Returns {"value"}, and says nothing about it. */
/* Every byte there is, on both outputs, past whatever buffers; then what would pass for a line of the log, and for the
 * end of one. */
static int print_bytes(const struct deferred_call *call)
{
	static const char forged[] = "\n\0error: forged\r\n\xc3";
	char bytes[256];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		if (write(fd, bytes, sizeof(bytes)) < 0 || write(fd, forged, sizeof(forged) - 1) < 0)
			return DEFERRED_FAILED;
	(void)call;
	return DEFERRED_OK;
}

static int returns(const struct deferred_call *call)
{
	return (int)number(call, "value", 0);
}

static int log_bytes(const struct deferred_call *call)
{
	static const char said[] = "before\0after \xff end";

	call->host->log(call, DEFERRED_LOG_INFO, said, sizeof(said) - 1);
	return DEFERRED_OK;
}

/* ---- processes -------------------------------------------------------------------------------- */

/* Starts {"n"} children that sleep, and returns. */
static int fork_bomb_light(const struct deferred_call *call)
{
	for (int64_t i = number(call, "n", 10); i > 0; i--)
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, 0);
			for (;;)
				pause_ms(60000);
		}
	return DEFERRED_OK;
}

/* Forks, and both return: the copy first. */
static int fork_and_return(const struct deferred_call *call)
{
	pid_t copy = fork();

	if (copy == 0) {
		call->host->result(call, "copy", 4);
		return DEFERRED_FAILED;
	}
	if (copy < 0 || waitpid(copy, NULL, 0) != copy)
		return DEFERRED_FAILED;
	call->host->result(call, "original", 8);
	return DEFERRED_OK;
}

/* Every process of it forks for as long as it lives, with {"setsid"} into sessions of their own. */
static int fork_bomb(const struct deferred_call *call)
{
	bool apart = number(call, "setsid", 0);

	for (;;) {
		pid_t child = fork();

		if (child == 0 && apart)
			setsid();
		if (child < 0)
			pause_ms(1);
	}
	return DEFERRED_OK;
}

/* Leaves a process of a session of its own behind, whose pid is written to {"file"}. */
static int survivor(const struct deferred_call *call)
{
	char file[512], line[32];
	int ready[2];
	char c;

	text(call, "file", file, sizeof(file));
	if (pipe(ready) < 0)
		return DEFERRED_FAILED;
	if (fork() == 0) {
		setsid();
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, 0);
			signal(SIGTERM, SIG_IGN);
			snprintf(line, sizeof(line), "%d\n", (int)getpid());
			append_line(file, line);
			if (write(ready[1], "x", 1) < 0)
				_exit(1);
			for (int fd = 0; fd < 1024; fd++)
				close(fd);
			for (;;)
				pause_ms(60000);
		}
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		return DEFERRED_FAILED;
	close(ready[0]);
	return DEFERRED_OK;
}

/* Where it may not, it says so. */
static int kill_parent(const struct deferred_call *call)
{
	if (kill(getppid(), SIGKILL) < 0) {
		call->host->error(call, strerror(errno), strlen(strerror(errno)));
		return DEFERRED_FAILED;
	}
	return hang(call);
}

/* ---- jobs ------------------------------------------------------------------------------------- */

/* Defers {"n"} calls of {"fn"}, then fails if {"fail"}. */
static int defer_more(const struct deferred_call *call)
{
	char fn[160];

	text(call, "fn", fn, sizeof(fn));
	for (int64_t i = 0, n = number(call, "n", 1); i < n; i++)
		if (call->host->defer(call, fn[0] ? fn : "noop", "{}", NULL) != 0)
			return DEFERRED_DEAD;
	return number(call, "fail", 0) ? DEFERRED_FAILED : DEFERRED_OK;
}

/* Defers {"fn"} with {"opts"}; its result is what the host answered. */
static int defer_raw(const struct deferred_call *call)
{
	char fn[160], opts[160], result[16];

	text(call, "fn", fn, sizeof(fn));
	text(call, "opts", opts, sizeof(opts));
	call->host->result(call, result,
			   (size_t)snprintf(result, sizeof(result), "%d", call->host->defer(call, fn, NULL, opts)));
	return DEFERRED_OK;
}

/* Defers itself with one less, while {"n"} lasts. */
static int defer_self(const struct deferred_call *call)
{
	int64_t n = number(call, "n", 0);
	char params[64];

	if (n <= 0)
		return DEFERRED_OK;
	snprintf(params, sizeof(params), "{\"n\": %lld, \"flow\": %lld}", (long long)(n - 1),
		 (long long)number(call, "flow", 0));
	return call->host->defer(call, call->fn, params, number(call, "flow", 0) ? "{\"flow\": true}" : NULL) == 0
		       ? DEFERRED_OK
		       : DEFERRED_DEAD;
}

/* Journals its start and end in {"file"}, outside of the database, with {"ms"} in between: lines of
 * "start|end ID ATTEMPT PID MILLISECONDS". With {"fail"} it fails in the end. */
/* One line of the ledger, with the time by the clock that all processes of a machine share. */
static void append_record(const struct deferred_call *call, const char *file, const char *what)
{
	struct timespec now;
	char line[128];

	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(line, sizeof(line), "%s %lld %d %d %lld\n", what, (long long)call->id, call->attempt, (int)getpid(),
		 (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000);
	append_line(file, line);
}

static int record(const struct deferred_call *call)
{
	char file[512];

	text(call, "file", file, sizeof(file));
	append_record(call, file, "start");
	pause_ms((long)number(call, "ms", 0));
	append_record(call, file, "end");
	return number(call, "fail", 0) ? DEFERRED_FAILED : DEFERRED_OK;
}

/* Journals its start as record does, then waits until it is asked to stop, and fails. */
static int until_stopped(const struct deferred_call *call)
{
	char file[512];

	text(call, "file", file, sizeof(file));
	append_record(call, file, "start");
	while (!call->host->stop_asked(call))
		pause_ms(10);
	call->host->error(call, "stopped", 7);
	return DEFERRED_FAILED;
}

/* As many as it may of processes that do not end; the result is how many those were. */
static int fork_many(const struct deferred_call *call)
{
	char said[32];
	int n = 0;
	pid_t pid;

	while (n < 200 && (pid = fork()) >= 0) {
		if (pid == 0)
			for (;;)
				pause_ms(1000);
		n++;
	}
	call->host->result(call, said, (size_t)snprintf(said, sizeof(said), "%d", n));
	return DEFERRED_OK;
}

/* What a program that a function starts has open, as the result. */
static int list_fds(const struct deferred_call *call)
{
	FILE *f = popen("ls -l /proc/self/fd", "re");
	char said[4096];
	size_t n = f ? fread(said, 1, sizeof(said), f) : 0;

	if (f)
		pclose(f);
	call->host->result(call, said, n);
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = {
	{ .name = "segv", .run = segv },
	{ .name = "abort", .run = abort_ },
	{ .name = "fpe", .run = fpe },
	{ .name = "ill", .run = ill },
	{ .name = "stack_overflow", .run = stack_overflow },
	{ .name = "exit0", .run = exit0 },
	{ .name = "_exit0", .run = exit0_at_once },
	{ .name = "quick_exit", .run = exit0_quick },
	{ .name = "spin", .run = spin },
	{ .name = "hang", .run = hang },
	{ .name = "hang_blocking_signals", .run = hang_blocking_signals },
	{ .name = "hang_ignoring_sigterm", .run = hang_ignoring_sigterm },
	{ .name = "eat_memory", .run = eat_memory },
	{ .name = "leak_fds", .run = leak_fds },
	{ .name = "count_fds", .run = count_fds },
	{ .name = "close_all_fds", .run = close_all_fds },
	{ .name = "junk_on_fds", .run = junk_on_fds },
	{ .name = "swallow_answer", .run = swallow_answer },
	{ .name = "raw_result", .run = raw_result },
	{ .name = "print", .run = print },
	{ .name = "print_bytes", .run = print_bytes },
	{ .name = "returns", .run = returns },
	{ .name = "log_bytes", .run = log_bytes },
	{ .name = "chatter", .run = chatter },
	{ .name = "big_result", .run = big_result },
	{ .name = "fork_bomb_light", .run = fork_bomb_light },
	{ .name = "fork_and_return", .run = fork_and_return },
	{ .name = "fork_bomb", .run = fork_bomb },
	{ .name = "survivor", .run = survivor },
	{ .name = "kill_parent", .run = kill_parent },
	{ .name = "defer_more", .run = defer_more },
	{ .name = "defer_raw", .run = defer_raw },
	{ .name = "defer_self", .run = defer_self },
	{ .name = "record", .run = record },
	{ .name = "fork_many", .run = fork_many },
	{ .name = "list_fds", .run = list_fds },
	{ .name = "until_stopped", .run = until_stopped },
};

DEFERRED_PLUGIN("unruly", "1.0", functions);
