/* SPDX-License-Identifier: MIT */
/*
 * claim_call - a worker without runners, told what to do line by line, for tests of the claim.
 *
 *     claim_call [-q QUEUE]... [-f FUNCTION]... [-k LOOK-EVERY] [-w WINDOW] [-l LEASE_MS] CONNINFO
 *
 * A line is one cycle; its parts, separated by ";", are sent in the order of a real one, whatever theirs is:
 *
 *     finish ID...   retry DELAY_MS ID...   release ID...   renew ID...   lost   promote   claim N   limited N  
 *     rollback
 *
 * As in a real one what is claimed, also under limits, is a transaction of its own behind the others. rollback has the
 * server refuse the last transaction behind all the rest. Every LOOK-EVERY-th claim (1) looks for lanes, the others ask
 * those that gave something before.
 * Ids are those of jobs claimed before. A lease of which nothing is held any more is closed with what ended last of it.
 * A line of its own: forget (the lanes), reconnect (and forget, as a worker does), peek ({"work": BOOL}: is there
 * any?), holds (print ids held).
 *
 * Each line is answered by one of JSON: {"claimed": [[ID, QUEUE, PRIORITY, ATTEMPT], ...], "recorded": [ID, ...],
 * "locked": [ID, ...], "renewed": [ID, ...], "promoted": N, "lanes": N, "busy": BOOL, "waiting": N, "recorded_ok":
 * BOOL, "claimed_ok": BOOL, "error": TEXT}. lanes: those that gave something; waiting: what the claim has left, as far
 * as it looked.
 * The first line, before any was read, has the worker's id. Exit: 0 at the end of input, 1 failure, 2 usage.
 */
#include "store/cycle/cycle.h"
#include "store/store_worker.h"

#include "base/clock.h"
#include "base/ids.h"
#include "base/lanes.h"

#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXTS_MAX 100
#define IDS_MAX 100000

static const char *queues[TEXTS_MAX], *known[TEXTS_MAX];
static struct store_scope scope = { .instance = "test:/claim_call", .max_attempts = 3 };
static size_t known_len;
static int look_every = 1, window = 1000000;
static int64_t lease_ms = 600000, worker, catalog;
static struct pg *pg;
static struct lanes lanes;
static struct job *held;
static struct store_ids settled; /* receipts */
static unsigned int claims;

static void fail(const struct deferred_error *err)
{
	fprintf(stderr, "claim_call: %s\n", err->message);
	exit(1);
}

static json_t *ids_json(const struct store_ids *ids)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ids->len; i++)
		json_array_append_new(list, json_integer(ids->id[i]));
	return list;
}

static void answer(json_t *out)
{
	json_dumpf(out, stdout, JSON_COMPACT);
	putchar('\n');
	fflush(stdout);
	json_decref(out);
}

/* What a line asks for. */
struct asked {
	struct attempt *finish[IDS_MAX], *retry[IDS_MAX];
	struct job *release[IDS_MAX], *renew[IDS_MAX];
	size_t finish_len, retry_len, release_len, renew_len;
	bool promote, lost, rollback;
	int claim, limited;
};

static struct job *find(const char *word)
{
	int64_t id = strtoll(word, NULL, 10);
	struct job *job = held;

	while (job && job->id != id)
		job = job->next;
	if (!job) {
		fprintf(stderr, "claim_call: job %s is not held\n", word);
		exit(2);
	}
	return job;
}

static struct attempt *attempt_of(struct job *job, bool ok, int64_t delay_ms)
{
	struct attempt *a = calloc(1, sizeof(*a));

	if (!a)
		abort();
	a->job = job;
	a->outcome = ok ? JOB_OK : JOB_FAILED;
	a->exit_code = -1;
	a->retry_after_ms = -1;
	a->plugin = "claim_call 1";
	a->started_ns = job->claimed_ns;
	a->finished_ns = clock_ns();
	a->final = ok;
	a->counts = true;
	a->delay_ms = delay_ms;
	if (!ok)
		attempt_set_error(a, "no");
	return a;
}

