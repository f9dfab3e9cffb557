/* SPDX-License-Identifier: MIT */
/*
 * pool_members - the runners of a pool. For the files of the pool alone; each calls only those to the right of it:
 *
 *     pool.c -> pool_watch.c, pool_dispatch.c -> pool_members.c -> pool_jobs.c
 */
#ifndef POOL_MEMBERS_H
#define POOL_MEMBERS_H

#include "pool.h"

/* In pool_jobs.c. */
struct job *pool_take_at(struct pool *pool, struct job **at); /* in the list `pending`; NULL: there is none */
void pool_add_ended(struct pool *pool, struct attempt *attempt);

/* Start a runner in this place. */
void pool_spawn(struct pool *pool, struct pool_member *member);

/* A runner cannot be started, perhaps for lack of memory or descriptors. The others go on, and no jobs are claimed for
 * this one. Without any runner the run is over. */
void pool_no_runner(struct pool *pool, const struct deferred_error *err);

/* Give it nothing more. The jobs that it has not begun go to others. */
void pool_retire(struct pool *pool, struct pool_member *member);

/* Only the job that it runs, or is about to begin, ends with the runner. */
void pool_kill_runner(struct pool *pool, struct pool_member *member, int sig, enum job_outcome why, const char *text);

/* Take over its attempts. */
void pool_collect(struct pool *pool, struct runner *runner);

/* It has died, or is given up. */
void pool_remove_member(struct pool *pool, struct pool_member *member);

/* Kill what functions have left behind. */
void pool_sweep(struct pool *pool);

bool pool_is_running(struct runner *runner);

/* Has it been running one job for so long that others should not wait behind that job? */
bool pool_is_stuck(struct runner *runner, uint64_t now);

/* In pool_watch.c. */
void pool_give_up_stuck(struct pool *pool, uint64_t now);

#endif
