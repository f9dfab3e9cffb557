/* SPDX-License-Identifier: MIT */
#include "base/cause.h"

#include "base/text/plural.h"
#include "base/span.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A queue counts as unserved after this time and three usual gaps without a worker. One start may be late. */
#define PATIENCE_S 300
#define SERVICE_PATIENCE_S 150 /* a service says every 30 s that it lives */

struct list {
	struct cause *causes;
	size_t n;
};

static struct cause *cause_add(struct list *list, enum cause_kind kind)
{
	static const enum cause_level levels[] = {
#define X(name, word, level) CAUSE_##level,
		CAUSES_OF_JOB(X) CAUSES_OF_BACKLOG(X)
#undef X
	};
	struct cause *c = &list->causes[list->n < CAUSES_MAX ? list->n++ : CAUSES_MAX - 1];

	memset(c, 0, sizeof(*c));
	c->kind = kind;
	c->level = levels[kind];
	return c;
}

#define SAY(member, ...) snprintf(c->member, sizeof(c->member), __VA_ARGS__)

const char *cause_word(enum cause_kind kind)
{
	static const char *const words[] = {
#define X(name, word, level) word,
		CAUSES_OF_JOB(X) CAUSES_OF_BACKLOG(X)
#undef X
	};

	return kind < CAUSE_KINDS ? words[kind] : "";
}

void cause_job_init(struct cause_job *job)
{
	*job = (struct cause_job){
		.last_id = CAUSE_UNKNOWN,
		.neighbour_s = CAUSE_UNKNOWN,
		.kept_s = CAUSE_UNKNOWN,
		.worker_unseen_s = CAUSE_UNKNOWN,
		.usual_run_s = CAUSE_UNKNOWN,
		.broken_s = CAUSE_UNKNOWN,
		.max_running = CAUSE_UNKNOWN,
		.ahead = CAUSE_UNKNOWN,
		.taken_s = CAUSE_UNKNOWN,
		.serving = { .seen_s = CAUSE_UNKNOWN, .gap_s = CAUSE_UNKNOWN, .started_s = CAUSE_UNKNOWN },
		.rates = { .run_p50_s = CAUSE_UNKNOWN,
			   .usual_run_p50_s = CAUSE_UNKNOWN,
			   .arrived = CAUSE_UNKNOWN,
			   .usual_arrived = CAUSE_UNKNOWN },
	};
}

void cause_backlog_init(struct cause_backlog *backlog)
{
	*backlog = (struct cause_backlog){
		.idle_s = CAUSE_UNKNOWN,
		.schedule_s = CAUSE_UNKNOWN,
		.rates = { .run_p50_s = CAUSE_UNKNOWN,
			   .usual_run_p50_s = CAUSE_UNKNOWN,
			   .arrived = CAUSE_UNKNOWN,
			   .usual_arrived = CAUSE_UNKNOWN },
	};
}

/* ---- words ---------------------------------------------------------------------------------------- */

/* One text at a time, in a buffer of whoever says it. */
struct span_text {
	char text[SPAN_AGE_SIZE];
};

static const char *age(struct span_text *buf, int64_t seconds)
{
	return span_age(buf->text, seconds);
}

#define AGE(s) age(&(struct span_text){ { 0 } }, (s))

static const char *or_none(const char *text)
{
	return text ? text : "";
}

/* "12 jobs", or "10000 jobs or more". */
static void jobs(char *buf, size_t size, int64_t n, bool more)
{
	snprintf(buf, size, "%" PRId64 " job%s%s", n, plural(n), more ? " or more" : "");
}

static void say_session(char *buf, size_t size, const struct cause_session *s)
{
	snprintf(buf, size, "session %" PRId64 " of %s, %s, in a transaction for %s%s%.160s", s->pid,
		 s->who ? s->who : "somebody", s->state ? s->state : "state not seen", AGE(s->age_s),
		 s->query ? ": " : "", or_none(s->query));
}

/* A rate as `deferred queue set` takes it. */
static const char *rate_text(char *buf, size_t size, double a_second)
{
	if (a_second >= 1)
		snprintf(buf, size, "%.3g/s", a_second);
	else if (a_second * 60 >= 1)
		snprintf(buf, size, "%.3g/min", a_second * 60);
	else
		snprintf(buf, size, "%.3g/h", a_second * 3600);
	return buf;
}

static const char *duration(char *buf, size_t size, double s)
{
	if (s < 1)
		snprintf(buf, size, "%.0fms", s * 1000);
	else if (s < 120)
		snprintf(buf, size, "%.1fs", s);
	else
		snprintf(buf, size, "%s", AGE((int64_t)s));
	return buf;
}

/* ---- one job -------------------------------------------------------------------------------------- */

