/* SPDX-License-Identifier: MIT */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLD_US 25000                  /* jobs are claimed for so much time ahead, for each runner */
#define START_US 20000.0               /* jobs under a rate are to start that soon after their claim */
#define HAND_OVER_US 200.0             /* and each takes a runner so long at least */
#define RECORD_MAX_NS (20 * NS_PER_MS) /* a result waits at most that long for company */
#define PROMOTE_NS (NS_PER_S)          /* how often delayed jobs are looked at while there is other work */
#define EMPTY_HANDED_MAX 7
#define LOOK_PAUSE 20                  /* all lanes are looked at again after so many times as long as that took, */
#define LOOK_PAUSE_MAX_NS NS_PER_S     /* but not later than that */
#define PARAMS_MAX (16 << 20)          /* bytes of params that wait here: 8 KiB for each job of the largest usual batch */
#define RATE_WAIT_MS 60000             /* a run without end waits so long for a rate to allow the next job, */
#define RATE_LOOK_MS 1000              /* and looks for others meanwhile */
#define PROGRESS_NS (900 * NS_PER_MS)  /* what functions say of their progress is looked at so often, by a turn each second */
#define RELEASE_AGAIN_NS (500 * NS_PER_MS) /* a job to be given back whose row somebody has locked is tried so often */
#define ALONE_LOCK_MS 20               /* an attempt set apart waits so long for a lock, */
#define ALONE_AGAIN_MAX_MS 1000        /* and is tried again at least so often */
#define ALONE_OVER_NS (5 * NS_PER_S)   /* until its lease has surely ended on the server's clock too */
#define TRIES_MAX 12                   /* of a cycle that fails for a passing reason: some 6 s */
#define TELL_TRIES 60                  /* one that is tried for longer comes once a second */

uint64_t worker_release_ns(const struct worker *w)
{
	uint64_t ns = UINT64_MAX;

	for (const struct job *job = w->release; job; job = job->next)
		if (job->release_ns < ns)
			ns = job->release_ns;
	return ns;
}

/* ---- how much to claim ------------------------------------------------------------------------ */

static void count_alone(void *data, struct job *job)
{
	*(int64_t *)data += job->alone;
}

/* Jobs with a lease of their own must begin when they are claimed, or our end would count against one that had not: one for each runner
 * that is free, or is soon. */
static int64_t alone_room(struct worker *w, double us)
{
	int64_t alone = 0, n;

	pool_each_job(&w->pool, count_alone, &alone);
	n = us < 0 || us >= HOLD_US ? (int64_t)worker_scale_room(w) - (int64_t)pool_unstarted(&w->pool) : (int64_t)w->pool.runners_max - alone;
	return n > 0 ? n : 0;
}

/* Jobs to claim now: enough to keep the runners busy while the database works, never so many that a job waits
 * here while another worker could run it. */
static int64_t want(struct worker *w, uint64_t now)
{
	double us = pool_run_us(&w->pool, now);
	int64_t unstarted = (int64_t)pool_unstarted(&w->pool), target;

	if (w->stopping || w->exhausted || w->pool.fatal.code || (now < w->claim_ns && w->ended_since_claim == 0))
		return 0;
	if (w->alone_only && alone_room(w, us) == 0)
		return 0;
	if (us >= HOLD_US || us < 0) {
		/* Long jobs, or nothing known yet: one for each runner that is free. */
		target = (int64_t)worker_scale_room(w) - unstarted;
		if (target > w->batch)
			target = w->batch; /* the others with the next claim, which follows at once */
	} else {
		int64_t ahead = (int64_t)((double)w->pool.runners_max * HOLD_US / (us < 1 ? 1 : us));

		if (ahead > w->batch)
			ahead = w->batch;
		if (ahead > 2 * (int64_t)w->last_claim && ahead > (int64_t)w->pool.runners_max)
			ahead = 2 * (int64_t)w->last_claim > (int64_t)w->pool.runners_max ? 2 * (int64_t)w->last_claim
											   : (int64_t)w->pool.runners_max;
		/* One batch in work, the next one on its way. */
		target = unstarted > ahead ? 0 : ahead;
	}
	if (w->cnt > 0 && target > w->cnt - w->charged)
		target = w->cnt - w->charged;
	if (target > worker_balance_left(w))
		target = worker_balance_left(w);
	return target > 0 ? target : 0;
}

/* ---- the database cycle ------------------------------------------------------------------------ */

