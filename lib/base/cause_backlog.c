/* SPDX-License-Identifier: MIT */
#include "base/cause_list.h"

#include <string.h>

#define SHARE_MANY 0.8
#define LITTLE 20 /* shares of fewer attempts say nothing */
#define SNAPSHOT_S 300
#define COMMIT_S 5
#define ARRIVALS_MIN 15 /* arrivals are counted over this time */

struct sums {
	int64_t ready, running, oldest_s;
	bool more;
	const struct cause_queue *oldest; /* the queue whose first job has waited longest; not a paused one */
};

static struct sums backlog_sum_queues(const struct cause_backlog *b)
{
	struct sums s = { .oldest_s = -1 };

	for (size_t i = 0; i < b->queues_len; i++) {
		const struct cause_queue *q = &b->queues[i];

		s.ready += q->ready;
		s.running += q->running;
		s.more |= q->more;
		if (q->ready > 0 && q->oldest_s > s.oldest_s && !q->paused) {
			s.oldest_s = q->oldest_s;
			s.oldest = q;
		}
	}
	return s;
}

static void backlog_add_queues(struct cause_list *list, const struct cause_backlog *b)
{
	struct cause *c;
	char many[48];

	for (size_t i = 0; i < b->queues_len && list->n < CAUSES_MAX / 2; i++) {
		const struct cause_queue *q = &b->queues[i];

		cause_jobs_text(many, sizeof(many), q->ready, q->more);
		if (q->ready == 0)
			continue;
		if (q->paused) {
			c = cause_add(list, CAUSE_PAUSED);
			SAY(why, "queue %s is paused", q->name);
			SAY(figure, "%s wait%s in it, the first for %s", many, q->ready == 1 ? "s" : "",
			    AGE(q->oldest_s));
			cause_say_paused(c, q->paused_by, q->paused_s);
			SAY(remedy, "deferred queue resume %s", q->name);
		} else if (q->messages_only) {
			continue;
		} else if (cause_lacks_rights(&q->serving)) {
			c = cause_add(list, CAUSE_RIGHTS);
			cause_say_rights(c, &q->serving, q->name);
		} else if (cause_is_unserved(&q->serving, q->oldest_s)) {
			c = cause_add(list, q->serving.others ? CAUSE_UNSERVED : CAUSE_STOPPED);
			cause_say_unserved(c, &q->serving, q->name);
			snprintf(c->figure + strlen(c->figure), sizeof(c->figure) - strlen(c->figure),
				 "; %s wait%s, the first for %s", many, q->ready == 1 ? "s" : "", AGE(q->oldest_s));
		} else if (q->limit_used_up) {
			struct cause_limited of = cause_limited(q->name, q->pattern);
			char rate[32];

			c = cause_add(list, q->max_running > 0 ? CAUSE_LIMIT : CAUSE_RATE);
			if (q->max_running > 0) {
				SAY(why, "queue %s runs no more than %" PRId64 " at once, and that many are running",
				    of.queue, q->max_running);
				SAY(remedy,
				    "deferred queue set %s --max-running %" PRId64 "; nothing if that is intended",
				    of.target, 2 * q->max_running);
			} else {
				SAY(why, "queue %s starts no more than %s", of.queue,
				    cause_rate_text(rate, sizeof(rate), q->rate));
				SAY(remedy, "deferred queue set %s --rate %s; nothing if that is intended", of.target,
				    cause_rate_text(rate, sizeof(rate), 2 * q->rate));
			}
			SAY(figure, "%s of queue %s wait%s, the first for %s", many, q->name, q->ready == 1 ? "s" : "",
			    AGE(q->oldest_s));
		}
	}
}

