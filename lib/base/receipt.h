/* SPDX-License-Identifier: MIT */
/*
 * message - how ids and receipts of messages are written for consumers that speak the queue protocol.
 *
 * A message id is a GUID made from the job id: a version 8 UUID. It carries the id and 58 check bits, so that any other
 * GUID is refused. Neither is a secret. A receipt deletes a message, but grants no access.
 */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_GUID_SIZE 37    /* 36 characters and NUL */
#define MESSAGE_RECEIPT_SIZE 12 /* 11 characters and NUL */

/* The GUID of a job id, lower-case. */
void message_id_format(int64_t id, char text[MESSAGE_GUID_SIZE]);

/* The id of a GUID, in either case. False: message_id_format() makes no such text of an id above 0. */
bool message_id_parse(const char *text, int64_t *id);

/* A receipt as text of A-Z a-z 0-9 "_" and "-": base64url without padding. */
void receipt_format(int64_t receipt, char text[MESSAGE_RECEIPT_SIZE]);

/* Its number. False: receipt_format() makes no such text. */
bool receipt_parse(const char *text, int64_t *receipt);

#endif
