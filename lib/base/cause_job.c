/* SPDX-License-Identifier: MIT */
#include "base/cause_list.h"

#include <string.h>

#define SERVICE_PATIENCE_S 150 /* a service reports every 30 s that it is alive */

static void job_add_not_there(struct cause_list *list, const struct cause_job *j)
{
	struct cause *c;

	if (j->last_id != CAUSE_UNKNOWN && j->id > j->last_id) {
		c = cause_add(list, CAUSE_NO_SUCH_ID);
		SAY(why, "job %" PRId64 " does not exist: it was never deferred", j->id);
		if (j->last_id > 0)
			SAY(figure, "the last id is %" PRId64, j->last_id);
		else
			SAY(figure, "no job has ever been deferred here");
		SAY(remedy, "deferred ls");
		return;
	}
	if (j->writer.pid > 0 && (j->neighbour_s == CAUSE_UNKNOWN || j->writer.age_s >= j->neighbour_s)) {
		c = cause_add(list, CAUSE_NOT_COMMITTED);
		SAY(why, "job %" PRId64 " does not exist: the transaction that deferred it may not have committed yet",
		    j->id);
		cause_say_session(c->figure, sizeof(c->figure), &j->writer);
		SAY(remedy, "commit there, or: select pg_terminate_backend(%" PRId64 ")", j->writer.pid);
	}
	if (j->kept_s != CAUSE_UNKNOWN && j->neighbour_s != CAUSE_UNKNOWN && j->neighbour_s >= j->kept_s) {
		c = cause_add(list, CAUSE_PURGED);
		SAY(why,
		    "job %" PRId64
		    " does not exist: it was purged, or the transaction that deferred it was rolled back",
		    j->id);
		SAY(figure, "its id is from about %s ago, and the last purge removed everything older than %s",
		    AGE(j->neighbour_s), AGE(j->kept_s));
		SAY(remedy, "defer it again if it still has to run");
		return;
	}
	c = cause_add(list, CAUSE_ROLLED_BACK);
	SAY(why, "job %" PRId64 " does not exist: the transaction that deferred it was rolled back%s", j->id,
	    j->kept_s == CAUSE_UNKNOWN ? "" : ", or the job was purged");
	if (j->neighbour_s != CAUSE_UNKNOWN)
		SAY(figure,
		    "the next job that is there was deferred %s ago; no transaction that wrote something before is "
		    "open",
		    AGE(j->neighbour_s));
	else
		SAY(figure, "the last id is %" PRId64 "; no transaction that wrote something is open", j->last_id);
	SAY(remedy, "defer it again, in a transaction that commits");
}

/* Behind the other figures. */
static void job_add_steps(struct cause *c, const struct cause_job *j)
{
	size_t len = strlen(c->figure);

	if (j->steps)
		snprintf(c->figure + len, sizeof(c->figure) - len, "; %s", j->steps);
}

static void job_add_ended(struct cause_list *list, const struct cause_job *j)
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
	job_add_steps(c, j);
	if (strcmp(j->state, "done") != 0 && j->steps)
		SAY(remedy, "deferred retry %" PRId64 ", or from the start: deferred retry --from-start %" PRId64,
		    j->id, j->id);
	else if (strcmp(j->state, "done") != 0)
		SAY(remedy, "deferred retry %" PRId64, j->id);
}

/* Is what holds the job known to be gone? */
static const char *vanished_text(const struct cause_job *j)
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

static void job_add_held(struct cause_list *list, const struct cause_job *j)
{
	const char *gone = vanished_text(j);
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
			SAY(remedy, "check_deferred");
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
		    cause_duration_text(usual, sizeof(usual), j->usual_run_s), j->progress ? "; " : "",
		    or_none(j->progress));
	} else {
		SAY(why, "job %" PRId64 " is being run by worker %" PRId64 " (%s pid %" PRId64 ")", j->id, j->worker,
		    or_none(j->worker_host), j->worker_pid);
		SAY(figure, "claimed %s ago; its lease lasts for another %s, and is renewed%s%s", AGE(j->claimed_s),
		    AGE(j->lease_left_s), j->progress ? "; " : "", or_none(j->progress));
	}
	job_add_steps(c, j);
	SAY(remedy, "deferred cancel %" PRId64, j->id);
}

static void job_add_delayed(struct cause_list *list, const struct cause_job *j)
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
	job_add_steps(c, j);
	if (j->fn)
		SAY(remedy, "deferred retry %" PRId64, j->id);
}

