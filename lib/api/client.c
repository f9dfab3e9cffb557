/* SPDX-License-Identifier: MIT */
/*
 * The public functions of deferred.h that store, cancel and await jobs.
 *
 * Arguments are checked here, before anything is sent; what only the database can know is refused by it.
 * A statement that was refused as a whole (deadlock, standby, statement unknown behind a pooler) is sent
 * again on a context's own connection; one whose outcome is unknown never is.
 */
#include "api/client.h"

#include "port/config.h"
#include "base/job.h"
#include "base/text/plural.h"
#include "base/shard_route.h"
#include "base/span.h"
#include "store/migrate.h"
#include "port/params.h"
#include "port/pg.h"
#include "store/client.h"
#include "store/flow.h"
#include "base/traceparent.h"
#include "base/text/utf8.h"

#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* A text has at most that many characters. */
#define LABEL_MAX_CHARS 1000
#define KEY_MAX_CHARS 1000
#define CONCURRENCY_MAX 10000
#define TAG_MAX_CHARS 100
#define TAGS_MAX 32
#define AFTER_MAX 1000
#define AS_MAX_CHARS 100
#define LIMIT_MAX_MS 86400000
#define LEASE_MAX_MS (INT64_C(7) * 86400 * 1000)

/* How often a statement that was refused as a whole is sent. */
#define TRIES 3

/* deferred_wait() asks at intervals that double from one to the other. */
#define WAIT_FLOOR_MS 5
#define WAIT_CEILING_MS 500

/* Who does not want to wait, waits so long for the answer. */
#define ASK_MS 1000

struct deferred {
	struct pg *pg; /* NULL: lost, to be opened again */
	char *conninfo;
	int64_t params_max_bytes;
	int answer_ms, lock_ms; /* 0: for ever */
	enum { COPY_UNKNOWN, COPY_NO, COPY_YES } may_copy;
	pid_t pid;                  /* process that opened it */
	struct deferred *inherited; /* context of a parent process; its connection is not ours to close */
};

/* ---- arguments -------------------------------------------------------------------------------- */

static bool is_alpha(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool fn_valid(const char *s)
{
	size_t len = 1;

	if (!is_alpha(s[0]))
		return false;
	while (is_alpha(s[len]) || is_digit(s[len]) || s[len] == '.')
		len++;
	return s[len] == '\0' && len <= 127;
}

static bool queue_valid(const char *s)
{
	size_t len = 1;

	if (!is_alpha(s[0]) && !is_digit(s[0]))
		return false;
	while (is_alpha(s[len]) || is_digit(s[len]) || s[len] == '.' || s[len] == '-')
		len++;
	return s[len] == '\0' && len <= 88;
}

static size_t utf8_chars(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

/* max_chars 0: no limit of ours. */
static int text_check(const char *name, const char *s, size_t max_chars, struct deferred_error *err)
{
	if (!s)
		return 0;
	if (utf8_prefix(s, strlen(s)) != strlen(s))
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option '%s' is not valid UTF-8\nconvert the text to UTF-8", name);
	if (max_chars && utf8_chars(s) > max_chars)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option '%s' has %zu characters, more than %zu\nshorten the text", name, utf8_chars(s),
				 max_chars);
	return 0;
}

static int span_check(const char *name, int64_t ms, struct deferred_error *err)
{
	if (ms >= 0 && ms <= SPAN_MAX_MS)
		return 0;
	return error_set(err, DEFERRED_EINVAL, "opts",
			 "option '%s' is out of range: %lld ms\nuse 0 to 3155760000000 ms, a hundred years", name,
			 (long long)ms);
}

static int concurrency_check(const struct deferred_opts *o, struct deferred_error *err)
{
	if (text_check("concurrency_key", o->concurrency_key, KEY_MAX_CHARS, err) < 0)
		return DEFERRED_EINVAL;
	if (o->concurrency_key && !*o->concurrency_key)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'concurrency_key' is empty\nuse 1 to 1000 characters, or NULL");
	if (o->concurrency < 0 || o->concurrency > CONCURRENCY_MAX)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'concurrency' is out of range: %d\nuse 1 to 10000", o->concurrency);
	if (o->concurrency && !o->concurrency_key)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'concurrency' is %d, but 'concurrency_key' is missing\nset both",
				 o->concurrency);
	return 0;
}

