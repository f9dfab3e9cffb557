/* SPDX-License-Identifier: MIT */
#include "run/inbox.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FUNCTIONS_BYTES_MAX (4u << 20) /* of all names and plugins that a runner reports */
#define BUFFER_KEPT (1u << 20)         /* a larger buffer, which a large frame needed, is freed */
#define CHANGES_MAX 1000               /* a runner that reports more changed plugins is hostile */

static int inbox_add_function(struct inbox *inbox, bool clash, const char *payload, size_t len)
{
	struct frame_function fixed;
	struct runner_function *bigger, *f;
	int32_t batch, wait_ms;
	size_t at = sizeof(fixed);
	const char *name, *plugin;

	if (len < sizeof(fixed))
		return -1;
	memcpy(&fixed, payload, sizeof(fixed));
	name = frame_text(payload, len, &at);
	plugin = name ? frame_text(payload, len, &at) : NULL;
	inbox->functions_bytes += len + sizeof(*f);
	if (!plugin || inbox->functions_bytes > FUNCTIONS_BYTES_MAX)
		return -1;
	bigger = realloc(inbox->functions, (inbox->functions_len + 1) * sizeof(*bigger));
	if (!bigger)
		return -1;
	inbox->functions = bigger;
	batch = fixed.batch < 1 ? 1 : fixed.batch > DEFERRED_BATCH_MAX ? DEFERRED_BATCH_MAX : fixed.batch;
	wait_ms = fixed.batch_wait_ms < 0 || batch == 1              ? 0
		  : fixed.batch_wait_ms > DEFERRED_BATCH_WAIT_MAX_MS ? DEFERRED_BATCH_WAIT_MAX_MS
								     : fixed.batch_wait_ms;
	f = &bigger[inbox->functions_len++];
	*f = (struct runner_function){ .name = strdup(name),
				       .plugin = strdup(plugin),
				       .clash = clash,
				       .timeout_ms = fixed.timeout_ms,
				       .max_attempts = clash ? -1 : fixed.max_attempts,
				       .flags = fixed.flags,
				       .batch = (size_t)batch,
				       .batch_wait_ms = wait_ms };
	return f->name && f->plugin ? 0 : -1;
}

static void inbox_log_text(const struct job *job, const char *payload, size_t len)
{
	char *text = NULL;
	int32_t level;

	if (len < sizeof(level))
		return;
	memcpy(&level, payload, sizeof(level));
	if (level < LOG_L_ERROR || level > LOG_L_DEBUG)
		level = LOG_L_INFO;
	attempt_set_text(&text, &len, payload + sizeof(level), len - sizeof(level));
	log_job((enum log_level)level, job, "job %lld %s: %s", (long long)job->id, job->fn, text ? text : "");
	free(text);
}

/* Each runner loads, and copies, its plugins for itself. */
static int log_changed(struct inbox *inbox, pid_t pid, const struct frame_head *head, const char *payload)
{
	if (++inbox->changes > CHANGES_MAX)
		return -1;
	log_line(LOG_L_WARNING,
		 "plugin '%s' %s: runner %d goes on with what it has loaded, until the next start or SIGHUP", payload,
		 head->slot ? "is gone" : "has changed", (int)pid);
	return 0;
}

static int note_loading(struct inbox *inbox, const char *file)
{
	free(inbox->loading);
	inbox->loading = strdup(file);
	return inbox->loading ? 0 : -1;
}

/* One plugin, or all of them, cannot be used. */
static int refuse_plugin(const struct frame_head *head, const char *payload, struct deferred_error *err)
{
	size_t at = 0;
	const char *a = frame_text(payload, head->len, &at), *b = a ? frame_text(payload, head->len, &at) : NULL;
	int code = head->slot ? DEFERRED_ECONFIG : DEFERRED_EPLUGIN;

	if (!b)
		return -1;
	if (head->type == FRAME_REFUSED && head->slot) {
		/* The lines after the first are the output of the program, which the log has too, at level info. */
		log_line(LOG_L_WARNING, "functions of program '%s' are not offered: %.*s", a,
			 (int)(log_enabled(LOG_L_INFO) ? strcspn(b, "\n") : strlen(b)), b);
		return 0;
	}
	if (head->type == FRAME_REFUSED) {
		log_line(LOG_L_WARNING, "plugin '%s' not loaded: %s", a, b);
		return 0;
	}
	error_set(err, code, "plugin", "%s", a);
	error_hint(err, "%s", b);
	return code;
}

