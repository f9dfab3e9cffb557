/* SPDX-License-Identifier: MIT */
/*
 * sample - functions to try things with; it is built, not installed.
 *
 *     noop                                         does nothing
 *     echo    any params                           its result is its params, byte for byte
 *     sleep   {"ms": 100}                          ends early, as failed, when it is asked to stop
 *     sleep_together {"ms": 100}                   the same for up to 100 jobs at once, as long as the longest says
 *     fail    {"error": TEXT, "dead": true, "unready": true, "cancel": true, "snooze": true, "retry_after_ms": N}
 *     crash   {"signal": 11}                       ends its process by that signal
 *     append  {"file": PATH, "text": TEXT}         adds one line; PATH lies below the folder of the
 *                                                  setting sample.dir, without which it is refused
 */
#include <deferred_plugin.h>

#include "port/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A crash on purpose must reach the kernel, in a sanitizer build as well. */
#if defined(__GNUC__)
#define REAL_CRASH __attribute__((noinline, no_sanitize("undefined"), no_sanitize("address")))
#else
#define REAL_CRASH
#endif

static int sample_refuse(const struct deferred_call *call, int result, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int sample_refuse(const struct deferred_call *call, int result, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	call->host->error(call, text, strlen(text));
	return result;
}

/* The params as an object, which the caller releases; NULL after an error was reported. */
static json_t *params_object(const struct deferred_call *call)
{
	json_error_t why;
	json_t *params = json_loadb(call->params, call->params_len, 0, &why);

	if (params && json_is_object(params))
		return params;
	sample_refuse(call, 0, "params are not a JSON object: %s; hint: pass {} or members of deferred_functions(7)",
		      params ? "another JSON value was given" : why.text);
	json_decref(params);
	return NULL;
}

static int noop(const struct deferred_call *call)
{
	(void)call;
	return DEFERRED_OK;
}

static int echo(const struct deferred_call *call)
{
	call->host->result(call, call->params, call->params_len);
	return DEFERRED_OK;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static int sleep_for(const struct deferred_call *call, int64_t ms)
{
	for (int64_t end = now_ms() + ms, left; (left = end - now_ms()) > 0;) {
		struct timespec step = { 0, (left < 20 ? left : 20) * 1000000 };

		if (call->host->stop_asked(call))
			return sample_refuse(call, DEFERRED_FAILED, "stopped");
		nanosleep(&step, NULL);
	}
	return DEFERRED_OK;
}

static int sleep_ms(const struct deferred_call *call)
{
	json_t *params = params_object(call), *ms = params ? json_object_get(params, "ms") : NULL;
	int64_t wanted = ms ? (int64_t)json_number_value(ms) : 100;

	if (!params)
		return DEFERRED_DEAD;
	json_decref(params);
	return sleep_for(call, wanted);
}

static int sleep_together(const struct deferred_call *const *calls, size_t n)
{
	int64_t longest = 0;

	for (size_t i = 0; i < n; i++) {
		json_t *params = params_object(calls[i]), *ms = params ? json_object_get(params, "ms") : NULL;
		int64_t wanted = ms ? (int64_t)json_number_value(ms) : 100;

		if (!params)
			calls[i]->host->outcome(calls[i], DEFERRED_DEAD);
		else
			longest = wanted > longest ? wanted : longest;
		json_decref(params);
	}
	return sleep_for(calls[0], longest);
}

static int sample_fail(const struct deferred_call *call)
{
	json_t *params = params_object(call), *after;
	const char *text;
	int result = DEFERRED_FAILED;

	if (!params)
		return DEFERRED_DEAD;
	text = json_string_value(json_object_get(params, "error"));
	after = json_object_get(params, "retry_after_ms");
	if (json_is_integer(after)) {
		call->host->retry_after(call, json_integer_value(after));
		result = DEFERRED_LATER;
	}
	if (json_is_true(json_object_get(params, "dead")))
		result = DEFERRED_DEAD;
	if (json_is_true(json_object_get(params, "unready")))
		result = DEFERRED_UNREADY;
	if (json_is_true(json_object_get(params, "cancel")))
		result = DEFERRED_CANCEL;
	if (json_is_true(json_object_get(params, "snooze")))
		result = DEFERRED_SNOOZE;
	if (!text)
		text = "failed on request";
	call->host->error(call, text, strlen(text));
	json_decref(params);
	return result;
}

REAL_CRASH static void write_through_null(void)
{
	volatile int *volatile p = NULL;

	*p = 1;
}

REAL_CRASH static void divide_by_zero(void)
{
	volatile int zero = 0, one = 1;

	one = one / zero;
}

static int crash(const struct deferred_call *call)
{
	json_t *params = params_object(call), *value;
	sigset_t set;
	int sig;

	if (!params)
		return DEFERRED_DEAD;
	value = json_object_get(params, "signal");
	sig = value ? (int)json_integer_value(value) : SIGSEGV;
	json_decref(params);
	if (sig < 1 || sig > SIGRTMAX)
		return sample_refuse(call, DEFERRED_DEAD, "signal %d does not exist; hint: use 1 to %d", sig, SIGRTMAX);
	if (sig == SIGSEGV)
		write_through_null();
	else if (sig == SIGABRT)
		abort();
	else if (sig == SIGFPE)
		divide_by_zero(); /* not every processor traps */
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(sig);
	return sample_refuse(call, DEFERRED_FAILED, "signal %d does not end a process; hint: use 11, for example", sig);
}

static int sample_append(const struct deferred_call *call)
{
	const char *dir = call->host->setting(call, "sample.dir"), *file, *text, *why;
	json_t *params = params_object(call);
	char *line = NULL;
	int fd = -1, len, result = DEFERRED_DEAD;

	if (!params)
		return DEFERRED_DEAD;
	file = json_string_value(json_object_get(params, "file"));
	text = json_string_value(json_object_get(params, "text"));
	if (!file || !text || strchr(text, '\n')) {
		sample_refuse(call, 0, "%s; hint: pass 'file' and one line of 'text' as JSON strings",
			      !file   ? "'file' is missing"
			      : !text ? "'text' is missing"
				      : "'text' is longer than a line");
		goto out;
	}
	if (!dir || !*dir) {
		sample_refuse(call, 0,
			      "cannot append to '%.300s': setting 'sample.dir' is not set; hint: set it to a folder",
			      file);
		goto out;
	}
	if ((fd = beneath_open(dir, file, O_WRONLY | O_APPEND | O_CREAT, 0644, &why)) < 0) {
		sample_refuse(call, 0,
			      "cannot append to '%.300s' below sample.dir: %s; hint: correct the path or the rights",
			      file, why);
		goto out;
	}
	result = DEFERRED_FAILED;
	if ((len = asprintf(&line, "%s\n", text)) < 0) {
		line = NULL;
		sample_refuse(call, 0, "out of memory");
		goto out;
	}
	/* One write, so that lines of several runners do not mix. */
	if (write(fd, line, (size_t)len) != len) {
		sample_refuse(call, 0, "cannot append to '%.300s': %s", file, strerror(errno));
		goto out;
	}
	result = DEFERRED_OK;
out:
	if (fd >= 0)
		close(fd);
	free(line);
	json_decref(params);
	return result;
}

static const struct deferred_function functions[] = {
	{ .name = "noop", .run = noop },
	{ .name = "echo", .run = echo },
	{ .name = "sleep", .run = sleep_ms },
	{ .name = "fail", .run = sample_fail },
	{ .name = "crash", .run = crash },
	{ .name = "append", .run = sample_append },
	{ .name = "sleep_together", .run_many = sleep_together, .run = sleep_ms },
};

DEFERRED_PLUGIN("sample", "1.0", functions);
