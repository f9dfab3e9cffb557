/* SPDX-License-Identifier: MIT */
#include "port/config_reader.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define WHERE "config"
#define PROGRAM "deferred_config"
#define ANSWER_MAX (16 * 1024 * 1024)
#define END_MS 1000 /* what has answered has so long to end */

int config_reader_patience_ms = 10000;

/* ---- where it is ------------------------------------------------------------------------------ */

static char beside[PATH_MAX];

void config_reader_beside_program(void)
{
	ssize_t n = readlink("/proc/self/exe", beside, sizeof(beside) - sizeof(PROGRAM) - 1);
	char *slash;

	beside[n > 0 ? n : 0] = '\0';
	if ((slash = strrchr(beside, '/')))
		strcpy(slash + 1, PROGRAM);
	if (access(beside, X_OK) < 0)
		beside[0] = '\0';
}

static void find_program(char path[PATH_MAX])
{
	const char *folder = secure_getenv("DEFERRED_LIBEXEC_DIR");

	if (beside[0])
		snprintf(path, PATH_MAX, "%s", beside);
	else
		snprintf(path, PATH_MAX, "%s/" PROGRAM, folder && folder[0] == '/' ? folder : DEFERRED_LIBEXECDIR);
}

/* ---- running it ------------------------------------------------------------------------------- */

/* Variables that change how a program is loaded or uses memory are not passed on, nor are empty ones. */
static bool is_passed_on(const char *entry)
{
	static const char *const dropped[] = { "LD_", "MALLOC_", "GLIBC_TUNABLES" };
	const char *equals = strchr(entry, '=');

	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		if (strncmp(entry, dropped[i], strlen(dropped[i])) == 0)
			return false;
	return equals && equals[1];
}

bool config_reader_knows(const char *name, size_t len)
{
	for (char **e = environ; e && *e; e++)
		if (strncmp(*e, name, len) == 0 && (*e)[len] == '=')
			return is_passed_on(*e);
	return false;
}

/* What the file may name with ${NAME}. Given: free(). */
static char **clean_environment(void)
{
	size_t n = 0;
	char **env;

	while (environ && environ[n])
		n++;
	if (!(env = calloc(n + 1, sizeof(*env))))
		return NULL;
	n = 0;
	for (char **e = environ; e && *e; e++)
		if (is_passed_on(*e))
			env[n++] = *e;
	return env;
}

/* The text as standard input: nobody waits for the other to read. */
static int text_file(const char *text, size_t len)
{
	int fd = memfd_create("config", MFD_CLOEXEC);
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

/* 0 or an error number. Whatever signals the application has blocked or ignored, the child has none of it. */
static int start(pid_t *pid, const char *path, int in, int out, char **env)
{
	char *argv[] = { (char *)PROGRAM, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	sigemptyset(&none);
	sigfillset(&all);
	if ((rc = posix_spawn_file_actions_init(&files)) != 0)
		return rc;
	if ((rc = posix_spawnattr_init(&attr)) != 0) {
		posix_spawn_file_actions_destroy(&files);
		return rc;
	}
	if ((rc = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO)) == 0 &&
	    (rc = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO)) == 0 &&
	    (rc = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0)) == 0 &&
	    (rc = posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1)) == 0 &&
	    (rc = posix_spawnattr_setsigmask(&attr, &none)) == 0 &&
	    (rc = posix_spawnattr_setsigdefault(&attr, &all)) == 0 &&
	    (rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)) == 0)
		rc = posix_spawn(pid, path, &files, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return rc;
}

/* All that comes, up to ANSWER_MAX. Given: free(). NULL: out of memory, not to be read, or, with ETIMEDOUT, too late:
 * who asks has leases to renew, and a process that is stopped or frozen answers nobody. */
static char *read_all(int fd, size_t *len)
{
	struct pollfd readable = { fd, POLLIN, 0 };
	uint64_t end = clock_ns() + (uint64_t)config_reader_patience_ms * NS_PER_MS, now;
	size_t size = 0;
	char *text = NULL, *more;
	ssize_t n;

	for (*len = 0; *len<ANSWER_MAX; *len += n> 0 ? (size_t)n : 0) {
		if (*len == size) {
			if (!(more = realloc(text, size = size ? 2 * size : 8192)))
				break;
			text = more;
		}
		while ((now = clock_ns()) < end && poll(&readable, 1, (int)((end - now) / NS_PER_MS) + 1) <= 0)
			;
		errno = now < end ? 0 : ETIMEDOUT;
		n = now < end ? read(fd, text + *len, size - *len) : -1;
		if (n == 0)
			return text;
		if (n < 0 && errno != EINTR)
			break;
	}
	free(text);
	return NULL;
}

