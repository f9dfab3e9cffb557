/* SPDX-License-Identifier: MIT */
/* queue_metadata - headers x-ms-meta-NAME and the JSON object they are kept as. */
#ifndef QUEUE_METADATA_H
#define QUEUE_METADATA_H

#include "http/reply.h"
#include "http/request.h"

#define QUEUE_METADATA_MAX_BYTES 8192

/* *json: the object, in the arena. */
enum fault queue_metadata_read(const struct request *r, const char **json);

/* This protocol sets only names that are C# identifiers. Others are ignored. */
void queue_metadata_headers(const char *json, struct reply *reply);

/* The elements <NAME>VALUE</NAME>. */
void queue_metadata_xml(struct arena *arena, const char *json, struct buf *out);

#endif
