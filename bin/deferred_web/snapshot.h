/* SPDX-License-Identifier: MIT */
/*
 * snapshot - pages as they were a moment ago, for all who see by the same role: so 50 browsers that keep a page fresh
 * cost the database what one does.
 *
 * Only who has the page already, and asks what has changed, gets one of them; who comes to a page sees it as it is.
 * What differs between two people who act as one role, their name and the token of forms, is left out of what is kept,
 * and filled in.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H

#include "web.h"

#define SNAPSHOT_MS 1900 /* so old one may be; page.js asks a little less often */

/* NULL: no memory. */
struct snapshots *snapshots_new(void);
void snapshots_free(struct snapshots *s);

/* Is the visit one that takes a page that is a little old, and is it known what it may see? */
bool snapshot_wanted(const struct visit *v);

/* True: v->reply is the page. False: it has to be made, and others who want it may wait for that, for a moment:
 * snapshot_made() is due, whatever comes of it. */
bool snapshot_get(struct snapshots *s, struct visit *v);

/* v->reply is a page that was made now, or what became of it: others may have it too. Not for what snapshot_get() gave,
 * which has no holes any more. */
void snapshot_made(struct snapshots *s, struct visit *v);

/* Something was done by a button: none of them counts any more. */
void snapshots_drop(struct snapshots *s);

/* Give back those that are too old. To be called every second or so. */
void snapshots_tick(struct snapshots *s);

#endif