static void read_part(struct asked *asked, char *part)
{
	char *at = NULL, *verb = strtok_r(part, " \n", &at), *word;
	int64_t delay_ms = 0;

	if (!verb)
		return;
	if (strcmp(verb, "promote") == 0) {
		asked->promote = true;
	} else if (strcmp(verb, "lost") == 0) {
		asked->lost = true;
	} else if (strcmp(verb, "rollback") == 0) {
		asked->rollback = true;
	} else if (strcmp(verb, "claim") == 0 && (word = strtok_r(NULL, " \n", &at))) {
		asked->claim = atoi(word);
	} else if (strcmp(verb, "limited") == 0 && (word = strtok_r(NULL, " \n", &at))) {
		asked->limited = atoi(word);
	} else if (strcmp(verb, "finish") == 0) {
		while ((word = strtok_r(NULL, " \n", &at)))
			asked->finish[asked->finish_len++] = attempt_of(find(word), true, 0);
	} else if (strcmp(verb, "retry") == 0 && (word = strtok_r(NULL, " \n", &at))) {
		delay_ms = strtoll(word, NULL, 10);
		while ((word = strtok_r(NULL, " \n", &at)))
			asked->retry[asked->retry_len++] = attempt_of(find(word), false, delay_ms);
	} else if (strcmp(verb, "release") == 0) {
		while ((word = strtok_r(NULL, " \n", &at)))
			asked->release[asked->release_len++] = find(word);
	} else if (strcmp(verb, "renew") == 0) {
		while ((word = strtok_r(NULL, " \n", &at)))
			asked->renew[asked->renew_len++] = find(word);
	} else {
		fprintf(stderr, "claim_call: cannot do \"%s\"\n", verb);
		exit(2);
	}
}

static int add_claim(struct store_cycle *cycle, const struct asked *asked, struct deferred_error *err)
{
	bool look = ++claims % (unsigned int)look_every == 0;
	struct store_claim claim = { .worker = worker,
				     .lease_ms = lease_ms,
				     .seed = (int64_t)clock_ns(),
				     .window = window,
				     .n = asked->claim,
				     .limited = asked->limited,
				     .rated = asked->limited,
				     .alone = INT32_MAX,
				     .bytes = INT32_MAX,
				     .known = known_len ? known : NULL,
				     .known_len = known_len,
				     .lanes = &lanes,
				     .look = look || lanes.n == 0,
				     .round = "",
				     .lanes_round = "" };

	return store_cycle_claim(cycle, &scope, &claim, err);
}

/* Refused by the server when all the rest of that transaction is done. */
static int add_refused(struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int8(&args, 1);
	pg_arg_int8(&args, 1);
	pg_arg_text(&args, "f");
	pg_arg_json(&args, "{", 1);
	pg_arg_null(&args);
	rc = pg_pipeline_add(pg, &sql_job_follow, &args, 0, err);
	pg_args_clear(&args);
	return rc;
}

static void add(struct store_ids *receipts, int64_t receipt)
{
	if (!store_ids_add(receipts, receipt))
		abort();
}

static bool is_recorded(const struct asked *asked, const struct job *job)
{
	for (size_t i = 0; i < asked->finish_len; i++)
		if (asked->finish[i]->job == job)
			return true;
	for (size_t i = 0; i < asked->retry_len; i++)
		if (asked->retry[i]->job == job)
			return true;
	return false;
}

/* Leases of which nothing will be held. Those of jobs given back are closed by the next cycle, for somebody may have a
 * row locked. */
static int add_close(struct store_cycle *cycle, const struct asked *asked, struct deferred_error *err)
{
	struct store_ids kept = { 0 };
	size_t n = 0;
	int rc = 0;

	for (const struct job *job = held; job; job = job->next)
		add(is_recorded(asked, job) ? &settled : &kept, job->receipt);
	store_ids_sort(&kept);
	for (size_t i = 0; i < settled.len; i++)
		if (!store_ids_have(&kept, settled.id[i]))
			settled.id[n++] = settled.id[i];
	settled.len = n;
	if (n > 0)
		rc = store_cycle_close(cycle, settled.id, n, err);
	free(kept.id);
	return rc;
}

