/* SPDX-License-Identifier: MIT */
#include "api/context.h"

#include "base/clock.h"
#include "port/config.h"
#include "store/migrate.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIES 3 /* how often a statement that was refused as a whole is sent */
#define RETRY_NS NS_PER_S

int context_missing(const char *where, struct deferred_error *err)
{
	return error_set(err, DEFERRED_EINVAL, where, "the context is missing\nopen a context with deferred_open()");
}

/* ---- what went wrong -------------------------------------------------------------------------- */

void context_explain_denied(const struct pg *pg, const char *role, struct deferred_error *err)
{
	if (pg && err && strcmp(err->sqlstate, "42501") == 0 && pg_denied(pg))
		error_hint(err, "grant %s to \"%s\"", role, pg_user(pg));
}

/* A failed transaction refuses everything. The words of the server name no way out. */
static void explain_aborted(struct deferred_error *err)
{
	if (err && strcmp(err->sqlstate, "25P02") == 0)
		error_hint(
			err,
			"an earlier statement of this transaction failed; roll the transaction back, then defer again");
}

static void explain_failure(const struct pg *pg, struct deferred_error *err)
{
	context_explain_denied(pg, "deferred_producer", err);
	explain_aborted(err);
}

/* ---- the connection --------------------------------------------------------------------------- */

static void context_close(struct deferred *d)
{
	pg_close(d->pg);
	d->pg = NULL;
}

/* A connection that was made and broke again is as good as none. */
bool context_is_away(const struct deferred_error *err)
{
	return err->code == DEFERRED_ELOST || err->code == DEFERRED_ETIMEOUT ||
	       (err->code == DEFERRED_EDB && error_class(err->sqlstate) == ERROR_CONNECTION) ||
	       (err->code == DEFERRED_ECONNECT && strcmp(err->where, "connect") == 0);
}

static int connect_now(struct deferred *d, struct deferred_error *err)
{
	int rc = pg_open(&d->pg, d->conninfo, "libdeferred", err);

	if (rc == 0) {
		pg_set_limits(d->pg, d->answer_ms, d->lock_ms);
		rc = pg_pin(d->pg, err);
	}
	if (rc == 0)
		rc = migrate_check(d->pg, err);
	if (rc < 0) {
		explain_failure(d->pg, err);
		context_close(d);
	}
	return rc;
}

/* With a spool a caller does not wait for a silent server at each call. */
static int context_connect(struct deferred *d, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	int rc;

	if (d->retry_ns && clock_ns() < d->retry_ns) {
		why = d->unreachable;
		rc = why.code;
	} else {
		rc = connect_now(d, &why);
		d->retry_ns = 0;
		if (d->spool && rc < 0 && context_is_away(&why)) {
			d->retry_ns = clock_ns() + RETRY_NS;
			d->unreachable = why;
		}
	}
	if (rc < 0 && err)
		*err = why;
	return rc;
}

/*
 * On an idle session nothing comes except the server's last words and the end, and libpq would learn of them only by
 * sending. A changed server setting is announced too: opening the connection again does no harm then.
 */
static bool has_hung_up(const struct pg *pg)
{
	struct pollfd p = { .fd = pg_fd(pg), .events = POLLIN | POLLRDHUP };

	return pg_broken(pg) || poll(&p, 1, 0) > 0;
}

static int context_check(struct deferred *d, struct deferred_error *err)
{
	if (d->pg && !has_hung_up(d->pg))
		return 0;
	context_close(d);
	return context_connect(d, err);
}

/* Prepare to send again what the server refused as a whole. False: it would be refused again. */
static bool may_send_again(struct deferred *d, const char *sqlstate)
{
	switch (error_class(sqlstate)) {
	case ERROR_PREPARED:
		pg_set_unnamed(d->pg);
		return true;
	case ERROR_READ_ONLY:
		context_close(d);
		return true;
	case ERROR_TRANSIENT:
		return strncmp(sqlstate, "40", 2) == 0;
	default:
		return false;
	}
}

int context_run(struct deferred *d, context_fn *operation, void *arg, struct deferred_error *err)
{
	struct deferred_error why;
	int rc;

	for (int try = 1;; try++) {
		error_clear(&why);
		rc = context_check(d, &why);
		if (rc == 0)
			rc = operation(d->pg, arg, &why);
		explain_failure(d->pg, &why);
		if (rc != DEFERRED_EDB || try == TRIES || !may_send_again(d, why.sqlstate))
			break;
	}
	if (rc < 0 && err)
		*err = why;
	return rc;
}