static int tags_check(const char *const *tags, struct deferred_error *err)
{
	for (size_t i = 0; tags && tags[i]; i++) {
		if (i == TAGS_MAX)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "option 'tags' has more than %d tags, the first is '%.100s'\nuse fewer tags",
					 TAGS_MAX, tags[0]);
		if (!*tags[i])
			return error_set(err, DEFERRED_EINVAL, "opts", "tags[%zu] is empty\nuse 1 to 100 characters",
					 i);
		if (utf8_prefix(tags[i], strlen(tags[i])) != strlen(tags[i]))
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "tags[%zu] is not valid UTF-8\nconvert the text to UTF-8", i);
		if (utf8_chars(tags[i]) > TAG_MAX_CHARS)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "tags[%zu] has %zu characters, more than %d: '%.100s'\nshorten the tag", i,
					 utf8_chars(tags[i]), TAG_MAX_CHARS, tags[i]);
	}
	return 0;
}

static int after_check(const struct deferred_opts *o, struct deferred_error *err)
{
	if (o->after_len > 0 && !o->after)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'after' is NULL, but after_len is %zu\npass the jobs, or set after_len to 0",
				 o->after_len);
	if (o->after_len > AFTER_MAX)
		return error_set(
			err, DEFERRED_EINVAL, "opts",
			"option 'after' names %zu jobs, more than %d\nput a job between that waits for some of them",
			o->after_len, AFTER_MAX);
	for (size_t i = 0; i < o->after_len; i++) {
		const struct deferred_after *a = &o->after[i];

		if (a->job < 1)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "after[%zu]: %lld is not the id of a job\nan id is 1 or more", i,
					 (long long)a->job);
		if ((unsigned int)a->on > DEFERRED_AFTER_ENDED)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "after[%zu]: condition %d is unknown\nuse a value of enum deferred_after_on",
					 i, (int)a->on);
		if (text_check("after", a->as, AS_MAX_CHARS, err) < 0)
			return DEFERRED_EINVAL;
		if (a->as && !*a->as)
			return error_set(err, DEFERRED_EINVAL, "opts",
					 "after[%zu]: the name is empty\nuse 1 to 100 characters, or NULL", i);
	}
	return 0;
}

static int traceparent_check(const char *s, struct deferred_error *err)
{
	if (!s || traceparent_valid(s))
		return 0;
	error_set(err, DEFERRED_EINVAL, "opts", "option 'traceparent' has the invalid value '%.200s'", s);
	error_hint(err, "use the form of W3C Trace Context in lower case: %s; neither id is all zeros",
		   TRACEPARENT_FORM);
	return DEFERRED_EINVAL;
}

static int opts_check(const struct deferred_opts *o, struct deferred_error *err)
{
	if (o->queue && !queue_valid(o->queue))
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "queue name '%.200s' is invalid\n"
				 "a name has 1 to 88 letters, digits, '_', '.' and '-', and begins with a letter, "
				 "a digit or '_'",
				 o->queue);
	if (text_check("label", o->label, LABEL_MAX_CHARS, err) < 0 ||
	    text_check("key", o->key, KEY_MAX_CHARS, err) < 0 || text_check("run_at", o->run_at, 0, err) < 0 ||
	    text_check("expires_at", o->expires_at, 0, err) < 0)
		return DEFERRED_EINVAL;
	if (o->key && !*o->key)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'key' is empty\nuse 1 to 1000 characters, or NULL");
	if (o->priority < INT16_MIN || o->priority > INT16_MAX)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'priority' is out of range: %d\nuse -32768 to 32767; jobs with a larger "
				 "priority run earlier",
				 o->priority);
	if (span_check("delay_ms", o->delay_ms, err) < 0 || span_check("expires_ms", o->expires_ms, err) < 0 ||
	    span_check("timeout_ms", o->timeout_ms, err) < 0 ||
	    span_check("backoff_floor_ms", o->backoff_floor_ms, err) < 0 ||
	    span_check("backoff_ceiling_ms", o->backoff_ceiling_ms, err) < 0)
		return DEFERRED_EINVAL;
	if (o->flow < 0)
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'flow' is not the number of a flow: %lld\nan id is 1 or more",
				 (long long)o->flow);
	if (o->max_attempts < 0)
		return error_set(
			err, DEFERRED_EINVAL, "opts",
			"option 'max_attempts' is out of range: %d\nuse a number from 1 on, or 0 for the setting",
			o->max_attempts);
	if (o->backoff_exponent != 0 && !(o->backoff_exponent >= 1 && o->backoff_exponent <= 100))
		return error_set(err, DEFERRED_EINVAL, "opts",
				 "option 'backoff_exponent' is out of range: %g\nuse 1 to 100", o->backoff_exponent);
	if (concurrency_check(o, err) < 0 || tags_check(o->tags, err) < 0 || after_check(o, err) < 0 ||
	    traceparent_check(o->traceparent, err) < 0)
		return DEFERRED_EINVAL;
	if ((unsigned int)o->on_duplicate > DEFERRED_DUPLICATE_REPLACE)
		return error_set(
			err, DEFERRED_EINVAL, "opts",
			"option 'on_duplicate' has the invalid value %d\nuse a value of enum deferred_on_duplicate",
			(int)o->on_duplicate);
	for (size_t i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
		if (o->reserved[i])
			return error_set(
				err, DEFERRED_EINVAL, "opts",
				"reserved[%zu] is not zero: the options were not initialised\nbegin with { 0 }", i);
	return 0;
}

