/* SPDX-License-Identifier: MIT */
/* Plan and wake together: tables of single steps, and a service that is driven against a model of the database. */
#include "engine/pure/wake.h"

#include "base/clock.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS NS_PER_MS
#define US (NS_PER_MS / 1000)
#define S NS_PER_S

/* ---- single steps --------------------------------------------------------------------------------- */

static const struct deferred_backoff interval = { 1000, 60000, 2, 0, 0 };

/* A service that is asleep since its locks were taken at `now`, with these transactions open. */
static struct wake armed(int rank, struct store_ids open, uint64_t now)
{
	struct wake k = { 0 };

	wake_on(&k, &interval);
	wake_answered_arm(&k, true, rank, &open, now);
	return k;
}

static const struct plan sleeping = { .exhausted = true, .dry = true, .limited_dry = true };

static enum wake_step next(struct wake *k, struct plan *p, uint64_t now)
{
	*p = sleeping;
	return wake_next(k, p, false, UINT64_MAX, now);
}

static void a_notification_is_answered_once(void **state)
{
	struct wake k = armed(0, (struct store_ids){ 0 }, 10 * S);
	struct plan p;

	(void)state;
	assert_int_equal(next(&k, &p, 11 * S), WAKE_NOTHING);
	assert_true(p.exhausted);
	wake_notified(&k, 11 * S);
	assert_int_equal(wake_deadline(&k, true), 11 * S);
	assert_int_equal(next(&k, &p, 11 * S), WAKE_CLAIM);
	assert_true(!p.exhausted && p.woken && !p.look_at_delayed);
	wake_sent(&k, WAKE_CLAIM);
	assert_int_equal(next(&k, &p, 12 * S), WAKE_NOTHING);
	assert_int_equal(wake_deadline(&k, true), UINT64_MAX);
}

static void the_second_in_rank_looks_later_and_does_not_claim(void **state)
{
	struct wake k = armed(1, (struct store_ids){ 0 }, 10 * S);
	struct plan p;

	(void)state;
	wake_notified(&k, 11 * S);
	assert_int_equal(next(&k, &p, 11 * S), WAKE_NOTHING);
	assert_int_equal(next(&k, &p, 11 * S + 2 * MS), WAKE_PEEK);
	assert_true(p.exhausted);
	wake_sent(&k, WAKE_PEEK);
	wake_answered_peek(&k, &p, false);
	assert_true(p.exhausted);
	wake_answered_peek(&k, &p, true);
	assert_true(!p.exhausted && p.woken);
}

static void useless_notifications_are_answered_later_and_later(void **state)
{
	const uint64_t later_ms[] = { 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64 };
	struct wake k = armed(0, (struct store_ids){ 0 }, 10 * S);

	(void)state;
	for (size_t i = 0; i < sizeof(later_ms) / sizeof(later_ms[0]); i++) {
		wake_notified(&k, 11 * S);
		assert_int_equal(wake_deadline(&k, true), 11 * S + later_ms[i] * MS);
		wake_sent(&k, WAKE_CLAIM);
		wake_answered_claim(&k, false);
		wake_answered_claim(&k, false); /* further claims of the same wake-up are not counted */
	}
	wake_answered_claim(&k, true);
	wake_notified(&k, 11 * S);
	assert_int_equal(wake_deadline(&k, true), 11 * S);
}

static void locks_that_another_session_holds_are_tried_for_later_and_later(void **state)
{
	struct store_ids open = { 0 };
	struct wake k = { 0 };
	struct plan p;
	uint64_t now = 10 * S;
	int tries = 0;

	(void)state;
	wake_on(&k, &interval);
	for (; now < 310 * S; now = wake_deadline(&k, true)) {
		assert_int_equal(next(&k, &p, now), WAKE_ARM);
		assert_true(!p.exhausted && p.look_at_delayed);
		wake_answered_arm(&k, false, 0, &open, now);
		tries++;
	}
	assert_int_equal(tries, 17); /* 10 ms, 20 ms ... 41 s, and then each minute */
	wake_answered_arm(&k, true, 0, &open, now);
	wake_rearm(&k);
	wake_answered_arm(&k, false, 0, &open, now);
	assert_int_equal(wake_deadline(&k, true), now + 10 * MS);
}