static void not_there(struct list *list, const struct cause_job *j)
{
	struct cause *c;

	if (j->last_id != CAUSE_UNKNOWN && j->id > j->last_id) {
		c = cause_add(list, CAUSE_NO_SUCH_ID);
		SAY(why, "job %" PRId64 " does not exist: it was never deferred", j->id);
		SAY(figure, "the last id is %" PRId64, j->last_id);
		SAY(mend, "deferred ls");
		return;
	}
	if (j->writer.pid > 0 && (j->neighbour_s == CAUSE_UNKNOWN || j->writer.age_s >= j->neighbour_s)) {
		c = cause_add(list, CAUSE_NOT_COMMITTED);
		SAY(why, "job %" PRId64 " does not exist: the transaction that deferred it may not have committed yet",
		    j->id);
		say_session(c->figure, sizeof(c->figure), &j->writer);
		SAY(mend, "commit there, or: select pg_terminate_backend(%" PRId64 ")", j->writer.pid);
	}
	if (j->kept_s != CAUSE_UNKNOWN && j->neighbour_s != CAUSE_UNKNOWN && j->neighbour_s >= j->kept_s) {
		c = cause_add(list, CAUSE_PURGED);
		SAY(why, "job %" PRId64 " has been purged", j->id);
		SAY(figure, "it was deferred about %s ago, and the last purge removed everything older than %s",
		    AGE(j->neighbour_s), AGE(j->kept_s));
		return;
	}
	c = cause_add(list, CAUSE_ROLLED_BACK);
	SAY(why, "job %" PRId64 " does not exist: the transaction that deferred it was rolled back%s", j->id,
	    j->writer.pid > 0 ? "" : ", or the job was purged");
	if (j->neighbour_s != CAUSE_UNKNOWN)
		SAY(figure,
		    "the next job that is there was deferred %s ago; no transaction that wrote something before is "
		    "open",
		    AGE(j->neighbour_s));
	else
		SAY(figure, "the last id is %" PRId64 "; no transaction that wrote something is open", j->last_id);
	SAY(mend, "defer it again, in a transaction that commits");
}

static void cause_ended(struct list *list, const struct cause_job *j)
{
	struct cause *c = cause_add(list, CAUSE_ENDED);
	bool dead = strcmp(j->state, "dead") == 0;

	if (strcmp(j->state, "done") != 0)
		c->level = dead ? CAUSE_ACT : CAUSE_LOOK;
	if (strcmp(j->state, "done") == 0)
		SAY(why, "job %" PRId64 " is done", j->id);
	else
		SAY(why, "job %" PRId64 " is %s%s%s%s%.300s", j->id, j->state,
		    j->outcome && dead ? ": its last attempt " : "",
		    !dead || !j->outcome                 ? ""
		    : strcmp(j->outcome, "timeout") == 0 ? "took longer than its time limit"
		    : strcmp(j->outcome, "failed") == 0  ? "failed"
		    : strcmp(j->outcome, "crashed") == 0 ? "crashed"
		    : strcmp(j->outcome, "lost") == 0    ? "was lost"
							 : j->outcome,
		    j->error && j->error[0] ? ": " : "", or_none(j->error));
	SAY(figure, "%" PRId64 " attempt%s, ended %s ago", j->attempts, plural(j->attempts), AGE(j->ended_s));
	if (strcmp(j->state, "done") != 0)
		SAY(mend, "deferred retry %" PRId64, j->id);
}

/* Is what holds the job known to be gone? */
static const char *vanished(const struct cause_job *j)
{
	if (j->lease_over)
		return "its lease is over";
	if (!j->worker_there)
		return "its registration is gone";
	if (j->worker_rebooted)
		return "its host has rebooted";
	if (j->worker_ended)
		return "it has ended";
	if (j->worker_cut_off)
		return "its session is gone";
	if (j->worker_unseen_s != CAUSE_UNKNOWN && j->worker_unseen_s >= SERVICE_PATIENCE_S)
		return "it has not been seen";
	return NULL;
}

static void cause_held(struct list *list, const struct cause_job *j)
{
	const char *gone = vanished(j);
	struct cause *c;
	char usual[32];

	if (!j->fn) { /* a consumer has the message */
		c = cause_add(list, CAUSE_RUNNING);
		SAY(why, "message %" PRId64 " was taken by a consumer, and is hidden from others until it deletes it",
		    j->id);
		SAY(figure, "taken for the %" PRId64 "%s time; comes again in %s", j->attempts,
		    j->attempts == 1   ? "st"
		    : j->attempts == 2 ? "nd"
		    : j->attempts == 3 ? "rd"
				       : "th",
		    AGE(j->lease_left_s));
		return;
	}
	if (gone) {
		c = cause_add(list, CAUSE_VANISHED);
		SAY(why, "worker %" PRId64 " (%s pid %" PRId64 "), which has job %" PRId64 ", is gone: %s", j->worker,
		    or_none(j->worker_host), j->worker_pid, j->id, gone);
		if (j->lease_over)
			SAY(figure, "the lease ended %s ago: the next start of check_deferred makes it ready",
			    AGE(-j->lease_left_s));
		else
			SAY(figure, "the lease ends in %s, and others may take it then", AGE(j->lease_left_s));
		if (j->lease_over)
			SAY(mend, "check_deferred");
		return;
	}
	c = cause_add(list, CAUSE_RUNNING);
	if (j->usual_run_s > 0 && (double)j->claimed_s > j->usual_run_s) {
		c->level = CAUSE_LOOK;
		SAY(why,
		    "job %" PRId64 " is being run by worker %" PRId64 " (%s pid %" PRId64
		    "), for longer than 99 %% of the attempts of %s",
		    j->id, j->worker, or_none(j->worker_host), j->worker_pid, or_none(j->fn));
		SAY(figure, "for %s; 99 %% of the others were done in %s%s%s", AGE(j->claimed_s),
		    duration(usual, sizeof(usual), j->usual_run_s), j->progress ? "; " : "", or_none(j->progress));
	} else {
		SAY(why, "job %" PRId64 " is being run by worker %" PRId64 " (%s pid %" PRId64 ")", j->id, j->worker,
		    or_none(j->worker_host), j->worker_pid);
		SAY(figure, "claimed %s ago; its lease lasts for another %s, and is renewed%s%s", AGE(j->claimed_s),
		    AGE(j->lease_left_s), j->progress ? "; " : "", or_none(j->progress));
	}
	SAY(mend, "deferred cancel %" PRId64, j->id);
}

