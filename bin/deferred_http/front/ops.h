/* SPDX-License-Identifier: MIT */
/* ops - the operations of the protocol. Each begins here when the request is authorized. */
#ifndef OPS_H
#define OPS_H

#include "front/exchange.h"

/* service_ops.c */
enum step op_list_queues(struct exchange *x);
enum step op_get_properties(struct exchange *x);
enum step op_set_properties(struct exchange *x);
enum step op_get_stats(struct exchange *x);
enum step op_delegation_key(struct exchange *x);
/* queue_ops.c */
enum step op_create_queue(struct exchange *x);
enum step op_delete_queue(struct exchange *x);
enum step op_get_metadata(struct exchange *x);
enum step op_set_metadata(struct exchange *x);
enum step op_get_acl(struct exchange *x);
enum step op_set_acl(struct exchange *x);
/* message_ops.c */
enum step op_put_message(struct exchange *x);
enum step op_put_raw(struct exchange *x);
enum step op_get_messages(struct exchange *x);
enum step op_peek_messages(struct exchange *x);
enum step op_clear_messages(struct exchange *x);
enum step op_update_message(struct exchange *x);
enum step op_delete_message(struct exchange *x);
/* health.c */
bool health_is_asked(const struct request *r);
enum step op_health(struct exchange *x);
enum step op_metrics(struct exchange *x);

#endif
