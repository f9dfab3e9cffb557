/* SPDX-License-Identifier: MIT */
/*
 * many - functions that take several jobs at once. Each writes the ids of a call as one line to the file of the setting
 * settings.many.file, and does for each job what the word in its params says:
 *
 *     own        the outcome is that of the word behind it: failed, later, dead, snooze, cancel, unready or wild
 *     segv, exit, hang         the process ends, or the call never does
 *     go         waits for a file with ".go" behind its name
 *     told       waits until the job was cancelled
 *     stop       waits until it is asked to stop, and fails then
 *     progress   reports its id of 1000
 *     defer      defers noop in the queue "other"; too_much: and more than it may
 *     saved      saves its id as a step, before any job does anything else; the result is what was saved before
 *     parent     the result is what is known of its parents
 *     all_failed the call returns failed
 *
 * Other jobs have their id as result.
 */
#include <deferred_plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static int has(const struct deferred_call *call, const char *word)
{
	return strstr(call->params, word) != NULL;
}

static void note(const struct deferred_call *const *calls, size_t n)
{
	const char *file = calls[0]->host->setting(calls[0], "settings.many.file");
	int fd = open(file ? file : "/dev/null", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	char line[4096];
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(line + len, sizeof(line) - len, "%lld%c", (long long)calls[i]->id,
					i + 1 < n ? ' ' : '\n');
	if (write(fd, line, len) < 0)
		perror(file);
	close(fd);
}

static void wait_for_go(const struct deferred_call *call)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s.go", call->host->setting(call, "settings.many.file"));
	while (access(path, F_OK) != 0)
		pause_ms(1);
}

static void end_own(const struct deferred_call *call)
{
	static const struct {
		const char *word;
		int result;
	} outcomes[] = {
		{ "own ok", DEFERRED_OK },           { "own failed", DEFERRED_FAILED },
		{ "own later", DEFERRED_LATER },     { "own dead", DEFERRED_DEAD },
		{ "own snooze", DEFERRED_SNOOZE },   { "own cancel", DEFERRED_CANCEL },
		{ "own unready", DEFERRED_UNREADY }, { "own wild", -7 },
	};
	char text[64];

	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
		if (has(call, outcomes[i].word))
			call->host->outcome(call, outcomes[i].result);
	call->host->error(call, text, (size_t)snprintf(text, sizeof(text), "no %lld", (long long)call->id));
	call->host->retry_after(call, 3600000);
}

static void do_one(const struct deferred_call *call)
{
	char text[64];
	const char *result = has(call, "parent")  ? call->parents
			     : has(call, "saved") ? call->steps
						  : text;

	snprintf(text, sizeof(text), "%lld", (long long)call->id);
	if (has(call, "segv"))
		raise(SIGSEGV);
	if (has(call, "exit"))
		exit(7);
	while (has(call, "hang"))
		pause_ms(1000);
	if (has(call, "progress"))
		call->host->progress(call, call->id, 1000, text, strlen(text));
	if (has(call, "go"))
		wait_for_go(call);
	while (has(call, "told") && !call->host->cancelled(call))
		pause_ms(1);
	while (has(call, "stop") && !call->host->stop_asked(call))
		pause_ms(1);
	if (has(call, "defer"))
		call->host->defer(call, "noop", "{}", "{\"queue\": \"other\"}");
	for (int i = 0; has(call, "too_much") && i <= 10000; i++)
		call->host->defer(call, "noop", "{}", NULL);
	if (has(call, "own"))
		end_own(call);
	else
		call->host->result(call, result, strlen(result));
}

static void save(const struct deferred_call *call)
{
	char text[64];

	snprintf(text, sizeof(text), "%lld", (long long)call->id);
	if (call->host->step(call, "mine", text) != DEFERRED_STEP_SAVED)
		exit(8);
}

static int gather(const struct deferred_call *const *calls, size_t n)
{
	int result = DEFERRED_OK;

	note(calls, n);
	for (size_t i = 0; i < n; i++)
		if (has(calls[i], "saved"))
			save(calls[i]);
	for (size_t i = 0; i < n; i++) {
		do_one(calls[i]);
		if (has(calls[i], "stop") || has(calls[i], "all_failed"))
			result = DEFERRED_FAILED;
	}
	return result;
}

static int one(const struct deferred_call *call)
{
	call->host->result(call, "one", 3);
	return DEFERRED_OK;
}

static const struct deferred_function functions[] = {
	{ .name = "gather", .run_many = gather, .batch = 5 },
	{ .name = "gather_hundred", .run_many = gather },
	{ .name = "gather_wait", .run_many = gather, .batch = 5, .batch_wait_ms = 60000 },
	{ .name = "gather_soon", .run_many = gather, .batch = 5, .batch_wait_ms = 300 },
	{ .name = "gather_apart", .run_many = gather, .batch = 5, .flags = DEFERRED_ISOLATE_JOB },
	{ .name = "gather_once", .run_many = gather, .batch = 5, .max_attempts = 1 },
	{ .name = "gather_both", .run = one, .run_many = gather, .batch = 5 },
};

DEFERRED_PLUGIN("many", "1.0", functions);