static void job_add_waiting(struct cause_list *list, const struct cause_job *j)
{
	struct cause *c = cause_add(list, CAUSE_WAITING);

	if (j->flow) {
		SAY(why, "job %" PRId64 " waits for the end of flow %" PRId64, j->id, j->flow);
		if (j->flow_waits_for)
			SAY(figure, "job %" PRId64 " of it has not ended; all before that have", j->flow_waits_for);
		SAY(remedy, "deferred flow show %" PRId64, j->flow);
		return;
	}
	SAY(why, "job %" PRId64 " waits for %s", j->id,
	    j->waits_for && strncmp(j->waits_for, "event '", 7) == 0 ? "an event" : "the end of other jobs");
	if (j->waits_for)
		SAY(figure, "%s", j->waits_for);
	SAY(remedy, "select * from deferred.parents(%" PRId64 ")", j->id);
}

static void job_add_limits(struct cause_list *list, const struct cause_job *j)
{
	struct cause *c;
	char rate[32], more[32];
	struct cause_limited of = cause_limited(j->queue, j->pattern);

	if (j->broken_s != CAUSE_UNKNOWN)
		cause_add_broken(list, j->fn, j->broken_s);
	if (j->max_running != CAUSE_UNKNOWN && j->running >= j->max_running) {
		c = cause_add(list, CAUSE_LIMIT);
		SAY(why, "%s %s runs no more than %" PRId64 " at once", j->fn_limit ? "function" : "queue",
		    j->fn_limit ? j->fn : of.queue, j->max_running);
		SAY(figure, "%" PRId64 " of %" PRId64 " are running: %s", j->running, j->max_running,
		    or_none(j->running_ids));
		SAY(remedy, "deferred %s set %s --max-running %" PRId64, j->fn_limit ? "function" : "queue",
		    j->fn_limit ? j->fn : of.target, 2 * j->max_running);
	}
	if (j->rate > 0 && j->rate_wait_s > 0) {
		c = cause_add(list, CAUSE_RATE);
		SAY(why, "%s %s starts no more than %s%s", j->fn_rate ? "function" : "queue",
		    j->fn_rate ? j->fn : of.queue, cause_rate_text(rate, sizeof(rate), j->rate),
		    j->key_rate ? " of each concurrency key" : "");
		SAY(figure, "the next one may start in %s", cause_duration_text(more, sizeof(more), j->rate_wait_s));
		SAY(remedy, "deferred %s set %s --%srate %s", j->fn_rate ? "function" : "queue",
		    j->fn_rate ? j->fn : of.target, j->key_rate ? "key-" : "",
		    cause_rate_text(rate, sizeof(rate), 2 * j->rate));
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
		SAY(remedy, "deferred why %" PRId64, j->key_first);
	}
}

static void job_add_expires_first(struct cause_list *list, const struct cause_job *j, double turn_s)
{
	struct cause *c;

	if (!j->expires || turn_s <= (double)j->expires_in_s)
		return;
	c = cause_add(list, CAUSE_EXPIRES_FIRST);
	SAY(why, "job %" PRId64 " expires before its turn comes", j->id);
	SAY(figure, "it expires in %s, and its turn comes in %s", AGE(j->expires_in_s), AGE((int64_t)turn_s));
	SAY(remedy, "let more run: check_deferred --cnt 0 --runners N; or defer with a higher --priority");
}

static void job_add_turn(struct cause_list *list, const struct cause_job *j)
{
	const struct cause_rates *r = &j->rates;
	double a_minute = r->minutes > 0 ? (double)r->ended / r->minutes : 0, turn_s;
	struct cause *c;
	char many[48];

	if (j->ahead > 0) {
		bool more = j->ahead >= j->ahead_counted;

		turn_s = a_minute > 0 ? (double)j->ahead / a_minute * 60 : 0;
		job_add_expires_first(list, j, turn_s);
		c = cause_add(list, CAUSE_BEHIND);
		cause_jobs_text(many, sizeof(many), j->ahead, more);
		SAY(why, "job %" PRId64 " waits for its turn: %s of queue %s come%s before it", j->id, many, j->queue,
		    j->ahead == 1 && !more ? "s" : "");
		if (a_minute > 0)
			SAY(figure, "%.1f a minute ended in the last %.0f min: its turn comes in about %s%s", a_minute,
			    r->minutes, AGE((int64_t)turn_s), more ? " or more" : "");
		else
			SAY(figure, "no attempt of this queue ended lately");
		SAY(remedy, "deferred why --queue %s", j->queue);
		return;
	}
	if (j->serving.gap_s != CAUSE_UNKNOWN && j->serving.started_s != CAUSE_UNKNOWN && !j->serving.alive)
		job_add_expires_first(list, j, (double)(j->serving.gap_s - j->serving.started_s));
	if (cause_is_unserved(&j->serving, j->ready_s) || cause_lacks_rights(&j->serving))
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
	SAY(remedy, "check_deferred");
}