int client_check(const struct deferred_call_spec *call, int64_t params_max_bytes, struct deferred_error *err)
{
	const char *name = call->fn ? call->fn : "message";
	size_t len;
	int rc;

	/* Without a function it is a message, and has to say for which queue. */
	if (call->fn ? !fn_valid(call->fn) : !call->opts || !call->opts->queue) {
		if (call->fn)
			return error_set(err, DEFERRED_EINVAL, "fn",
					 "function name '%.200s' is invalid\n" JOB_FUNCTION_NAMES, call->fn);
		return error_set(err, DEFERRED_EINVAL, "fn",
				 "the function is missing\n"
				 "name a function; only a message has none, and needs a queue: set opts.queue");
	}
	if (call->opts && opts_check(call->opts, err) < 0) {
		error_prefix(err, "%s", name);
		return DEFERRED_EINVAL;
	}
	if (!call->params)
		return 0;
	len = strlen(call->params);
	if (params_max_bytes && len > (uint64_t)params_max_bytes) {
		error_set(err, DEFERRED_EINVAL, "params",
			  "params of function '%s' have %zu bytes, more than params_max_bytes (%lld)", name, len,
			  (long long)params_max_bytes);
		error_hint(err, "store the data elsewhere and pass a reference, or raise the setting");
		return DEFERRED_EINVAL;
	}
	rc = params_check(call->params, len, err);
	if (rc < 0)
		error_prefix(err, "params of function '%s'", name);
	return rc;
}

static int calls_check(const struct deferred_call_spec *calls, size_t n, int64_t params_max_bytes,
		       struct deferred_error *err)
{
	if (!calls && n > 0)
		return error_set(err, DEFERRED_EINVAL, "calls", "calls is NULL\npass an array of calls");
	for (size_t i = 0; i < n; i++) {
		int rc = client_check(&calls[i], params_max_bytes, err);

		if (rc < 0) {
			error_prefix(err, "call %zu", i);
			return rc;
		}
	}
	return 0;
}

/* ---- what went wrong -------------------------------------------------------------------------- */

static int no_context(const char *where, struct deferred_error *err)
{
	return error_set(err, DEFERRED_EINVAL, where, "the context is missing\nopen a context with deferred_open()");
}

/* The server's words do not tell which role has the right. */
static void explain_denied(const struct pg *pg, const char *role, struct deferred_error *err)
{
	if (pg && err && strcmp(err->sqlstate, "42501") == 0 && pg_denied(pg))
		error_hint(err, "grant %s to \"%s\"", role, pg_user(pg));
}

/* A failed transaction refuses everything; the server's words name no way out. */
static void explain_aborted(struct deferred_error *err)
{
	if (err && strcmp(err->sqlstate, "25P02") == 0)
		error_hint(
			err,
			"an earlier statement of this transaction failed; roll the transaction back, then defer again");
}

/* What can be said about the failure of a statement, on a context's connection or the caller's. */
static void explain(const struct pg *pg, struct deferred_error *err)
{
	explain_denied(pg, "deferred_producer", err);
	explain_aborted(err);
}

/* The time was up. What could not be told is told already. */
static int explain_late(int rc, struct deferred_error *err)
{
	if (rc == DEFERRED_ETIMEOUT)
		error_prefix(err, "not stored");
	return rc;
}

/* ---- connection of a context ------------------------------------------------------------------ */

static int context_connect(struct deferred *d, struct deferred_error *err)
{
	int rc = pg_open(&d->pg, d->conninfo, "libdeferred", err);

	if (rc == 0) {
		pg_set_limits(d->pg, d->answer_ms, d->lock_ms);
		rc = pg_pin(d->pg, err);
	}
	if (rc == 0)
		rc = migrate_check(d->pg, err);
	if (rc < 0) {
		explain(d->pg, err);
		pg_close(d->pg);
		d->pg = NULL;
	}
	return rc;
}

/*
 * On an idle session nothing comes but the server's last words, then the end; libpq would learn of either only by
 * sending. (A changed server setting is announced too: opening anew does no harm then.)
 */
static bool hung_up(const struct pg *pg)
{
	struct pollfd p = { .fd = pg_fd(pg), .events = POLLIN | POLLRDHUP };

	return pg_broken(pg) || poll(&p, 1, 0) > 0;
}