static void transactions_that_were_open_are_waited_for(void **state)
{
	struct store_ids open = { 0 }, left = { 0 };
	struct plan p = sleeping;
	struct wake k;

	(void)state;
	assert_true(store_ids_add(&open, 7) && store_ids_add(&open, 9));
	assert_true(store_ids_add(&left, 7) && store_ids_add(&left, 9) && store_ids_add(&left, 10));
	k = armed(0, open, 10 * S);
	assert_int_equal(wake_deadline(&k, true), 10 * S + 2 * MS);
	wake_answered_look(&k, &p, &left, 11 * S);
	assert_true(p.exhausted);
	assert_int_equal(wake_deadline(&k, true), 11 * S + 4 * MS);
	assert_int_equal(next(&k, &p, 12 * S), WAKE_LOOK);
	left.id[0] = 8;
	wake_answered_look(&k, &p, &left, 12 * S);
	assert_true(!p.exhausted && p.look_at_delayed);
	assert_int_equal(wake_deadline(&k, true), 12 * S + 2 * MS);
	left.len = 0;
	wake_answered_look(&k, &p, &left, 13 * S);
	assert_int_equal(wake_deadline(&k, true), UINT64_MAX);
	free(k.open.id);
	free(left.id);
}

static void a_service_that_has_enough_to_do_is_not_notified(void **state)
{
	struct wake k = armed(0, (struct store_ids){ 0 }, 10 * S);
	struct plan busy = { 0 }, p;

	(void)state;
	assert_int_equal(wake_next(&k, &busy, false, UINT64_MAX, 11 * S), WAKE_NOTHING);
	assert_int_equal(wake_deadline(&k, false), 11 * S + 5 * MS);
	assert_int_equal(next(&k, &p, 11 * S + 4 * MS), WAKE_NOTHING); /* asleep meanwhile: counted again */
	assert_int_equal(wake_next(&k, &busy, false, UINT64_MAX, 11 * S + 5 * MS), WAKE_NOTHING);
	assert_int_equal(wake_next(&k, &busy, false, UINT64_MAX, 11 * S + 10 * MS), WAKE_DISARM);
	wake_sent(&k, WAKE_DISARM);
	assert_int_equal(wake_next(&k, &busy, false, UINT64_MAX, 12 * S), WAKE_NOTHING);
	assert_int_equal(next(&k, &p, 12 * S), WAKE_ARM);
}

static void news_is_no_less_news_while_a_claim_is_due_anyway(void **state)
{
	struct wake k = armed(0, (struct store_ids){ 0 }, 10 * S);
	struct plan busy = { .dry = true, .limited_dry = true };

	(void)state;
	wake_notified(&k, 11 * S);
	assert_int_equal(wake_next(&k, &busy, false, UINT64_MAX, 11 * S), WAKE_NOTHING);
	assert_false(busy.dry || busy.limited_dry);
}

/* The lanes that were known have nothing, and all of them are looked for in a moment. */
static void it_stays_armed_until_further_lanes_are_looked_for_and_news_ends_the_wait(void **state)
{
	struct wake k = armed(0, (struct store_ids){ 0 }, 10 * S);
	struct plan waits = { .claim_ns = 11 * S + 250 * MS };

	(void)state;
	for (uint64_t ns = 11 * S; ns < 11 * S + 250 * MS; ns += 10 * MS)
		assert_int_equal(wake_next(&k, &waits, false, UINT64_MAX, ns), WAKE_NOTHING);
	wake_notified(&k, 11 * S + 240 * MS);
	assert_int_equal(wake_next(&k, &waits, false, UINT64_MAX, 11 * S + 240 * MS), WAKE_NOTHING);
	assert_true(waits.claim_ns == 0);
}