/* Returns an array of the attempts of a list that pass; *n is their number. */
static struct attempt **select_attempts(const struct attempt_list *l, bool final, size_t *n)
{
	struct attempt **array = malloc((l->len + 1) * sizeof(*array));

	*n = 0;
	for (struct attempt *a = l->first; array && a; a = a->next)
		if (a->final == final)
			array[(*n)++] = a;
	return array;
}

static int add_records(struct worker *w, bool final, struct deferred_error *err)
{
	size_t n;
	struct attempt **array = select_attempts(&w->recording, final, &n);
	int rc = array ? 0 : error_set(err, DEFERRED_ENOMEM, "record", "out of memory");

	if (rc == 0 && n > 0)
		rc = store_cycle_record(&w->cycle, array, n, final, err);
	free(array);
	return rc;
}

/* ---- progress ------------------------------------------------------------------------------------ */

struct collect_progress {
	struct job_progress *p;
	size_t n, max;
};

static void add_progress(void *data, const struct job_progress *p)
{
	struct collect_progress *c = data;

	if (c->n < c->max && !p->job->gone && p->number != p->job->progress)
		c->p[c->n++] = *p;
}

static void count_progress(void *data, const struct job_progress *p)
{
	*(size_t *)data += !p->job->gone && p->number != p->job->progress;
}

/* Looked for once a second; what there is then goes along with the next cycle, which is made for it if need be. */
static size_t new_progress(struct worker *w, uint64_t now)
{
	size_t n = 0;

	if (now < w->progress_ns)
		return 0;
	w->progress_ns = now + PROGRESS_NS;
	pool_each_progress(&w->pool, count_progress, &n);
	return n;
}

static int send_progress(struct worker *w, size_t n, struct deferred_error *err)
{
	struct collect_progress c = { malloc(n * sizeof(*c.p)), 0, n };
	int rc = c.p ? 0 : error_set(err, DEFERRED_ENOMEM, "progress", "out of memory");

	if (rc == 0)
		pool_each_progress(&w->pool, add_progress, &c);
	if (rc == 0 && c.n > 0)
		rc = store_cycle_progress(&w->cycle, c.p, c.n, err);
	for (size_t i = 0; i < c.n; i++)
		c.p[i].job->progress = c.p[i].number;
	free(c.p);
	return rc;
}

static void forget_progress(void *data, struct job *job)
{
	(void)data;
	if (job->progress)
		job->progress = 1; /* odd: no number of a report */
}

void worker_progress_again(struct worker *w)
{
	pool_each_job(&w->pool, forget_progress, NULL);
}

/* Attempts that have reported and are being recorded. */
static int end_progress(struct worker *w, struct deferred_error *err)
{
	struct attempt **array;
	size_t n = 0;
	int rc;

	for (const struct attempt *a = w->recording.first; a; a = a->next)
		n += a->job->progress != 0;
	if (n == 0)
		return 0;
	array = malloc(n * sizeof(*array));
	if (!array)
		return error_set(err, DEFERRED_ENOMEM, "record", "out of memory");
	n = 0;
	for (struct attempt *a = w->recording.first; a; a = a->next)
		if (a->job->progress)
			array[n++] = a;
	rc = store_cycle_progress_end(&w->cycle, array, n, err);
	free(array);
	return rc;
}

/* ---- the rest of a cycle ------------------------------------------------------------------------- */

/* Attempts whose recording was refused. */
static int add_outcomes(struct worker *w, struct deferred_error *err)
{
	struct attempt **array = malloc((w->refused.len + 1) * sizeof(*array));
	size_t n = 0;
	int rc;

	if (!array)
		return error_set(err, DEFERRED_ENOMEM, "record", "out of memory");
	for (struct attempt *a = w->refused.first; a; a = a->next)
		array[n++] = a;
	rc = store_cycle_outcomes(&w->cycle, array, n, err);
	free(array);
	return rc;
}

/* Jobs given back: others may be asleep, and we do not take them, at least not at once. */
static int wake_others(struct worker *w, struct deferred_error *err)
{
	size_t n = 0;
	int64_t *ids = malloc((job_list_len(w->releasing) + 1) * sizeof(*ids));
	int rc;

	if (!ids)
		return error_set(err, DEFERRED_ENOMEM, "wake", "out of memory");
	for (const struct job *job = w->releasing; job; job = job->next)
		ids[n++] = job->id;
	rc = store_cycle_wake(&w->cycle, ids, n, err);
	free(ids);
	return rc;
}