static int context_ready(struct deferred *d, struct deferred_error *err)
{
	if (d->pg && !hung_up(d->pg))
		return 0;
	pg_close(d->pg);
	d->pg = NULL;
	return context_connect(d, err);
}

/* Prepare to send again what the server refused as a whole. False: it would be refused again. */
static bool refused_for_now(struct deferred *d, const char *sqlstate)
{
	switch (error_class(sqlstate)) {
	case ERROR_PREPARED:
		pg_set_unnamed(d->pg);
		return true;
	case ERROR_READ_ONLY:
		pg_close(d->pg);
		d->pg = NULL;
		return true;
	case ERROR_TRANSIENT:
		return strncmp(sqlstate, "40", 2) == 0;
	default:
		return false;
	}
}

typedef int operation_fn(struct deferred *d, void *arg, struct deferred_error *err);

/* Do one operation on the connection of the context, which is opened again where it was lost before. */
static int on_context(struct deferred *d, operation_fn *operation, void *arg, struct deferred_error *err)
{
	struct deferred_error why;
	int rc;

	for (int try = 1;; try++) {
		error_clear(&why);
		rc = context_ready(d, &why);
		if (rc == 0)
			rc = operation(d, arg, &why);
		explain(d->pg, &why);
		if (rc != DEFERRED_EDB || try == TRIES || !refused_for_now(d, why.sqlstate))
			break;
	}
	if (rc < 0 && err)
		*err = why;
	return rc;
}