static void without_notifications_the_interval_wakes(void **state)
{
	struct wake k = { 0 };
	struct plan p = sleeping;

	(void)state;
	wake_notified(&k, 10 * S);
	assert_int_equal(wake_next(&k, &p, false, 12 * S, 11 * S), WAKE_NOTHING);
	assert_true(p.exhausted);
	assert_int_equal(wake_next(&k, &p, false, 12 * S, 12 * S), WAKE_NOTHING);
	assert_true(!p.exhausted && p.look_at_delayed);
	assert_int_equal(wake_deadline(&k, true), UINT64_MAX);
}

/* ---- a service against a model of the database ---------------------------------------------------- */

#define LANES 12
#define LANES_ASKED 4 /* at most, by a claim that looks at all lanes, besides those that are known */
#define JOBS 64
/* claims that did not ask for a ready job, for each of those that a round through all lanes takes */
#define PASSED_MAX 40

enum job_state { UNUSED, OPEN, DELAYED, READY, TAKEN, RUNNING };

struct sim_job {
	enum job_state state;
	int lane;
	bool limited, single_lease; /* under limits; with a lease of its own */
	bool notifies;
	uint64_t commit_ns, delay_ns, ready_ns, end_ns;
	int passed; /* claims that saw it ready and did not ask for it */
};

struct sim {
	uint64_t random, seed, now;
	uint64_t active_ns;    /* jobs are deferred until then; transactions and delays last at most as long */
	uint64_t quiet_ns;     /* then all has been done, */
	uint64_t end_ns;       /* and until here the service sleeps */
	bool listens, hostile; /* hostile: another session takes the locks now and then, and sends notifications */
	size_t runners;
	double run_us;
	struct deferred_backoff interval;
	struct sim_job job[JOBS];
	/* the world */
	uint64_t arrival_ns, noise_ns, noise_end_ns;
	bool locked, others_listen;
	int notifications; /* that the session will read */
	bool session_armed;
	/* the worker */
	struct plan plan;
	struct wake wake;
	int lanes; /* that there are */
	bool known[LANES];
	int lanes_at, lanes_left; /* the round through all lanes: the next one, and how many are left */
	uint64_t poll_ns, due_ns, retry_ns, full_ns;
	int unrecorded, transactions;
};

static uint64_t below(struct sim *s, uint64_t n)
{
	return random_next(&s->random) % n;
}

static bool one_in(struct sim *s, uint64_t n)
{
	return below(s, n) == 0;
}

static size_t in_state(const struct sim *s, enum job_state state)
{
	size_t n = 0;

	for (int i = 0; i < JOBS; i++)
		n += s->job[i].state == state;
	return n;
}

static void make_ready(struct sim_job *job, uint64_t ns)
{
	job->state = READY;
	job->ready_ns = ns;
	job->passed = 0;
}

static void defer_job(struct sim *s, uint64_t open_ns, bool delayed)
{
	struct sim_job *job = s->job;

	while (job < s->job + JOBS && job->state != UNUSED)
		job++;
	if (job == s->job + JOBS)
		return;
	*job = (struct sim_job){ .state = OPEN,
				 .lane = (int)below(s, (uint64_t)s->lanes),
				 .limited = one_in(s, 5),
				 .single_lease = one_in(s, 5),
				 .commit_ns = s->now + open_ns,
				 .notifies = s->session_armed || s->others_listen,
				 .delay_ns = delayed ? 1 + below(s, s->active_ns) : 0 };
	job->single_lease = job->single_lease && !job->limited;
}

static void commit(struct sim *s, struct sim_job *job)
{
	if (job->delay_ns > 0)
		job->state = DELAYED;
	else
		make_ready(job, s->now);
	s->notifications += job->notifies;
}

static void end_run(struct sim *s, struct sim_job *job)
{
	job->state = UNUSED;
	s->unrecorded++;
	plan_ended(&s->plan);
	if (one_in(s, 10) && s->now < s->active_ns)
		defer_job(s, below(s, 200) * US, false); /* by the function, in a transaction of its own */
}

static void arrival(struct sim *s)
{
	s->arrival_ns = s->now + (one_in(s, 4) ? below(s, 500) * MS : below(s, 2000) * US) + 1;
	if (s->arrival_ns > s->active_ns)
		s->arrival_ns = UINT64_MAX;
	for (uint64_t n = one_in(s, 10) ? below(s, 20) : 1; n > 0; n--)
		defer_job(s, one_in(s, 5) ? below(s, s->active_ns) : below(s, 500) * US, one_in(s, 8));
}