static void delayed(struct list *list, const struct cause_job *j)
{
	struct cause *c = cause_add(list, CAUSE_DELAYED);

	if (j->failures > 0) {
		c->level = CAUSE_LOOK;
		SAY(why, "job %" PRId64 " waits for its next attempt%s%.300s", j->id,
		    j->error && j->error[0] ? ", the last one having failed: " : ": the last one failed",
		    or_none(j->error));
		SAY(figure, "due in %s, after %" PRId64 " attempt%s", AGE(j->due_in_s), j->attempts,
		    plural(j->attempts));
	} else {
		SAY(why, j->fn ? "job %" PRId64 " is delayed" : "message %" PRId64 " is delayed", j->id);
		SAY(figure, "due in %s", AGE(j->due_in_s));
	}
	if (j->fn)
		SAY(mend, "deferred retry %" PRId64, j->id);
}

static void waiting(struct list *list, const struct cause_job *j)
{
	struct cause *c = cause_add(list, CAUSE_WAITING);

	if (j->flow) {
		SAY(why, "job %" PRId64 " waits for the end of flow %" PRId64, j->id, j->flow);
		if (j->flow_waits_for)
			SAY(figure, "job %" PRId64 " of it has not ended; all before that have", j->flow_waits_for);
		SAY(mend, "deferred flow show %" PRId64, j->flow);
		return;
	}
	SAY(why, "job %" PRId64 " waits for the end of other jobs", j->id);
	if (j->waits_for)
		SAY(figure, "%s", j->waits_for);
	SAY(mend, "select * from deferred.parents(%" PRId64 ")", j->id);
}

static void say_unknown_function(struct cause *c, const char *fn, const char *host, const char *why)
{
	if (host) {
		SAY(why, "function %s is refused by the workers that have it", fn);
		SAY(figure, "on %s: %.300s", host, or_none(why));
		SAY(mend, "deferred doctor");
		return;
	}
	SAY(why, "no worker offers function %s", fn);
	SAY(mend,
	    "if the name is wrong: deferred cancel --fn %s; "
	    "if it is right: install the plugin where check_deferred runs, and read its log",
	    fn);
}

static int64_t patience(const struct cause_serving *s)
{
	return s->gap_s != CAUSE_UNKNOWN && 3 * s->gap_s > PATIENCE_S ? 3 * s->gap_s : PATIENCE_S;
}

/* Does nobody come for what has been ready so long? */
#define SERVICE_BACK_S 10 /* a service that was restarted is back by then */

static bool unserved(const struct cause_serving *s, int64_t ready_s)
{
	if (s->alive)
		return false;
	if (s->seen_s == CAUSE_UNKNOWN)
		return true;
	if (s->service)
		return ready_s > SERVICE_BACK_S && s->seen_s > SERVICE_BACK_S;
	return ready_s > patience(s) && s->seen_s > patience(s);
}

static void say_unserved(struct cause *c, const struct cause_serving *s, const char *queue)
{
	if (s->seen_s == CAUSE_UNKNOWN && !s->others) {
		SAY(why, "no worker was ever seen: check_deferred has not been started for this database");
		SAY(figure, "0 starts of check_deferred that had work");
		SAY(mend, "run deferred doctor on the host whose cron starts check_deferred");
	} else if (s->seen_s == CAUSE_UNKNOWN) {
		SAY(why, "no worker serves queue %s", queue);
		SAY(figure, "the workers that were started serve other queues");
		SAY(mend, "check_deferred --queue %s", queue);
	} else if (s->service) {
		SAY(why, "the service that served queue %s has ended, or is cut off from the database", queue);
		SAY(figure, "%s was seen %s ago", or_none(s->instance), AGE(s->seen_s));
		SAY(mend, "run deferred doctor on that host; look at the unit and its log (exit code 77: a right is "
			  "missing)");
	} else {
		SAY(why, "the workers that served queue %s no longer start", queue);
		if (s->gap_s != CAUSE_UNKNOWN)
			SAY(figure, "the last one, %s, was seen %s ago, and one used to start every %s",
			    or_none(s->instance), AGE(s->seen_s), AGE(s->gap_s));
		else
			SAY(figure, "the last one, %s, was seen %s ago", or_none(s->instance), AGE(s->seen_s));
		SAY(mend, "run deferred doctor on that host; look at the crontab line and its log");
	}
}

