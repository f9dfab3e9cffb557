/* SPDX-License-Identifier: MIT */
/*
 * claim_call - a worker without runners, told what to do line by line, for tests of the claim and its cursor.
 *
 *     claim_call [-q QUEUE]... [-f FUNCTION]... [-k LOOK-EVERY] [-w WINDOW] [-l LEASE_MS] CONNINFO
 *
 * A line is one cycle; its parts, separated by ";", are sent in the order of a real one, whatever theirs is:
 *
 *     finish ID...   retry DELAY_MS ID...   release ID...   renew ID...   promote   claim N   rollback
 *
 * Instead of claim: ready begins where the ready jobs do; front passes over what others hold; first and second do so in turn with others, and claim from that half
 * of the jobs; turn claims in turn, and reads everything. rollback has the server refuse the cycle behind all the rest (then nothing is put right first). Every
 * LOOK-EVERY-th claim (1) moves the cursor on. Ids are those of jobs claimed before. What a claim has met and cannot take
 * is put right by the next one.
 * A line of its own: forget (the cursor), reconnect (and forget, as a worker does), save (the cursor), load (the one saved last, as a
 * slow start does), peek ({"work": BOOL}: is there any?), holds (print ids held).
 *
 * Each line is answered by one of JSON: {"claimed": [[ID, QUEUE, PRIORITY, ATTEMPT], ...], "recorded": [ID, ...],
 * "locked": [ID, ...], "ours": [ID, ...], "renewed": [ID, ...], "seen": N, "lapsed": [ID, ...], "promoted": N, "lanes": N, "holes": N, "error": TEXT}.
 * The first line, before any was read, has the worker's id. Exit: 0 at the end of input, 1 failure, 2 usage.
 */
#include "store/cursor.h"
#include "store/cycle.h"
#include "store/worker.h"

#include "base/clock.h"
#include "base/random.h"

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
static int64_t lease_ms = 600000, worker;
static struct pg *pg;
static struct cursor cursor;
static struct job *held;
static struct store_ids lapsed;
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

static json_t *leases_json(const struct store_cycle *cycle, bool renewed)
{
	json_t *list = json_array();

	for (size_t i = 0; i < cycle->leases_len; i++)
		if (cycle->leases[i].ours && (!renewed || cycle->leases[i].left_ms > 0))
			json_array_append_new(list, json_integer(cycle->leases[i].id));
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
	bool promote, rollback;
	int claim; /* -1: no */
	const struct way *way;
};

/* Ways to claim. */
static const struct way {
	const char *verb;
	bool whole, front, in_turn;
	int half;
} ways[] = { { "claim", true, false, false, 0 }, { "ready", false, false, false, 0 }, { "front", false, true, false, 0 },
	     { "first", false, true, true, 0 }, { "second", false, true, true, 1 }, { "turn", true, false, true, 0 } };

