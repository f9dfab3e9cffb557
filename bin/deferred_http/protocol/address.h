/* SPDX-License-Identifier: MIT */
/* address - what a request of the protocol addresses: account, queue, message, and in which version. */
#ifndef ADDRESS_H
#define ADDRESS_H

#include "http/request.h"

/* request_end(), and what the protocol reads out of it. Tells the first thing that is wrong, which is also kept in the
 * request. */
enum fault address_read(struct request *r);

/* The rules for names, section 10. */
enum fault address_check_queue(const char *name);
bool address_is_account(const char *name);

#endif
