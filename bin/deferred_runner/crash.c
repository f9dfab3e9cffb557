/* SPDX-License-Identifier: MIT */
#include "runner.h"

#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define FRAMES_MAX 32

static char alternate_stack[65536]; /* the handler must run when the stack itself has overflowed */

static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return; /* nowhere left to say it */
}

/* Standard error goes to the parent, which puts the last of it into the log row. Plugins are loaded by their descriptor, whose number
 * is all the backtrace can tell. */
static void on_crash(int sig)
{
	void *frames[FRAMES_MAX];
	int n = backtrace(frames, FRAMES_MAX);

	say((const char[]){ FRAME_CRASH_MARK, '\0' });
	if (state.plugin) {
		say("in plugin ");
		say(state.plugin);
		say(":\n");
	}
	/* The first two frames are this handler and the signal trampoline. */
	if (n > 2)
		backtrace_symbols_fd(frames + 2, n - 2, STDERR_FILENO);
	raise(sig); /* the default action, taken when we return */
}

void crash_init(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	stack_t stack = { .ss_sp = alternate_stack, .ss_size = sizeof(alternate_stack) };
	struct sigaction action;
	void *frame[1];

	backtrace(frame, 1); /* loads what it needs now, not while crashing */
	sigaltstack(&stack, NULL);
	memset(&action, 0, sizeof(action));
	action.sa_handler = on_crash;
	action.sa_flags = SA_ONSTACK | SA_RESETHAND;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}