static bool lacks_rights(const struct cause_serving *s)
{
	return s->role || s->grants;
}

static void say_rights(struct cause *c, const struct cause_serving *s, const char *queue)
{
	if (s->role) {
		SAY(why, "the last worker that served queue %s connected as role %s, which may not run jobs", queue,
		    s->role);
		SAY(figure, "%s: the role lacks the rights of deferred_worker", or_none(s->instance));
		SAY(mend, "grant deferred_worker to %s", s->role);
	} else {
		SAY(why, "no worker may run jobs: role deferred_worker lacks rights that the schema gave it");
		SAY(figure, "each claim or record that needs them is refused");
		SAY(mend, "%s", s->grants);
	}
}

static void broken(struct list *list, const char *fn, int64_t for_s)
{
	struct cause *c = cause_add(list, CAUSE_BREAKER);

	SAY(why,
	    "function %s is paused: its last attempts all crashed; a single job is tried now and then, "
	    "until one does not crash",
	    fn);
	SAY(figure, "paused for %s", AGE(for_s));
	SAY(mend, "deferred ls --fn %s; after the fix: deferred function resume %s", fn, fn);
}

static void limits(struct list *list, const struct cause_job *j)
{
	struct cause *c;
	char rate[32], more[32];

	if (j->broken_s != CAUSE_UNKNOWN)
		broken(list, j->fn, j->broken_s);
	if (j->max_running != CAUSE_UNKNOWN && j->running >= j->max_running) {
		c = cause_add(list, CAUSE_LIMIT);
		SAY(why, "%s %s runs no more than %" PRId64 " at once", j->fn_limit ? "function" : "queue",
		    j->fn_limit ? j->fn : j->queue, j->max_running);
		SAY(figure, "%" PRId64 " of %" PRId64 " are running: %s", j->running, j->max_running,
		    or_none(j->running_ids));
		SAY(mend, "deferred %s set %s --max-running %" PRId64, j->fn_limit ? "function" : "queue",
		    j->fn_limit ? j->fn : j->queue, 2 * j->max_running);
	}
	if (j->rate > 0 && j->rate_wait_s > 0) {
		c = cause_add(list, CAUSE_RATE);
		SAY(why, "%s %s starts no more than %s", j->fn_rate ? "function" : "queue",
		    j->fn_rate ? j->fn : j->queue, rate_text(rate, sizeof(rate), j->rate));
		SAY(figure, "the next one may start in %s", duration(more, sizeof(more), j->rate_wait_s));
		SAY(mend, "deferred %s set %s --rate %s", j->fn_rate ? "function" : "queue",
		    j->fn_rate ? j->fn : j->queue, rate_text(rate, sizeof(rate), 2 * j->rate));
	}
	if (j->key && (j->key_max <= 1 ? j->key_before > 0 : j->key_running >= j->key_max)) {
		c = cause_add(list, CAUSE_KEY);
		if (j->key_max <= 1)
			SAY(why,
			    "jobs with concurrency key '%.200s' run one after the other, and job %" PRId64
			    ", which is %s, comes before it",
			    j->key, j->key_first, or_none(j->key_first_state));
		else
			SAY(why, "of the jobs with concurrency key '%.200s' no more than %" PRId64 " run at once",
			    j->key, j->key_max);
		if (j->key_max <= 1)
			SAY(figure, "%" PRId64 " job%s of that key come%s before it", j->key_before,
			    plural(j->key_before), j->key_before == 1 ? "s" : "");
		else
			SAY(figure, "%" PRId64 " are running", j->key_running);
		SAY(mend, "deferred why %" PRId64, j->key_first);
	}
}

static void expires_first(struct list *list, const struct cause_job *j, double turn_s)
{
	struct cause *c;

	if (!j->expires || turn_s <= (double)j->expires_in_s)
		return;
	c = cause_add(list, CAUSE_EXPIRES_FIRST);
	SAY(why, "job %" PRId64 " expires before its turn comes", j->id);
	SAY(figure, "it expires in %s, and its turn comes in %s", AGE(j->expires_in_s), AGE((int64_t)turn_s));
	SAY(mend, "let more run: check_deferred --cnt 0 --runners N; or defer with a higher --priority");
}