int context_store(struct deferred *d, context_fn *operation, void *arg, struct deferred_error *err)
{
	int rc = context_run(d, operation, arg, err);

	if (rc == DEFERRED_ETIMEOUT)
		error_prefix(err, "not stored");
	return rc;
}

int context_borrow(struct pg_conn *conn, context_fn *operation, void *arg, struct deferred_error *err)
{
	struct pg *pg = NULL;
	int rc = pg_borrow(&pg, conn, err);

	if (rc == 0)
		rc = operation(pg, arg, err);
	explain_failure(pg, err);
	pg_close(pg);
	return rc;
}

/* ---- opening ---------------------------------------------------------------------------------- */

static int check_open_opts(const struct deferred_open_opts *o, struct deferred_error *err)
{
	for (size_t i = 0; i < sizeof(o->reserved) / sizeof(o->reserved[0]); i++)
		if (o->reserved[i])
			return error_set(
				err, DEFERRED_EINVAL, "open",
				"reserved[%zu] is not zero: the options were not initialised\nbegin with { 0 }", i);
	return 0;
}

/* The option, or else the setting. */
static int limit_ms(int64_t option, const struct config *config, const char *setting)
{
	int64_t ms = option ? option : config_int(config, setting);

	return ms < 0 ? 0 : ms > CONTEXT_LIMIT_MAX_MS ? CONTEXT_LIMIT_MAX_MS : (int)ms;
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

/* *conninfo: the one given, or else that of the settings. */
static int choose_database(struct config *config, const char **conninfo, const char *shard, struct deferred_error *err)
{
	int rc = shard ? use_shard(config, *conninfo, shard, err) : 0;

	if (rc == 0 && !*conninfo && config_by_shards(config)) {
		rc = error_set(err, DEFERRED_ECONFIG, "open",
			       "the shard is missing: the config file has several databases");
		error_hint(err, "find a shard with deferred_shard_for(), or set DEFERRED_SHARD or database.shard");
	}
	if (!*conninfo)
		*conninfo = config_text(config, "database.conninfo");
	return rc;
}

/* The folder that the option names, or the setting if that is "". */
static int take_spool(struct deferred *d, const char *option, const struct config *config, struct deferred_error *err)
{
	const char *path = option && !*option ? config_text(config, "spool") : option;

	if (!path || !*path)
		return 0;
	d->spool = strdup(path);
	return d->spool ? 0 : error_set(err, DEFERRED_ENOMEM, "open", "out of memory");
}

int context_open(struct deferred **out, const char *conninfo, const struct deferred_open_opts *opts,
		 struct deferred_error *err)
{
	static const struct deferred_open_opts none = { 0 };
	struct deferred *d = calloc(1, sizeof(*d));
	struct config *config = NULL;
	int rc;

	if (!d)
		return error_set(err, DEFERRED_ENOMEM, "open", "out of memory");
	opts = opts ? opts : &none;
	rc = check_open_opts(opts, err);
	if (rc == 0)
		rc = config_load(&config, NULL, err);
	if (rc == 0)
		rc = choose_database(config, &conninfo, opts->shard, err);
	if (rc == 0) {
		d->conninfo = strdup(conninfo ? conninfo : "");
		d->params_max_bytes = config_int(config, "params_max_bytes");
		d->answer_ms = limit_ms(opts->answer_ms, config, "database.answer_timeout");
		d->lock_ms = limit_ms(opts->lock_ms, config, "database.lock_timeout");
		d->pid = getpid();
		rc = d->conninfo ? take_spool(d, opts->spool, config, err)
				 : error_set(err, DEFERRED_ENOMEM, "open", "out of memory");
	}
	if (rc == 0)
		rc = context_connect(d, err);
	if (rc < 0 && d->retry_ns) {
		error_clear(err);
		rc = 0;
	}
	config_free(config);
	if (rc < 0)
		deferred_close(d);
	else
		*out = d;
	return rc;
}

int deferred_open_with(struct deferred **d, const char *conninfo, const struct deferred_open_opts *opts,
		       struct deferred_error *err)
{
	error_clear(err);
	if (!d)
		return error_set(err, DEFERRED_EINVAL, "open", "the pointer for the context is NULL\npass an address");
	*d = NULL;
	return context_open(d, conninfo, opts, err);
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
	free(d->spool);
	free(d->conninfo);
	free(d);
}
