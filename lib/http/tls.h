/* SPDX-License-Identifier: MIT */
/*
 * tls - the certificate that is shown, which can be exchanged while the server runs; the only file to include GnuTLS,
 * which is what libmicrohttpd speaks TLS by. There is one for all servers of the process.
 */
#ifndef TLS_H
#define TLS_H

#include "base/error.h"

#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

/* Read both files, in PEM, the certificate with those it was signed by; from now on they are shown. On failure what was
 * shown before stays. */
int tls_load(const char *certificate_file, const char *key_file, struct deferred_error *err);
void tls_free(void);

/* What libmicrohttpd takes: a gnutls_certificate_retrieve_function2. */
void *tls_callback(void);

#endif