static int open_opts_check(const struct deferred_open_opts *o, struct deferred_error *err)
{
	for (size_t i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
		if (o->reserved[i])
			return error_set(
				err, DEFERRED_EINVAL, "open",
				"reserved[%zu] is not zero: the options were not initialised\nbegin with { 0 }", i);
	return 0;
}

/* An option in place of the setting. */
static int limit_of(int64_t option, const struct config *config, const char *setting)
{
	int64_t ms = option ? option : config_int(config, setting);

	return ms < 0 ? 0 : ms > LIMIT_MAX_MS ? LIMIT_MAX_MS : (int)ms;
}

static int use_shard(struct config *config, const char *conninfo, const char *shard, struct deferred_error *err)
{
	if (conninfo)
		return error_set(err, DEFERRED_EINVAL, "open",
				 "conninfo and shard '%.64s' are both given\ngive one of them", shard);
	if (config_override(config, "database.shard", shard, "shard", err) < 0)
		return err ? err->code : DEFERRED_ECONFIG;
	return config_use_shard(config, err);
}

static int context_new(struct deferred **out, const char *conninfo, const struct deferred_open_opts *opts,
		       struct deferred_error *err)
{
	static const struct deferred_open_opts none = { 0 };
	struct deferred *d = calloc(1, sizeof(*d));
	struct config *config = NULL;
	int rc = 0;

	opts = opts ? opts : &none;

	if (!d)
		return error_set(err, DEFERRED_ENOMEM, "open", "out of memory");
	rc = open_opts_check(opts, err);
	if (rc == 0)
		rc = config_load(&config, NULL, err);
	if (rc < 0)
		goto out;
	if (opts->shard)
		rc = use_shard(config, conninfo, opts->shard, err);
	if (rc == 0 && !conninfo && config_by_shards(config)) {
		rc = error_set(err, DEFERRED_ECONFIG, "open",
			       "the shard is missing: the config file has several databases");
		error_hint(err, "find a shard with deferred_shard_for(), or set DEFERRED_SHARD or database.shard");
	}
	if (rc < 0)
		goto out;
	if (!conninfo)
		conninfo = config_text(config, "database.conninfo");
	d->conninfo = strdup(conninfo ? conninfo : "");
	d->params_max_bytes = config_int(config, "params_max_bytes");
	d->answer_ms = limit_of(opts->answer_ms, config, "database.answer_timeout");
	d->lock_ms = limit_of(opts->lock_ms, config, "database.lock_timeout");
	d->pid = getpid();
	rc = d->conninfo ? context_connect(d, err) : error_set(err, DEFERRED_ENOMEM, "open", "out of memory");
out:
	config_free(config);
	if (rc < 0)
		deferred_close(d);
	else
		*out = d;
	return rc;
}

/* Any of them; where the kernel has no random number, which it has, the first. */
static size_t any_of(size_t n)
{
	uint64_t number = 0;

	return getrandom(&number, sizeof(number), GRND_NONBLOCK) == sizeof(number) ? (size_t)(number % n) : 0;
}

static int choose_shard(const struct config *config, const char *route, char *name, size_t size,
			struct deferred_error *err)
{
	size_t len, n = 0, best;
	const struct config_shard *shards = config_shards(config, &len);
	const char **names = calloc(len + 1, sizeof(*names));

	if (!names)
		return error_set(err, DEFERRED_ENOMEM, "shard", "out of memory");
	for (size_t i = 0; i < len; i++)
		if (shards[i].accepting)
			names[n++] = shards[i].name;
	best = n == 0 ? 0 : route ? shard_route_for(names, n, route) : any_of(n);
	if (n > 0 && strlen(names[best]) < size)
		strcpy(name, names[best]);
	free(names);
	if (n == 0)
		return error_set(err, DEFERRED_ENOTFOUND, "shard",
				 len > 0 ? "no shard accepts jobs\nset accepting = 1 for a shard in the config file"
					 : "the config file has no shards\nadd a section shard \"NAME\" to it");
	return name[0] ? 0
		       : error_set(err, DEFERRED_EINVAL, "shard",
				   "the name of the shard has more than %zu bytes\nuse a larger buffer", size);
}

int deferred_shard_for(const char *route, char *name, size_t size, struct deferred_error *err)
{
	struct config *config = NULL;
	int rc;

	error_clear(err);
	if (!name || size == 0)
		return error_set(err, DEFERRED_EINVAL, "shard", "the buffer for the name is missing\npass a buffer");
	name[0] = '\0';
	rc = config_load(&config, NULL, err);
	if (rc == 0)
		rc = choose_shard(config, route, name, size, err);
	config_free(config);
	return rc;
}

int deferred_open_with(struct deferred **d, const char *conninfo, const struct deferred_open_opts *opts,
		       struct deferred_error *err)
{
	error_clear(err);
	if (!d)
		return error_set(err, DEFERRED_EINVAL, "open", "the pointer for the context is NULL\npass an address");
	*d = NULL;
	return context_new(d, conninfo, opts, err);
}

int deferred_open(struct deferred **d, const char *conninfo, struct deferred_error *err)
{
	return deferred_open_with(d, conninfo, NULL, err);
}

void deferred_close(struct deferred *d)
{
	if (!d)
		return;
	pg_close(d->pg);
	free(d->conninfo);
	free(d);
}

/* ---- one call --------------------------------------------------------------------------------- */

struct one {
	struct deferred_call_spec call;
	int64_t *id;
};

static int defer_one(struct deferred *d, void *arg, struct deferred_error *err)
{
	const struct one *one = arg;

	return store_enqueue(d->pg, &one->call, one->id, err);
}

int deferred_defer(struct deferred *d, const char *fn, const char *params, const struct deferred_opts *opts,
		   int64_t *id, struct deferred_error *err)
{
	struct one one = { .call = { .fn = fn, .params = params, .opts = opts }, .id = id };
	int rc;

	error_clear(err);
	if (!d)
		return no_context("defer", err);
	rc = client_check(&one.call, d->params_max_bytes, err);
	return rc < 0 ? rc : explain_late(on_context(d, defer_one, &one, err), err);
}

int deferred_defer_conn(struct pg_conn *conn, const char *fn, const char *params, const struct deferred_opts *opts,
			int64_t *id, struct deferred_error *err)
{
	struct deferred_call_spec call = { .fn = fn, .params = params, .opts = opts };
	struct pg *pg = NULL;
	int rc;

	error_clear(err);
	rc = client_check(&call, 0, err);
	if (rc == 0)
		rc = pg_borrow(&pg, conn, err);
	if (rc == 0)
		rc = store_enqueue(pg, &call, id, err);
	explain(pg, err);
	pg_close(pg);
	return rc;
}

/* ---- a flow ----------------------------------------------------------------------------------- */

struct flow {
	int (*store)(struct pg *pg, const char *flow, int64_t *id, struct deferred_error *err);
	const char *flow;
	int64_t *id;
};

static int flow_check(const char *flow, struct deferred_error *err)
{
	int rc = flow ? params_check(flow, strlen(flow), err)
		      : error_set(err, DEFERRED_EINVAL, "flow", "the flow is missing\npass JSON text");

	if (rc < 0 && flow)
		error_prefix(err, "flow");
	return rc;
}

static int make_flow(struct deferred *d, void *arg, struct deferred_error *err)
{
	const struct flow *f = arg;

	return f->store(d->pg, f->flow, f->id, err);
}

static int flow_on_context(struct deferred *d, struct flow f, const char *what, struct deferred_error *err)
{
	int rc;

	error_clear(err);
	if (!d)
		return no_context(what, err);
	rc = flow_check(f.flow, err);
	return rc < 0 ? rc : explain_late(on_context(d, make_flow, &f, err), err);
}

static int flow_on_connection(struct pg_conn *conn, struct flow f, struct deferred_error *err)
{
	struct pg *pg = NULL;
	int rc;

	error_clear(err);
	rc = flow_check(f.flow, err);
	if (rc == 0)
		rc = pg_borrow(&pg, conn, err);
	if (rc == 0)
		rc = f.store(pg, f.flow, f.id, err);
	explain(pg, err);
	pg_close(pg);
	return rc;
}

int deferred_defer_flow(struct deferred *d, const char *flow, int64_t *id, struct deferred_error *err)
{
	return flow_on_context(d, (struct flow){ store_flow_add, flow, id }, "defer_flow", err);
}

int deferred_defer_flow_conn(struct pg_conn *conn, const char *flow, int64_t *id, struct deferred_error *err)
{
	return flow_on_connection(conn, (struct flow){ store_flow_add, flow, id }, err);
}

int deferred_flow_open(struct deferred *d, const char *flow, int64_t *id, struct deferred_error *err)
{
	return flow_on_context(d, (struct flow){ store_flow_open, flow, id }, "flow_open", err);
}

int deferred_flow_open_conn(struct pg_conn *conn, const char *flow, int64_t *id, struct deferred_error *err)
{
	return flow_on_connection(conn, (struct flow){ store_flow_open, flow, id }, err);
}

static int close_flow(struct deferred *d, void *arg, struct deferred_error *err)
{
	bool closed;

	return store_flow_close(d->pg, *(const int64_t *)arg, &closed, err);
}

int deferred_flow_close(struct deferred *d, int64_t id, struct deferred_error *err)
{
	error_clear(err);
	if (!d)
		return no_context("flow_close", err);
	return explain_late(on_context(d, close_flow, &id, err), err);
}

int deferred_flow_close_conn(struct pg_conn *conn, int64_t id, struct deferred_error *err)
{
	struct pg *pg = NULL;
	bool closed;
	int rc;

	error_clear(err);
	rc = pg_borrow(&pg, conn, err);
	if (rc == 0)
		rc = store_flow_close(pg, id, &closed, err);
	explain(pg, err);
	pg_close(pg);
	return rc;
}

/* ---- many calls ------------------------------------------------------------------------------- */

/* How many of the calls go into the next statement: bounded in number and, but for the last of them, in bytes, and all
 * of one flow or of none. One that waits for jobs goes alone. */
static size_t statement_size(const struct deferred_call_spec *calls, size_t n)
{
	size_t bytes = 0, i;

	for (i = 0; i < n && i < STORE_MANY_MAX && bytes < STORE_MANY_BYTES && !store_waits(&calls[i]) &&
		    store_flow_of(&calls[i]) == store_flow_of(calls);
	     i++)
		bytes += calls[i].params ? strlen(calls[i].params) : 2;
	return i > 0 ? i : 1;
}

static int many_by_statements(struct pg *pg, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
			      struct deferred_error *err)
{
	int rc = 0;

	for (size_t i = 0, len; i < n && rc == 0; i += len) {
		len = statement_size(calls + i, n - i);
		rc = store_waits(calls + i) ? store_enqueue(pg, calls + i, ids ? ids + i : NULL, err)
					    : store_enqueue_many(pg, calls + i, len, ids ? ids + i : NULL, err);
		if (rc == DEFERRED_EDB && len < n)
			error_prefix(err, "calls %zu to %zu", i, i + len - 1);
	}
	return rc;
}

static int many_by_copy(struct pg *pg, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
			struct deferred_error *err)
{
	bool limited = false;
	int rc = 0;

	for (size_t i = 0, len; i < n && rc == 0 && !limited; i += len) {
		len = n - i < STORE_COPY_MAX ? n - i : STORE_COPY_MAX;
		rc = store_enqueue_copy(pg, calls + i, len, i, ids ? ids + i : NULL, &limited, err);
		if (limited)
			rc = many_by_statements(pg, calls + i, n - i, ids ? ids + i : NULL, err);
	}
	return rc;
}

static bool copy_takes_all(const struct deferred_call_spec *calls, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!store_copy_takes(&calls[i]))
			return false;
	return true;
}

