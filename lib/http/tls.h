/* SPDX-License-Identifier: MIT */
/*
 * tls - TLS on connections, and the certificate that all servers of the process show. A new certificate applies to
 * connections that are accepted later. This is the only file to include OpenSSL's TLS.
 */
#ifndef TLS_H
#define TLS_H

#include "base/error.h"

#include <sys/types.h>

struct ssl_st;

/* Reads two files in PEM: the certificate with its chain, and its key. After a failure the old certificate stays. */
int tls_load(const char *certificate_file, const char *key_file, struct deferred_error *err);
void tls_free(void);

/* For an accepted socket that does not block. NULL: no memory. */
struct ssl_st *tls_open(int fd);

/* As recv() and send(), but any failure is 0, except that -1 says: wait for the socket. */
ssize_t tls_read(struct ssl_st *ssl, void *bytes, size_t len);
ssize_t tls_write(struct ssl_st *ssl, const void *bytes, size_t len);

/* Tells the client that nothing follows. */
void tls_end(struct ssl_st *ssl);
void tls_close(struct ssl_st *ssl);

#endif
