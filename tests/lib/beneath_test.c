/* SPDX-License-Identifier: MIT */
#include "port/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 20000

static char top[64], folder[80]; /* the folder lies in top, which also has what must not be reached */

static const char *in(const char *dir, const char *name)
{
	static char path[4][256];
	static unsigned int next;

	snprintf(path[next %= 4], sizeof(path[0]), "%s/%s", dir, name);
	return path[next++];
}

static void put(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "%s/beneath.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(top));
	snprintf(folder, sizeof(folder), "%s/folder", top);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(mkdir(in(folder, "sub"), 0700), 0);
	assert_int_equal(mkdir(in(top, "folder2"), 0700), 0);
	put(in(folder, "a"));
	put(in(folder, "sub/a"));
	put(in(top, "a"));
	put(in(top, "folder2/a"));
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command);
}

static void assert_opens(const char *path)
{
	const char *why = NULL;
	int fd = beneath_open(folder, path, O_RDONLY, 0, &why);

	if (fd < 0)
		fail_msg("\"%s\" is refused: %s", path, why);
	close(fd);
}

static void assert_refused(const char *dir, const char *path, const char *words)
{
	const char *why = NULL;
	int fd = beneath_open(dir, path, O_RDONLY, 0, &why);

	if (fd >= 0)
		fail_msg("\"%s\" is opened", path);
	if (!strstr(why, words))
		fail_msg("\"%s\" is refused with \"%s\", not '%s'", path, why, words);
}

static void test_files_below_the_folder_open(void **state)
{
	(void)state;
	assert_opens("a");
	assert_opens("./sub//a");
	assert_opens("sub/../a");
	assert_opens(in(folder, "a"));
	assert_opens(in(folder, "/sub/a"));
	/* By another name of the folder too. */
	assert_int_equal(symlink(folder, in(top, "name")), 0);
	assert_int_equal(close(beneath_open(in(top, "name"), in(folder, "a"), O_RDONLY, 0, &(const char *){ NULL })),
			 0);
	/* A link that stays below is a way like others. */
	assert_int_equal(symlink("sub", in(folder, "inside")), 0);
	assert_opens("inside/a");
}

static void test_nothing_leads_out_of_it(void **state)
{
	static const char outside[] = "outside of the folder";
	char fd_path[64];

	(void)state;
	assert_int_equal(symlink(top, in(folder, "up")), 0);
	assert_int_equal(symlink("..", in(folder, "up2")), 0);
	assert_int_equal(symlink(in(top, "a"), in(folder, "file")), 0);
	assert_int_equal(symlink("/proc/self/root", in(folder, "root")), 0);
	assert_refused(folder, "../a", outside);
	assert_refused(folder, "sub/../../a", outside);
	assert_refused(folder, in(top, "a"), outside);
	assert_refused(folder, in(folder, "../a"), outside);
	assert_refused(folder, in(top, "folder2/a"), outside);
	assert_refused(folder, "/etc/passwd", outside);
	assert_refused(folder, "up/a", outside);
	assert_refused(folder, "up2/a", outside);
	assert_refused(folder, "root/etc/passwd", outside);
	assert_refused(folder, "file", "symbolic link");
	assert_refused("/proc/self", "root/etc/passwd", "symbolic link");
	snprintf(fd_path, sizeof(fd_path), "fd/%d", open(in(top, "a"), O_RDONLY));
	assert_refused("/proc/self", fd_path, "symbolic link");
	assert_refused("relative", "a", "not an absolute path");
	assert_refused(in(top, "missing"), "a", "cannot be used");
}

static void test_only_regular_files_with_one_name_open_and_nothing_is_waited_for(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(in(folder, "fifo"), 0600), 0);
	assert_int_equal(link(in(top, "a"), in(folder, "hard")), 0);
	alarm(20);
	assert_refused(folder, "fifo", "not a regular file");
	assert_refused(folder, "hard", "hard link");
	assert_refused(folder, "sub", "not a regular file");
	assert_refused(folder, ".", "not a regular file");
	assert_refused("/dev", "zero", "not a regular file");
	assert_refused(folder, "missing", "No such file");
	alarm(0);
}

/* As an old kernel answers. */
static void without_openat2(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	const char *why = "";
	char *ticket;
	int fd = open(in(folder, "a"), O_RDONLY);

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(10);
	if (beneath_open(folder, "a", O_RDONLY, 0, &why) >= 0 || errno != ENOSYS || !strstr(why, "openat2"))
		_exit(11);
	ticket = beneath_ticket(folder, "a", fd);
	_exit(ticket && beneath_redeem(ticket) < 0 && errno == ENOSYS ? 0 : 12);
}

static void test_a_kernel_that_cannot_tell_is_refused(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		without_openat2();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(access(in(folder, "a"), F_OK), 0);
}