static void job_add_ready(struct cause_list *list, const struct cause_job *j)
{
	struct cause *c;
	char many[48];

	if (j->paused) {
		c = cause_add(list, CAUSE_PAUSED);
		SAY(why, "queue %s is paused", j->queue);
		cause_jobs_text(many, sizeof(many), j->queue_ready, j->queue_ready >= j->queue_counted);
		SAY(figure, "%s wait%s in it", many, j->queue_ready == 1 ? "s" : "");
		cause_say_paused(c, j->paused_by, j->paused_s);
		SAY(remedy, "deferred queue resume %s", j->queue);
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
		SAY(remedy, "start a consumer of queue %s", j->queue);
		return;
	}
	if (j->fn_unknown) {
		c = cause_add(list, CAUSE_UNKNOWN_FUNCTION);
		cause_say_unknown_function(c, j->fn, j->refused_host, j->refused_why);
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
		cause_say_holder(c, &j->holder);
	}
	if (j->stranded) {
		c = cause_add(list, CAUSE_STRANDED);
		SAY(why,
		    "job %" PRId64
		    " is ready, and no claim finds it: its rows were restored from a dump, or changed by hand",
		    j->id);
		SAY(figure, "the cursor of its lane is beyond it, and no lease has it");
		SAY(remedy, "as deferred_owner: select deferred.__repair(); a worker does the same within a day");
	}
	if (cause_lacks_rights(&j->serving)) {
		c = cause_add(list, CAUSE_RIGHTS);
		cause_say_rights(c, &j->serving, j->queue);
	}
	if (cause_is_unserved(&j->serving, j->ready_s)) {
		c = cause_add(list, CAUSE_UNSERVED);
		cause_say_unserved(c, &j->serving, j->queue);
	}
	job_add_limits(list, j);
	if (j->step_group) {
		c = cause_add(list, CAUSE_IN_STEP);
		SAY(why, "the workers that serve queue %s are kept level, and wait for others of group %s", j->queue,
		    j->step_group);
		SAY(figure, "waited for: %s", or_none(j->step_for));
		SAY(remedy,
		    "look at what it runs: deferred ls --running; with a larger range in --balance they wait less");
	}
	job_add_turn(list, j);
}

size_t cause_of_job(const struct cause_job *j, struct cause causes[CAUSES_MAX])
{
	struct cause_list list = { causes, 0 };

	if (j->table.name) {
		cause_add_table_locked(&list, &j->table);
	} else if (!j->there) {
		job_add_not_there(&list, j);
	} else if (strcmp(j->state, "claimed") == 0 || (j->leased && j->lease_over)) {
		job_add_held(&list, j);
	} else if (strcmp(j->state, "ready") != 0 && strcmp(j->state, "delayed") != 0 &&
		   strcmp(j->state, "waiting") != 0) {
		job_add_ended(&list, j);
	} else {
		if (j->expires && j->expires_in_s < 0) {
			struct cause *c = cause_add(&list, CAUSE_EXPIRED);

			SAY(why, "job %" PRId64 " has expired, and ends when a worker looks at it", j->id);
			SAY(figure, "it expired %s ago", AGE(-j->expires_in_s));
			SAY(remedy, "defer it again, with a longer --expires");
		}
		if (strcmp(j->state, "waiting") == 0)
			job_add_waiting(&list, j);
		else if (strcmp(j->state, "delayed") == 0)
			job_add_delayed(&list, j);
		else
			job_add_ready(&list, j);
	}
	if (j->own_key_state && list.n > 0) {
		char *figure = causes[0].figure;
		size_t len = strlen(figure);

		snprintf(figure + len, sizeof(causes[0].figure) - len, "%sits key is %s", len ? "; " : "",
			 j->own_key_state);
	}
	return list.n;
}