static void noise(struct sim *s)
{
	s->noise_ns = s->now < s->noise_end_ns ? s->now + below(s, 100) * MS + 1 : UINT64_MAX;
	s->locked = s->hostile && one_in(s, 2) && s->noise_ns != UINT64_MAX;
	s->others_listen = one_in(s, 4) && s->noise_ns != UINT64_MAX;
	s->notifications += one_in(s, 8);
	for (int i = 0; i < JOBS; i++)
		if (s->job[i].state == READY && one_in(s, 10))
			s->job[i].state = UNUSED; /* another worker took it */
}

/* A taken job begins where a runner is free. */
static void begin_taken(struct sim *s)
{
	for (int i = 0; i < JOBS && in_state(s, RUNNING) < s->runners; i++)
		if (s->job[i].state == TAKEN) {
			s->job[i].state = RUNNING;
			s->job[i].end_ns = s->now + (uint64_t)(s->run_us * 1000) + below(s, 100) * US;
		}
	if (in_state(s, RUNNING) >= s->runners)
		s->full_ns = s->now;
}

static uint64_t happening_ns(const struct sim *s)
{
	uint64_t ns = s->arrival_ns < s->noise_ns ? s->arrival_ns : s->noise_ns;

	for (int i = 0; i < JOBS; i++) {
		const struct sim_job *job = &s->job[i];
		uint64_t at = job->state == OPEN ? job->commit_ns : job->state == RUNNING ? job->end_ns : UINT64_MAX;

		ns = at < ns ? at : ns;
	}
	return ns;
}

/* What others do until then. */
static void pass(struct sim *s, uint64_t until)
{
	for (uint64_t ns; (ns = happening_ns(s)) <= until;) {
		s->now = ns > s->now ? ns : s->now;
		if (s->arrival_ns <= ns)
			arrival(s);
		if (s->noise_ns <= ns)
			noise(s);
		for (int i = 0; i < JOBS; i++) {
			if (s->job[i].state == OPEN && s->job[i].commit_ns <= ns)
				commit(s, &s->job[i]);
			else if (s->job[i].state == RUNNING && s->job[i].end_ns <= ns)
				end_run(s, &s->job[i]);
		}
		begin_taken(s);
	}
	s->now = until;
}

static void list_open(const struct sim *s, struct store_ids *open)
{
	for (int i = 0; i < JOBS; i++)
		if (s->job[i].state == OPEN)
			assert_true(store_ids_add(open, (int64_t)(s->job[i].commit_ns + (uint64_t)i)));
	store_ids_sort(open);
}

/* Delayed jobs that are due become ready. */
static bool promote(struct sim *s)
{
	bool some = false;

	for (int i = 0; i < JOBS; i++) {
		struct sim_job *job = &s->job[i];

		if (job->state != DELAYED || job->commit_ns + job->delay_ns > s->now)
			continue;
		make_ready(job, s->now);
		some = true;
	}
	return some;
}

static void next_due(struct sim *s)
{
	s->due_ns = 0;
	for (int i = 0; i < JOBS; i++) {
		uint64_t due_ns = s->job[i].commit_ns + s->job[i].delay_ns;

		if (s->job[i].state == DELAYED && due_ns > s->now && (!s->due_ns || due_ns < s->due_ns))
			s->due_ns = due_ns;
	}
}

static bool is_work(const struct sim *s)
{
	for (int i = 0; i < JOBS; i++) {
		const struct sim_job *job = &s->job[i];

		if (job->state == READY || (job->state == DELAYED && job->commit_ns + job->delay_ns <= s->now))
			return true;
	}
	return false;
}

