/* SPDX-License-Identifier: MIT */
/* openapi - GET /v1/openapi.json: describes the JSON API to programs. The program contains openapi.json. */
#ifndef OPENAPI_H
#define OPENAPI_H

#include "front/exchange.h"

enum served_step openapi_answer(struct exchange *x);

#endif
