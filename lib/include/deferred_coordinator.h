/* SPDX-License-Identifier: MIT */
#ifndef DEFERRED_COORDINATOR_H
#define DEFERRED_COORDINATOR_H

/*
 * deferred_coordinator - keeps the threads of a process level: none gets ahead of another by more than RANGE steps.
 *
 * A coordinator holds a track for each walker. Tracks move in rounds of RANGE steps. A track that has made them waits
 * until every live track has. Then all begin the next round. In round r (from 0) every track stands between r * RANGE
 * and (r + 1) * RANGE. Any two differ by at most RANGE at every moment. The same rule between processes and hosts is
 * `check_deferred --balance`.
 *
 *     struct deferred_coordinator *c;          struct deferred_track track;
 *
 *     deferred_coordinator_new(&c, 10, &err);  deferred_track_create(c, &track, &err);
 *
 *     while (more_to_do) {
 *             int64_t n = deferred_track_move_wait(track, 1, -1);
 *
 *             if (n < 0)
 *                     break;
 *             if (n > 0)
 *                     do_one();
 *     }
 *     deferred_track_destroy(track);
 *
 * A granted step counts as made when deferred_track_move() returns, used or not. Work begun after that may end after
 * other tracks have moved on.
 *
 * The end of a track releases the tracks that waited for it. Perhaps it ended because all are to stop. Each of them
 * therefore first gets one call that grants 0 steps, and checks again whether there is more to do. Walkers that check
 * one flag before each step, and destroy their tracks when it falls, end within RANGE steps of each other.
 *
 * Threads. All functions but deferred_coordinator_free() may be called by any thread at any time, for any track. A
 * track is a value that may be copied. It stays valid memory until its coordinator is freed. After the track is
 * destroyed, each use of any copy returns DEFERRED_ENOTFOUND, also when its slot has a new track. The track of a walker
 * that stops must be destroyed, or the others wait for it.
 *
 * Cost. A step inside a round is one atomic compare-and-exchange on a cache line of the track's own, without a lock or
 * a system call. It is repeated only if another thread moves the same track at that moment. The end of a round, once in
 * RANGE steps, takes the coordinator's mutex.
 */

#include "deferred.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEFERRED_RANGE_MAX 2147483647

struct deferred_coordinator;

struct deferred_track {
	void *place;
	uint32_t generation;
};

/*
 * deferred_coordinator_new - make a coordinator without tracks.
 *
 * c      receives it; freed with deferred_coordinator_free().
 * range  steps of a round, 1 to DEFERRED_RANGE_MAX.
 *
 * Returns 0, DEFERRED_EINVAL, DEFERRED_ENOMEM or DEFERRED_ESYSTEM.
 */
DEFERRED_API int deferred_coordinator_new(struct deferred_coordinator **c, int64_t range, struct deferred_error *err);

/* deferred_coordinator_free - free it and all its tracks. No thread may be in a function with one of them, nor use
 * one later. NULL is accepted. */
DEFERRED_API void deferred_coordinator_free(struct deferred_coordinator *c);

/*
 * deferred_track_create - add a live track. It starts at the beginning of the current round, and the others wait for it
 * from then on.
 *
 * Returns 0, DEFERRED_EINVAL or DEFERRED_ENOMEM.
 */
DEFERRED_API int deferred_track_create(struct deferred_coordinator *c, struct deferred_track *track,
				       struct deferred_error *err);

/*
 * deferred_track_destroy - take the track out. Tracks that waited for this one alone go on, after one call each that
 * grants 0 steps. Of threads that share a track, one gets that call. A thread in deferred_track_move_wait() for the
 * track itself gets DEFERRED_ENOTFOUND.
 *
 * Returns 0, or DEFERRED_ENOTFOUND where it was destroyed already.
 */
DEFERRED_API int deferred_track_destroy(struct deferred_track track);

/*
 * deferred_track_move - may the track take steps? Never waits for other tracks.
 *
 * n  steps wanted, >= 1.
 *
 * Returns the number of steps granted: n, or less if the round has fewer left. 0: wait for others, or check whether to
 * go on, because another track was destroyed. DEFERRED_EINVAL for n < 1, DEFERRED_ENOTFOUND for a destroyed track.
 */
DEFERRED_API int64_t deferred_track_move(struct deferred_track track, int64_t n);

/*
 * deferred_track_move_wait - the same, waiting until a step is granted, or a track was destroyed that this one waited
 * for.
 *
 * timeout_ms  how long to wait; 0 does not wait, negative waits for ever.
 *
 * Returns as deferred_track_move(), but DEFERRED_ETIMEOUT where it would still have to wait for others. 0: such a track
 * was destroyed; look whether to go on, and call again.
 */
DEFERRED_API int64_t deferred_track_move_wait(struct deferred_track track, int64_t n, int64_t timeout_ms);

/*
 * deferred_track_position - the steps made, counted from the beginning of round 0. For a track created in round r this
 * includes the r * RANGE steps before it, so that positions can be compared.
 *
 * Returns it, or DEFERRED_ENOTFOUND. Takes no lock.
 */
DEFERRED_API int64_t deferred_track_position(struct deferred_track track);

#ifdef __cplusplus
}
#endif

#endif