/* by_copy: NULL asks the server whether the role may. */
static int many(struct pg *pg, const struct deferred_call_spec *calls, size_t n, int64_t *ids, const bool *by_copy,
		struct deferred_error *err)
{
	bool copy = false, own_transaction = !pg_in_transaction(pg);
	int rc = 0;

	if (n == 0 || (n <= STORE_MANY_MAX && statement_size(calls, n) == n && !store_waits(calls)))
		return store_enqueue_many(pg, calls, n, ids, err);
	if (n > STORE_MANY_MAX && copy_takes_all(calls, n)) {
		if (by_copy)
			copy = *by_copy;
		else
			rc = store_enqueue_may_copy(pg, &copy, err);
	}
	if (rc == 0 && own_transaction)
		rc = pg_begin(pg, "", err);
	if (rc < 0)
		return rc;
	rc = copy ? many_by_copy(pg, calls, n, ids, err) : many_by_statements(pg, calls, n, ids, err);
	if (!own_transaction)
		return rc;
	if (rc == 0)
		return pg_command(pg, "commit", err);
	pg_command(pg, "rollback", NULL);
	return rc;
}

struct many {
	const struct deferred_call_spec *calls;
	size_t n;
	int64_t *ids;
};

static int defer_many(struct deferred *d, void *arg, struct deferred_error *err)
{
	const struct many *m = arg;
	bool copy = d->may_copy == COPY_YES;

	if (m->n > STORE_MANY_MAX && d->may_copy == COPY_UNKNOWN) {
		int rc = store_enqueue_may_copy(d->pg, &copy, err);

		if (rc < 0)
			return rc;
		d->may_copy = copy ? COPY_YES : COPY_NO;
	}
	return many(d->pg, m->calls, m->n, m->ids, &copy, err);
}

