/* SPDX-License-Identifier: MIT */
/* ops - the operations of the protocol. Each begins here when the request is authorized. */
#ifndef OPS_H
#define OPS_H

#include "front/exchange.h"

/* service_ops.c */
enum served_step service_ops_list_queues(struct exchange *x);
enum served_step service_ops_get_properties(struct exchange *x);
enum served_step service_ops_set_properties(struct exchange *x);
enum served_step service_ops_get_stats(struct exchange *x);
enum served_step service_ops_delegation_key(struct exchange *x);
/* queue_ops.c */
enum served_step queue_ops_create(struct exchange *x);
enum served_step queue_ops_delete(struct exchange *x);
enum served_step queue_ops_get_metadata(struct exchange *x);
enum served_step queue_ops_set_metadata(struct exchange *x);
enum served_step queue_ops_get_acl(struct exchange *x);
enum served_step queue_ops_set_acl(struct exchange *x);
/* message_ops.c */
enum served_step message_ops_put(struct exchange *x);
enum served_step message_ops_put_raw(struct exchange *x);
enum served_step message_ops_get(struct exchange *x);
enum served_step message_ops_peek(struct exchange *x);
enum served_step message_ops_clear(struct exchange *x);
enum served_step message_ops_update(struct exchange *x);
enum served_step message_ops_delete(struct exchange *x);
/* health.c */
bool health_is_asked(const struct request *r);
enum served_step health_answer(struct exchange *x);
enum served_step health_metrics(struct exchange *x);

#endif