static void cause_turn(struct list *list, const struct cause_job *j)
{
	const struct cause_rates *r = &j->rates;
	double a_minute = r->minutes > 0 ? (double)r->ended / r->minutes : 0, turn_s;
	struct cause *c;
	char many[48];

	if (j->ahead > 0) {
		bool more = j->ahead >= j->ahead_counted;

		turn_s = a_minute > 0 ? (double)j->ahead / a_minute * 60 : 0;
		expires_first(list, j, turn_s);
		c = cause_add(list, CAUSE_BEHIND);
		jobs(many, sizeof(many), j->ahead, more);
		SAY(why, "job %" PRId64 " waits for its turn: %s of queue %s come%s before it", j->id, many, j->queue,
		    j->ahead == 1 && !more ? "s" : "");
		if (a_minute > 0)
			SAY(figure, "%.1f a minute ended in the last %.0f min: its turn comes in about %s%s", a_minute,
			    r->minutes, AGE((int64_t)turn_s), more ? " or more" : "");
		else
			SAY(figure, "no attempt of this queue ended lately");
		SAY(mend, "deferred why --queue %s", j->queue);
		return;
	}
	if (j->serving.gap_s != CAUSE_UNKNOWN && j->serving.started_s != CAUSE_UNKNOWN && !j->serving.alive)
		expires_first(list, j, (double)(j->serving.gap_s - j->serving.started_s));
	if (unserved(&j->serving, j->ready_s) || lacks_rights(&j->serving))
		return;
	c = cause_add(list, CAUSE_NEXT_START);
	if (j->serving.alive) {
		SAY(why,
		    "nothing holds job %" PRId64
		    " back: a worker that serves its queue is at work, and takes it with its next claim",
		    j->id);
		SAY(figure, "%s, seen %s ago", or_none(j->serving.instance), AGE(j->serving.seen_s));
	} else if (j->serving.gap_s != CAUSE_UNKNOWN) {
		int64_t next = j->serving.gap_s - j->serving.started_s;

		SAY(why, "nothing holds job %" PRId64 " back: the next start of check_deferred takes it", j->id);
		SAY(figure, "%s starts about every %s, the next time %s%s", or_none(j->serving.instance),
		    AGE(j->serving.gap_s), next > 0 ? "in " : "now", next > 0 ? AGE(next) : "");
	} else {
		SAY(why, "nothing holds job %" PRId64 " back: the next start of check_deferred takes it", j->id);
		SAY(figure, "ready for %s; the last start with work, %s, was %s ago", AGE(j->ready_s),
		    or_none(j->serving.instance), AGE(j->serving.started_s));
	}
	SAY(mend, "check_deferred");
}

static void say_holder(struct cause *c, const struct cause_session *holder)
{
	if (holder->pid > 0) {
		say_session(c->figure, sizeof(c->figure), holder);
		SAY(mend, "commit there, or: select pg_terminate_backend(%" PRId64 ")", holder->pid);
	} else {
		SAY(figure, "a prepared transaction: table pg_prepared_xacts");
		SAY(mend, "commit prepared, or rollback prepared");
	}
}

static void table_locked(struct list *list, const struct cause_table *t)
{
	struct cause *c = cause_add(list, CAUSE_LOCKED);

	SAY(why,
	    t->wanted ? "an open transaction delays another one that locks all of table deferred.%s, and all "
			"sessions that need the table wait"
		      : "an open transaction has locked all of table deferred.%s",
	    t->name);
	say_holder(c, &t->holder);
}

/* Appended to the figure. */
static void say_paused(struct cause *c, const char *by, int64_t s)
{
	size_t len = strlen(c->figure);

	if (by)
		snprintf(c->figure + len, sizeof(c->figure) - len, "; paused by %s %s ago", by, AGE(s));
}

