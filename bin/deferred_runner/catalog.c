/* SPDX-License-Identifier: MIT */
#include "runner_process.h"

#include "base/clock.h"
#include "base/error.h"
#include "port/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define LOOK_NS NS_PER_S /* so often a runner with something to do looks whether plugins have changed */

/* Where a function is whose plugin is not loaded yet; sorted by name. */
struct entry {
	const char *name, *file;
};

static struct {
	struct plugin_set *plugins;
	struct entry *entries;
	size_t len, cap;
	uint64_t looked_ns;
} catalog;

static void *own(void *memory)
{
	if (!memory)
		_exit(EX_OSERR);
	return memory;
}

/* ---- reports to the parent -------------------------------------------------------------------- */

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
	send_frame(FRAME_LOADING, 0, &(struct frame_part){ file, strlen(file) + 1 }, 1);
	flush_frames(); /* it may be the last we say */
	return true;
}

static void on_refused(void *data, const char *file, const char *text)
{
	(void)data;
	send_texts(FRAME_REFUSED, 0, file, text);
}

static void send_function(enum frame_type type, const char *name, const char *plugin,
			  const struct frame_function *fixed)
{
	struct frame_part parts[] = {
		{ fixed, sizeof(*fixed) },
		{ name, strlen(name) + 1 },
		{ plugin, strlen(plugin) + 1 },
	};

	send_frame(type, 0, parts, 3);
}

static void on_function(void *data, const char *name, const struct plugin_function *fn)
{
	struct frame_function fixed = { fn->fn.timeout_ms, fn->fn.max_attempts, fn->fn.flags & ~FRAME_OF_PROGRAM,
					call_batch(fn, NULL), fn->fn.batch_wait_ms };
	const bool *entries = data;

	if (command_find(name))
		return; /* already reported as a clash */
	send_function(FRAME_FUNCTION, name, fn->plugin, &fixed);
	if (*entries)
		send_texts(FRAME_ENTRY, 0, name, fn->file);
}

static void on_clash(void *data, const char *name, const char *text)
{
	(void)data;
	send_function(FRAME_CLASH, name, text, &(struct frame_function){ 0 });
}

/* Describe the function in the text of a clash. */
static void name_command(const struct command *c, char text[static 96])
{
	char program[160];

	snprintf(text, 96, "a command of the config file");
	if (!c->program)
		return;
	program_describe(c->program, program, sizeof(program));
	snprintf(text, 96, "of program '%.*s'", (int)strcspn(program, " "), program);
}

/* Report a command or a function of a program. It is refused if others could have written it, or if its name is that of
 * another function. They are sorted. */
static void send_command(const struct command *c)
{
	const struct command *next = c + 1 < state.commands + state.commands_len ? c + 1 : NULL;
	struct frame_function fixed = { c->timeout_ms, c->max_attempts,
					(c->program ? FRAME_OF_PROGRAM : 0) |
						(c->progress_resets ? FRAME_PROGRESS_RESETS : 0),
					call_batch(NULL, c), c->batch_wait_ms };
	struct deferred_error err = { 0 };
	char text[512], what[96], other[96], program[160] = "command";

	name_command(c, what);
	if (c > state.commands && strcmp(c[-1].name, c->name) == 0)
		return; /* the clash was reported with the first of them */
	if (next && strcmp(next->name, c->name) == 0) {
		name_command(next, other);
		snprintf(text, sizeof(text), "function '%s' is both %s and %s", c->name, what, other);
		on_clash(NULL, c->name, text);
		return;
	}
	if (c->program)
		program_describe(c->program, program, sizeof(program));
	if (!c->program && trusted_check_program(c->argv[0], state.start.owner_uid, &err) < 0) {
		snprintf(text, sizeof(text), "function '%s': %.300s", c->name, err.message);
		on_clash(NULL, c->name, text);
	} else if (catalog.plugins && plugin_find(catalog.plugins, c->name)) {
		snprintf(text, sizeof(text), "function '%s' is both %s and in a plugin", c->name, what);
		on_clash(NULL, c->name, text);
	} else {
		send_function(FRAME_FUNCTION, c->name, program, &fixed);
	}
}