/* "sub" is the folder's own and a link that leads out of it, in turns. */
static atomic_bool over;

static void *take_turns(void *data)
{
	char a[256], b[256];

	(void)data;
	snprintf(a, sizeof(a), "%s/sub", folder);
	snprintf(b, sizeof(b), "%s/other", folder);
	while (!over)
		syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2 /* RENAME_EXCHANGE */);
	return NULL;
}

static void test_a_rename_meanwhile_leads_nowhere_else(void **state)
{
	struct stat outside, st;
	const char *why;
	char ticket_path[256], *ticket;
	int opened = 0, refused = 0, links = 0, others = 0;
	pthread_t thread;

	(void)state;
	assert_int_equal(symlink("../folder2", in(folder, "other")), 0);
	assert_int_equal(stat(in(top, "folder2/a"), &outside), 0);
	over = false;
	assert_int_equal(pthread_create(&thread, NULL, take_turns, NULL), 0);
	/* Until both have been met often; were a turn never to come, this would not end. */
	for (int i = 0; i < ROUNDS || opened < 100 || refused < 100; i++) {
		int fd = beneath_open(folder, "sub/a", O_RDONLY, 0, &why);

		refused += fd < 0;
		if (fd < 0)
			continue;
		opened++;
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_not_equal(st.st_ino, outside.st_ino);
		close(fd);
	}
	/* What is removed is the file itself: its number is asked for, which is that of the one outside. */
	snprintf(ticket_path, sizeof(ticket_path), "%s/sub/a", folder);
	for (int i = 0; i < ROUNDS || links < 100 || others < 100; i++) {
		int fd = open(in(top, "folder2/a"), O_RDONLY);

		ticket = beneath_ticket(folder, ticket_path, fd);
		assert_int_equal(beneath_redeem(ticket), -1);
		/* EXDEV: the link was met; ESTALE: the folder, with another file in it. */
		links += errno == EXDEV;
		others += errno == ESTALE;
		free(ticket);
		close(fd);
		assert_int_equal(access(in(top, "folder2/a"), F_OK), 0);
	}
	over = true;
	pthread_join(thread, NULL);
}

static void test_a_ticket_removes_the_file_that_was_open_and_no_other(void **state)
{
	const char *why;
	int fd = beneath_open(folder, "sub/a", O_RDONLY, 0, &why);
	char *ticket = beneath_ticket(folder, "sub/a", fd), *gone = beneath_ticket(folder, in(folder, "sub/b"), fd);

	(void)state;
	assert_non_null(ticket);
	assert_int_equal(strncmp(ticket, "//", 2), 0);
	assert_null(beneath_ticket(folder, "/etc/passwd", fd));
	assert_null(beneath_ticket("relative", "a", fd));
	assert_int_equal(beneath_redeem(gone), -1);
	assert_int_equal(errno, ENOENT);
	/* Another file in its place. The first is kept open, so that its number is not used again. */
	put(in(folder, "new"));
	assert_int_equal(rename(in(folder, "new"), in(folder, "sub/a")), 0);
	assert_int_equal(beneath_redeem(ticket), -1);
	assert_int_equal(errno, ESTALE);
	assert_int_equal(access(in(folder, "sub/a"), F_OK), 0);
	free(ticket);
	free(gone);
	close(fd);
	fd = beneath_open(folder, "sub/a", O_RDONLY, 0, &why);
	ticket = beneath_ticket(folder, "sub/a", fd);
	/* Its folder has been moved out, and a link left behind. */
	assert_int_equal(rename(in(folder, "sub"), in(top, "moved")), 0);
	assert_int_equal(symlink("../moved", in(folder, "sub")), 0);
	assert_int_equal(beneath_redeem(ticket), -1);
	assert_int_equal(errno, EXDEV);
	assert_int_equal(access(in(top, "moved/a"), F_OK), 0);
	assert_int_equal(unlink(in(folder, "sub")), 0);
	assert_int_equal(rename(in(top, "moved"), in(folder, "sub")), 0);
	assert_int_equal(beneath_redeem(ticket), 0);
	assert_int_equal(access(in(folder, "sub/a"), F_OK), -1);
	free(ticket);
	close(fd);
	assert_int_equal(beneath_redeem("//nonsense"), -1);
	assert_int_equal(beneath_redeem(in(top, "a")), 0); /* a path as it is */
	assert_int_equal(access(in(top, "a"), F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_files_below_the_folder_open, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_leads_out_of_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_only_regular_files_with_one_name_open_and_nothing_is_waited_for,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_kernel_that_cannot_tell_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_rename_meanwhile_leads_nowhere_else, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_ticket_removes_the_file_that_was_open_and_no_other, set_up,
						tear_down),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("beneath", tests, NULL, NULL);
}