static void ready(struct list *list, const struct cause_job *j)
{
	struct cause *c;
	char many[48];

	if (j->paused) {
		c = cause_add(list, CAUSE_PAUSED);
		SAY(why, "queue %s is paused", j->queue);
		jobs(many, sizeof(many), j->queue_ready, j->queue_ready >= j->queue_counted);
		SAY(figure, "%s wait%s in it", many, j->queue_ready == 1 ? "s" : "");
		say_paused(c, j->paused_by, j->paused_s);
		SAY(mend, "deferred queue resume %s", j->queue);
	}
	if (!j->fn) {
		c = cause_add(list, CAUSE_MESSAGE);
		SAY(why,
		    "message %" PRId64 " waits for a consumer: it has no function, so check_deferred does not run it",
		    j->id);
		if (j->taken_s != CAUSE_UNKNOWN)
			SAY(figure, "ready for %s; a message of queue %s was taken %s ago", AGE(j->ready_s), j->queue,
			    AGE(j->taken_s));
		else
			SAY(figure, "ready for %s; no message that is now in queue %s was ever taken", AGE(j->ready_s),
			    j->queue);
		SAY(mend, "start a consumer of queue %s", j->queue);
		return;
	}
	if (j->fn_unknown) {
		c = cause_add(list, CAUSE_UNKNOWN_FUNCTION);
		say_unknown_function(c, j->fn, j->refused_host, j->refused_why);
		if (!j->refused_host)
			SAY(figure, "ready for %s; deferred functions lists what workers offer", AGE(j->ready_s));
	}
	if (j->row_locked || j->lane_locked) {
		c = cause_add(list, CAUSE_LOCKED);
		SAY(why, "%s",
		    j->row_locked
			    ? "an open transaction has locked the row of the job"
			    : "an open transaction has locked the place of its lane, so no job of the lane can be "
			      "claimed");
		say_holder(c, &j->holder);
	}
	if (j->stranded) {
		c = cause_add(list, CAUSE_STRANDED);
		SAY(why,
		    "job %" PRId64
		    " is ready, and no claim finds it: its rows were restored from a dump, or changed by hand",
		    j->id);
		SAY(figure, "the cursor of its lane is beyond it, and no lease has it");
		SAY(mend, "as deferred_owner: select deferred.__repair(); a worker does the same within a day");
	}
	if (lacks_rights(&j->serving)) {
		c = cause_add(list, CAUSE_RIGHTS);
		say_rights(c, &j->serving, j->queue);
	}
	if (unserved(&j->serving, j->ready_s)) {
		c = cause_add(list, CAUSE_UNSERVED);
		say_unserved(c, &j->serving, j->queue);
	}
	limits(list, j);
	if (j->step_group) {
		c = cause_add(list, CAUSE_IN_STEP);
		SAY(why, "the workers that serve queue %s are kept level, and wait for others of group %s", j->queue,
		    j->step_group);
		SAY(figure, "waited for: %s", or_none(j->step_for));
		SAY(mend,
		    "look at what it runs: deferred ls --running; with a larger range in --balance they wait less");
	}
	cause_turn(list, j);
}

size_t cause_of_job(const struct cause_job *j, struct cause causes[CAUSES_MAX])
{
	struct list list = { causes, 0 };

	if (j->table.name) {
		table_locked(&list, &j->table);
	} else if (!j->there) {
		not_there(&list, j);
	} else if (strcmp(j->state, "claimed") == 0 || (j->leased && j->lease_over)) {
		cause_held(&list, j);
	} else if (strcmp(j->state, "ready") != 0 && strcmp(j->state, "delayed") != 0 &&
		   strcmp(j->state, "waiting") != 0) {
		cause_ended(&list, j);
	} else {
		if (j->expires && j->expires_in_s < 0) {
			struct cause *c = cause_add(&list, CAUSE_EXPIRED);

			SAY(why, "job %" PRId64 " has expired, and ends when a worker looks at it", j->id);
			SAY(figure, "it expired %s ago", AGE(-j->expires_in_s));
			SAY(mend, "defer it again, with a longer --expires");
		}
		if (strcmp(j->state, "waiting") == 0)
			waiting(&list, j);
		else if (strcmp(j->state, "delayed") == 0)
			delayed(&list, j);
		else
			ready(&list, j);
	}
	return list.n;
}

/* ---- a backlog ------------------------------------------------------------------------------------ */

#define SHARE_MANY 0.8
#define LITTLE 20       /* attempts below which shares tell nothing */
#define ARRIVALS_MIN 15 /* what arrived is counted over */

struct sums {
	int64_t ready, running, oldest_s;
	bool more;
	const struct cause_queue *oldest; /* whose first job has waited longest, of those that are not paused */
};

static struct sums sum(const struct cause_backlog *b)
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

static void queues(struct list *list, const struct cause_backlog *b)
{
	struct cause *c;
	char many[48];

	for (size_t i = 0; i < b->queues_len && list->n < CAUSES_MAX / 2; i++) {
		const struct cause_queue *q = &b->queues[i];

		jobs(many, sizeof(many), q->ready, q->more);
		if (q->ready == 0)
			continue;
		if (q->paused) {
			c = cause_add(list, CAUSE_PAUSED);
			SAY(why, "queue %s is paused", q->name);
			SAY(figure, "%s wait%s in it, the first for %s", many, q->ready == 1 ? "s" : "",
			    AGE(q->oldest_s));
			say_paused(c, q->paused_by, q->paused_s);
			SAY(mend, "deferred queue resume %s", q->name);
		} else if (q->messages_only) {
			continue;
		} else if (lacks_rights(&q->serving)) {
			c = cause_add(list, CAUSE_RIGHTS);
			say_rights(c, &q->serving, q->name);
		} else if (unserved(&q->serving, q->oldest_s)) {
			c = cause_add(list, q->serving.others ? CAUSE_UNSERVED : CAUSE_STOPPED);
			say_unserved(c, &q->serving, q->name);
			snprintf(c->figure + strlen(c->figure), sizeof(c->figure) - strlen(c->figure),
				 "; %s wait%s, the first for %s", many, q->ready == 1 ? "s" : "", AGE(q->oldest_s));
		} else if (q->limit_used_up) {
			const char *kind = q->limit_fn ? "function" : "queue",
				   *of = q->limit_fn ? q->limit_fn : q->name;
			char rate[32];

			c = cause_add(list, q->max_running > 0 ? CAUSE_LIMIT : CAUSE_RATE);
			if (q->max_running > 0) {
				SAY(why, "%s %s runs no more than %" PRId64 " at once, and that many are running", kind,
				    of, q->max_running);
				SAY(mend, "deferred %s set %s --max-running %" PRId64 "; nothing if that is intended",
				    kind, of, 2 * q->max_running);
			} else {
				SAY(why, "%s %s starts no more than %s", kind, of,
				    rate_text(rate, sizeof(rate), q->rate));
				SAY(mend, "deferred %s set %s --rate %s; nothing if that is intended", kind, of,
				    rate_text(rate, sizeof(rate), 2 * q->rate));
			}
			SAY(figure, "%s of queue %s wait%s, the first for %s", many, q->name, q->ready == 1 ? "s" : "",
			    AGE(q->oldest_s));
		}
	}
}