static int send(struct store_cycle *cycle, struct asked *asked, struct deferred_error *err)
{
	int rc = 0;

	store_cycle_begin(cycle, pg);
	if (asked->finish_len > 0)
		rc = store_cycle_record(cycle, asked->finish, asked->finish_len, true, err);
	if (rc == 0 && asked->retry_len > 0)
		rc = store_cycle_record(cycle, asked->retry, asked->retry_len, false, err);
	if (rc == 0)
		rc = add_close(cycle, asked, err);
	if (rc == 0 && asked->release_len > 0)
		rc = store_cycle_release(cycle, asked->release, asked->release_len, err);
	if (rc == 0 && asked->renew_len > 0)
		rc = store_cycle_renew(cycle, asked->renew, asked->renew_len, err);
	if (rc == 0 && asked->lost)
		rc = store_cycle_lost(cycle, scope.max_attempts, 0, err);
	if (rc == 0 && asked->promote)
		rc = store_cycle_promote(cycle, INT64_MIN, err);
	if (rc == 0 && (asked->claim > 0 || asked->limited > 0))
		rc = add_claim(cycle, asked, err);
	if (rc == 0 && asked->rollback)
		rc = add_refused(err);
	return rc == 0 ? store_cycle_send(cycle, err) : rc;
}

static int wait_until_done(struct store_cycle *cycle, struct deferred_error *err)
{
	bool done = false;
	int rc;

	while ((rc = store_cycle_poll(cycle, &done, err)) == 0 && !done) {
		struct pollfd fd = { pg_fd(pg), pg_events(pg), 0 };

		poll(&fd, 1, 60000);
	}
	return rc;
}

static void drop(const struct job *job)
{
	for (struct job **at = &held; *at; at = &(*at)->next)
		if (*at == job) {
			*at = job->next;
			return;
		}
}

static void hold(struct job **jobs)
{
	struct job *job;

	while ((job = *jobs)) {
		*jobs = job->next;
		job->next = held;
		held = job;
	}
}

/* Jobs of the first transaction are no longer held, if it is committed; those of the claim are, if that is. */
static void settle(struct store_cycle *cycle, const struct asked *asked)
{
	if (cycle->recorded_ok)
		settled.len = 0;
	for (size_t i = 0; cycle->recorded_ok && i < asked->finish_len; i++)
		drop(asked->finish[i]->job);
	for (size_t i = 0; cycle->recorded_ok && i < asked->retry_len; i++)
		drop(asked->retry[i]->job);
	for (size_t i = 0; cycle->recorded_ok && i < asked->release_len; i++) {
		if (store_ids_have(&cycle->locked, asked->release[i]->id))
			continue;
		add(&settled, asked->release[i]->receipt);
		drop(asked->release[i]);
		free(asked->release[i]);
	}
	if (cycle->claimed_ok) {
		hold(&cycle->claimed);
		hold(&cycle->limited);
		if (cycle->claims)
			lanes_move(&lanes, &cycle->lanes);
	}
}

/* attempt_free() takes the job along, which is still held where the cycle failed. */
static void free_attempts(struct attempt **a, size_t n, bool with_job)
{
	for (size_t i = 0; i < n; i++) {
		if (!with_job)
			a[i]->job = NULL;
		attempt_free(a[i]);
	}
}

static void add_claimed(json_t *list, const struct job *jobs)
{
	for (const struct job *job = jobs; job; job = job->next)
		json_array_append_new(
			list, json_pack("[Isii]", (json_int_t)job->id, job->queue, job->priority, (int)job->attempt));
}

/* Of the jobs asked to be renewed, those that are ours. */
static json_t *renewed_json(const struct store_cycle *cycle, const struct asked *asked)
{
	json_t *list = json_array();

	for (size_t i = 0; i < asked->renew_len; i++) {
		const struct store_lease *lease = store_cycle_lease(cycle, asked->renew[i]);

		if (lease && lease->gone == JOB_HELD)
			json_array_append_new(list, json_integer(asked->renew[i]->id));
	}
	return list;
}