static int add_release(struct worker *w, struct deferred_error *err)
{
	size_t n = job_list_len(w->releasing), i = 0;
	struct job **array = malloc((n + 1) * sizeof(*array));
	int rc;

	if (!array)
		return error_set(err, DEFERRED_ENOMEM, "release", "out of memory");
	for (struct job *job = w->releasing; job; job = job->next)
		array[i++] = job;
	rc = store_cycle_release(&w->cycle, array, n, err);
	free(array);
	return rc == 0 ? wake_others(w, err) : rc;
}

/* ---- leases of which nothing is in hand ----------------------------------------------------------- */

void worker_settled(struct worker *w, int64_t receipt)
{
	if (w->closing.len == 0 || w->closing.id[w->closing.len - 1] != receipt)
		store_ids_add(&w->closing, receipt); /* without memory it ends by itself */
}

/* Those go with what was in hand of them last. */
static int add_close(struct worker *w, struct deferred_error *err)
{
	struct store_ids held = { 0 };
	int64_t last = 0;
	int rc = 0;

	for (const struct attempt *a = w->recording.first; a; a = a->next)
		worker_settled(w, a->job->receipt);
	w->closed.len = 0;
	if (w->closing.len > 0 && worker_held_receipts(w, &held)) {
		store_ids_sort(&w->closing);
		for (size_t i = 0; i < w->closing.len; i++)
			if (w->closing.id[i] != last && !store_ids_have(&held, w->closing.id[i]) && !store_ids_have(&w->abandoned, w->closing.id[i]))
				store_ids_add(&w->closed, last = w->closing.id[i]);
	}
	if (w->closed.len > 0)
		rc = store_cycle_close(&w->cycle, w->closed.id, w->closed.len, err);
	free(held.id);
	return rc;
}

static void after_close(struct worker *w)
{
	size_t left = 0;

	for (size_t i = 0; i < w->closing.len; i++)
		if (!store_ids_have(&w->closed, w->closing.id[i]))
			w->closing.id[left++] = w->closing.id[i];
	w->closing.len = left;
	w->closed.len = 0;
}

/* Of n jobs to claim, how many are asked for among those under limits, which are claimed by a statement of their own. */
static int64_t limited_share(const struct worker *w, int64_t n)
{
	if (!w->limits)
		return 0;
	if (n == 1)
		return w->limited_turn;
	if (w->limited_got == 0)
		return 1; /* to notice when there are some */
	return w->dry ? n - 1 : n / 2;
}

static void count_limited(void *data, struct job *job)
{
	*(int64_t *)data += job->limited;
}

/* Jobs under a rate must start when they are claimed: no more than there are runners for. Short ones start one after the
 * other within START_US, and behind short jobs of others a runner is free soon. */
static int64_t startable(struct worker *w)
{
	double us = pool_run_us(&w->pool, clock_ns());
	int64_t limited = 0, n;

	pool_each_job(&w->pool, count_limited, &limited);
	n = us >= 0 && us < HOLD_US ? (int64_t)((double)w->pool.runners_max * (us < START_US ? START_US / (us < HAND_OVER_US ? HAND_OVER_US : us) : 1)) - limited
				    : (int64_t)worker_idle_runners(w) - (int64_t)pool_unstarted(&w->pool);
	return n > 0 ? n : 0;
}

static void count_params(void *data, struct job *job)
{
	*(int64_t *)data += job->params_len;
}

/* Bytes of params that may be claimed beside those in hand. */
static int64_t params_room(const struct worker *w)
{
	int64_t bytes = 0;

	pool_each_job(&w->pool, count_params, &bytes);
	for (const struct attempt *a = w->unrecorded.first; a; a = a->next)
		count_params(&bytes, a->job);
	for (const struct attempt *a = w->recording.first; a; a = a->next)
		count_params(&bytes, a->job);
	return PARAMS_MAX - bytes;
}

/* Where there is none, jobs are claimed one by one, for runners that have nothing to do. */
static bool params_full(const struct worker *w)
{
	return params_room(w) <= 0 && worker_idle_runners(w) <= pool_unstarted(&w->pool);
}

/* Those that runners have, once a job of none of them was met; NULL: no such job, or no memory. Names that nobody has are not learnt one by
 * one: who defers jobs of many of them would have each claim bring one more, and nothing else. */