static void cause_attempts(struct list *list, const struct cause_backlog *b)
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
		SAY(mend, "fix that; until then: deferred queue pause %s",
		    b->queue             ? b->queue
		    : b->queues_len == 1 ? b->queues[0].name
					 : "QUEUE");
	}
	if (r->superseded > 1 && 20 * r->superseded > r->ended) {
		c = cause_add(list, CAUSE_SUPERSEDED);
		SAY(why, "each start of check_deferred terminates the jobs of the one before");
		SAY(figure, "%" PRId64 " of %" PRId64 " attempts in the last %.0f min were superseded", r->superseded,
		    r->ended, r->minutes);
		SAY(mend, "add --if-running=skip to the crontab line, or start less often");
	}
	if (b->runs >= 3 && (double)b->runs_by_count >= SHARE_MANY * (double)b->runs) {
		c = cause_add(list, CAUSE_COUNT);
		SAY(why, "each run ends after %" PRId64 " attempt%s, and leaves jobs behind", b->count,
		    plural(b->count));
		SAY(figure, "%" PRId64 " of the last %" PRId64 " runs of %s did", b->runs_by_count, b->runs,
		    or_none(b->runs_of));
		SAY(mend, "add --cnt 0 --if-running=skip to the crontab line");
	}
	if (r->usual_run_p50_s > 0 && r->run_p50_s > 1.5 * r->usual_run_p50_s && r->ended >= LITTLE) {
		c = cause_add(list, CAUSE_SLOWER);
		SAY(why, "%s takes longer than usual%s%s", r->fn ? r->fn : "a function",
		    r->build ? ", since build " : "", or_none(r->build));
		SAY(figure, "half of its attempts took more than %s in the last %.0f min, and %s before",
		    duration(now, sizeof(now), r->run_p50_s), r->minutes,
		    duration(then, sizeof(then), r->usual_run_p50_s));
		SAY(mend, r->build ? "look at deferred functions; install the build before it again"
				   : "look at what it waits for: its server, the network, the database");
	}
	if (r->fn && r->fn_share > 0.6 && r->ended >= LITTLE && r->fn_share < 0.995) {
		c = cause_add(list, CAUSE_ONE_FUNCTION);
		SAY(why, "function %s takes most of the time, and others wait for it", r->fn);
		SAY(figure, "%.0f %% of all run time in the last %.0f min", 100 * r->fn_share, r->minutes);
		SAY(mend,
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
		SAY(mend, "wait; or let more run: check_deferred --cnt 0 --runners N");
	}
	if (r->minutes > 0 && r->arrived > 1.05 * (double)r->ended / r->minutes && r->ended >= LITTLE) {
		double served = (double)r->ended / r->minutes;

		c = cause_add(list, CAUSE_CAPACITY);
		SAY(why, "more jobs arrive than are run: the backlog grows");
		SAY(figure, "%.1f a minute arrive and %.1f are run: it grows by %.1f a minute; %.1f ran at a time",
		    r->arrived, served, r->arrived - served, r->run_s / (r->minutes * 60));
		SAY(mend, "let more run at a time: check_deferred --cnt 0 --runners N, or on another host; deferred "
			  "advise says how many");
	}
}

#define SNAPSHOT_S 300
#define COMMIT_S 5

/* A standby that is there takes far less. */
static bool commits_wait(const struct cause_backlog *b)
{
	return b->commits > 0 && b->commits_s >= COMMIT_S;
}

