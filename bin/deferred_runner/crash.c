/* SPDX-License-Identifier: MIT */
/*
 * The first crash of a function in a minute is recorded with symbols. Later ones have none, because resolving symbols
 * keeps a runner busy. A process of its own, deferred_backtrace, prints the frames. Here anything may be broken, so
 * nothing is allocated or locked. Look-ups only use a table made before. If that process cannot start or does not end,
 * the frames are printed without symbols.
 */
#include "runner_process.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <ucontext.h>
#include <unistd.h>

#define FRAMES_MAX 32
#define MODULES_MAX 128
#define PATH_SIZE 256
#define HELPER_CPU_S 2 /* and so long on the clock as well, and a second more */
#define HELPER_MEMORY ((rlim_t)1 << 30)
#define OBJECT_FD "/proc/self/fd/" /* a plugin is loaded by its descriptor, which stays open */

static char alternate_stack[65536]; /* the handler must run when the stack itself has overflowed */

/* The objects that were loaded together with the plugins. */
static struct module {
	uintptr_t start, end, base;
	char path[PATH_SIZE];
} modules[MODULES_MAX];
static size_t modules_len;

static char helper[PATH_MAX]; /* path of deferred_backtrace, in our own folder; empty: not known */
static char self[PATH_SIZE];

/* ---- before ----------------------------------------------------------------------------------- */

static int note_module(struct dl_phdr_info *info, size_t size, void *data)
{
	struct module *m = &modules[modules_len];
	const char *path = info->dlpi_name[0] ? info->dlpi_name : self;

	(void)size;
	(void)data;
	if (modules_len == MODULES_MAX)
		return 1;
	m->base = info->dlpi_addr;
	m->start = UINTPTR_MAX;
	m->end = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t start = m->base + info->dlpi_phdr[i].p_vaddr, end = start + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		m->start = start < m->start ? start : m->start;
		m->end = end > m->end ? end : m->end;
	}
	if (path[0] == '/' && strlen(path) < sizeof(m->path)) {
		strcpy(m->path, path);
		modules_len++;
	}
	return 0;
}

void crash_note_modules(void)
{
	modules_len = 0;
	dl_iterate_phdr(note_module, NULL);
}

static void find_helper(void)
{
	ssize_t n = readlink("/proc/self/exe", helper, sizeof(helper) - sizeof("deferred_backtrace"));
	char *slash;

	/* Where we lie is not known, so neither is it: the name alone would be looked for where we run. */
	if (n <= 0 || (size_t)n == sizeof(helper) - sizeof("deferred_backtrace"))
		n = 0;
	helper[n] = '\0';
	if ((size_t)n < sizeof(self))
		strcpy(self, helper);
	if ((slash = strrchr(helper, '/')))
		strcpy(slash + 1, "deferred_backtrace");
	else
		helper[0] = '\0';
}

/* ---- in the handler --------------------------------------------------------------------------- */

static size_t append(char *text, size_t at, const char *what)
{
	size_t len = strlen(what);

	memcpy(text + at, what, len);
	return at + len;
}

static size_t append_hex(char *text, size_t at, uintptr_t n)
{
	char digits[2 * sizeof(n) + 1], *p = digits + sizeof(digits) - 1;

	*p = '\0';
	do
		*--p = "0123456789abcdef"[n % 16];
	while (n /= 16);
	return append(text, at, p);
}

static void say(int fd, const char *text, size_t len)
{
	if (write(fd, text, len) < 0)
		return; /* nowhere left to say it */
}

static const struct module *module_of(uintptr_t pc)
{
	for (size_t i = 0; i < modules_len; i++)
		if (pc >= modules[i].start && pc < modules[i].end)
			return &modules[i];
	return NULL;
}

/* As deferred_backtrace takes it. The first one is where it crashed, the others called it. */
static void hand_over(int fd, void *const *frames, int n)
{
	char line[PATH_SIZE + 64];

	for (int i = 0; i < n; i++) {
		uintptr_t pc = (uintptr_t)frames[i];
		const struct module *m = module_of(pc);
		size_t at = append_hex(line, 0, m ? pc - m->base : pc);

		at = append(line, at, i > 0 ? " 1 " : " 0 ");
		at = append(line, at, m ? m->path : "");
		at = append(line, at, "\n");
		say(fd, line, at);
	}
}

/* The name of the file of which that is a copy in memory: "/memfd:NAME (deleted)". */
static const char *copied_name(char *target, size_t len)
{
	static const char memory[] = "/memfd:", gone[] = " (deleted)";

	target[len] = '\0';
	if (len >= sizeof(gone) && strcmp(target + len - (sizeof(gone) - 1), gone) == 0)
		target[len - (sizeof(gone) - 1)] = '\0';
	return strncmp(target, memory, sizeof(memory) - 1) == 0 ? target + sizeof(memory) - 1 : target;
}

