/* SPDX-License-Identifier: MIT */
/* guard - who may send a request at all: pure functions over what was sent. */
#ifndef GUARD_H
#define GUARD_H

#include "http/request.h"

#include <stdbool.h>
#include <stdint.h>

#define GUARD_KEY_BYTES 32
#define GUARD_TOKEN_SIZE 65
#define GUARD_NAME_SIZE 64 /* of a role, with its NUL */

/* A name that may lead here: of loopback, or among those listed, separated by commas (NULL: none). Any other is
 * somebody's who had it point to us. */
bool guard_host(const struct request *r, const char *hosts);

/* Did a page of ours send this? The headers only a browser can set say so. */
bool guard_same_origin(const struct request *r);

/* What forms carry: it is good for this user, and this hour and the next. */
void guard_token(const unsigned char key[GUARD_KEY_BYTES], const char *user, int64_t hour,
		 char token[GUARD_TOKEN_SIZE]);
bool guard_token_ok(const unsigned char key[GUARD_KEY_BYTES], const char *user, int64_t hour, const char *token);

/* Name and password of "Authorization: Basic". False: there are none, or not in a form that could be meant. */
bool guard_basic(struct request *r, char user[GUARD_NAME_SIZE], const char **password);

/* Is the address of who sent it in a list such as "10.0.0.1, ::1"? Who comes by a socket of this machine is. */
bool guard_peer(const struct request *r, const char *addresses);

/* The value of a field in "a=b&c=d", decoded, in the arena; NULL: none, or not in UTF-8. */
const char *guard_field(struct arena *arena, const char *form, size_t len, const char *name);

/* The role in "ann:deferred_operator, bob:deferred_viewer"; NULL: none. It is one of those three that a page is for. */
const char *guard_role(const char *users, const char *user);

#endif