static void database(struct list *list, const struct cause_backlog *b)
{
	struct cause *c;

	if (b->read_only) {
		c = cause_add(list, CAUSE_DATABASE);
		SAY(why, "the database takes no writes, so no job can be claimed");
		SAY(figure, "it is a standby, or default_transaction_read_only is on");
		SAY(mend, "connect to the primary: target_session_attrs=read-write; deferred doctor");
	}
	if (commits_wait(b)) {
		c = cause_add(list, CAUSE_DATABASE);
		SAY(why,
		    "commits wait for a synchronous standby, and none of '%.100s' confirms them: nothing is recorded "
		    "as done",
		    or_none(b->standbys));
		SAY(figure, "%" PRId64 " session%s wait%s, the first for %s", b->commits, plural(b->commits),
		    b->commits == 1 ? "s" : "", AGE(b->commits_s));
		SAY(mend, "start the standby, or let the primary go on alone: alter system set "
			  "synchronous_standby_names = ''; select pg_reload_conf()");
	}
	if (b->connections_max > 0 && (double)b->connections >= 0.95 * (double)b->connections_max) {
		c = cause_add(list, CAUSE_DATABASE);
		SAY(why, "the server has hardly a connection left, so workers may not connect");
		SAY(figure, "%" PRId64 " of %" PRId64 " connections are taken", b->connections, b->connections_max);
		SAY(mend, "end some, or raise max_connections; deferred doctor");
	}
	if (b->snapshot.pid > 0 && b->snapshot.age_s >= SNAPSHOT_S) {
		c = cause_add(list, CAUSE_DATABASE);
		SAY(why, "an open transaction prevents the removal of dead rows, so finding jobs gets slower");
		say_session(c->figure, sizeof(c->figure), &b->snapshot);
		SAY(mend, "select pg_terminate_backend(%" PRId64 ")", b->snapshot.pid);
	}
}

/* Nothing is wrong: the same would be reported for each job of the queue. */
static void under_way(struct list *list, const struct cause_backlog *b, const struct sums *s)
{
	const struct cause_rates *r = &b->rates;
	double a_minute = r->minutes > 0 ? (double)r->ended / r->minutes : 0;
	struct cause *c = cause_add(list, CAUSE_UNDER_WAY);
	char many[48];

	jobs(many, sizeof(many), s->ready, s->more);
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

static void schedule(struct list *list, const struct cause_backlog *b)
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
		SAY(mend, "deferred schedule show %s; for the tick that was lost: deferred schedule run %s",
		    b->schedule, b->schedule);
	} else if (dead) {
		SAY(why, "schedule %s fails: its last job, %" PRId64 ", is dead", b->schedule, b->schedule_job);
		SAY(mend, "deferred show %" PRId64 "; after the fix: deferred retry %" PRId64, b->schedule_job,
		    b->schedule_job);
	} else {
		c->level = CAUSE_LOOK;
		SAY(why, "schedule %s is paused", b->schedule);
		SAY(mend, "deferred schedule resume %s", b->schedule);
	}
	if (b->schedule_s == CAUSE_UNKNOWN)
		SAY(figure, "no tick yet%s", others);
	else
		SAY(figure, "the last tick was %s ago%s", AGE(b->schedule_s), others);
}

static void absent(struct list *list, const struct cause_absent *a)
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
	SAY(mend, "run deferred doctor on that host; look at the crontab line or the unit, and its log");
}

static void gone(struct list *list, const struct cause_gone *g)
{
	struct cause *c = cause_add(list, CAUSE_VANISHED);
	char many[48];

	jobs(many, sizeof(many), g->jobs, false);
	SAY(why, "worker %" PRId64 " (%s pid %" PRId64 "), which has %s, is gone", g->worker, or_none(g->host), g->pid,
	    many);
	SAY(figure, "its lease ends in %s, and others may take %s then", AGE(g->lease_left_s),
	    g->jobs == 1 ? "it" : "them");
}

size_t cause_of_backlog(const struct cause_backlog *b, struct cause causes[CAUSES_MAX])
{
	struct list list = { causes, 0 };
	struct sums s = sum(b);
	bool paused = b->schedule && strcmp(b->schedule_what, "paused") == 0;
	struct cause *c;

	if (b->table.name) {
		table_locked(&list, &b->table);
		return list.n;
	}
	if (s.ready == 0) {
		if (b->schedule && !paused)
			schedule(&list, b);
		if (b->absent.n > 0)
			absent(&list, &b->absent);
		if (b->gone.jobs > 0)
			gone(&list, &b->gone);
		c = cause_add(&list, CAUSE_NOTHING_WAITS);
		SAY(why, b->queue ? "nothing waits in queue %s" : "nothing waits", b->queue);
		SAY(figure, "0 jobs are ready, workers have claimed %" PRId64, s.running);
		if (paused)
			schedule(&list, b);
		return list.n;
	}
	if (b->read_only || commits_wait(b))
		database(&list, b);
	queues(&list, b);
	if (b->unknown_fn) {
		c = cause_add(&list, CAUSE_UNKNOWN_FUNCTION);
		say_unknown_function(c, b->unknown_fn, NULL, NULL);
		SAY(figure, "%" PRId64 " job%s wait%s for it, the first for %s", b->unknown_jobs,
		    plural(b->unknown_jobs), b->unknown_jobs == 1 ? "s" : "", AGE(b->unknown_s));
	}
	if (b->broken_fn)
		broken(&list, b->broken_fn, b->broken_s);
	if (b->gone.jobs > 0)
		gone(&list, &b->gone);
	cause_attempts(&list, b);
	if (!b->read_only && !commits_wait(b))
		database(&list, b);
	if (b->absent.n > 0)
		absent(&list, &b->absent);
	if (list.n == 0)
		under_way(&list, b, &s);
	if (b->schedule)
		schedule(&list, b);
	return list.n;
}
