/* SPDX-License-Identifier: MIT */
/*
 * store_figures - sums of the log by minute, by hour and since ever, for all who show figures.
 *
 * The sums are made from the log by folding (sql/functions/history/__fold.sql). First store_fold() brings them up to
 * now, as far as its time allows. Then store_figures() and store_depth() read them. Their cost does not depend on the
 * log.
 *
 *     store_fold(pg, STORE_FOLD_READ_MS, NULL, err);
 *     store_figures(pg, &(struct store_figures_query){ .span = STORE_MINUTES, .by = STORE_BY_QUEUE, .queue = "mail",
 *     .back_s = 3600 }, &figures, err); for (size_t i = 0; i < figures.n; i++) ... figures.row[i] ...
 *     store_figures_clear(&figures);
 *
 * Spans are counted back from now on the database's clock. A minute or hour with no attempts and no arrivals has no
 * row.
 */
#ifndef STORE_FIGURES_H
#define STORE_FIGURES_H

#include "base/error.h"
#include "base/advice/histogram.h"
#include "port/pg.h"
#include "rows/history.h"
#include "rows/queue.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_OUTCOMES 10 /* enum job_outcome */

/* How long who reads, and a run at its end, folds. */
#define STORE_FOLD_READ_MS 200
#define STORE_FOLD_RUN_MS 20

struct store_folded {
	int64_t attempts, arrived; /* folded by this call */
	int64_t behind_ms;         /* ends before this time are in the sums, unless recorded later */
	bool done;                 /* nothing is left to be folded */
	bool busy;                 /* somebody else folds */
};

/* Fold for about limit_ms; 0: until it is done. In transactions of its own: none may be open. folded may be NULL. Needs
 * deferred_viewer or deferred_worker. Source: fold.sql. */
int store_fold(struct pg *pg, int limit_ms, struct store_folded *folded, struct deferred_error *err);

/* The same where there was no folding for 5 minutes, by a worker that ends; *folded: so it was. Source: fold_old.sql.
 * */
int store_fold_old(struct pg *pg, int limit_ms, bool *folded, struct deferred_error *err);

enum store_span { STORE_MINUTES, STORE_HOURS, STORE_EVER };
/* One row a time for: all; each queue; each function; each queue, function and build of a plugin. */
enum store_by { STORE_BY_NOTHING, STORE_BY_QUEUE, STORE_BY_FUNCTION, STORE_BY_BUILD };

struct store_figures_query {
	enum store_span span; /* STORE_EVER: back_s and for_s count for nothing, and at_s is 0 */
	enum store_by by;
	const char *queue,
		*fn; /* only that one; NULL: any. queue with STORE_BY_QUEUE and _BUILD, fn with _FUNCTION and _BUILD */
	int64_t back_s; /* from this many seconds before now */
	int64_t for_s;  /* so long; 0: until now */
};

struct store_figure {
	int series;   /* number: smaller for those that came first; only fold_rebuild.sql changes it */
	int64_t at_s; /* begin of the minute or hour, seconds since 1970 */
	const char *queue, *fn,
		*plugin; /* NULL: summed over all. fn "": messages. plugin "": nobody ran it, or not known */
	int64_t outcome[STORE_OUTCOMES]; /* attempts by enum job_outcome */
	int64_t attempts;                /* all of them */
	int64_t dead;                    /* those with which a job died */
	int64_t arrived;                 /* jobs deferred; by build: in the row of plugin "" */
	int64_t wait_us, run_us, cpu_us; /* sums */
	int64_t max_rss_kb;
	struct histogram wait, run; /* of those that were started, of those that were timed */
};

/* Add two sums of times, up to the largest number. Sums may reach 10^18, because a worker may record forged times. */
static inline int64_t store_figures_add_us(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

struct store_figures {
	struct store_figure *row; /* in the order of at_s, queue, fn, plugin */
	size_t n;
	int64_t now_s;         /* on the database's clock, since 1970 */
	int64_t folded_s;      /* what ended before that is in them */
	int64_t exact_s;       /* and before that also what was recorded late */
	struct pg_result *res; /* the texts lie in there */
};

/* Given: store_figures_clear(). In an open transaction if there is one. Source: figures.sql. */
int store_figures(struct pg *pg, const struct store_figures_query *query, struct store_figures *figures,
		  struct deferred_error *err);
void store_figures_clear(struct store_figures *figures);

/* The hours of the last day of these functions, with run times only. The result is freed by the caller, and a
 * transaction must be open, as above. Source: figures_run.sql. */
int store_figures_run(struct pg *pg, const char *const *fns, size_t n, struct store_figures *figures,
		      struct deferred_error *err);

/* The hours of the last two days, by queue, function and build, without waits. Only functions that ran in more than one
 * build are listed, to compare a build with its predecessor. The result is freed by the caller, and a transaction must
 * be open, as above. Source: figures_builds.sql. */
int store_figures_builds(struct pg *pg, struct store_figures *figures, struct deferred_error *err);

/* How much lay in the queues: a sample a minute, counted to 1,000. */
struct store_depth {
	int64_t at_s;
	const char *queue;
	int64_t ready, delayed, claimed;
	bool more;        /* counting stopped */
	int64_t oldest_s; /* the longest waiting of them; -1: none */
	bool paused;
};
struct store_depths {
	struct store_depth *row; /* in the order of at_s, queue */
	size_t n;
	struct pg_result *res;
};

/* queue NULL: all. back_s 0: the newest sample of each queue. Given: store_depths_clear(). Source: figures_depth.sql.
 * */
int store_depth(struct pg *pg, const char *queue, int64_t back_s, struct store_depths *depths,
		struct deferred_error *err);
void store_depths_clear(struct store_depths *depths);

/* The figures without queue and function. Source: figures_state.sql. */
struct store_state {
	int64_t workers;    /* live ones */
	int64_t seen_s;     /* a worker was seen last then, since 1970; 0: never */
	int64_t snapshot_s; /* for so long the oldest snapshot has been held */
	int schema_version;
};
int store_state(struct pg *pg, struct store_state *state, struct deferred_error *err);

#endif