static void backlog_add_attempts(struct cause_list *list, const struct cause_backlog *b)
{
	const struct cause_rates *r = &b->rates;
	struct cause *c;
	char now[32], then[32];

	if (r->ended >= LITTLE && 2 * r->failed > r->ended) {
		c = cause_add(list, CAUSE_FAILING);
		SAY(why, "most attempts fail%s%.300s", r->error ? ": " : "", or_none(r->error));
		SAY(figure, "%" PRId64 " of %" PRId64 " attempts in the last %.0f min failed%s", r->failed, r->ended,
		    r->minutes, r->error ? "" : "; deferred show ID has the error");
		if (r->error_n > 0 && r->error_n < r->failed)
			snprintf(c->figure + strlen(c->figure), sizeof(c->figure) - strlen(c->figure),
				 ", %" PRId64 " of these in this way", r->error_n);
		SAY(remedy, "fix that; until then: deferred queue pause %s",
		    b->queue             ? b->queue
		    : b->queues_len == 1 ? b->queues[0].name
					 : "QUEUE");
	}
	if (r->superseded > 1 && 20 * r->superseded > r->ended) {
		c = cause_add(list, CAUSE_SUPERSEDED);
		SAY(why, "each start of check_deferred terminates the jobs of the one before");
		SAY(figure, "%" PRId64 " of %" PRId64 " attempts in the last %.0f min were superseded", r->superseded,
		    r->ended, r->minutes);
		SAY(remedy, "add --if-running=skip to the crontab line, or start less often");
	}
	if (b->runs >= 3 && (double)b->runs_by_count >= SHARE_MANY * (double)b->runs) {
		c = cause_add(list, CAUSE_COUNT);
		SAY(why, "each run ends after %" PRId64 " attempt%s, and leaves jobs behind", b->count,
		    plural(b->count));
		SAY(figure, "%" PRId64 " of the last %" PRId64 " runs of %s did", b->runs_by_count, b->runs,
		    or_none(b->runs_of));
		SAY(remedy, "add --cnt 0 --if-running=skip to the crontab line");
	}
	if (r->usual_run_p50_s > 0 && r->run_p50_s > 1.5 * r->usual_run_p50_s && r->ended >= LITTLE) {
		c = cause_add(list, CAUSE_SLOWER);
		SAY(why, "%s takes longer than usual%s%s", r->fn ? r->fn : "a function",
		    r->build ? ", since build " : "", or_none(r->build));
		SAY(figure, "half of its attempts took more than %s in the last %.0f min, and %s before",
		    cause_duration_text(now, sizeof(now), r->run_p50_s), r->minutes,
		    cause_duration_text(then, sizeof(then), r->usual_run_p50_s));
		SAY(remedy, r->build ? "deferred functions; install the build before it again"
				     : "look at what it waits for: its server, the network, the database");
	}
	if (r->fn && r->fn_share > 0.6 && r->ended >= LITTLE && r->fn_share < 0.995) {
		c = cause_add(list, CAUSE_ONE_FUNCTION);
		SAY(why, "function %s takes most of the time, and others wait for it", r->fn);
		SAY(figure, "%.0f %% of all run time in the last %.0f min", 100 * r->fn_share, r->minutes);
		SAY(remedy,
		    "deferred function set %s --max-running 1; or defer it to a queue of its own, with a line of its "
		    "own",
		    r->fn);
	}
	if (r->usual_arrived > 0 && r->arrived > 2 * r->usual_arrived && r->arrived * ARRIVALS_MIN >= LITTLE) {
		c = cause_add(list, CAUSE_RUSH);
		SAY(why, "more jobs arrive than usual%s%s", r->arrived_by ? ", most of them from " : "",
		    or_none(r->arrived_by));
		SAY(figure, "%.1f a minute in the last %d min, and %.1f before", r->arrived, ARRIVALS_MIN,
		    r->usual_arrived);
		SAY(remedy, "wait; or let more run: check_deferred --cnt 0 --runners N");
	}
	if (r->minutes > 0 && r->arrived > 1.05 * (double)r->ended / r->minutes && r->ended >= LITTLE) {
		double served = (double)r->ended / r->minutes;

		c = cause_add(list, CAUSE_CAPACITY);
		SAY(why, "more jobs arrive than are run: the backlog grows");
		SAY(figure, "%.1f a minute arrive and %.1f are run: it grows by %.1f a minute; %.1f ran at a time",
		    r->arrived, served, r->arrived - served, r->run_s / (r->minutes * 60));
		SAY(remedy, "let more run at a time: check_deferred --cnt 0 --runners N, or on another host; deferred "
			    "advise says how many");
	}
}

/* A standby that works takes far less. */
static bool commits_wait(const struct cause_backlog *b)
{
	return b->commits > 0 && b->commits_s >= COMMIT_S;
}