int deferred_defer_many(struct deferred *d, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
			struct deferred_error *err)
{
	struct many m = { .calls = calls, .n = n, .ids = ids };
	int rc;

	error_clear(err);
	if (!d)
		return no_context("defer_many", err);
	rc = calls_check(calls, n, d->params_max_bytes, err);
	return rc < 0 || n == 0 ? rc : explain_late(on_context(d, defer_many, &m, err), err);
}

int deferred_defer_many_conn(struct pg_conn *conn, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
			     struct deferred_error *err)
{
	struct pg *pg = NULL;
	int rc;

	error_clear(err);
	rc = calls_check(calls, n, 0, err);
	if (rc < 0 || n == 0)
		return rc;
	rc = pg_borrow(&pg, conn, err);
	if (rc == 0)
		rc = many(pg, calls, n, ids, NULL, err);
	explain(pg, err);
	pg_close(pg);
	return rc;
}

/* ---- one job ---------------------------------------------------------------------------------- */

static int cancel_one(struct deferred *d, void *arg, struct deferred_error *err)
{
	return store_cancel(d->pg, *(const int64_t *)arg, err);
}

int deferred_cancel(struct deferred *d, int64_t id, struct deferred_error *err)
{
	error_clear(err);
	return d ? on_context(d, cancel_one, &id, err) : no_context("cancel", err);
}

static int on_connection(struct pg_conn *conn, int (*f)(struct pg *pg, const void *arg, struct deferred_error *err),
			 const void *arg, struct deferred_error *err)
{
	struct pg *pg = NULL;
	int rc = pg_borrow(&pg, conn, err);

	if (rc == 0)
		rc = f(pg, arg, err);
	/* A transaction that failed before says so; what to do about it is the same. */
	explain(pg, err);
	pg_close(pg);
	return rc;
}

struct own_job {
	int64_t id, receipt;
	const char *result;
	int64_t lease_ms;
};

static int own_job_check(const struct own_job *own, const char *where, struct deferred_error *err)
{
	if (own->id > 0 && own->receipt != 0)
		return 0;
	error_set(err, DEFERRED_EINVAL, where, "job %lld with receipt %lld is not running", (long long)own->id,
		  (long long)own->receipt);
	error_hint(err, "pass id and receipt of the call; both are 0 under 'deferred run'");
	return DEFERRED_EINVAL;
}

static int finish_own(struct pg *pg, const void *arg, struct deferred_error *err)
{
	const struct own_job *own = arg;

	return store_finish_self(pg, own->id, own->receipt, own->result, err);
}

int deferred_finish_conn(struct pg_conn *conn, int64_t id, int64_t receipt, const char *result,
			 struct deferred_error *err)
{
	struct own_job own = { .id = id, .receipt = receipt, .result = result };
	int rc;

	error_clear(err);
	rc = own_job_check(&own, "finish", err);
	if (rc == 0 && result && strlen(result) > JOB_TEXT_MAX)
		rc = error_set(err, DEFERRED_EINVAL, "finish",
			       "job %lld: the result has %zu bytes, more than %d\nstore the data elsewhere",
			       (long long)id, strlen(result), JOB_TEXT_MAX);
	if (rc == 0 && result && utf8_prefix(result, strlen(result)) != strlen(result))
		rc = error_set(err, DEFERRED_EINVAL, "finish",
			       "job %lld: the result is not valid UTF-8\nconvert the text to UTF-8", (long long)id);
	return rc < 0 ? rc : on_connection(conn, finish_own, &own, err);
}

static int extend_own(struct pg *pg, const void *arg, struct deferred_error *err)
{
	const struct own_job *own = arg;

	return store_extend(pg, own->id, own->receipt, own->lease_ms, err);
}

