/* SPDX-License-Identifier: MIT */
/*
 * plugin_call - call a function of a plugin folder and print what came of it, for tests of plugins.
 *
 *     plugin_call [-i ID] [-c CREATED_US] [-r READY_US] [-a ATTEMPT] [-l LABEL] [-s NAME=VALUE]... DIR FN PARAMS...
 *
 * Each PARAMS is a call in the same process. For each, one line of JSON: {"returned": N, "result": TEXT,
 * "error": TEXT, "retry_after_ms": N, "deferred": [[FN, PARAMS, OPTS], ...], "removed": [PATH, ...], "log": [...]}.
 * Exit: 0, 1 where the folder or function is refused, 2 usage.
 */
#include "port/beneath.h"
#include "port/plugin.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *settings[64];
static size_t settings_len;

static json_t *text(const char *s, size_t len)
{
	json_t *j = json_stringn(s, len);

	return j ? j : json_string("(no UTF-8)");
}

static void on_result(const struct deferred_call *call, const char *s, size_t len)
{
	json_object_set_new(call->host_data, "result", text(s, len));
}

static void on_error(const struct deferred_call *call, const char *s, size_t len)
{
	json_object_set_new(call->host_data, "error", text(s, len));
}

static void on_retry_after(const struct deferred_call *call, int64_t delay_ms)
{
	json_object_set_new(call->host_data, "retry_after_ms", json_integer(delay_ms));
}

static int on_stop_asked(const struct deferred_call *call)
{
	(void)call;
	return getenv("STOP_ASKED") != NULL;
}

static void on_log(const struct deferred_call *call, int level, const char *s, size_t len)
{
	json_array_append_new(json_object_get(call->host_data, "log"), json_pack("[io]", level, text(s, len)));
}

static const char *on_setting(const struct deferred_call *call, const char *name)
{
	size_t len = strlen(name);

	(void)call;
	for (size_t i = settings_len; i-- > 0;)
		if (strncmp(settings[i], name, len) == 0 && settings[i][len] == '=')
			return settings[i] + len + 1;
	return NULL;
}

static int on_defer(const struct deferred_call *call, const char *fn, const char *params, const char *opts)
{
	if (getenv("REFUSE_DEFER"))
		return -1;
	json_array_append_new(json_object_get(call->host_data, "deferred"), json_pack("[sss?]", fn, params, opts));
	return 0;
}

static int on_remove_after(const struct deferred_call *call, const char *path)
{
	json_array_append_new(json_object_get(call->host_data, "removed"), json_string(path));
	return 0;
}

static int on_remove_beneath(const struct deferred_call *call, const char *dir, const char *path, int fd)
{
	char *ticket = beneath_ticket(dir, path, fd);

	if (!ticket)
		return -1;
	json_array_append_new(json_object_get(call->host_data, "removed"), json_string(path));
	free(ticket);
	return 0;
}

static int on_cancelled(const struct deferred_call *call)
{
	(void)call;
	return getenv("CANCELLED") != NULL;
}

static void on_progress(const struct deferred_call *call, int64_t done, int64_t total, const char *s, size_t len)
{
	json_object_set_new(call->host_data, "progress",
			    json_pack("[IIo]", (json_int_t)done, (json_int_t)total, text(s, len)));
}

static int on_parent(const struct deferred_call *call, const char *name, const char **outcome, const char **result)
{
	(void)call;
	(void)name;
	if (outcome)
		*outcome = NULL;
	if (result)
		*result = NULL;
	return -1;
}

static const struct deferred_host host = {
	.size = sizeof(host),
	.result = on_result,
	.error = on_error,
	.retry_after = on_retry_after,
	.stop_asked = on_stop_asked,
	.log = on_log,
	.setting = on_setting,
	.defer = on_defer,
	.remove_after = on_remove_after,
	.remove_beneath = on_remove_beneath,
	.parent = on_parent,
	.cancelled = on_cancelled,
	.progress = on_progress,
};

static void on_refused(void *data, const char *file, const char *why)
{
	(void)data;
	fprintf(stderr, "refused: %s: %s\n", file, why);
}

int main(int argc, char **argv)
{
	struct deferred_call call = {
		.size = sizeof(call), .attempt = 1, .label = "", .traceparent = "", .parents = "",
		.steps = "", .host = &host
	};
	struct deferred_error err = { 0 };
	struct plugin_set *set = NULL;
	const struct plugin_function *fn;
	int opt;

	while ((opt = getopt(argc, argv, "i:c:r:a:l:s:")) != -1) {
		if (opt == 'i')
			call.id = atoll(optarg);
		else if (opt == 'c')
			call.created_at_us = atoll(optarg);
		else if (opt == 'r')
			call.ready_at = atoll(optarg);
		else if (opt == 'a')
			call.attempt = atoi(optarg);
		else if (opt == 'l')
			call.label = optarg;
		else if (opt == 's' && settings_len < sizeof(settings) / sizeof(settings[0]))
			settings[settings_len++] = optarg;
		else
			return 2;
	}
	if (argc - optind < 3)
		return 2;
	if (plugin_open_dir(&set, argv[optind], geteuid(), on_refused, NULL, &err) < 0 ||
	    plugin_load_all(set, NULL, on_refused, NULL, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		plugin_set_free(set);
		return 1;
	}
	if (!(fn = plugin_find(set, argv[optind + 1]))) {
		fprintf(stderr, "unknown function '%s'\n", argv[optind + 1]);
		plugin_set_free(set);
		return 1;
	}
	for (int i = optind + 2; i < argc; i++) {
		json_t *out = json_pack("{s[]s[]s[]}", "deferred", "removed", "log");

		call.fn = argv[optind + 1];
		call.params = argv[i];
		call.params_len = strlen(argv[i]);
		call.host_data = out;
		json_object_set_new(out, "returned", json_integer(fn->fn.run(&call)));
		json_dumpf(out, stdout, JSON_COMPACT);
		putchar('\n');
		fflush(stdout);
		json_decref(out);
	}
	plugin_set_free(set);
	return 0;
}