static const char **known_functions(const struct worker *w, size_t *len)
{
	const char **names = w->unknown_len > 0 ? malloc((w->pool.functions_len + 1) * sizeof(*names)) : NULL;

	for (size_t i = 0; names && i < w->pool.functions_len; i++)
		names[i] = w->pool.functions[i].name;
	*len = names ? w->pool.functions_len : 0;
	return names;
}

static int add_claim(struct worker *w, int64_t n, uint64_t now, struct deferred_error *err)
{
	int64_t limited = limited_share(w, n), room = params_room(w);
	struct store_claim claim = {
		.worker = w->worker_id, .lease_ms = w->lease_ms, .seed = (int64_t)worker_random(w), .window = (int)config_int(w->config, "window"),
		.n = (int)(n - limited), .limited = (int)limited, .rated = (int)startable(w), .bytes = room > 0 ? (int)room : 0,
		.alone = (int)alone_room(w, pool_run_us(&w->pool, now)),
		.lanes = w->lanes.n > 0 && now < w->look_ns ? &w->lanes : NULL,
	};
	const char **known = known_functions(w, &claim.known_len);
	int rc;

	claim.known = known;
	w->last_claim = (size_t)n;
	w->last_unlimited = (size_t)(n - limited);
	if (w->ended_since_claim > 0)
		w->dry = w->limited_dry = false;
	w->ended_since_claim = 0;
	w->adds = false; /* it sees what goes before it */
	w->limited_turn = !w->limited_turn;
	rc = store_cycle_claim(&w->cycle, &w->scope, &claim, err);
	free(known);
	return rc;
}

/* ---- attempts set apart ---------------------------------------------------------------------------- */

/*
 * Attempts whose recording failed together are sent one by one, so that a bad one harms itself only: in cycles that do
 * nothing else and do not wait for locks, each with its own time for the next try. The others go on in between.
 */
uint64_t worker_apart_ns(const struct worker *w)
{
	uint64_t ns = UINT64_MAX;

	for (const struct attempt *a = w->apart.first; a; a = a->next)
		if (a->again_ns < ns)
			ns = a->again_ns;
	return ns;
}

/* The first whose time has come. */
static void take_apart(struct worker *w, uint64_t now)
{
	struct attempt_list all;
	struct attempt *a, *next;

	attempt_list_init(&all);
	attempt_list_move(&all, &w->apart);
	for (a = all.first; a; a = next) {
		next = a->next;
		attempt_list_add(w->recording.len == 0 && a->again_ns <= now ? &w->recording : &w->apart, a);
	}
}

static int add_recording(struct worker *w, struct deferred_error *err)
{
	int rc = 0;

	w->adds = false;
	for (struct attempt *a = w->recording.first; rc == 0 && a; a = a->next) {
		w->adds |= !a->final && a->delay_ms == 0;
		if (a->follow && a->outcome == JOB_OK) {
			w->adds = true;
			rc = store_cycle_follow(&w->cycle, a, err);
		}
	}
	if (rc == 0 && w->recording.len > 0)
		rc = add_records(w, true, err);
	if (rc == 0 && w->recording.len > 0)
		rc = add_records(w, false, err);
	return rc == 0 ? end_progress(w, err) : rc;
}

static int send_alone(struct worker *w, uint64_t now, struct deferred_error *err)
{
	int rc;

	store_cycle_begin(&w->cycle, w->pg);
	w->alone = true;
	take_apart(w, now);
	rc = store_cycle_patience(&w->cycle, ALONE_LOCK_MS, err);
	if (rc == 0)
		rc = add_recording(w, err);
	if (rc == 0)
		rc = store_cycle_send(&w->cycle, err);
	if (rc == 0)
		w->db = DB_BUSY;
	return rc;
}

/* ---- the cycle as a whole ------------------------------------------------------------------------- */

/* Those that somebody had locked wait for their time. */
static void take_to_release(struct worker *w, uint64_t now)
{
	struct job *jobs = w->release;

	w->release = NULL;
	while (jobs) {
		struct job *next = jobs->next;

		job_list_push(now < jobs->release_ns ? &w->release : &w->releasing, jobs);
		jobs = next;
	}
}

static int send_cycle(struct worker *w, int64_t claim_n, bool renew, bool promote, bool balance, size_t progress, uint64_t now,
		      struct deferred_error *err)
{
	int rc;