static void backlog_add_database(struct cause_list *list, const struct cause_backlog *b)
{
	struct cause *c;

	if (b->read_only) {
		c = cause_add(list, CAUSE_DATABASE);
		SAY(why, "the database takes no writes, so no job can be claimed");
		SAY(figure, "it is a standby, or default_transaction_read_only is on");
		SAY(remedy, "connect to the primary: target_session_attrs=read-write; deferred doctor");
	}
	if (commits_wait(b)) {
		c = cause_add(list, CAUSE_DATABASE);
		SAY(why,
		    "commits wait for a synchronous standby, and none of '%.100s' confirms them: nothing is recorded "
		    "as done",
		    or_none(b->standbys));
		SAY(figure, "%" PRId64 " session%s wait%s, the first for %s", b->commits, plural(b->commits),
		    b->commits == 1 ? "s" : "", AGE(b->commits_s));
		SAY(remedy, "start the standby, or let the primary go on alone: alter system set "
			    "synchronous_standby_names = ''; select pg_reload_conf()");
	}
	if (b->connections_max > 0 && (double)b->connections >= 0.95 * (double)b->connections_max) {
		c = cause_add(list, CAUSE_DATABASE);
		SAY(why, "the server has hardly a connection left, so workers may not connect");
		SAY(figure, "%" PRId64 " of %" PRId64 " connections are taken", b->connections, b->connections_max);
		SAY(remedy, "end some, or raise max_connections; deferred doctor");
	}
	if (b->snapshot.pid > 0 && b->snapshot.age_s >= SNAPSHOT_S) {
		c = cause_add(list, CAUSE_DATABASE);
		SAY(why, "an open transaction prevents the removal of dead rows, so finding jobs gets slower");
		cause_say_session(c->figure, sizeof(c->figure), &b->snapshot);
		SAY(remedy, "select pg_terminate_backend(%" PRId64 ")", b->snapshot.pid);
	}
}

/* Nothing is wrong. */
static void backlog_add_under_way(struct cause_list *list, const struct cause_backlog *b, const struct sums *s)
{
	const struct cause_rates *r = &b->rates;
	double a_minute = r->minutes > 0 ? (double)r->ended / r->minutes : 0;
	struct cause *c = cause_add(list, CAUSE_UNDER_WAY);
	char many[48];

	cause_jobs_text(many, sizeof(many), s->ready, s->more);
	SAY(why, "%s wait%s, and nothing holds %s back", many, s->ready == 1 ? "s" : "", s->ready == 1 ? "it" : "them");
	if (a_minute > 0)
		SAY(figure, "%.1f a minute ended in the last %.0f min: that takes about %s%s", a_minute, r->minutes,
		    AGE((int64_t)((double)s->ready / a_minute * 60)), s->more ? " or more" : "");
	else if (s->oldest && s->oldest->serving.gap_s != CAUSE_UNKNOWN)
		SAY(figure, "the first for %s; %s starts about every %s", AGE(s->oldest_s),
		    or_none(s->oldest->serving.instance), AGE(s->oldest->serving.gap_s));
	else
		SAY(figure, "the first for %s", AGE(s->oldest_s));
}

static void backlog_add_schedule(struct cause_list *list, const struct cause_backlog *b)
{
	struct cause *c = cause_add(list, CAUSE_SCHEDULE);
	bool failed = strcmp(b->schedule_what, "failed") == 0, dead = strcmp(b->schedule_what, "dead") == 0;
	char others[64] = "";

	if (b->schedules > 1)
		snprintf(others, sizeof(others), "; so %s %" PRId64 " other%s", b->schedules == 2 ? "is" : "are",
			 b->schedules - 1, plural(b->schedules - 1));
	if (failed) {
		SAY(why, "schedule %s fails: its last tick could not be deferred%s%.400s", b->schedule,
		    b->schedule_error ? ": " : "", or_none(b->schedule_error));
		SAY(remedy, "deferred schedule show %s; for the tick that was lost: deferred schedule run %s",
		    b->schedule, b->schedule);
	} else if (dead) {
		SAY(why, "schedule %s fails: its last job, %" PRId64 ", is dead", b->schedule, b->schedule_job);
		SAY(remedy, "deferred show %" PRId64 "; after the fix: deferred retry %" PRId64, b->schedule_job,
		    b->schedule_job);
	} else {
		c->level = CAUSE_LOOK;
		SAY(why, "schedule %s is paused", b->schedule);
		SAY(remedy, "deferred schedule resume %s", b->schedule);
	}
	if (b->schedule_s == CAUSE_UNKNOWN)
		SAY(figure, "no tick yet%s", others);
	else
		SAY(figure, "the last tick was %s ago%s", AGE(b->schedule_s), others);
}