/* Without it: file and offset. */
static void tell_plainly(void *const *frames, int n)
{
	char line[PATH_MAX + 64], target[PATH_SIZE];

	for (int i = 0; i < n; i++) {
		uintptr_t pc = (uintptr_t)frames[i];
		const struct module *m = module_of(pc);
		const char *path = m ? m->path : "";
		ssize_t len = strncmp(path, OBJECT_FD, sizeof(OBJECT_FD) - 1) == 0
				      ? readlink(path, target, sizeof(target) - 1)
				      : -1;
		size_t at = 0;

		if (len > 0)
			path = copied_name(target, (size_t)len);
		at = append(line, at, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
		at = append(line, at, m ? "+0x" : "0x");
		at = append_hex(line, at, m ? pc - m->base : pc);
		at = append(line, at, "\n");
		say(STDERR_FILENO, line, at);
	}
}

static void bound(int resource, rlim_t most)
{
	struct rlimit rl;

	if (getrlimit((__rlimit_resource_t)resource, &rl) == 0 && rl.rlim_cur > most) {
		rl.rlim_cur = most;
		setrlimit((__rlimit_resource_t)resource, &rl);
	}
}

/* In the fork of a process that is broken. */
static void __attribute__((noreturn)) become_helper(int in)
{
	static char *const argv[] = { (char *)"deferred_backtrace", NULL }, *const no_environment[] = { NULL };
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGALRM, SIG_DFL);
	bound(RLIMIT_CPU, HELPER_CPU_S);
#if !defined(__SANITIZE_ADDRESS__) /* the sanitizer reserves terabytes of address space */
	bound(RLIMIT_AS, HELPER_MEMORY);
#endif
	bound(RLIMIT_FSIZE, 0);
	alarm(HELPER_CPU_S + 1);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(EX_OSERR);
	/* Of what is open it gets the plugins alone. */
	syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
	for (size_t i = 0; i < modules_len; i++)
		if (strncmp(modules[i].path, OBJECT_FD, sizeof(OBJECT_FD) - 1) == 0)
			fcntl(atoi(modules[i].path + sizeof(OBJECT_FD) - 1), F_SETFD, 0);
	execve(helper, argv, no_environment);
	_exit(EX_UNAVAILABLE);
}

/*
 * Returns whether the frames were printed. A pipe holds all frames at once. The kernel makes a pipe small if its user
 * has many. Such a pipe holds the innermost frames, and the rest is left out. Nobody reads yet, so a write would wait
 * for ever.
 */
static bool tell_by_helper(void *const *frames, int n)
{
	int in[2], status = -1;
	pid_t pid;

	if (!helper[0] || pipe2(in, O_CLOEXEC) < 0)
		return false;
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	hand_over(in[1], frames, n);
	pid = _Fork();
	if (pid == 0) {
		close(in[1]);
		become_helper(in[0]);
	}
	close(in[0]);
	close(in[1]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid > 0 && WIFSIGNALED(status))
		say(STDERR_FILENO, "\n", 1); /* it may have ended within a line */
	return pid > 0 && status == 0;
}

/* Ahead of it are this handler, what the kernel calls it by, and what a sanitizer puts in between. */
static int first_frame(void *const *frames, int n, const ucontext_t *context)
{
	uintptr_t pc = 0;

#if defined(__x86_64__)
	pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	pc = (uintptr_t)context->uc_mcontext.pc;
#endif
	(void)context;
	for (int i = 0; i < n; i++)
		if (pc && (uintptr_t)frames[i] == pc)
			return i;
	return n < 2 ? n : 2;
}

/* Standard error goes to the parent, which puts it into the log row. */
static void on_crash(int sig, siginfo_t *info, void *context)
{
	static const char mark[] = { FRAME_CRASH_MARK };
	void *frames[FRAMES_MAX];
	int n = backtrace(frames, FRAMES_MAX), first = first_frame(frames, n, context);

	(void)info;
	say(STDERR_FILENO, mark, sizeof(mark));
	if (state.plugin) {
		say(STDERR_FILENO, "in plugin ", 10);
		say(STDERR_FILENO, state.plugin, strlen(state.plugin));
		say(STDERR_FILENO, ":\n", 2);
	}
	if (n > first && (state.plain_crash || !tell_by_helper(frames + first, n - first)))
		tell_plainly(frames + first, n - first);
	raise(sig); /* the default action, taken when we return */
}

void crash_init(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	stack_t stack = { .ss_sp = alternate_stack, .ss_size = sizeof(alternate_stack) };
	struct sigaction action;
	void *frame[1];

	backtrace(frame, 1); /* loads what it needs now, not while crashing */
	find_helper();
	crash_note_modules();
	sigaltstack(&stack, NULL);
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = on_crash;
	action.sa_flags = SA_ONSTACK | SA_RESETHAND | SA_SIGINFO;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}
