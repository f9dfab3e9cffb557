/* SPDX-License-Identifier: MIT */
/*
 * resolve - the addresses of several host names. getaddrinfo() has no time limit, so each name is looked up in a thread
 * of its own. The caller decides how long it waits.
 */
#ifndef RESOLVE_H
#define RESOLVE_H

#include <stdbool.h>
#include <stddef.h>

struct addrinfo;
struct resolve;

/* names[i] NULL: nothing is looked up at this place. Returns NULL with errno: no memory, descriptor or thread. */
struct resolve *resolve_start(char *const *names, size_t n);

/* Becomes readable when a name is known, and stays so until resolve_pending() is called. */
int resolve_fd(const struct resolve *r);

/* How many names have no answer yet. */
size_t resolve_pending(struct resolve *r);

/* The result for names[i]; NULL: none, and *why is the reason, or NULL while the answer is pending. */
const struct addrinfo *resolve_found(const struct resolve *r, size_t i, const char **why);

/* A look-up that is still pending ends by itself. NULL is accepted. */
void resolve_end(struct resolve *r);

#endif
