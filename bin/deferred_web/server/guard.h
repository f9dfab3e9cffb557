/* SPDX-License-Identifier: MIT */
/* guard - who may send a request. All of them are pure functions of what was sent. */
#ifndef GUARD_H
#define GUARD_H

#include "http/request.h"

#include <stdbool.h>
#include <stdint.h>

#define GUARD_KEY_BYTES 32
#define GUARD_TOKEN_SIZE 65
#define GUARD_NAME_SIZE 64 /* of a role, with its NUL */

/* Is the host a name of loopback, or in the list, which is separated by commas? A page elsewhere could have made any
 * other name point to this server. NULL: an empty list. */
bool guard_host(const struct request *r, const char *hosts);

/* Did a page of this server send it? Headers that only a browser can set say so. */
bool guard_same_origin(const struct request *r);

/* The token of forms. It is valid for this user, in this hour and the next. */
void guard_token(const unsigned char key[GUARD_KEY_BYTES], const char *user, int64_t hour,
		 char token[GUARD_TOKEN_SIZE]);
bool guard_token_ok(const unsigned char key[GUARD_KEY_BYTES], const char *user, int64_t hour, const char *token);

/* Name and password of "Authorization: Basic". False: there are none, or they cannot be read. */
bool guard_basic(struct request *r, char user[GUARD_NAME_SIZE], const char **password);

/* Is the address of the client in a list such as "10.0.0.1, ::1"? For a socket of this machine: true. */
bool guard_peer(const struct request *r, const char *addresses);

/* The value of a field in "a=b&c=d", decoded, in the arena; NULL: none, or not in UTF-8. */
const char *guard_field(struct arena *arena, const char *form, size_t len, const char *name);

/* The role in "ann:deferred_operator, bob:deferred_viewer": viewer, reader or operator. NULL: none. */
const char *guard_role(const char *users, const char *user);

#endif