static void claim_free(struct sim *s, const struct plan_ask *ask, struct plan_got *got)
{
	bool gave[LANES] = { false }, asked[LANES];
	int64_t single_lease = ask->single_lease;

	memcpy(asked, s->known, sizeof(asked));
	if (ask->look && (ask->new_lanes_round || s->lanes_left == 0))
		s->lanes_left =
			s->now < s->quiet_ns ? s->lanes : LANES_ASKED; /* lanes without jobs have gone by then */
	for (int i = 0; ask->look && i < LANES_ASKED && s->lanes_left > 0; i++, s->lanes_left--) {
		asked[s->lanes_at] = true;
		s->lanes_at = (s->lanes_at + 1) % s->lanes;
	}
	got->more |= ask->look && s->lanes_left > 0;

	got->free = true;
	got->looked = ask->look;
	got->look_us = one_in(s, 4) ? below(s, 50000) : below(s, 500);
	got->busy = s->now < s->quiet_ns && one_in(s, 20);
	for (int i = 0; i < JOBS && !got->busy; i++) {
		struct sim_job *job = &s->job[i];

		if (job->state != READY || job->limited)
			continue;
		if (!asked[job->lane]) {
			job->passed++;
			continue;
		}
		job->passed = 0;
		if ((int64_t)got->free_n >= ask->free)
			continue;
		if (job->single_lease && single_lease == 0) {
			got->cut = true;
			continue;
		}
		single_lease -= job->single_lease;
		got->single_lease_n += job->single_lease;
		got->free_n++;
		gave[job->lane] = true;
		job->state = TAKEN;
	}
	memcpy(s->known, gave, sizeof(gave));
}

static void claim_limited(struct sim *s, const struct plan_ask *ask, struct plan_got *got)
{
	got->limited = true;
	if (s->now < s->quiet_ns && one_in(s, 20)) {
		got->limited_seen = 1;
		return;
	}
	for (int i = 0; i < JOBS; i++) {
		struct sim_job *job = &s->job[i];

		if (job->state != READY || !job->limited)
			continue;
		job->passed = 0;
		if ((int64_t)got->limited_n < ask->limited) {
			job->state = TAKEN;
			got->limited_n++;
		}
	}
}

static void pass_over_the_other_kind(struct sim *s, bool free, bool limited)
{
	for (int i = 0; i < JOBS; i++)
		if (s->job[i].state == READY && !(s->job[i].limited ? limited : free))
			s->job[i].passed++;
}

/* A cycle as round_trip.c sends it, with what others do before, between and after its transactions. */
static void cycle(struct sim *s, const struct plan_ask *ask, enum wake_step step)
{
	bool claims = ask->free + ask->limited > 0, arms = step == WAKE_ARM || step == WAKE_PEEK;
	bool taken = false, work = false, adds;
	bool writes = s->unrecorded > 0 || ask->promote || (step != WAKE_NOTHING && step != WAKE_CLAIM);
	struct plan_got got = { .sent_ns = s->now, .promoted = ask->promote, .limits = true };
	struct store_ids open = { 0 };
	int64_t pause_ms;

	s->transactions += writes + claims;
	if (claims)
		wake_sent(&s->wake, WAKE_CLAIM);
	if (step == WAKE_PEEK || step == WAKE_DISARM)
		wake_sent(&s->wake, step);
	adds = s->unrecorded > 0 && one_in(s, 4) && s->now < s->active_ns;
	if (adds)
		defer_job(s, below(s, 100) * US, false);
	plan_sent(&s->plan, ask, adds, s->now);
	s->unrecorded = 0;
	pass(s, s->now + (100 + below(s, 400)) * US);
	if (step == WAKE_DISARM)
		s->session_armed = false;
	if (arms)
		taken = !s->locked || s->session_armed;
	s->session_armed |= taken;
	if (arms || step == WAKE_LOOK)
		list_open(s, &open);
	work = step == WAKE_PEEK && is_work(s);
	got.made_ready = ask->promote && promote(s);
	if (ask->promote || step == WAKE_PEEK)
		next_due(s);
	pass(s, s->now + (100 + below(s, 400)) * US);
	if (ask->free > 0)
		claim_free(s, ask, &got);
	if (ask->limited > 0)
		claim_limited(s, ask, &got);
	if (claims)
		pass_over_the_other_kind(s, got.free, got.limited);
	pass(s, s->now + (50 + below(s, 200)) * US);
	begin_taken(s);

	got.unrecorded = s->unrecorded > 0;
	pause_ms = plan_learn(&s->plan, &got);
	if (pause_ms > 0)
		s->retry_ns = got.sent_ns + (uint64_t)pause_ms * MS;
	if (got.free_n + got.limited_n > 0) {
		deferred_backoff_hit(&s->interval);
		s->poll_ns = 0;
	}
	if (claims && s->plan.exhausted && s->now >= s->poll_ns)
		s->poll_ns = s->now + (uint64_t)deferred_backoff_empty(&s->interval) * MS;
	if (arms)
		wake_answered_arm(&s->wake, taken, s->others_listen ? (int)below(s, 3) : 0, &open, s->now);
	else if (step == WAKE_LOOK)
		wake_answered_look(&s->wake, &s->plan, &open, s->now);
	if (step == WAKE_PEEK)
		wake_answered_peek(&s->wake, &s->plan, work);
	if (claims)
		wake_answered_claim(&s->wake, got.free_n + got.limited_n > 0);
	free(open.id);
}