	store_cycle_begin(&w->cycle, w->pg);
	attempt_list_move(&w->recording, &w->unrecorded);
	take_to_release(w, now);
	rc = add_recording(w, err);
	if (rc == 0)
		rc = add_close(w, err);
	if (rc == 0 && w->refused.len > 0)
		rc = add_outcomes(w, err);
	if (rc == 0 && progress > 0)
		rc = send_progress(w, progress, err);
	if (rc == 0 && w->releasing)
		rc = add_release(w, err);
	if (rc == 0 && renew)
		rc = worker_add_renewal(w, err);
	if (rc == 0 && balance)
		rc = worker_balance_add(w, err);
	if (rc == 0 && claim_n > 0)
		rc = worker_listen_add(w, promote, err);
	if (rc == 0 && promote)
		rc = store_cycle_lost(&w->cycle, w->scope.max_attempts, err);
	if (rc == 0 && promote)
		rc = store_cycle_promote(&w->cycle, w->delayed.from_us, err);
	if (rc == 0 && promote)
		rc = store_cycle_next_due(&w->cycle, w->delayed.from_us, err);
	if (rc == 0 && claim_n > 0)
		rc = add_claim(w, claim_n, now, err);
	if (rc == 0)
		rc = store_cycle_send(&w->cycle, err);
	if (rc == 0)
		w->db = DB_BUSY;
	return rc;
}

/* Begin a cycle if there is reason to. */
int worker_start_cycle(struct worker *w, uint64_t now, struct deferred_error *err)
{
	int64_t n;
	struct worker_oldest o = worker_oldest_lease(w);
	bool renew = o.n > 0 && (w->renew_first || now >= o.renew_ns || worker_listen_checks(w, now));
	bool promote, record = w->unrecorded.len > 0, release = worker_release_ns(w) <= now, balance;
	bool apart = worker_apart_ns(w) <= now, again = w->alone;
	size_t progress;

	w->alone = false;
	if (o.n == 0)
		w->listen.check_ns = 0; /* it was about one that has ended */
	if (worker_idle_keep_due(w, now))
		return worker_idle_keep(w, now, err);
	/* By turns with the others; leases go first. */
	if (apart && !again && !renew)
		return send_alone(w, now, err);
	/* A claim that waited for a lock in vain may do so again: leases must not end meanwhile. */
	renew = renew || (o.n > 0 && w->tries > 0);
	progress = new_progress(w, now);
	worker_idle_wake(w, now);
	n = want(w, now);
	if (n > 0 && (params_full(w) || (w->renew_first && o.n > 0)))
		n = 0;
	w->renew_first = false;
	promote = n > 0 && (w->look_at_delayed || (now >= w->promoted_ns + PROMOTE_NS && !worker_listen_reacts(w)));
	balance = now >= worker_balance_due_ns(w);

	/* Short jobs come in crowds: let their results gather, the next claim takes them along. */
	if (record && n == 0 && pool_unstarted(&w->pool) > 0 && pool_run_us(&w->pool, now) < 1000 && !w->stopping &&
	    now < w->oldest_unrecorded_ns + RECORD_MAX_NS)
		record = false;
	/* With results in work an empty-handed claim would only be repeated. */
	if (n > 0 && w->last_claim > 0 && n < (int64_t)w->last_claim / 2 && pool_load(&w->pool) > 0 && pool_run_us(&w->pool, now) < 1000)
		n = 0;
	if (!record && !release && !renew && !balance && n == 0 && progress == 0 && w->refused.len == 0)
		return apart ? send_alone(w, now, err) : worker_listen_cycle(w, w->exhausted && !w->stopping, now, err);
	if (promote) {
		w->promoted_ns = now;
		worker_delayed_begin(w, now);
	}
	if (renew) {
		worker_listen_checked(w, now);
		w->renewal_ns = now;
		w->renew_ns = now + worker_fence_after_ns(w) / 12;
	}
	return send_cycle(w, n, renew, promote, balance, progress, now, err);
}

static void report_refused(struct worker *w, const struct attempt *a)
{
	log_line(LOG_L_WARNING, "job %lld %s attempt %d: result (%s) refused: the lease had ended", (long long)a->job->id, a->job->fn,
		 a->job->attempt, job_outcome_text(a->outcome));
	w->sum.refused++;
}

