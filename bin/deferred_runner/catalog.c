/* SPDX-License-Identifier: MIT */
#include "runner.h"

#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

/* Where a function is whose plugin is not loaded yet; sorted by name. */
struct entry {
	const char *name, *file;
};

static struct {
	struct plugin_set *plugins;
	char *text; /* all names and files */
	struct entry *entries;
	size_t len;
} catalog;

/* ---- what the parent is told ------------------------------------------------------------------ */

static void send_texts(enum frame_type type, unsigned int slot, const char *a, const char *b)
{
	struct frame_part parts[] = { { a, strlen(a) + 1 }, { b, strlen(b) + 1 } };

	send_frame(type, slot, parts, 2);
}

/* The plugins as a whole cannot be used: the run is over. */
static void send_fatal(const struct deferred_error *err)
{
	send_texts(FRAME_FATAL, err->code == DEFERRED_ECONFIG, err->message, err->hint);
	flush_frames();
	_exit(EX_CONFIG);
}

static bool on_loading(void *data, const char *file)
{
	(void)data;
	for (size_t i = 0; i < state.passed_over_len; i++)
		if (strcmp(state.passed_over[i], file) == 0)
			return false;
	snprintf(state.board->loading_file, sizeof(state.board->loading_file), "%s", file);
	atomic_store(&state.board->loading, 1);
	return true;
}

static void on_refused(void *data, const char *file, const char *text)
{
	(void)data;
	send_texts(FRAME_REFUSED, 0, file, text);
}

static void send_function(const char *name, const char *plugin, const struct frame_function *fixed)
{
	struct frame_part parts[] = {
		{ fixed, sizeof(*fixed) },
		{ name, strlen(name) + 1 },
		{ plugin, strlen(plugin) + 1 },
	};

	send_frame(FRAME_FUNCTION, 0, parts, 3);
}

static void on_function(void *data, const char *name, const struct plugin_function *fn)
{
	struct frame_function fixed = { fn->fn.timeout_ms, fn->fn.max_attempts, fn->fn.flags };
	FILE *entries = data;

	send_function(name, fn->plugin, &fixed);
	if (entries)
		fprintf(entries, "%s%c%s%c", name, '\0', fn->file, '\0');
}

/* Load all; tell the parent of the functions, and `entries`, where that is no NULL, of their files. */
static void load_all(FILE *entries)
{
	struct deferred_error err = { 0 };

	if (catalog.plugins && plugin_load_all(catalog.plugins, on_loading, on_refused, NULL, &err) < 0)
		send_fatal(&err);
	for (size_t i = 0; i < state.commands_len; i++) {
		struct frame_function fixed = { state.commands[i].timeout_ms, state.commands[i].max_attempts, 0 };

		if (catalog.plugins && plugin_find(catalog.plugins, state.commands[i].name)) {
			error_set(&err, DEFERRED_ECONFIG, "plugin", "function \"%s\" is both a command of the config file and in a plugin",
				  state.commands[i].name);
			error_hint(&err, "rename one of the two");
			send_fatal(&err);
		}
		send_function(state.commands[i].name, "command", &fixed);
	}
	if (catalog.plugins)
		plugin_each(catalog.plugins, on_function, entries);
	atomic_store(&state.board->loading, 0);
	send_frame(FRAME_READY, 0, NULL, 0);
	flush_frames();
}

/* ---- load when called ------------------------------------------------------------------------- */

/* What the child has to say: the bytes it sent to our parent, then the entries. */
static char *read_all(int fd, size_t *len)
{
	char *text = NULL;
	size_t cap = 0;
	ssize_t n;

	*len = 0;
	do {
		if (cap - *len < 4096) {
			cap = cap ? 2 * cap : 65536;
			text = realloc(text, cap);
			if (!text)
				_exit(EX_OSERR);
		}
		n = read(fd, text + *len, cap - *len);
		if (n > 0)
			*len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return text;
}

static void __attribute__((noreturn)) survey(pid_t parent, int fd)
{
	char *text = NULL;
	size_t len = 0;
	FILE *entries = open_memstream(&text, &len), *out = fdopen(fd, "w");

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EX_OSERR); /* it died before that */
	if (!entries || !out)
		_exit(EX_OSERR);
	load_all(entries);
	if (fclose(entries) != 0 || fwrite(&state.bytes_sent, sizeof(state.bytes_sent), 1, out) != 1 ||
	    fwrite(text, 1, len, out) != len || fclose(out) != 0)
		_exit(EX_OSERR);
	_exit(0);
}

/* The child failed, so do we, the same way: our parent sees which file was being loaded. */
static void __attribute__((noreturn)) fail_as(int status)
{
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	_exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : EX_OSERR);
}

static void take_entries(const char *text, size_t len)
{
	size_t at = 0, cap = 0;

	for (;;) {
		const char *name = frame_text(text, len, &at), *file = frame_text(text, len, &at);

		if (!file)
			return;
		if (catalog.len == cap) {
			cap = cap ? 2 * cap : 64;
			catalog.entries = realloc(catalog.entries, cap * sizeof(*catalog.entries));
			if (!catalog.entries)
				_exit(EX_OSERR);
		}
		catalog.entries[catalog.len++] = (struct entry){ name, file };
	}
}

/*
 * Have a child load all plugins and tell what is in them. This process stays small: a fork of it with all the
 * libraries that plugins bring along takes twice as long (1,800 jobs/s instead of 3,600).
 */
static void load_apart(void)
{
	int ends[2], status = 0;
	size_t len;
	pid_t self = getpid(), pid;

	if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		_exit(EX_OSERR);
	if (pid == 0)
		survey(self, ends[1]);
	close(ends[1]);
	catalog.text = read_all(ends[0], &len);
	close(ends[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0 || len < sizeof(state.bytes_sent))
		fail_as(status);
	memcpy(&state.bytes_sent, catalog.text, sizeof(state.bytes_sent));
	take_entries(catalog.text + sizeof(state.bytes_sent), len - sizeof(state.bytes_sent));
}

void catalog_load(const char *dir)
{
	struct deferred_error err = { 0 };

	if (dir && *dir && plugin_open_dir(&catalog.plugins, dir, state.start.owner_uid, on_refused, NULL, &err) < 0)
		send_fatal(&err);
	if (state.start.isolate_job)
		load_apart();
	else
		load_all(NULL);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

const struct plugin_function *catalog_find(const char *name, struct deferred_error *err)
{
	const struct plugin_function *fn = catalog.plugins ? plugin_find(catalog.plugins, name) : NULL;
	struct entry key = { .name = name };
	const struct entry *entry;

	if (fn)
		return fn;
	entry = catalog.len > 0 ? bsearch(&key, catalog.entries, catalog.len, sizeof(key), by_name) : NULL;
	if (entry && plugin_load_file(catalog.plugins, entry->file, err) < 0)
		return NULL;
	fn = entry ? plugin_find(catalog.plugins, name) : NULL;
	if (!fn)
		error_set(err, DEFERRED_EPLUGIN, "plugin", "function not in this runner");
	return fn;
}