static struct plan_in what_is_known(const struct sim *s)
{
	size_t running = in_state(s, RUNNING), taken = in_state(s, TAKEN);
	struct plan_in in = { .now = s->now,
			      .left = INT64_MAX,
			      .batch = 500,
			      .run_us = s->run_us,
			      .runners = s->runners,
			      .room = s->runners - running,
			      .idle = s->runners - running,
			      .unstarted = taken,
			      .load = running + taken };

	for (int i = 0; i < JOBS; i++)
		if (s->job[i].state == RUNNING || s->job[i].state == TAKEN) {
			in.single_lease += s->job[i].single_lease;
			in.limited += s->job[i].limited;
		}
	for (int i = 0; i < LANES; i++)
		in.lanes |= s->known[i];
	return in;
}

static uint64_t look_ns(const struct sim *s)
{
	return s->due_ns && s->due_ns < s->poll_ns ? s->due_ns : s->poll_ns;
}

/* Between cycles. Returns when the next turn is. */
static uint64_t turn(struct sim *s)
{
	uint64_t next_ns = happening_ns(s), ns;
	enum wake_step step;
	struct plan_in in;
	struct plan_ask ask;

	for (; s->wake.state != WAKE_OFF && s->notifications > 0; s->notifications--)
		wake_notified(&s->wake, s->now);
	if (s->now < s->retry_ns)
		return s->retry_ns < next_ns ? s->retry_ns : next_ns;
	step = wake_next(&s->wake, &s->plan, false, look_ns(s), s->now);
	in = what_is_known(s);
	ask = plan_next(&s->plan, &in);
	if (ask.free + ask.limited > 0 || s->unrecorded > 0 || step == WAKE_PEEK || step == WAKE_LOOK ||
	    step == WAKE_DISARM) {
		cycle(s, &ask, step);
		return s->now;
	}
	ns = wake_deadline(&s->wake, s->plan.exhausted);
	next_ns = ns < next_ns ? ns : next_ns;
	if (s->plan.exhausted && look_ns(s) < next_ns)
		next_ns = look_ns(s);
	return s->plan.claim_ns > s->now && s->plan.claim_ns < next_ns ? s->plan.claim_ns : next_ns;
}

static void fail_at(const struct sim *s, const char *what, uint64_t n)
{
	fail_msg("seed %llu, at %llu ms: %s: %llu", (unsigned long long)s->seed, (unsigned long long)(s->now / MS),
		 what, (unsigned long long)n);
}

static void check_jobs(struct sim *s, uint64_t in_any_case_ns)
{
	for (int i = 0; i < JOBS; i++) {
		const struct sim_job *job = &s->job[i];
		uint64_t most_ns = in_any_case_ns;
		uint64_t since_ns = job->ready_ns > s->full_ns ? job->ready_ns : s->full_ns;

		if (job->state == DELAYED)
			since_ns = job->commit_ns + job->delay_ns;
		else if (job->state != READY)
			continue;
		/* Nobody else disturbs, and it was notified. */
		if (job->notifies && job->state == READY && job->delay_ns == 0 && s->noise_end_ns == 0 && s->listens)
			most_ns = 500 * MS * (uint64_t)s->lanes / LANES_ASKED;
		if (s->now > since_ns + most_ns)
			fail_at(s, "a ready job has not begun, milliseconds", (s->now - since_ns) / MS);
		if (job->passed > PASSED_MAX * s->lanes / LANES_ASKED)
			fail_at(s, "claims have not asked for a ready job", (uint64_t)job->passed);
	}
}

