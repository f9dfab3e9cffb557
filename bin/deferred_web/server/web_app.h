/* SPDX-License-Identifier: MIT */
/* web_app - deferred_web behind the HTTP server: which requests are allowed, which page they get, and from where. */
#ifndef WEB_APP_H
#define WEB_APP_H

#include "http/server.h"
#include "web_pool.h"

extern const struct server_app web_app;
extern const struct web_pool_work web_app_work;

#endif
