/* SPDX-License-Identifier: MIT */
/* forger - functions that lie to the parent: they write into the board of their runner and into its socket, each in one
 * way. */
#include <deferred_plugin.h>

#include "run/board.h"
#include "run/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int64_t number(const struct deferred_call *call, const char *name, int64_t def)
{
	json_t *params = json_loads(call->params, 0, NULL), *v = json_object_get(params, name);
	int64_t value = json_is_integer(v) ? json_integer_value(v) : def;

	json_decref(params);
	return value;
}

/* Where the board is mapped: NULL if it is not. */
static struct board *find_board(const char *maps)
{
	FILE *f = fopen(maps, "re");
	unsigned long at = 0, found = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "memfd:board") && sscanf(line, "%lx-", &at) == 1)
			found = at;
	if (f)
		fclose(f);
	return (struct board *)found; /* NOLINT: that is the attack */
}

static struct board_slot *own_slot(struct board *board)
{
	for (size_t i = 0; board && i < BOARD_SLOTS; i++)
		if (atomic_load(&board->slot[i].state) == BOARD_RUNNING)
			return &board->slot[i];
	return NULL;
}

static void send_raw(uint32_t len, uint16_t type, uint16_t slot, const void *payload, size_t payload_len)
{
	struct frame_head head = { len, type, slot };

	if (send(FRAME_SOCKET_FD, &head, sizeof(head), MSG_NOSIGNAL) < 0 ||
	    (payload_len > 0 && send(FRAME_SOCKET_FD, payload, payload_len, MSG_NOSIGNAL) < 0))
		perror("forger");
}

/* ---- its own slot: time that does not pass ------------------------------------------------------ */

/* Begun just now, at any time that somebody looks. */
static int young(const struct deferred_call *call)
{
	struct board_slot *slot = own_slot(find_board("/proc/self/maps"));

	for (int64_t end = (int64_t)now_ns() + number(call, "ms", 6000) * 1000000; (int64_t)now_ns() < end;) {
		if (slot)
			slot->started_ns = slot->finished_ns = now_ns();
		pause_ms(1);
	}
	return DEFERRED_OK;
}

/* Not begun at all. */
static int hidden(const struct deferred_call *call)
{
	struct board_slot *slot = own_slot(find_board("/proc/self/maps"));

	for (int64_t end = (int64_t)now_ns() + number(call, "ms", 6000) * 1000000; (int64_t)now_ns() < end; pause_ms(1))
		if (slot)
			atomic_store(&slot->state, BOARD_QUEUED);
	if (slot)
		atomic_store(&slot->state, BOARD_RUNNING);
	return DEFERRED_OK;
}

/* Done, but the last of what it said never comes. */
static int unheard(const struct deferred_call *call)
{
	struct board_slot *slot = own_slot(find_board("/proc/self/maps"));

	if (slot) {
		slot->result = DEFERRED_OK;
		slot->bytes_sent = UINT64_MAX;
		atomic_store(&slot->state, BOARD_DONE);
	}
	for (int64_t end = (int64_t)now_ns() + number(call, "ms", 6000) * 1000000; (int64_t)now_ns() < end;)
		call->host->log(call, DEFERRED_LOG_DEBUG, "x", 1);
	return DEFERRED_OK;
}

/* Claims numbers that no column holds. */
static int numbers(const struct deferred_call *call)
{
	struct board *board = find_board("/proc/self/maps");
	struct board_slot *slot = own_slot(board);

	if (!slot)
		return DEFERRED_OK;
	call->host->progress(call, INT64_MIN, INT64_MAX, "\xff\0\xfe", 3);
	board->progress[slot - board->slot].reported_ns = UINT64_MAX;
	slot->started_ns = UINT64_MAX;
	pause_ms(1500); /* past a look at the progress */
	slot->started_ns = 1;
	slot->exit_code = INT32_MIN;
	slot->signal = INT32_MAX;
	slot->retry_after_ms = INT64_MAX;
	return DEFERRED_LATER;
}

/* Times that have not been yet, or were long ago, and more use of the processor than there is: as long as the parent
 * may look. */
