/* SPDX-License-Identifier: MIT */
/* What the service manager is told, over sockets of both kinds of name. */
#include "program/notify.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char name[64]; /* of an abstract socket, with "@" */

/* The manager's end. */
static int listen_at(const char *at)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", at);
	if (at[0] == '@')
		to.sun_path[0] = '\0';
	assert_int_equal(
		bind(fd, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(at))), 0);
	return fd;
}

static void heard(int fd, const char *text)
{
	char got[1024];
	ssize_t n = recv(fd, got, sizeof(got) - 1, 0);

	assert_true(n >= 0);
	got[n] = '\0';
	assert_string_equal(got, text);
}

static void heard_nothing(int fd)
{
	char got[1024];

	assert_int_equal(recv(fd, got, sizeof(got), 0), -1);
	assert_int_equal(errno, EAGAIN);
}

/* A process opens it once; so does each test, after those that are refused. */
static void init(const char *socket_name, const char *usec, const char *pid)
{
	setenv("NOTIFY_SOCKET", socket_name, 1);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	if (usec)
		setenv("WATCHDOG_USEC", usec, 1);
	if (pid)
		setenv("WATCHDOG_PID", pid, 1);
	notify_init();
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
	assert_null(getenv("WATCHDOG_PID"));
}

static void without_a_socket_that_can_be_nothing_is_said_and_nothing_asked(void **state)
{
	static char longer[200];
	const char *const none[] = { "", "/", "@", "relative/path", "/nowhere/to/be/found", "vsock:2:1", longer };

	(void)state;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		init(none[i], "1000000", NULL);
		assert_int_equal(notify_watchdog_ms(), 0);
		notify_send("READY=1\n");
	}
}

static void lines_arrive_whole_over_an_abstract_socket(void **state)
{
	int fd = listen_at(name);

	(void)state;
	init(name, "3000000", NULL);
	assert_int_equal(notify_watchdog_ms(), 3000);
	notify_send("RELOADING=1\nMONOTONIC_USEC=%lld\n", 17ll);
	heard(fd, "RELOADING=1\nMONOTONIC_USEC=17\n");
	notify_send("%s", "");
	heard_nothing(fd);
	close(fd);
	notify_send("READY=1\n"); /* nobody is there: no harm */
}

static void what_is_too_long_is_cut(void **state)
{
	int fd = listen_at(name);
	char text[600];

	(void)state;
	init(name, NULL, NULL);
	memset(text, 'y', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	notify_send("%s", text);
	text[255] = '\0';
	heard(fd, text);
	close(fd);
}

static void a_manager_that_does_not_read_holds_up_nobody(void **state)
{
	int fd = listen_at(name);

	(void)state;
	init(name, NULL, NULL);
	alarm(10); /* one that waits would do so for ever */
	for (int i = 0; i < 2000; i++)
		notify_send("WATCHDOG=1\n");
	alarm(0);
	heard(fd, "WATCHDOG=1\n");
	close(fd);
}

static void the_watchdog_of_another_process_is_not_ours(void **state)
{
	char path[64], ours[32];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/notify_test.%d", (int)getpid());
	snprintf(ours, sizeof(ours), "%d", (int)getpid());
	fd = listen_at(path);
	init(path, "500", ours);
	assert_int_equal(notify_watchdog_ms(), 1); /* less than a millisecond is one, not none */
	init(path, "7000000", "1");
	assert_int_equal(notify_watchdog_ms(), 1);
	init(path, "nonsense", NULL);
	init(path, "-5", NULL);
	assert_int_equal(notify_watchdog_ms(), 1);
	init(path, "7000000", ours);
	assert_int_equal(notify_watchdog_ms(), 7000);
	notify_send("STOPPING=1\n");
	heard(fd, "STOPPING=1\n");
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_socket_that_can_be_nothing_is_said_and_nothing_asked),
		cmocka_unit_test(lines_arrive_whole_over_an_abstract_socket),
		cmocka_unit_test(what_is_too_long_is_cut),
		cmocka_unit_test(a_manager_that_does_not_read_holds_up_nobody),
		cmocka_unit_test(the_watchdog_of_another_process_is_not_ours),
	};

	snprintf(name, sizeof(name), "@notify_test.%d", (int)getpid());
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