int deferred_extend_conn(struct pg_conn *conn, int64_t id, int64_t receipt, int64_t lease_ms,
			 struct deferred_error *err)
{
	struct own_job own = { .id = id, .receipt = receipt, .lease_ms = lease_ms };
	int rc;

	error_clear(err);
	rc = own_job_check(&own, "extend", err);
	if (rc == 0 && (lease_ms < 1 || lease_ms > LEASE_MAX_MS))
		rc = error_set(err, DEFERRED_EINVAL, "extend",
			       "job %lld: lease of %lld ms is out of range\nuse 1 to 604800000 (7 days)", (long long)id,
			       (long long)lease_ms);
	return rc < 0 ? rc : on_connection(conn, extend_own, &own, err);
}

struct waiting {
	int64_t id;
	int64_t left_ms; /* until nobody waits any more */
	bool ended;
	struct deferred_outcome outcome;
};

static int ask_outcome(struct deferred *d, void *arg, struct deferred_error *err)
{
	struct waiting *w = arg;
	int rc;

	if (d->answer_ms == 0 || w->left_ms < d->answer_ms)
		pg_set_limits(d->pg,
			      w->left_ms > LIMIT_MAX_MS ? d->answer_ms
			      : w->left_ms < ASK_MS     ? ASK_MS
							: (int)w->left_ms,
			      d->lock_ms);
	rc = store_outcome(d->pg, w->id, &w->ended, &w->outcome, err);

	explain_denied(d->pg, "deferred_viewer", err);
	pg_set_limits(d->pg, d->answer_ms, d->lock_ms);
	return rc;
}

static int64_t monotonic_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int deferred_wait(struct deferred *d, int64_t id, int64_t timeout_ms, struct deferred_outcome *outcome,
		  struct deferred_error *err)
{
	int64_t start = monotonic_ms(), interval = WAIT_FLOOR_MS;
	struct waiting w = { .id = id };

	error_clear(err);
	if (!d)
		return no_context("wait", err);
	for (;;) {
		int64_t left = timeout_ms < 0 ? INT64_MAX : timeout_ms - (monotonic_ms() - start);
		struct timespec pause;
		int rc;

		w.left_ms = left;
		rc = on_context(d, ask_outcome, &w, err);

		/* A question may be asked twice. */
		if (rc == DEFERRED_ELOST) {
			error_clear(err);
			rc = on_context(d, ask_outcome, &w, err);
		}
		if (rc < 0)
			return rc;
		if (w.ended) {
			if (outcome)
				*outcome = w.outcome;
			return 0;
		}
		if (left <= 0)
			return error_set(err, DEFERRED_ETIMEOUT, "wait",
					 "job %lld has not ended after %lld ms\nwait longer; deferred why ID says why "
					 "a job waits",
					 (long long)id, (long long)timeout_ms);
		if (interval > left)
			interval = left;
		pause = (struct timespec){ .tv_sec = interval / 1000, .tv_nsec = interval % 1000 * 1000000 };
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		interval = interval * 2 < WAIT_CEILING_MS ? interval * 2 : WAIT_CEILING_MS;
	}
}

/* ---- default context -------------------------------------------------------------------------- */

static pthread_mutex_t default_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t default_once = PTHREAD_ONCE_INIT;
static struct deferred *default_context;
static _Thread_local struct deferred_error last_error;

/* Another thread of the parent may have held it; it does not exist here. */
static void mutex_renew(void)
{
	pthread_mutex_init(&default_mutex, NULL);
}

static void default_setup(void)
{
	pthread_atfork(NULL, NULL, mutex_renew);
}

/*
 * A child shares the socket of its parent, and closing the connection properly would end the parent's
 * session. So the child closes its copy of the socket only, and keeps the rest where it is.
 */
static int default_ready(struct deferred_error *err)
{
	struct deferred *d = default_context, *mine = NULL;
	int rc;

	if (d && d->pid == getpid())
		return 0;
	rc = context_new(&mine, NULL, NULL, err);
	if (rc < 0)
		return rc;
	if (d && d->pg)
		close(pg_fd(d->pg));
	mine->inherited = d;
	default_context = mine;
	return 0;
}

int64_t deferred_default_defer(const char *fn, const char *params, const struct deferred_opts *opts)
{
	int64_t id = 0;
	int rc;

	error_clear(&last_error);
	pthread_once(&default_once, default_setup);
	pthread_mutex_lock(&default_mutex);
	rc = default_ready(&last_error);
	if (rc == 0)
		rc = deferred_defer(default_context, fn, params, opts, &id, &last_error);
	pthread_mutex_unlock(&default_mutex);
	return rc < 0 ? rc : id;
}

const struct deferred_error *deferred_last_error(void)
{
	return &last_error;
}