static void *keep_times(void *data)
{
	struct board *board = find_board("/proc/self/maps");

	for (int64_t end = (int64_t)now_ns() + 2000000000; board && (int64_t)now_ns() < end;)
		for (size_t i = 0; i < 40; i++) {
			board->slot[i].started_ns = 1;
			board->slot[i].finished_ns = UINT64_MAX;
			board->slot[i].user_us = board->slot[i].sys_us = board->slot[i].max_rss_kb = UINT64_C(1) << 63;
		}
	return data;
}

static int times(const struct deferred_call *call)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, keep_times, NULL) != 0)
		return DEFERRED_FAILED;
	pause_ms(number(call, "ms", 0));
	return DEFERRED_OK;
}

/* ---- the slots of others ------------------------------------------------------------------------- */

/* All others in one state, now and as they come, for a while; then the end of the process. */
static int states(const struct deferred_call *call)
{
	struct board *board = find_board("/proc/self/maps");
	struct board_slot *own = own_slot(board);
	uint32_t state = (uint32_t)number(call, "state", BOARD_RUNNING);

	for (int64_t end = (int64_t)now_ns() + number(call, "ms", 6000) * 1000000; (int64_t)now_ns() < end; pause_ms(1))
		for (size_t i = 0; own && i < BOARD_SLOTS; i++)
			if (&board->slot[i] != own)
				atomic_store(&board->slot[i].state, state);
	_exit((int)number(call, "exit", 0));
}

/* The same, and it goes on behind the back of the parent, in a thread. */
static void *keep_states(void *data)
{
	struct board *board = find_board("/proc/self/maps");

	for (;; pause_ms(1))
		for (size_t i = 0; board && i < BOARD_SLOTS; i++)
			atomic_store(&board->slot[i].state, (uint32_t)(uintptr_t)data);
	return NULL;
}

static int states_for_ever(const struct deferred_call *call)
{
	pthread_t thread;

	pthread_create(&thread, NULL, keep_states,
		       (void *)(uintptr_t)number(call, "state", BOARD_RUNNING)); /* NOLINT */
	return DEFERRED_OK;
}

static int scribble(const struct deferred_call *call)
{
	struct board *board = find_board("/proc/self/maps");

	for (int64_t end = (int64_t)now_ns() + number(call, "ms", 6000) * 1000000; (int64_t)now_ns() < end; pause_ms(1))
		for (size_t i = 0; board && i < sizeof(*board); i++)
			((volatile unsigned char *)board)[i] = (unsigned char)rand(); /* NOLINT */
	return DEFERRED_OK;
}

/* ---- the socket ---------------------------------------------------------------------------------- */

static int frames(const struct deferred_call *call)
{
	static const char fatal[] = "the plugins are bad\0give up";
	static char large[1 << 16];
	struct {
		struct frame_function fixed;
		char text[12];
	} function = { { 1, 1, 0, 0, 0 }, "noop\0evil 1" };

	switch (number(call, "kind", 0)) {
	case 0: /* the run is over */
		send_raw(sizeof(fatal), FRAME_FATAL, 1, fatal, sizeof(fatal));
		break;
	case 1: /* another table of functions */
		send_raw(sizeof(function), FRAME_FUNCTION, 0, &function, sizeof(function));
		send_raw(0, FRAME_READY, 0, NULL, 0);
		break;
	case 2: /* the answers of others */
		for (uint16_t i = 0; i < BOARD_SLOTS; i++)
			send_raw(5, FRAME_RESULT, i, "forge", 5);
		break;
	case 3: /* of calls that there are not */
		send_raw(5, FRAME_RESULT, 40000, "forge", 5);
		break;
	case 4: /* longer than anything */
		send_raw(UINT32_MAX, FRAME_RESULT, 0, large, sizeof(large));
		break;
	case 5: /* of no kind */
		send_raw(0, 999, 0, NULL, 0);
		break;
	case 6: /* too short for what it is */
		send_raw(1, FRAME_LOG, 0, "x", 1);
		send_raw(1, FRAME_FOLLOW, 0, "x", 1);
		send_raw(1, FRAME_REMOVE_AFTER, 0, "x", 1);
		break;
	case 7: /* half of one, and the rest never */
		send_raw(1000, FRAME_RESULT, 0, "half", 4);
		pause_ms((long)number(call, "ms", 6000));
		break;
	}
	return DEFERRED_OK;
}