/* Above the numbers it has in the child, where dup2() to itself would leave it close-on-exec. */
static int above_standard(int fd)
{
	int high = fd >= 0 && fd <= STDERR_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : fd;

	if (high != fd)
		close(fd);
	return high;
}

/* It has nothing more to do; if it cannot die, it is left to itself. */
static void end(pid_t pid, bool late)
{
	for (int ms = 0; waitpid(pid, NULL, WNOHANG) == 0 && ms < END_MS; ms++) {
		if (ms == (late ? 0 : END_MS / 2))
			kill(pid, SIGKILL);
		poll(NULL, 0, 1);
	}
}

static int run(const char *text, size_t len, char **answer, size_t *answer_len, struct deferred_error *err)
{
	char path[PATH_MAX], **env = clean_environment();
	int in = above_standard(text_file(text, len)), out[2] = { -1, -1 }, code = 0, rc = 0;
	pid_t pid = 0;
	bool late = false;

	*answer = NULL;
	if (!env || in < 0 || pipe2(out, O_CLOEXEC) < 0)
		code = env ? errno : ENOMEM;
	find_program(path);
	if (code == 0 && (out[1] = above_standard(out[1])) < 0)
		code = errno;
	if (code == 0)
		code = start(&pid, path, in, out[1], env);
	if (out[1] >= 0)
		close(out[1]);
	if (code == 0) {
		*answer = read_all(out[0], answer_len);
		late = !*answer && errno == ETIMEDOUT;
		/* Before it is waited for: one whose answer was given up would write for ever. */
		close(out[0]);
		out[0] = -1;
		end(pid, late);
	}
	if (late)
		rc = error_set(err, DEFERRED_ESYSTEM, WHERE,
			       "cannot read the settings: '%s' (pid %d) does not answer", path, (int)pid);
	else if (code == ENOMEM || (code == 0 && !*answer))
		rc = error_set(err, DEFERRED_ENOMEM, WHERE, "cannot read the settings: out of memory");
	else if (code != 0)
		rc = error_set(err, DEFERRED_ESYSTEM, WHERE, "cannot read the settings: cannot execute '%s': %s",
			       path, strerror(code));
	if (rc < 0) {
		free(*answer);
		*answer = NULL;
	}
	if (in >= 0)
		close(in);
	if (out[0] >= 0)
		close(out[0]);
	free(env);
	return rc;
}

/* ---- the last answer: who sends mails asks for each --------------------------------------------- */

static pthread_mutex_t lock =
	PTHREAD_MUTEX_INITIALIZER; /* only ever tried: one taken at a fork stays so in the child */
static char *last_text, *last_answer;
static size_t last_len, last_answer_len;

static char *copy(const char *text, size_t len)
{
	char *c = malloc(len ? len : 1);

	return c ? memcpy(c, text, len) : NULL;
}

static bool recall(const char *text, size_t len, char **answer, size_t *answer_len)
{
	bool same;

	if (pthread_mutex_trylock(&lock) != 0)
		return false;
	same = last_answer && len == last_len && memcmp(text, last_text, len) == 0 &&
	       (*answer = copy(last_answer, last_answer_len));
	*answer_len = last_answer_len;
	pthread_mutex_unlock(&lock);
	return same;
}

void config_reader_keep(const char *text, size_t len, const char *answer, size_t answer_len)
{
	/* What stands in it may change with the environment. */
	if (memmem(text, len, "${", 2) || pthread_mutex_trylock(&lock) != 0)
		return;
	free(last_text);
	free(last_answer);
	last_text = copy(text, len);
	last_answer = last_text ? copy(answer, answer_len) : NULL;
	last_len = len;
	last_answer_len = answer_len;
	pthread_mutex_unlock(&lock);
}

int config_reader_run(const char *text, size_t len, char **answer, size_t *answer_len, struct deferred_error *err)
{
	return recall(text, len, answer, answer_len) ? 0 : run(text, len, answer, answer_len, err);
}
