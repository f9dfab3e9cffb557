/* SPDX-License-Identifier: MIT */
/*
 * dispatch - finds out what a request asks for and who sent it, and starts the operation.
 *
 * The order of checks: the form of the request; the account; the name of the queue; the operation; the authorization.
 * These need the headers only, and no body is kept before them. Then come the parameters and the body, and at last the
 * database.
 */
#ifndef DISPATCH_H
#define DISPATCH_H

#include "front/exchange.h"

/* The data of the server is a struct front. */
extern const struct server_app dispatch_app;

#endif