/* Load all; tell of the functions, and with `entries` of their files. */
static void load_all(bool entries)
{
	struct deferred_error err = { 0 };

	if (catalog.plugins && plugin_load_all(catalog.plugins, on_loading, on_refused, NULL, &err) < 0)
		send_fatal(&err);
	crash_note_modules();
	for (size_t i = 0; i < state.commands_len; i++)
		send_command(&state.commands[i]);
	if (catalog.plugins) {
		plugin_each(catalog.plugins, on_function, &entries);
		plugin_each_clash(catalog.plugins, on_clash, NULL);
	}
	send_frame(FRAME_READY, 0, NULL, 0);
	flush_frames();
}

/* ---- load when called ------------------------------------------------------------------------- */

static void __attribute__((noreturn)) survey(pid_t parent, const int pair[2])
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EX_OSERR); /* it died before that */
	keep_privileges();
	leave_board();
	process_forget_all();
	talk_to_runner(pair);
	load_all(true);
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

static void add_entry(const char *payload, size_t len)
{
	char *text = memcpy(own(malloc(len + 1)), payload, len + 1);
	size_t at = 0;
	const char *name = frame_text(text, len, &at), *file = frame_text(text, len, &at);

	if (!file)
		_exit(EX_OSERR);
	if (catalog.len == catalog.cap) {
		catalog.cap = catalog.cap ? 2 * catalog.cap : 64;
		catalog.entries = own(realloc(catalog.entries, catalog.cap * sizeof(*catalog.entries)));
	}
	catalog.entries[catalog.len++] = (struct entry){ name, file };
}

/* Pass on what the child finds, frame by frame. It ends with READY, which is ours to say. Returns false if that did not
 * come. */
static bool relay_survey(int fd)
{
	struct frame_buf in = { 0 };
	struct frame_head head = { 0 };
	char *payload;
	int rc;

	do {
		while ((rc = frame_take(&in, &head, &payload, FRAME_FROM_RUNNER_MAX)) == 1 &&
		       head.type != FRAME_READY) {
			struct frame_part part = { payload, head.len };

			if (head.type == FRAME_ENTRY)
				add_entry(payload, head.len);
			else if (head.type == FRAME_FUNCTION || head.type == FRAME_LOADING ||
				 head.type == FRAME_REFUSED || head.type == FRAME_CLASH || head.type == FRAME_FATAL)
				send_frame(head.type, head.slot, &part, 1);
			else
				rc = -1;
			if (rc < 0)
				break;
		}
		flush_frames();
	} while (rc == 0 && (rc = frame_fill(&in, fd, 0)) == 1);
	frame_buf_clear(&in);
	return rc == 1;
}

/*
 * Have a child load all plugins and tell what is in them. This process stays small: a fork of it with all the
 * libraries that plugins bring along takes twice as long (1,800 jobs/s instead of 3,600).
 */
static void load_apart(void)
{
	int pair[2], status = 0;
	pid_t self = getpid(), pid;
	bool whole;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || (pid = fork()) < 0)
		_exit(EX_OSERR);
	if (pid == 0)
		survey(self, pair);
	close(pair[1]);
	whole = relay_survey(pair[0]);
	close(pair[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0 || !whole)
		fail_as(status);
	send_frame(FRAME_READY, 0, NULL, 0);
	flush_frames();
}

void catalog_load(const char *dir)
{
	struct deferred_error err = { 0 };

	if (dir && *dir && plugin_open_dir(&catalog.plugins, dir, state.start.owner_uid, on_refused, NULL, &err) < 0)
		send_fatal(&err);
	if (catalog.plugins && state.below_tool && plugin_set_in_place(catalog.plugins, &err) < 0)
		send_fatal(&err);
	programs_start();
	commands_sort();
	if (state.start.isolate_job)
		load_apart();
	else
		load_all(false);
}

static void on_changed(void *data, const char *file, bool gone)
{
	(void)data;
	send_frame(FRAME_CHANGED, gone, &(struct frame_part){ file, strlen(file) + 1 }, 1);
	flush_frames(); /* a process forked for a call must not find it, and send it again as its own */
}

void catalog_look(uint64_t now_ns)
{
	if (!catalog.plugins || now_ns < catalog.looked_ns + LOOK_NS)
		return;
	catalog.looked_ns = now_ns;
	plugin_each_changed(catalog.plugins, on_changed, NULL);
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
	if (entry)
		crash_note_modules();
	fn = entry ? plugin_find(catalog.plugins, name) : NULL;
	if (!fn)
		error_set(err, DEFERRED_EPLUGIN, "plugin",
			  "the runner does not have this function\nreload check_deferred with SIGHUP");
	return fn;
}
