/* SPDX-License-Identifier: MIT */
/* error_body - an error as the protocol writes it. */
#ifndef ERROR_BODY_H
#define ERROR_BODY_H

#include "http/reply.h"

#include <stdint.h>

/* Write the body of an error, once its id and time are settled. */
void error_body_write(struct reply *reply, const char *request_id, int64_t now_us);

#endif
