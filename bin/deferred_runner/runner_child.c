/* SPDX-License-Identifier: MIT */
#include "runner_process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sysexits.h>
#include <unistd.h>
#include <unistd.h>

void leave_board(void)
{
	munmap(state.board, sizeof(*state.board));
	state.board = NULL;
}

static ino_t own_socket;

static ino_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

static char *own_page; /* 1 in this process, 0 in those it forks; NULL: the kernel has no such pages */

void begin_process(void)
{
	state.pid = getpid();
	if (!own_page) {
		void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		own_page = page == MAP_FAILED || madvise(page, 1, MADV_WIPEONFORK) < 0 ? NULL : page;
	}
	if (own_page)
		*(volatile char *)own_page = 1;
	own_socket = inode_of(FRAME_SOCKET_FD);
}

bool is_a_copy(void)
{
	return own_page ? !*(volatile char *)own_page : getpid() != state.pid;
}

bool socket_is_ours(void)
{
	return own_socket != 0 && inode_of(FRAME_SOCKET_FD) == own_socket;
}

void talk_to_runner(const int pair[2])
{
	if (dup3(pair[1], FRAME_SOCKET_FD, O_CLOEXEC) < 0)
		_exit(EX_OSERR);
	close(pair[0]);
	close(pair[1]);
	own_socket = inode_of(FRAME_SOCKET_FD);
	state.bytes_sent = 0;
}

void hold_sigterm(sigset_t *before)
{
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, before);
}

uint64_t tv_us(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * 1000000u + (uint64_t)tv.tv_usec;
}

void take_usage(struct board_slot *slot, const struct rusage *used)
{
	slot->user_us = tv_us(used->ru_utime);
	slot->sys_us = tv_us(used->ru_stime);
	slot->max_rss_kb = (uint64_t)used->ru_maxrss;
}

void set_limit(int resource, int64_t soft, int64_t hard)
{
	struct rlimit rl = { (rlim_t)soft, (rlim_t)hard };

	setrlimit((__rlimit_resource_t)resource, &rl);
}

static void on_time_up(int sig)
{
	(void)sig;
	raise(SIGXCPU);
}

/*
 * RLIMIT_CPU counts whole seconds, so a timer has the rest: it is this process's own, and stays over an exec. Its
 * signal is reported like that of the limit. The handler reports it for a function. A command has no handler, so
 * command_run() reports it.
 */
void limit_cpu(int64_t ms)
{
	struct itimerval timer = { .it_value = { ms / 1000, ms % 1000 * 1000 } };

	if (ms <= 0)
		return;
	set_limit(RLIMIT_CPU, (ms + 999) / 1000, (ms + 999) / 1000 + 1);
	if (ms % 1000 == 0)
		return;
	signal(SIGPROF, on_time_up);
	setitimer(ITIMER_PROF, &timer, NULL);
}

const char *memory_limit_hint(int sig)
{
	static char text[256];

	if (state.start.memory_bytes <= 0 || (sig != SIGTRAP && sig != SIGABRT && sig != SIGSEGV))
		return NULL;
	snprintf(text, sizeof(text),
		 "memory_limit allows it %lld KiB of address space\n"
		 "hint: raise memory_limit if that is too little; Node.js needs 768m to start",
		 (long long)(state.start.memory_bytes / 1024));
	return text;
}

void keep_privileges(void)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void stop_for_debugger(const struct plugin_function *fn)
{
	union sigval address = { .sival_int = 0 };

	if (fn && fn->fn.run_many)
		memcpy(&address, &fn->fn.run_many, sizeof(address));
	else if (fn)
		memcpy(&address, &fn->fn.run, sizeof(address));
	sigqueue(getpid(), SIGTRAP, address);
}
