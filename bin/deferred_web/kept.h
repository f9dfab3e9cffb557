/* SPDX-License-Identifier: MIT */
/*
 * kept - answers that take long: worked out once, and shown for a minute, figures for 5 seconds, to all who have equal
 * rights. Who finds none there, and nobody at it, works it out; others are told meanwhile that somebody is, or wait for
 * it.
 *
 *     if (kept_claim(kept, KEPT_DOCTOR, role)) {
 *             struct kept_answer a = { 0 };
 *             ... write a.html and a.json ...
 *             kept_put(kept, KEPT_DOCTOR, role, &a);
 *     }
 *     there = kept_show(kept, KEPT_DOCTOR, role, json, &body);
 */
#ifndef KEPT_H
#define KEPT_H

#include "base/error.h"
#include "http/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum kept_what { KEPT_DOCTOR, KEPT_ADVICE, KEPT_METRICS };

/* Markup, and members of an object, each with a comma in front; of metrics their two forms. */
struct kept_answer {
	struct buf html, json;
	bool failed; /* it is shown for a few seconds only */
};

struct kept;
struct kept *kept_new(struct deferred_error *err); /* NULL: no memory */

/* Should the caller work it out? whose: the role whose rights it is for; "": it is the same for all who may see it.
 * Then kept_put() has to follow. */
bool kept_claim(struct kept *k, enum kept_what what, const char *whose);

/* The answer is taken. */
void kept_put(struct kept *k, enum kept_what what, const char *whose, struct kept_answer *a);

/* There is no answer after kept_claim(): the next one who asks is to work it out. */
void kept_give_up(struct kept *k, enum kept_what what, const char *whose);

/* While somebody is at it, wait, for at most wait_ms. */
void kept_wait(struct kept *k, enum kept_what what, const char *whose, int wait_ms);

/* Add it to `to`. False: it is not there. */
bool kept_show(struct kept *k, enum kept_what what, const char *whose, bool json, struct buf *to);

/* Have work() called in a thread of its own, one at a time and with less right to the processor than what serves pages;
 * wait for its end for at most wait_ms.
 * False: there is no thread. */
bool kept_work(struct kept *k, void (*work)(void *data), void *data, int wait_ms);

/* Has what is worked out to be given up? */
bool kept_is_ending(struct kept *k);

/* Forget what is old. To be called every second or so. */
void kept_tick(struct kept *k);

/* Waits for the thread. */
void kept_free(struct kept *k);

#endif
