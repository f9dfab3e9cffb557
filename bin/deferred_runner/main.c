/* SPDX-License-Identifier: MIT */
#include "runner_process.h"

#include "port/beneath.h"
#include "base/clock.h"

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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
/* A crashing plugin must look like a crash, not like a report of the sanitizer. */
const char *__asan_default_options(void);
__attribute__((visibility("default"), used)) const char *__asan_default_options(void)
{
	return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigfpe=0:handle_sigill=0:detect_leaks=0";
}
#endif

static void take_setting(const char *payload, size_t len)
{
	size_t at = 0;
	const char *name = frame_text(payload, len, &at), *value = frame_text(payload, len, &at);

	state.settings = state_grow(state.settings, &state.settings_len, sizeof(*state.settings));
	state.settings[state.settings_len - 1] = state_copy(name);
	state.settings = state_grow(state.settings, &state.settings_len, sizeof(*state.settings));
	state.settings[state.settings_len - 1] = state_copy(value);
}

static void take_command(const char *payload, size_t len)
{
	struct frame_function fixed;
	struct command *c;
	const char *text;
	size_t at = sizeof(fixed), n = 0;

	memcpy(&fixed, payload, sizeof(fixed));
	c = command_add(frame_text(payload, len, &at), fixed.timeout_ms, fixed.max_attempts);
	c->new_privileges = fixed.flags & FRAME_NEW_PRIVILEGES;
	c->batch = fixed.batch;
	c->batch_wait_ms = fixed.batch_wait_ms;
	c->progress_resets = fixed.flags & FRAME_PROGRESS_RESETS;
	if (fixed.flags & FRAME_OF_PROGRAM) {
		c->program = program_find(frame_text(payload, len, &at));
		return;
	}
	while ((text = frame_text(payload, len, &at))) {
		c->argv = state_grow(c->argv, &n, sizeof(*c->argv));
		c->argv[n - 1] = state_copy(text);
	}
	c->argv = state_grow(c->argv, &n, sizeof(*c->argv));
	c->argv[n - 1] = NULL;
}

/* Our parent may have set a tighter one. */
static void limit(int resource, int64_t value)
{
	struct rlimit rl;

	if (value <= 0 || getrlimit((__rlimit_resource_t)resource, &rl) < 0)
		return;
	rl.rlim_cur = rl.rlim_max = (rlim_t)value < rl.rlim_max ? (rlim_t)value : rl.rlim_max;
	setrlimit((__rlimit_resource_t)resource, &rl);
}

/* A core would hold the params of jobs. Processes of the same user, which include other functions, must not read or
 * write our memory, nor take our descriptors. Nothing prevents root from this. Programs that functions execute need
 * none of the descriptors. */
static void protect(void)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	if (!state.below_tool)
		prctl(PR_SET_DUMPABLE, 0);
	fcntl(FRAME_SOCKET_FD, F_SETFD, FD_CLOEXEC);
	fcntl(FRAME_STOP_FD, F_SETFD, FD_CLOEXEC);
}

/* A process cannot take it back, so those that need not gain rights do it each for itself where a command may. */
static bool may_gain_privileges(void)
{
	for (size_t i = 0; i < state.commands_len; i++)
		if (state.commands[i].new_privileges)
			return true;
	return false;
}

static void take_start(const char *payload, size_t len)
{
	const char *dir;
	size_t at = sizeof(state.start);

	memcpy(&state.start, payload, sizeof(state.start));
	dir = frame_text(payload, len, &at);
	if (!may_gain_privileges())
		keep_privileges();
	limit(RLIMIT_NOFILE, state.start.files);
	limit(RLIMIT_NPROC, state.start.processes);
#if !defined(__SANITIZE_ADDRESS__) /* the sanitizer reserves terabytes of address space */
	limit(RLIMIT_AS, state.start.memory_bytes);
#endif
	catalog_load(dir);
}