/* A frame about this call. */
static int take_call_frame(struct call *c, const struct frame_head *head, const char *payload)
{
	switch (head->type) {
	case FRAME_RESULT:
		attempt_set_text(&c->result, &c->result_len, payload, head->len);
		return 0;
	case FRAME_ERROR:
		attempt_set_text(&c->error, &c->error_len, payload, head->len);
		return 0;
	case FRAME_LOG:
		inbox_log_text(c->job, payload, head->len);
		return 0;
	case FRAME_FOLLOW:
		return asks_add_call(&c->asks, payload, head->len);
	case FRAME_REMOVE_AFTER:
		return asks_add_path(&c->asks, payload, head->len);
	}
	return -1;
}

/* Returns 0, -1 for nonsense, or DEFERRED_EPLUGIN or DEFERRED_ECONFIG with err. */
static int inbox_take_frame(struct inbox *inbox, pid_t pid, struct calls *calls, const struct frame_head *head,
			    const char *payload, struct deferred_error *err)
{
	if (head->type == FRAME_CHANGED)
		return log_changed(inbox, pid, head, payload);
	if (head->type == FRAME_BELL)
		return 0;
	switch (inbox->ready ? 0 : head->type) { /* a runner that is ready has no news of these */
	case FRAME_FUNCTION:
	case FRAME_CLASH:
		return inbox_add_function(inbox, head->type == FRAME_CLASH, payload, head->len);
	case FRAME_LOADING:
		return note_loading(inbox, payload);
	case FRAME_REFUSED:
	case FRAME_FATAL:
		return refuse_plugin(head, payload, err);
	case FRAME_READY:
		inbox->ready = true;
		return 0;
	}
	if (head->slot >= BOARD_SLOTS || !calls->call[head->slot].job)
		return -1;
	if (head->type == FRAME_STEP)
		return calls_add_step(calls, head->slot, payload, head->len);
	return take_call_frame(&calls->call[head->slot], head, payload);
}

/* Returns 0, or as inbox_take_frame(). */
static int inbox_take_frames(struct inbox *inbox, pid_t pid, struct calls *calls, struct deferred_error *err)
{
	struct frame_head head;
	char *payload;
	int rc;

	while ((rc = frame_take(&inbox->in, &head, &payload, FRAME_FROM_RUNNER_MAX)) == 1) {
		rc = inbox_take_frame(inbox, pid, calls, &head, payload, err);
		if (rc < 0)
			return rc;
		inbox->bytes_received += sizeof(head) + head.len;
	}
	return rc;
}

int inbox_read(struct inbox *inbox, struct child *child, struct calls *calls, struct deferred_error *err)
{
	uint64_t began_ns = clock_ns();
	int rc;

	inbox->drained = false;
	if (inbox->paused && !child->reaped)
		return 0;
	for (int reads = 0; child->socket >= 0 && !inbox->broken; reads++) {
		if (!child_may_read(child, reads, began_ns))
			return 0;
		rc = frame_fill(&inbox->in, child->socket, MSG_DONTWAIT);
		if (rc < 0)
			break;
		if (rc == 0) {
			child_close_socket(child);
			break;
		}
		rc = inbox_take_frames(inbox, child->pid, calls, err);
		if (rc == DEFERRED_EPLUGIN || rc == DEFERRED_ECONFIG)
			return rc;
		if (rc < 0) {
			inbox->broken = true;
			child_close_socket(child);
		}
	}
	inbox->drained = true;
	if (inbox->in.at == inbox->in.len && inbox->in.cap > BUFFER_KEPT)
		frame_buf_clear(&inbox->in);
	if (inbox->broken)
		return error_set(err, DEFERRED_EFAILED, "runner",
				 "runner %d wrote to its socket what it must not\nfind the function that does so",
				 (int)child->pid);
	return 0;
}

bool inbox_is_torn(const struct inbox *inbox, const struct child *child)
{
	return !child->reaped && child->socket >= 0 && !inbox->paused && inbox->in.at < inbox->in.len;
}

struct runner_function *inbox_take_functions(struct inbox *inbox, size_t *len)
{
	struct runner_function *list = inbox->functions;

	*len = inbox->functions_len;
	inbox->functions = NULL;
	inbox->functions_len = 0;
	return list;
}

void inbox_clear(struct inbox *inbox)
{
	runner_functions_free(inbox->functions, inbox->functions_len);
	frame_buf_clear(&inbox->in);
	free(inbox->loading);
}