void worker_settle(struct worker *w, struct attempt *a, int outcome)
{
	if (outcome == JOB_CANCELLED) {
		log_line(LOG_L_INFO, "job %lld %s attempt %d: was cancelled before its result (%s) was recorded", (long long)a->job->id,
			 a->job->fn, a->job->attempt, job_outcome_text(a->outcome));
		w->sum.refused++;
		return;
	}
	if (outcome != JOB_OK && outcome != (int)a->outcome) {
		report_refused(w, a);
		return;
	}
	if (a->outcome != JOB_OK && outcome == JOB_OK)
		log_line(LOG_L_INFO, "job %lld %s attempt %d: had recorded its success itself", (long long)a->job->id, a->job->fn,
			 a->job->attempt);
	if (a->follow && outcome == JOB_OK && a->refused)
		log_line(LOG_L_ERROR, "job %lld %s attempt %d: calls it handed to host->defer are lost, for it recorded its success itself",
			 (long long)a->job->id, a->job->fn, a->job->attempt);
	a->outcome = (enum job_outcome)outcome;
	worker_count(w, a);
	worker_remove_files(w, a);
}

/* The log knows, or does not, why these were refused. */
static void after_asking(struct worker *w)
{
	size_t n = 0;

	for (struct attempt *a = w->refused.first; a; a = a->next, n++)
		worker_settle(w, a, w->cycle.outcomes[n]);
	attempt_list_clear(&w->refused);
}

/* One whose row somebody has locked stays to be given back, until the end of its lease does it. */
static void after_release(struct worker *w)
{
	while (w->releasing) {
		struct job *job = w->releasing;
		bool locked = store_ids_have(&w->cycle.locked, job->id);

		w->releasing = job->next;
		if (locked && w->cycle.sent_ns < job->lease_ns + (uint64_t)job->granted_ms * NS_PER_MS) {
			job->release_ns = w->cycle.sent_ns + RELEASE_AGAIN_NS;
			job_list_push(&w->release, job);
			continue;
		}
		if (locked)
			log_line(LOG_L_WARNING, "job %lld: not given back before its lease ended: its row is locked", (long long)job->id);
		else
			w->sum.released++;
		w->charged--;
		worker_settled(w, job->receipt);
		free(job);
	}
}

static void after_recording(struct worker *w)
{
	struct attempt *a, *next;

	if (w->cycle.outcomes)
		after_asking(w);
	for (a = w->recording.first; a; a = next) {
		next = a->next;
		if (store_ids_have(&w->cycle.recorded, a->job->id)) {
			worker_count(w, a);
			worker_remove_files(w, a);
			attempt_free(a);
		} else {
			a->refused = !a->resent;
			attempt_list_add(&w->refused, a);
		}
	}
	attempt_list_init(&w->recording);
	after_release(w);
}

void worker_look_again(struct worker *w)
{
	w->exhausted = w->dry = w->limited_dry = false;
	w->rate_ns = 0;
}

/* Jobs are ready, and a rate holds them back: a run that is to go on until nothing is ready waits for its next turn. A
 * service sleeps until then as it does for delayed jobs. */
static void wait_for_rate(struct worker *w)
{
	uint64_t rate_ns = w->rate_ns, look_ns = w->cycle.sent_ns + RATE_LOOK_MS * NS_PER_MS;

	if (!w->exhausted || w->loop || w->cnt > 0 || !rate_ns || rate_ns > w->cycle.sent_ns + RATE_WAIT_MS * NS_PER_MS)
		return;
	worker_look_again(w);
	w->claim_ns = rate_ns < look_ns ? rate_ns : look_ns;
}

/* Where the lanes that are known have nothing, others are looked for when it is time to. */
static void learn_lanes(struct worker *w)
{
	uint64_t pause_ns = (uint64_t)w->cycle.look_us * 1000 * LOOK_PAUSE;

	lanes_move(&w->lanes, &w->cycle.lanes);
	if (w->cycle.looks)
		w->look_ns = w->cycle.sent_ns + (pause_ns < LOOK_PAUSE_MAX_NS ? pause_ns : LOOK_PAUSE_MAX_NS);
	else if (w->cycle.claimed_len == 0)
		w->claim_ns = w->look_ns;
}

/* Those with leases of their own, which come first, begin before what waits here. */
static void add_claimed(struct worker *w)
{
	struct job *first = w->cycle.claimed, **at = &first, *others;

	for (size_t i = 0; i < w->cycle.claimed_alone; i++)
		at = &(*at)->next;
	others = *at;
	*at = NULL;
	pool_add(&w->pool, others);
	pool_add_first(&w->pool, first);
	pool_add_first(&w->pool, w->cycle.limited);
	w->cycle.claimed = w->cycle.limited = NULL;
}

