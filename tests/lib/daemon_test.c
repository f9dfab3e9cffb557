/* SPDX-License-Identifier: MIT */
/* How a program serves: what signals make it do, in which order, and what the service manager hears. Each in a process
 * of its own. */
#include "program/daemon.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

/* What the program under test is to do, and where it writes down what it did: a letter a call. */
static struct work {
	int out;
	int start_rc;
	int in_hand; /* ticks until that is done */
} work;

static void note(char letter)
{
	assert_int_equal(write(work.out, &letter, 1), 1);
}

static int start(void *data, struct deferred_error *err)
{
	assert_ptr_equal(data, &work);
	note('s');
	if (work.start_rc)
		error_set(err, DEFERRED_ECONFIG, "test", "it does not start");
	return work.start_rc;
}

static void tick(void *data)
{
	(void)data;
	if (work.in_hand > 0)
		work.in_hand--;
}

static void reload(void *data)
{
	(void)data;
	note('h');
}

static void quiesce(void *data)
{
	(void)data;
	note('q');
}

static int busy(void *data)
{
	(void)data;
	return work.in_hand;
}

static void flush(void *data, int patience_ms)
{
	(void)data;
	assert_int_equal(patience_ms, DAEMON_LAST_WORDS_MS);
	note('f');
}

static void release(void *data)
{
	(void)data;
	note('r');
}

static const struct daemon_work calls = {
	.start = start,
	.tick = tick,
	.reload = reload,
	.quiesce = quiesce,
	.busy = busy,
	.flush = flush,
	.release = release,
};

static pid_t child;
static int in, manager;

static void begin(struct work how, int64_t grace_ms)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char name[64];
	int ends[2];

	snprintf(name, sizeof(name), "@daemon_test.%d", (int)getpid());
	memcpy(at.sun_path + 1, name + 1, strlen(name) - 1);
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(manager, (struct sockaddr *)&at,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
			 0);
	assert_int_equal(pipe(ends), 0);
	in = ends[0];
	child = fork();
	if (child == 0) {
		close(ends[0]);
		alarm(30);
		setenv("NOTIFY_SOCKET", name, 1);
		setenv("WATCHDOG_USEC", "20000", 1);
		work = how;
		work.out = ends[1];
		_exit(daemon_run(&calls, &work, grace_ms));
	}
	close(ends[1]);
}

static void heard(const char *text)
{
	char got[1024];
	ssize_t n;

	do {
		n = recv(manager, got, sizeof(got) - 1, 0);
		assert_true(n > 0);
		got[n] = '\0';
	} while (strcmp(got, "WATCHDOG=1") == 0 && strcmp(text, got) != 0);
	assert_non_null(strstr(got, text));
}

/* It has ended so, having done that. */
static void ended(int exit_code, const char *did)
{
	char got[64];
	size_t len = 0;
	ssize_t n;
	int status;

	while ((n = read(in, got + len, sizeof(got) - 1 - len)) > 0)
		len += (size_t)n;
	got[len] = '\0';
	assert_string_equal(got, did);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), exit_code);
	close(in);
	close(manager);
}

static void it_serves_reads_anew_and_stops(void **state)
{
	(void)state;
	begin((struct work){ .in_hand = 3 }, 10000);
	heard("READY=1\nSTATUS=serving");
	heard("WATCHDOG=1");
	kill(child, SIGHUP);
	heard("RELOADING=1\nMONOTONIC_USEC=");
	heard("READY=1");
	kill(child, SIGTERM);
	heard("STOPPING=1");
	ended(0, "shqr");
}

static void what_did_not_start_is_released(void **state)
{
	(void)state;
	begin((struct work){ .start_rc = EX_CONFIG }, 10000);
	ended(EX_CONFIG, "sr");
}

static void what_hangs_is_not_waited_for_beyond_the_grace(void **state)
{
	(void)state;
	begin((struct work){ .in_hand = 1000000 }, 50);
	heard("READY=1");
	kill(child, SIGINT);
	ended(0, "sqf"); /* threads that hang may use what would be released */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_serves_reads_anew_and_stops),
		cmocka_unit_test(what_did_not_start_is_released),
		cmocka_unit_test(what_hangs_is_not_waited_for_beyond_the_grace),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("daemon", tests, NULL, NULL);
}