static const struct way *way_of(const char *verb)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].verb, verb) == 0)
			return &ways[i];
	return NULL;
}

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
	} else if (strcmp(verb, "rollback") == 0) {
		asked->rollback = true;
	} else if (way_of(verb) && (word = strtok_r(NULL, " \n", &at))) {
		asked->claim = atoi(word);
		asked->way = way_of(verb);
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

static int add_claim(struct store_cycle *cycle, int n, const struct way *way, struct deferred_error *err)
{
	struct store_claim claim = { .worker = worker, .receipt = (int64_t)(random_mix(clock_ns() ^ (uint64_t)getpid()) >> 1) + 1,
				     .lease_ms = lease_ms, .seed = (int64_t)clock_ns(), .window = window, .n = n, .bytes = INT32_MAX, .known = known_len ? known : NULL,
				     .known_len = known_len, .cursor = &cursor, .look = ++claims % (unsigned int)look_every == 0,
				     .look_ready = !way->front,
				     .whole = way->whole, .front = way->front, .in_turn = way->in_turn, .turn_ms = lease_ms / 8, .half = way->half };

	cursor_forget_when_old(&cursor, clock_ns());
	return store_cycle_claim(cycle, &scope, &claim, err);
}

/* Refused by the server when all the rest is done. */
static int add_refused(struct store_cycle *cycle, struct deferred_error *err)
{
	struct job job = { .id = 1 };
	struct runner_call call = { .fn = "f", .params = "{" };
	struct attempt a = { .job = &job, .follow = &call };

	return store_cycle_follow(cycle, &a, err);
}

static int send(struct store_cycle *cycle, struct asked *asked, struct deferred_error *err)
{
	int rc = store_cycle_begin(cycle, pg, err);

	if (rc == 0 && asked->finish_len > 0)
		rc = store_cycle_record(cycle, asked->finish, asked->finish_len, true, worker, err);
	if (rc == 0 && asked->retry_len > 0)
		rc = store_cycle_record(cycle, asked->retry, asked->retry_len, false, worker, err);
	if (rc == 0 && asked->release_len > 0)
		rc = store_cycle_release(cycle, asked->release, asked->release_len, err);
	if (rc == 0 && asked->renew_len > 0)
		rc = store_cycle_renew(cycle, asked->renew, asked->renew_len, err);
	if (rc == 0 && asked->promote)
		rc = store_cycle_promote(cycle, INT64_MIN, err);
	if (rc == 0 && asked->claim >= 0 && lapsed.len > 0 && !asked->rollback)
		rc = store_cycle_lapsed(cycle, &lapsed, scope.max_attempts, err);
	if (rc == 0 && asked->claim >= 0)
		rc = add_claim(cycle, asked->claim, asked->way, err);
	if (rc == 0 && asked->rollback)
		rc = add_refused(cycle, err);
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

/* Jobs of a cycle that is committed are no longer held, those of its claim are. */
static void settle(struct store_cycle *cycle, const struct asked *asked)
{
	struct job *job;

	for (size_t i = 0; i < asked->finish_len; i++)
		drop(asked->finish[i]->job);
	for (size_t i = 0; i < asked->retry_len; i++)
		drop(asked->retry[i]->job);
	for (size_t i = 0; i < asked->release_len; i++) {
		if (store_ids_have(&cycle->locked, asked->release[i]->id))
			continue;
		drop(asked->release[i]);
		free(asked->release[i]);
	}
	if (asked->claim >= 0)
		lapsed.len = 0;
	for (size_t i = 0; i < cycle->lapsed.len; i++)
		store_ids_add(&lapsed, cycle->lapsed.id[i]);
	while ((job = cycle->claimed)) {
		cycle->claimed = job->next;
		job->next = held;
		held = job;
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

static void do_cycle(char *line)
{
	struct asked *asked = calloc(1, sizeof(*asked));
	struct deferred_error err;
	struct store_cycle cycle;
	json_t *out = json_object(), *claimed = json_array();
	size_t holes = 0;
	char *at = NULL;
	int rc;

	if (!asked)
		abort();
	error_clear(&err);
	asked->claim = -1;
	for (char *part = strtok_r(line, ";", &at); part; part = strtok_r(NULL, ";", &at))
		read_part(asked, part);
	rc = send(&cycle, asked, &err);
	if (rc == 0)
		rc = wait_until_done(&cycle, &err);
	if (rc < 0 && pg_broken(pg))
		fail(&err);
	for (const struct job *job = cycle.claimed; job; job = job->next)
		json_array_append_new(claimed, json_pack("[Isii]", (json_int_t)job->id, job->queue, job->priority, (int)job->attempt));
	for (size_t i = 0; i < cursor.lanes; i++)
		holes += cursor.lane[i].holes;
	json_object_set_new(out, "claimed", claimed);
	json_object_set_new(out, "recorded", ids_json(&cycle.recorded));
	json_object_set_new(out, "locked", ids_json(&cycle.locked));
	json_object_set_new(out, "ours", leases_json(&cycle, false));
	json_object_set_new(out, "renewed", leases_json(&cycle, true));
	json_object_set_new(out, "seen", json_integer(cycle.seen));
	json_object_set_new(out, "lapsed", ids_json(&cycle.lapsed));
	json_object_set_new(out, "promoted", json_integer(cycle.promoted));
	json_object_set_new(out, "lanes", json_integer((json_int_t)cursor.lanes));
	json_object_set_new(out, "holes", json_integer((json_int_t)holes));
	json_object_set_new(out, "error", rc < 0 ? json_string(err.message) : json_null());
	if (rc == 0)
		settle(&cycle, asked);
	free_attempts(asked->finish, asked->finish_len, rc == 0);
	free_attempts(asked->retry, asked->retry_len, rc == 0);
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
	cursor_forget(&cursor);
	if (pg_open(&pg, conninfo, "claim_call", &err) < 0)
		fail(&err);
}

static void save(void)
{
	struct deferred_error err;

	error_clear(&err);
	if (cursor.server != 0 && store_cursor_save(pg, &cursor, &err) < 0)
		fail(&err);
}

static void load(void)
{
	struct deferred_error err;

	error_clear(&err);
	cursor_forget(&cursor);
	if (store_cursor_load(pg, &scope, &cursor, &err) < 0)
		fail(&err);
}

static void peek(void)
{
	struct deferred_error err;
	struct store_cycle cycle;
	int rc;

	error_clear(&err);
	rc = store_cycle_begin(&cycle, pg, &err);
	if (rc == 0)
		rc = store_cycle_peek(&cycle, &scope, &cursor, INT64_MIN, &err);
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
	if (store_register(pg, &scope, "test", (int)getpid(), &worker, &err) < 0)
		fail(&err);
	answer(json_pack("{sI}", "worker", (json_int_t)worker));
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "forget\n") == 0) {
			cursor_forget(&cursor);
			answer(json_object());
		} else if (strcmp(line, "reconnect\n") == 0) {
			reconnect(argv[optind]);
			answer(json_object());
		} else if (strcmp(line, "save\n") == 0) {
			save();
			answer(json_object());
		} else if (strcmp(line, "load\n") == 0) {
			load();
			answer(json_pack("{sI}", "lanes", (json_int_t)cursor.lanes));
		} else if (strcmp(line, "peek\n") == 0) {
			peek();
		} else if (strcmp(line, "holds\n") == 0) {
			holds();
		} else {
			do_cycle(line);
		}
	}
	cursor_forget(&cursor);
	job_list_free(held);
	free(lapsed.id);
	pg_close(pg);
	return 0;
}