static void after_claim(struct worker *w)
{
	size_t claimed = w->cycle.claimed_len + w->cycle.limited_len;
	bool busy = w->cycle.busy || w->cycle.limited_seen > 0;

	w->charged += (int64_t)claimed;
	if (w->cycle.claims) {
		learn_lanes(w);
		w->dry = w->cycle.claimed_len == 0 && !w->cycle.busy && w->cycle.looks;
		if (w->cycle.cut) {
			/* The next one need not ask for many more than it can take. */
			w->last_claim = claimed;
			w->last_unlimited = w->cycle.claimed_len;
		}
		if (w->cycle.claimed_len > 0)
			w->alone_only = w->cycle.cut && w->cycle.claimed_alone == w->cycle.claimed_len;
		w->limits = w->cycle.limits;
		if (!w->limits)
			w->rate_ns = 0;
	}
	if (w->cycle.claims_limited) {
		w->limited_dry = w->cycle.limited_len == 0 && w->cycle.limited_seen == 0;
		w->limited_got = w->cycle.limited_len;
		/* Kept: where claims of the two kinds take turns, the last one before the sleep may be the other. */
		w->rate_ns = w->cycle.limited_wait_ms > 0 ? w->cycle.sent_ns + (uint64_t)w->cycle.limited_wait_ms * NS_PER_MS : 0;
	}
	if (w->cycle.claims || w->cycle.claims_limited) {
		/* What attempts that ended meanwhile make ready will come with their record. */
		bool nothing = claimed == 0 && !busy && w->unrecorded.len == 0;

		w->exhausted = nothing && w->cycle.promotes && w->ended_since_claim == 0 && w->dry && (w->limited_dry || !w->limits);
		w->look_at_delayed = nothing && !w->cycle.promotes;
		wait_for_rate(w);
		/* Others were quicker with these: ask again, but not for ever, a row may be locked by a transaction that stays open. */
		if (claimed > 0 || !busy)
			w->empty_handed = 0;
		else if (++w->empty_handed >= EMPTY_HANDED_MAX)
			w->exhausted = true;
		else
			w->retry_ns = w->cycle.sent_ns + (20u << w->empty_handed) * NS_PER_MS;
	}
	if (w->adds) {
		w->dry = w->limited_dry = false;
		w->exhausted = false;
	}
	add_claimed(w);
	if (w->stopping)
		worker_give_back_unstarted(w); /* the claim was under way when we were asked to stop */
}

/* What the attempt says of itself cannot be stored: keep the fact. */
static void replace_texts(struct attempt *a, const char *why)
{
	char text[600];

	snprintf(text, sizeof(text), "the outcome (%s) could not be recorded as it was: %s", job_outcome_text(a->outcome), why);
	attempt_set_error(a, text);
	free(a->result);
	a->result = NULL;
	a->result_len = 0;
	attempt_drop_follow(a);
	a->retry_after_ms = -1;
	a->replaced = true;
}

/* An attempt that was sent alone was refused for good. Returns false when nothing is left to try. */
static bool mend(struct worker *w, struct attempt *bad, const struct deferred_error *err)
{
	char text[600];

	if (bad->follow && bad->outcome == JOB_OK) {
		/* What it wanted to have deferred was refused: then it has not succeeded. */
		snprintf(text, sizeof(text), "a call it deferred was refused: %s", err->message);
		attempt_drop_follow(bad);
		bad->outcome = JOB_FAILED;
		attempt_set_error(bad, text);
	} else if (!bad->replaced) {
		replace_texts(bad, err->message);
	} else {
		return false;
	}
	worker_decide(w, bad);
	worker_log_attempt(w, bad);
	return true;
}

/* So was that of an attempt set apart. What may pass is waited for: once the lease has ended, the server refuses the result. */
static void failed_alone(struct worker *w, bool passing, const struct deferred_error *err, uint64_t now)
{
	struct attempt *a = w->recording.first;
	const struct job *job = a->job;
	uint64_t ms = a->tries < 7 ? 10u << a->tries : ALONE_AGAIN_MAX_MS;

	if (passing && now < job->lease_ns + (uint64_t)job->granted_ms * NS_PER_MS + ALONE_OVER_NS) {
		if (a->tries++ == 0)
			log_line(LOG_L_WARNING, "job %lld %s attempt %d: its result (%s) waits to be recorded: %s", (long long)job->id, job->fn,
				 job->attempt, job_outcome_text(a->outcome), err->message);
		a->again_ns = now + ms * NS_PER_MS;
	} else if (passing || !mend(w, a, err)) {
		log_line(LOG_L_ERROR, "job %lld: the attempt cannot be recorded, it will count as lost: %s", (long long)job->id, err->message);
		store_ids_add(&w->abandoned, job->receipt);
		store_ids_sort(&w->abandoned);
		attempt_list_clear(&w->recording);
	}
}