/* As much as will go, past the functions of the host. */
static int flood(const struct deferred_call *call)
{
	static char text[1 << 20];
	uint16_t slot = 0;
	struct board *board = find_board("/proc/self/maps");

	while (board && slot < BOARD_SLOTS - 1 && atomic_load(&board->slot[slot].state) != BOARD_RUNNING)
		slot++;
	memset(text, 'x', sizeof(text));
	memcpy(text, "noop\0{\"k\":\"", 11);
	memcpy(text + sizeof(text) - 4, "\"}\0", 4);
	for (int64_t i = number(call, "n", 500); i > 0; i--) {
		send_raw(sizeof(text), FRAME_FOLLOW, slot, NULL, 0);
		for (size_t at = 0; at < sizeof(text);) {
			ssize_t n = send(FRAME_SOCKET_FD, text + at, sizeof(text) - at, MSG_NOSIGNAL);

			if (n <= 0)
				return DEFERRED_FAILED;
			at += (size_t)n;
		}
	}
	return DEFERRED_OK;
}

static int ask_once(const struct deferred_call *call, const char *params)
{
	switch (number(call, "paths", 0)) {
	case 0:
		return call->host->defer(call, "noop", params, NULL);
	case 1:
		return call->host->remove_after(call, "/nowhere/at/all");
	default:
		return call->host->remove_beneath(call, "/nowhere", "at/all", 0);
	}
}

/* As much as the host lets it: calls, or paths. The result is how many it took, and then that it takes no more. */
static int ask(const struct deferred_call *call)
{
	size_t len = (size_t)number(call, "bytes", 0);
	char *params = malloc(len + 16), text[64];
	int64_t most = number(call, "n", 1000000), n = 0;

	snprintf(params, len + 16, "{\"k\":\"%0*d\"}", (int)len, 0);
	while (n < most && ask_once(call, params) == 0)
		n++;
	free(params);
	call->host->result(call, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)n));
	return DEFERRED_OK;
}

/* ---- out of its own process: what it can reach, as its result -------------------------------------- */

static int reach(const struct deferred_call *call)
{
	char path[64], text[256];
	struct board *board = find_board("/proc/self/maps"), *theirs;
	pid_t runner = getppid();
	int mem, fd, n = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)runner);
	theirs = find_board(path);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)runner);
	mem = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/fd/3", (int)runner);
	fd = open(path, O_RDWR | O_CLOEXEC);
	n = snprintf(text, sizeof(text), "board %d, its maps %d, its memory %d, its socket %d, trace %d", board != NULL,
		     theirs != NULL, mem >= 0, fd >= 0 || errno == ENXIO, ptrace(PTRACE_SEIZE, runner, 0, 0) == 0);
	call->host->result(call, text, (size_t)n);
	return DEFERRED_OK;
}

/* Leaves a process behind that writes whatever it still reaches of what it was given. */
static int haunt(const struct deferred_call *call)
{
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		for (int i = 0; i < 3000; i++, pause_ms(1)) {
			call->host->retry_after(call, 1);
			call->host->progress(call, 666, 666, "ghost", 5);
			call->host->log(call, DEFERRED_LOG_ERROR, "ghost", 5);
		}
		_exit(0);
	}
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = {
	{ .name = "young", .run = young },
	{ .name = "hidden", .run = hidden },
	{ .name = "unheard", .run = unheard },
	{ .name = "numbers", .run = numbers },
	{ .name = "times", .run = times },
	{ .name = "states", .run = states },
	{ .name = "states_for_ever", .run = states_for_ever },
	{ .name = "scribble", .run = scribble },
	{ .name = "frames", .run = frames },
	{ .name = "flood", .run = flood },
	{ .name = "ask", .run = ask },
	{ .name = "reach", .run = reach },
	{ .name = "haunt", .run = haunt },
};

DEFERRED_PLUGIN("forger", "1.0", functions);