static void do_cycle(char *line)
{
	struct asked *asked = calloc(1, sizeof(*asked));
	struct deferred_error err;
	struct store_cycle cycle;
	json_t *out = json_object(), *claimed = json_array();
	char *at = NULL;
	int rc;

	if (!asked)
		abort();
	error_clear(&err);
	for (char *part = strtok_r(line, ";", &at); part; part = strtok_r(NULL, ";", &at))
		read_part(asked, part);
	rc = send(&cycle, asked, &err);
	if (rc == 0)
		rc = wait_until_done(&cycle, &err);
	if (rc < 0 && pg_broken(pg))
		fail(&err);
	add_claimed(claimed, cycle.claimed);
	add_claimed(claimed, cycle.limited);
	json_object_set_new(out, "claimed", claimed);
	json_object_set_new(out, "recorded", ids_json(&cycle.recorded));
	json_object_set_new(out, "locked", ids_json(&cycle.locked));
	json_object_set_new(out, "renewed", renewed_json(&cycle, asked));
	json_object_set_new(out, "promoted", json_integer(cycle.promoted));
	json_object_set_new(out, "lanes", json_integer((json_int_t)cycle.lanes.n));
	json_object_set_new(out, "busy", json_boolean(cycle.busy));
	json_object_set_new(out, "waiting", json_integer(cycle.waiting));
	json_object_set_new(out, "recorded_ok", json_boolean(cycle.recorded_ok));
	json_object_set_new(out, "claimed_ok", json_boolean(cycle.claimed_ok));
	json_object_set_new(out, "error", rc < 0 ? json_string(err.message) : json_null());
	settle(&cycle, asked);
	free_attempts(asked->finish, asked->finish_len, cycle.recorded_ok);
	free_attempts(asked->retry, asked->retry_len, cycle.recorded_ok);
	free(asked);
	store_cycle_clear(&cycle);
	answer(out);
}

static void reconnect(const char *conninfo)
{
	struct deferred_error err;

	error_clear(&err);
	pg_close(pg);
	pg = NULL;
	lanes_clear(&lanes);
	if (pg_open(&pg, conninfo, "claim_call", &err) < 0)
		fail(&err);
}

static void peek(void)
{
	struct deferred_error err;
	struct store_cycle cycle;
	int rc;

	error_clear(&err);
	store_cycle_begin(&cycle, pg);
	rc = store_cycle_peek(&cycle, &scope, INT64_MIN, &err);
	if (rc == 0)
		rc = store_cycle_send(&cycle, &err);
	if (rc == 0)
		rc = wait_until_done(&cycle, &err);
	if (rc < 0)
		fail(&err);
	answer(json_pack("{sb}", "work", cycle.work));
	store_cycle_clear(&cycle);
}

static void holds(void)
{
	json_t *list = json_array();

	for (const struct job *job = held; job; job = job->next)
		json_array_append_new(list, json_integer(job->id));
	answer(json_pack("{so}", "holds", list));
}

int main(int argc, char **argv)
{
	static char line[1 << 20];
	struct deferred_error err;
	int opt;

	error_clear(&err);
	while ((opt = getopt(argc, argv, "q:f:k:w:l:")) != -1) {
		if (opt == 'q' && scope.queues_len < TEXTS_MAX)
			queues[scope.queues_len++] = optarg;
		else if (opt == 'f' && known_len < TEXTS_MAX)
			known[known_len++] = optarg;
		else if (opt == 'k' && atoi(optarg) > 0)
			look_every = atoi(optarg);
		else if (opt == 'w')
			window = atoi(optarg);
		else if (opt == 'l')
			lease_ms = atoll(optarg);
		else
			return 2;
	}
	if (argc - optind != 1)
		return 2;
	scope.queues = scope.queues_len > 0 ? queues : NULL;
	reconnect(argv[optind]);
	if (store_register(pg, &scope, "test", (int)getpid(), "", &worker, &catalog, &err) < 0)
		fail(&err);
	answer(json_pack("{sI}", "worker", (json_int_t)worker));
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "forget\n") == 0) {
			lanes_clear(&lanes);
			answer(json_object());
		} else if (strcmp(line, "reconnect\n") == 0) {
			reconnect(argv[optind]);
			answer(json_object());
		} else if (strcmp(line, "peek\n") == 0) {
			peek();
		} else if (strcmp(line, "holds\n") == 0) {
			holds();
		} else {
			do_cycle(line);
		}
	}
	lanes_clear(&lanes);
	job_list_free(held);
	free(settled.id);
	pg_close(pg);
	return 0;
}
