/* SPDX-License-Identifier: MIT */
#include "base/cause_list.h"

#include <string.h>

/* A queue counts as unserved after this time and three usual gaps without a worker. One start may be late. */
#define PATIENCE_S 300

struct cause *cause_add(struct cause_list *list, enum cause_kind kind)
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

const char *cause_level_word(enum cause_level level)
{
	static const char *const words[] = { [CAUSE_HEALTHY] = "healthy", [CAUSE_LOOK] = "look", [CAUSE_ACT] = "act" };

	return words[level];
}

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

void cause_jobs_text(char *buf, size_t size, int64_t n, bool more)
{
	snprintf(buf, size, "%" PRId64 " job%s%s", n, plural(n), more ? " or more" : "");
}

void cause_say_session(char *buf, size_t size, const struct cause_session *s)
{
	snprintf(buf, size, "session %" PRId64 " of %s, %s, in a transaction for %s%s%.160s", s->pid,
		 s->who ? s->who : "somebody", s->state ? s->state : "state not seen", AGE(s->age_s),
		 s->query ? ": " : "", or_none(s->query));
}

const char *cause_rate_text(char *buf, size_t size, double a_second)
{
	if (a_second >= 1)
		snprintf(buf, size, "%.3g/s", a_second);
	else if (a_second * 60 >= 1)
		snprintf(buf, size, "%.3g/min", a_second * 60);
	else
		snprintf(buf, size, "%.3g/h", a_second * 3600);
	return buf;
}

const char *cause_duration_text(char *buf, size_t size, double s)
{
	if (s < 1)
		snprintf(buf, size, "%.0fms", s * 1000);
	else if (s < 120)
		snprintf(buf, size, "%.1fs", s);
	else
		snprintf(buf, size, "%s", AGE((int64_t)s));
	return buf;
}

void cause_say_unknown_function(struct cause *c, const char *fn, const char *host, const char *why)
{
	if (host) {
		SAY(why, "function %s is refused by the workers that have it", fn);
		SAY(figure, "on %s: %.300s", host, or_none(why));
		SAY(remedy, "deferred doctor");
		return;
	}
	SAY(why, "no worker offers function %s", fn);
	SAY(remedy,
	    "if the name is wrong: deferred cancel --fn %s; "
	    "if it is right: install the plugin where check_deferred runs, and read its log",
	    fn);
}

static int64_t patience_s(const struct cause_serving *s)
{
	return s->gap_s != CAUSE_UNKNOWN && 3 * s->gap_s > PATIENCE_S ? 3 * s->gap_s : PATIENCE_S;
}

#define SERVICE_BACK_S 10 /* a service that was restarted is back by then */

bool cause_is_unserved(const struct cause_serving *s, int64_t ready_s)
{
	if (s->alive)
		return false;
	if (s->seen_s == CAUSE_UNKNOWN)
		return true;
	if (s->service)
		return ready_s > SERVICE_BACK_S && s->seen_s > SERVICE_BACK_S;
	return ready_s > patience_s(s) && s->seen_s > patience_s(s);
}

void cause_say_unserved(struct cause *c, const struct cause_serving *s, const char *queue)
{
	if (s->seen_s == CAUSE_UNKNOWN && !s->others) {
		SAY(why, "no worker was ever seen: check_deferred has not been started for this database");
		SAY(figure, "0 starts of check_deferred that had work");
		SAY(remedy, "deferred doctor on the host whose cron starts check_deferred");
	} else if (s->seen_s == CAUSE_UNKNOWN) {
		SAY(why, "no worker serves queue %s", queue);
		SAY(figure, "the workers that were started serve other queues");
		SAY(remedy, "check_deferred --queue %s", queue);
	} else if (s->service) {
		SAY(why, "the service that served queue %s has ended, or is cut off from the database", queue);
		SAY(figure, "%s was seen %s ago", or_none(s->instance), AGE(s->seen_s));
		SAY(remedy, "deferred doctor on that host; look at the unit and its log (exit code 77: a right is "
			    "missing)");
	} else {
		SAY(why, "the workers that served queue %s no longer start", queue);
		if (s->gap_s != CAUSE_UNKNOWN)
			SAY(figure, "the last one, %s, was seen %s ago, and one used to start every %s",
			    or_none(s->instance), AGE(s->seen_s), AGE(s->gap_s));
		else
			SAY(figure, "the last one, %s, was seen %s ago", or_none(s->instance), AGE(s->seen_s));
		SAY(remedy, "deferred doctor on that host; look at the crontab line and its log");
	}
}

bool cause_lacks_rights(const struct cause_serving *s)
{
	return s->role || s->grants;
}

void cause_say_rights(struct cause *c, const struct cause_serving *s, const char *queue)
{
	if (s->role) {
		SAY(why, "the last worker that served queue %s connected as role %s, which may not run jobs", queue,
		    s->role);
		SAY(figure, "%s: the role lacks the rights of deferred_worker", or_none(s->instance));
		SAY(remedy, "grant deferred_worker to %s", s->role);
	} else {
		SAY(why, "no worker may run jobs: role deferred_worker lacks rights that the schema gave it");
		SAY(figure, "each claim or record that needs them is refused");
		SAY(remedy, "%s", s->grants);
	}
}

void cause_add_broken(struct cause_list *list, const char *fn, int64_t for_s)
{
	struct cause *c = cause_add(list, CAUSE_BREAKER);

	SAY(why,
	    "function %s is paused: its last attempts all crashed; a single job is tried now and then, "
	    "until one does not crash",
	    fn);
	SAY(figure, "paused for %s", AGE(for_s));
	SAY(remedy, "deferred ls --fn %s; after the fix: deferred function resume %s", fn, fn);
}

void cause_say_holder(struct cause *c, const struct cause_session *holder)
{
	if (holder->pid > 0) {
		cause_say_session(c->figure, sizeof(c->figure), holder);
		SAY(remedy, "commit there, or: select pg_terminate_backend(%" PRId64 ")", holder->pid);
	} else {
		SAY(figure, "a prepared transaction: table pg_prepared_xacts");
		SAY(remedy, "commit prepared, or rollback prepared");
	}
}

void cause_add_table_locked(struct cause_list *list, const struct cause_table *t)
{
	struct cause *c = cause_add(list, CAUSE_LOCKED);

	SAY(why,
	    t->wanted ? "an open transaction delays another one that locks all of table deferred.%s, and all "
			"sessions that need the table wait"
		      : "an open transaction has locked all of table deferred.%s",
	    t->name);
	cause_say_holder(c, &t->holder);
}

void cause_say_paused(struct cause *c, const char *by, int64_t s)
{
	size_t len = strlen(c->figure);

	if (by)
		snprintf(c->figure + len, sizeof(c->figure) - len, "; paused by %s %s ago", by, AGE(s));
}

struct cause_limited cause_limited(const char *queue, const char *pattern)
{
	struct cause_limited of;

	snprintf(of.queue, sizeof(of.queue), "%.88s%s%.88s%s", queue, pattern ? ", by pattern '" : "",
		 pattern ? pattern : "", pattern ? "'," : "");
	snprintf(of.target, sizeof(of.target), "%s%.88s%s", pattern ? "'" : "", pattern ? pattern : queue,
		 pattern ? "'" : "");
	return of;
}