static void take_frame(const struct frame_head *head, const char *payload)
{
	switch (head->type) {
	case FRAME_SETTING:
		take_setting(payload, head->len);
		break;
	case FRAME_PROGRAM:
		program_take(payload, head->len);
		break;
	case FRAME_COMMAND:
		take_command(payload, head->len);
		break;
	case FRAME_PASS_OVER:
		state.passed_over = state_grow(state.passed_over, &state.passed_over_len, sizeof(*state.passed_over));
		state.passed_over[state.passed_over_len - 1] = state_copy(payload);
		break;
	case FRAME_START:
		take_start(payload, head->len);
		break;
	case FRAME_CALL:
		call_run(head->slot, payload, head->len);
		break;
	case FRAME_REMOVE:
		if (beneath_redeem(payload) < 0 && errno != ENOENT)
			fprintf(stderr, "cannot remove '%s': %s\n",
				payload[1] == '/' ? strchr(payload + 2, '/') : payload,
				errno == ESTALE ? "another file has its place" : strerror(errno));
		break;
	}
}

/* A plugin that forgets to close files is no reason for the next job to fail: leave, and let the parent
 * start a fresh runner. */
static bool leaks_files(void)
{
	static int too_many = -1;
	int fd;

	if (too_many >= 0)
		return fcntl(too_many, F_GETFD) >= 0; /* numbers are given out from the lowest on */
	fd = fcntl(FRAME_SOCKET_FD, F_DUPFD, 0);      /* the lowest free one */
	if (fd < 0)
		return errno == EMFILE;
	close(fd);
	too_many = fd + (int)programs_files() +
		   (state.start.files > 0 && state.start.files < 128 ? (int)state.start.files / 2 : 64);
	return false;
}

/* Until the parent needs us no longer, or another runner has to take over. */
static void take_frames(void)
{
	struct frame_head head;
	char *payload;
	uint64_t bell_ns = 0;
	bool unrung = false;

	for (;;) {
		int rc = frame_take(&state.in, &head, &payload, SIZE_MAX);

		if (rc == 1) {
			take_frame(&head, payload);
			if (head.type != FRAME_CALL || call_waits())
				continue;
			if (leaks_files() || programs_changed())
				return;
			/* The bell wakes the parent, which costs more than a short job. Ring once for many jobs. Ring
			 * at once when there is nothing left to do, and never later than 1 ms. */
			if (!unrung)
				bell_ns = clock_ns();
			unrung = true;
			if (clock_ns() - bell_ns < NS_PER_MS)
				continue;
		} else {
			if (!unrung)
				programs_wait();
			if (!unrung && programs_changed())
				return;
			rc = frame_fill(&state.in, FRAME_SOCKET_FD, unrung ? MSG_DONTWAIT : 0);
			if (rc == 1)
				continue;
			if (rc == 0 || errno != EAGAIN)
				return; /* the parent needs us no longer */
		}
		send_frame(FRAME_BELL, 0, NULL, 0);
		flush_frames();
		unrung = false;
	}
}

int main(int argc, char **argv)
{
	char build[64];

	state.below_tool = argc == 4 && strcmp(argv[1], "0") == 0;
	if (argc != 4 || (!state.below_tool && getppid() != (pid_t)atoi(argv[1]))) {
		fprintf(stderr, "deferred_runner: not started by check_deferred\nhint: run: check_deferred\n");
		return EX_USAGE;
	}
	snprintf(build, sizeof(build), FRAME_BUILD_FORMAT, FRAME_BUILD_ARGS);
	if (strcmp(build, argv[2]) != 0) {
		fprintf(stderr,
			"deferred_runner: of another build (%s) than check_deferred (%s)\nhint: install both "
			"together\n",
			build, argv[2]);
		return EX_CONFIG;
	}
	begin_process();
	protect();
	state.board = mmap(NULL, sizeof(*state.board), PROT_READ | PROT_WRITE, MAP_SHARED, FRAME_BOARD_FD, 0);
	if (state.board == MAP_FAILED)
		return EX_OSERR;
	close(FRAME_BOARD_FD);
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	crash_init();

	take_frames();
	programs_end();
	return 0;
}
