/* SPDX-License-Identifier: MIT */
/*
 * store_worker - what a worker says to the database and waits to be answered.
 *
 * Once at the start: store_probe(), store_register(), store_recover(). Then in cycles: cycle.c.
 */
#ifndef STORE_WORKER_H
#define STORE_WORKER_H

#include "base/attempt.h"
#include "base/error.h"
#include "port/pg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which part of the table a worker serves. */
struct store_scope {
	const char *const *queues; /* NULL: all */
	size_t queues_len;
	const char *instance; /* names the lock on the pidfile */
	int32_t max_attempts; /* default */
	int32_t watch;        /* 0: not watched */
	int32_t cnt, runners; /* told when it registers: attempts at most, or 0; child processes at most */
	const char *mode;     /* run, loop or listen */
};

/* How long the functions that wait for an answer do so; then DEFERRED_ELOST. 30 s unless set. */
void store_set_answer_ms(int ms);

struct store_probe {
	int schema_version, schema_oldest; /* as of migrate_accepts() */
	bool any;     /* there are jobs, if not for us */
	bool tick;    /* some schedule has a tick that is due */
	bool work;    /* some job is ready or due */
	bool unclean; /* the previous run of this instance left claims behind */
};
int store_probe(struct pg *pg, const struct store_scope *scope, struct store_probe *probe, struct deferred_error *err);

/* Which server this is. timeline is 0 in recovery. */
struct store_lineage {
	char system[24];
	int64_t timeline;
};
int store_lineage(struct pg *pg, struct store_lineage *lineage, struct deferred_error *err);

/* place: whose functions we have, as in struct store_offer. *catalog: the one offered within the hour, 0: none. */
int store_register(struct pg *pg, const struct store_scope *scope, const char *host, int pid, const char *place,
		   int64_t *worker, int64_t *catalog, struct deferred_error *err);

/*
 * Which workers live? The session of a worker without a pooler holds an advisory lock on scope->watch, a random number.
 * The calls store_register() and store_release_unknown() take it. The row of the worker names it while it is held.
 */
int store_watch(struct pg *pg, int64_t worker,
		struct deferred_error *err); /* again, for it could not be taken when disarming */

/* A worker whose session is gone. dead: that it has ended is proven; else it may be cut off. */
struct store_silent {
	int64_t worker;
	bool dead;
};
struct store_seen {
	struct store_silent *silent; /* to be freed */
	size_t len;
	size_t others; /* workers whose sessions are watched, those included */
};
typedef bool store_dead_fn(void *data, const char *instance); /* instance: of any text */
/* Fills seen, which is empty. */
int store_look(struct pg *pg, int64_t worker, store_dead_fn *is_dead, void *data, struct store_seen *seen,
	       struct deferred_error *err);

/* A job that its worker has lost; without an attempt recorded nobody knows whether it had begun. */
struct store_lost {
	int64_t worker;
	char who[200];
	int64_t id; /* 0: it held none */
	char fn[132];
	int attempt;
	bool final, recorded;
};
struct store_losses {
	struct store_lost *row; /* by worker */
	size_t len, size;
};
bool store_take_losses(struct store_losses *losses, const struct pg_result *res); /* false: out of memory */
/* The first `dead` of these workers are proven dead. The others keep what they hold until their leases end. */
int store_bury(struct pg *pg, const int64_t *worker, size_t n, size_t dead, int32_t max_attempts,
	       struct store_losses *losses, struct deferred_error *err);

/* The functions there are in a place: a host's plugin folder and config file. Source: worker_offer.sql. */
struct store_offer {
	const char *host, *place;
	int64_t catalog; /* hash of the rest; not 0 */
	const char **fn, **plugin;
	int64_t *timeout_ms;
	int32_t *max_attempts;
	size_t len;
};
int store_offer(struct pg *pg, const struct store_offer *offer, struct deferred_error *err);

/* A job taken back from an earlier run. recorded: as an attempt; else nobody knows whether it had begun. */
typedef void store_recovered_fn(void *data, int64_t id, const char *fn, int attempt, bool final, bool recorded);
/* Jobs with leases of their own that this worker had begun. The others that it held had not begun. */
struct store_begun {
	int64_t worker;
	const int64_t *receipt; /* 0: none */
	size_t n;
};

/* begun: NULL: not known, so each job with a lease of its own counts as begun. */
int store_recover(struct pg *pg, const struct store_scope *scope, int64_t worker, enum job_outcome outcome,
		  const struct store_begun *begun, store_recovered_fn *recovered, void *data,
		  struct deferred_error *err);

/* Give back claims whose answer was lost: all leases of that worker except those with the receipts given. The result
 * *registered is false if this server does not know the worker. It then holds none of its claims, and the worker needs
 * another number. */
int store_release_unknown(struct pg *pg, const struct store_scope *scope, int64_t worker, const int64_t *known,
			  size_t known_len, bool *registered, struct deferred_error *err);

/* The outcome that the log has for each claim, or JOB_UNRECORDED. */
#define JOB_UNRECORDED (-1)
int store_recorded(struct pg *pg, struct attempt *const *attempts, size_t n, int *outcomes, struct deferred_error *err);

/* Have notifications sent to this session; *direct is false behind a pooler, where that is not possible. */
int store_listen(struct pg *pg, bool *direct, struct deferred_error *err);

/* Make jobs of due ticks of schedules, up to a maximum. Source: tick_run.sql. */
struct store_ticks {
	int dealt;       /* ticks dealt with */
	int64_t wait_ms; /* until the next one, 0: it is due; -1: there is none */
};
int store_tick(struct pg *pg, int most, struct store_ticks *ticks, struct deferred_error *err);

/* The holders of the locks that prevent the recording of these jobs, as text for people; "": none any more. Source:
 * lock_tables.sql, lock_rows.sql. */
struct store_holders {
	char text[300];
};
int store_holders(struct pg *pg, const int64_t *jobs, size_t n, struct store_holders *holders,
		  struct deferred_error *err);

/* Ask what the session of that process waits for. Then poll whenever pg_fd() has one of pg_events(), until *done. what:
 * "" if nothing is known. Source: session_waits.sql. */
typedef void store_waits_fn(void *data, const char *what);
int store_waits_send(struct pg *pg, int pid, struct deferred_error *err);
int store_waits_poll(struct pg *pg, store_waits_fn *f, void *data, bool *done, struct deferred_error *err);

int store_end(struct pg *pg, int64_t worker, struct deferred_error *err);
int store_maintain(struct pg *pg, struct deferred_error *err);

/* A report of a worker that is kept level with others, and the answer in its place. Source: track_move.sql. */
struct store_track {
	int64_t worker;
	const char *group;
	int64_t range, lease_ms;
	bool live;                  /* to be, or to stay, in the group; the answer: it is */
	int64_t round, steps, made; /* steps: of the round, in the answer only */
};
int store_track_move(struct pg *pg, struct store_track *track, struct deferred_error *err);

#endif
