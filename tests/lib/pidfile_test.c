/* SPDX-License-Identifier: MIT */
/* bin/check_deferred/pidfile.c at the one moment that no test from outside can hit: between asking who holds the lock
 * and pinning that process. What the holder does just then is made to happen in syscall(), which pidfile.c pins it
 * with. */
#include "pidfile.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/pidfile_test.XXXXXX";
static char path[sizeof(dir) + 8];
static pid_t holder;
static int to_holder, from_holder;
/* for the holder when it is about to be pinned: 'l' lets the lock go, 'u' and removes the file before; 0: none */
static char order;

static void say(int fd, char c)
{
	assert_int_equal(write(fd, &c, 1), 1);
}

static char hear(int fd)
{
	char c;

	return read(fd, &c, 1) == 1 ? c : '\0';
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	long a[4];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_pidfd_open && order) {
		say(to_holder, order);
		order = '\0';
		assert_int_equal(hear(from_holder), 'd');
	}
	return real(number, a[0], a[1], a[2], a[3]);
}

static void __attribute__((noreturn)) hold(int in, int out)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	char c = fcntl(fd, F_SETLK, &lock) == 0 ? 'd' : '!';

	do {
		if (c == 'u')
			unlink(path);
		if (c == 'u' || c == 'l')
			close(fd);
		if (write(out, c == '!' ? "!" : "d", 1) != 1)
			break;
	} while ((c = hear(in)) != '\0');
	_exit(0);
}

static int start_holder(void **state)
{
	int in[2], out[2];

	(void)state;
	if (pipe(in) < 0 || pipe(out) < 0)
		return -1;
	holder = fork();
	if (holder == 0) {
		close(in[1]);
		hold(in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	to_holder = in[1];
	from_holder = out[0];
	return holder > 0 && hear(from_holder) == 'd' ? 0 : -1;
}

/* How it ended: 0, or the signal that killed it. */
static int end_of_holder(void)
{
	int status;

	close(to_holder);
	close(from_holder);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void who_holds_the_lock_is_asked_to_end(void **state)
{
	struct deferred_error err = { 0 };
	struct pidfile p;

	(void)state;
	assert_int_equal(pidfile_take(&p, path, &(struct pidfile_terms){ true, 5000, 60000 }, &err), PIDFILE_HELD);
	assert_true(p.replaced);
	assert_int_equal(end_of_holder(), SIGTERM);
	pidfile_release(&p);
}

static void who_has_let_the_lock_go_meanwhile_is_left_alone(void **state)
{
	struct deferred_error err = { 0 };
	struct pidfile p;

	(void)state;
	order = 'l';
	assert_int_equal(pidfile_take(&p, path, &(struct pidfile_terms){ true, 100, 60000 }, &err), PIDFILE_HELD);
	assert_int_equal(order, 0);
	assert_false(p.replaced);
	assert_int_equal(end_of_holder(), 0);
	pidfile_release(&p);
}

static void the_lock_of_a_file_that_was_removed_meanwhile_is_none(void **state)
{
	struct deferred_error err = { 0 };
	struct pidfile p;
	int fd;

	(void)state;
	order = 'u';
	assert_int_equal(pidfile_take(&p, path, &(struct pidfile_terms){ true, 100, 60000 }, &err), PIDFILE_BUSY);
	assert_int_equal(order, 0);
	assert_non_null(strstr(err.message, "was replaced while it was being locked"));
	assert_int_equal(end_of_holder(), 0);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_holds_the_lock_is_asked_to_end, start_holder, remove_file),
		cmocka_unit_test_setup_teardown(who_has_let_the_lock_go_meanwhile_is_left_alone, start_holder,
						remove_file),
		cmocka_unit_test_setup_teardown(the_lock_of_a_file_that_was_removed_meanwhile_is_none, start_holder,
						remove_file),
	};
	int failed;

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/pid", dir);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = cmocka_run_group_tests_name("pidfile", tests, NULL, NULL);
	rmdir(dir);
	return failed;
}