/* A service outlasts a full disk as it outlasts a server that is away: once it is plain that this takes longer, and once a minute. */
static void tell_refused(const struct worker *w, const struct deferred_error *err)
{
	if (w->tries % TELL_TRIES == TRIES_MAX)
		log_line(LOG_L_WARNING, "the server refuses what is sent to it: %s; trying again", err->message);
}

/* The cycle was rolled back. Try again what may pass, set apart what cannot. */
int worker_cycle_failed(struct worker *w, struct deferred_error *err, uint64_t now)
{
	enum error_class class = error_class(err->sqlstate);
	bool locked = strcmp(err->sqlstate, "55P03") == 0, set_apart = w->alone;
	bool in_hand = w->apart.len > 0 || pool_load(&w->pool) > 0; /* results that would be lost with us */

	if (err->code == DEFERRED_ELOST || class == ERROR_CONNECTION || class == ERROR_READ_ONLY) {
		w->idle.keeping = false;
		worker_lose_connection(w, err, now);
		error_clear(err);
		return 0;
	}
	if (w->idle.keeping && class == ERROR_PREPARED) {
		w->idle.keeping = false;
		w->idle.keep_ns = 0; /* again, at once */
	}
	if (w->idle.keeping && err->code != DEFERRED_ESCHEMA) {
		worker_idle_keep_failed(w, err);
		store_cycle_clear(&w->cycle);
		w->db = DB_READY;
		error_clear(err);
		return 0;
	}
	if (class == ERROR_PREPARED && !pg_is_unnamed(w->pg)) {
		pg_set_unnamed(w->pg);
	} else if (err->code == DEFERRED_ESCHEMA) {
		return err->code;
	} else if (w->alone) {
		failed_alone(w, class == ERROR_TRANSIENT, err, now);
	} else if (class == ERROR_TRANSIENT && (w->tries < TRIES_MAX || locked || (w->recording.len == 0 && (in_hand || w->loop)))) {
		w->retry_ns = now + (w->tries < 7 ? 10u << w->tries : 1000u) * NS_PER_MS;
		tell_refused(w, err);
		w->tries++;
		/* Somebody holds the row of one of them, for longer than another worker's claim does: it must not keep the
		 * others waiting. */
		set_apart = locked;
	} else if (w->recording.len == 0) {
		return err->code;
	} else {
		set_apart = true;
	}
	if (!set_apart) {
		/* Back to the front of the others. */
		attempt_list_move(&w->recording, &w->unrecorded);
		attempt_list_move(&w->unrecorded, &w->recording);
	}
	attempt_list_move(&w->apart, &w->recording);
	worker_take_back(w);
	w->db = DB_READY;
	error_clear(err);
	return 0;
}

/* The first transaction of the cycle is committed. */
static void after_first(struct worker *w)
{
	after_recording(w);
	after_close(w);
	worker_after_renewal(w);
	worker_balance_after_report(w);
	worker_delayed_learn(w);
}

int worker_poll_cycle(struct worker *w, uint64_t now, struct deferred_error *err)
{
	bool done;
	int rc = store_cycle_poll(&w->cycle, &done, err);

	if (rc == 0 && !done)
		return 0;
	/* Each of the two stands, whatever became of the other. */
	if (rc < 0 && done && w->cycle.recorded_ok && !w->idle.keeping)
		after_first(w);
	if (rc < 0 && done && w->cycle.claimed_ok)
		after_claim(w);
	if (rc < 0)
		return worker_cycle_failed(w, err, now);
	if (w->alone)
		worker_look_again(w); /* what it held back may be ready now, and no claim came with it */
	else
		w->tries = 0;
	w->db = DB_READY;
	if (w->idle.keeping) {
		rc = worker_idle_kept(w, err);
		store_cycle_clear(&w->cycle);
		return rc < 0 ? worker_cycle_failed(w, err, now) : 0;
	}
	after_first(w);
	after_claim(w);
	worker_balance_after_claim(w);
	worker_scale_claimed(w);
	worker_idle_claimed(w, now);
	worker_listen_done(w, now);
	store_cycle_clear(&w->cycle);
	return 0;
}