static void simulate(uint64_t seed)
{
	struct sim s = { .random = seed, .seed = seed };
	uint64_t most_ns, limit_ns;
	int before = -1, turns = 0;

	s.active_ns = one_in(&s, 4) ? below(&s, 4000) * MS + 1 : below(&s, 50) * MS + 1;
	s.quiet_ns = 3 * s.active_ns + 8 * S;
	s.end_ns = s.quiet_ns + 10 * S;
	s.lanes = one_in(&s, 2) ? LANES_ASKED : LANES;
	s.listens = !one_in(&s, 5);
	s.hostile = one_in(&s, 4);
	s.runners = 1 + below(&s, 4);
	s.run_us = one_in(&s, 3) ? (double)below(&s, 60000) : (double)(1 + below(&s, 1000));
	/* A service that should have been woken would look too late by itself. */
	s.interval = (struct deferred_backoff){ 1000, 3000, 2, 0, 0 };
	if (s.listens && !s.hostile)
		s.interval.interval_floor_ms = s.interval.interval_ceiling_ms = 60000;
	s.noise_ns = one_in(&s, 2) || s.hostile ? 1 : UINT64_MAX;
	s.noise_end_ns = s.noise_ns == UINT64_MAX ? 0 : s.active_ns + below(&s, 4) * S;
	s.arrival_ns = 1;
	s.now = 1;
	most_ns = (s.listens && !s.hostile ? 2 : 5) * S;
	if (s.listens)
		wake_on(&s.wake, &s.interval);
	while (s.now < s.end_ns) {
		uint64_t next_ns = turn(&s);

		check_jobs(&s, most_ns);
		if (s.now >= s.quiet_ns && before < 0)
			before = s.transactions;
		if (++turns > 200000)
			fail_at(&s, "turns without an end", (uint64_t)turns);
		limit_ns = s.now < s.quiet_ns ? s.quiet_ns : s.end_ns;
		pass(&s, next_ns < limit_ns ? next_ns : limit_ns);
	}
	check_jobs(&s, most_ns);
	for (int i = 0; i < JOBS; i++)
		if (s.job[i].state != UNUSED)
			fail_at(&s, "a job has not ended, its state is", s.job[i].state);
	if (s.transactions - before >= (s.listens && !s.hostile ? 20 : 40)) /* the others look every three seconds */
		fail_at(&s, "transactions in 10 s without work", (uint64_t)(s.transactions - before));
	free(s.wake.open.id);
}

static void each_ready_job_is_asked_for_and_a_service_without_work_sleeps(void **state)
{
	uint64_t drawn = clock_ns();

	(void)state;
	for (uint64_t i = 0; i < 3000; i++)
		simulate(i < 2000 ? i + 1 : drawn + i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_notification_is_answered_once),
		cmocka_unit_test(the_second_in_rank_looks_later_and_does_not_claim),
		cmocka_unit_test(useless_notifications_are_answered_later_and_later),
		cmocka_unit_test(locks_that_another_session_holds_are_tried_for_later_and_later),
		cmocka_unit_test(transactions_that_were_open_are_waited_for),
		cmocka_unit_test(a_service_that_has_enough_to_do_is_not_notified),
		cmocka_unit_test(news_is_no_less_news_while_a_claim_is_due_anyway),
		cmocka_unit_test(it_stays_armed_until_further_lanes_are_looked_for_and_news_ends_the_wait),
		cmocka_unit_test(without_notifications_the_interval_wakes),
		cmocka_unit_test(each_ready_job_is_asked_for_and_a_service_without_work_sleeps),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("wake", tests, NULL, NULL);
}
