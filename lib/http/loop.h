/* SPDX-License-Identifier: MIT */
/* loop - a thread that accepts connections from a listening socket and moves each on when its socket is ready. */
#ifndef LOOP_H
#define LOOP_H

#include "http/http_connection.h"

struct loop;

/* listening is borrowed; several loops may share it. NULL: errno says why. */
struct loop *loop_start(struct http_connection_server *server, int listening);

/* Accepts nothing more. */
void loop_quiesce(struct loop *l);

/* Ends the thread and cuts off its connections. None of them may be parked. */
void loop_stop(struct loop *l);

#endif