static void backlog_add_absent(struct cause_list *list, const struct cause_absent *a)
{
	struct cause *c = cause_add(list, CAUSE_ABSENT);
	char others[64] = "";

	if (a->n > 1)
		snprintf(others, sizeof(others), "; %" PRId64 " more line%s or service%s", a->n - 1, plural(a->n - 1),
			 plural(a->n - 1));
	SAY(why, "%s on host %s has stopped, while others still run", a->service ? "the service" : "check_deferred",
	    a->host);
	if (a->service)
		SAY(figure, "pidfile %s: it was seen %s ago%s", a->pidfile, AGE(a->seen_s), others);
	else
		SAY(figure, "pidfile %s: it was seen %s ago, and used to start every %s, %" PRId64 " times%s",
		    a->pidfile, AGE(a->seen_s), AGE(a->every_s), a->starts, others);
	SAY(remedy, "deferred doctor on that host; look at the crontab line or the unit, and its log");
}

static void backlog_add_gone(struct cause_list *list, const struct cause_gone *g)
{
	struct cause *c = cause_add(list, CAUSE_VANISHED);
	char many[48];

	cause_jobs_text(many, sizeof(many), g->jobs, false);
	SAY(why, "worker %" PRId64 " (%s pid %" PRId64 "), which has %s, is gone", g->worker, or_none(g->host), g->pid,
	    many);
	SAY(figure, "its lease ends in %s, and others may take %s then", AGE(g->lease_left_s),
	    g->jobs == 1 ? "it" : "them");
}

size_t cause_of_backlog(const struct cause_backlog *b, struct cause causes[CAUSES_MAX])
{
	struct cause_list list = { causes, 0 };
	struct sums s = backlog_sum_queues(b);
	bool paused = b->schedule && strcmp(b->schedule_what, "paused") == 0;
	struct cause *c;

	if (b->table.name) {
		cause_add_table_locked(&list, &b->table);
		return list.n;
	}
	if (s.ready == 0) {
		if (b->schedule && !paused)
			backlog_add_schedule(&list, b);
		if (b->absent.n > 0)
			backlog_add_absent(&list, &b->absent);
		if (b->gone.jobs > 0)
			backlog_add_gone(&list, &b->gone);
		c = cause_add(&list, CAUSE_NOTHING_WAITS);
		SAY(why, b->queue ? "nothing waits in queue %s" : "nothing waits", b->queue);
		SAY(figure, "0 jobs are ready, workers have claimed %" PRId64, s.running);
		if (paused)
			backlog_add_schedule(&list, b);
		return list.n;
	}
	if (b->read_only || commits_wait(b))
		backlog_add_database(&list, b);
	backlog_add_queues(&list, b);
	if (b->unknown_fn) {
		c = cause_add(&list, CAUSE_UNKNOWN_FUNCTION);
		cause_say_unknown_function(c, b->unknown_fn, NULL, NULL);
		SAY(figure, "%" PRId64 " job%s wait%s for it, the first for %s", b->unknown_jobs,
		    plural(b->unknown_jobs), b->unknown_jobs == 1 ? "s" : "", AGE(b->unknown_s));
	}
	if (b->broken_fn)
		cause_add_broken(&list, b->broken_fn, b->broken_s);
	if (b->gone.jobs > 0)
		backlog_add_gone(&list, &b->gone);
	backlog_add_attempts(&list, b);
	if (!b->read_only && !commits_wait(b))
		backlog_add_database(&list, b);
	if (b->absent.n > 0)
		backlog_add_absent(&list, &b->absent);
	if (list.n == 0)
		backlog_add_under_way(&list, b, &s);
	if (b->schedule)
		backlog_add_schedule(&list, b);
	return list.n;
}
