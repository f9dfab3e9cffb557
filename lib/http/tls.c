/* SPDX-License-Identifier: MIT */
#include "http/tls.h"

#include "port/secret_file.h"

#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define KEY_MAX 32768 /* bytes of a key file; that of the longest RSA key has 13,000 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static SSL_CTX *current; /* connections count as users too */

/* ---- the certificate -------------------------------------------------------------------------- */

static int cannot_use(struct deferred_error *err, const char *what, const char *file)
{
	unsigned long code = ERR_get_error();
	const char *cause = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

	ERR_clear_error();
	return error_set(err, DEFERRED_ECONFIG, "tls", "cannot use %s '%s' (%s)", what, file,
			 cause ? cause : "unknown cause");
}

/* Nobody is there to type a password. */
static int no_password(char *password, int size, int writing, void *data)
{
	(void)password;
	(void)size;
	(void)writing;
	(void)data;
	return -1;
}

/* The text of the key file, at most KEY_MAX bytes. It is read from the same file that was checked. */
static int load_key(const char *file, char *text, size_t *len, struct deferred_error *err)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = 0;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return error_errno(err, DEFERRED_ECONFIG, "tls", "cannot use key '%s'", file);
	if (fstat(fd, &st) < 0 || !secret_file_ok(&st))
		rc = error_set(err, DEFERRED_ECONFIG, "tls", "key '%s' " SECRET_FILE_WRONG "\n" SECRET_FILE_HINT, file,
			       (unsigned int)st.st_mode & 07777);
	else if ((n = read(fd, text, KEY_MAX)) < 0)
		rc = error_errno(err, DEFERRED_ECONFIG, "tls", "cannot use key '%s'", file);
	else
		*len = (size_t)n;
	close(fd);
	return rc;
}

static int read_files(SSL_CTX *ctx, const char *certificate_file, const char *key_file, struct deferred_error *err)
{
	char text[KEY_MAX];
	EVP_PKEY *key;
	size_t len = 0;
	BIO *bio;
	int rc;

	SSL_CTX_set_default_passwd_cb(ctx, no_password);
	if (SSL_CTX_use_certificate_chain_file(ctx, certificate_file) != 1)
		return cannot_use(err, "certificate", certificate_file);
	rc = load_key(key_file, text, &len, err);
	if (rc < 0)
		return rc;
	bio = BIO_new_mem_buf(text, (int)len);
	key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
	BIO_free(bio);
	explicit_bzero(text, sizeof(text));
	if (!key)
		return cannot_use(err, "key", key_file);
	if (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1)
		rc = error_set(err, DEFERRED_ECONFIG, "tls", "key '%s' is not that of certificate '%s'", key_file,
			       certificate_file);
	EVP_PKEY_free(key);
	return rc;
}

int tls_load(const char *certificate_file, const char *key_file, struct deferred_error *err)
{
	SSL_CTX *ctx, *old;
	int rc;

	ERR_clear_error();
	ctx = SSL_CTX_new(TLS_server_method());
	if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
		SSL_CTX_free(ctx);
		return error_set(err, DEFERRED_ENOMEM, "tls", "out of memory");
	}
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* clients resume by tickets */
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				      SSL_MODE_RELEASE_BUFFERS);
	rc = read_files(ctx, certificate_file, key_file, err);
	ERR_clear_error();
	if (rc < 0) {
		error_hint(err, "set tls_certificate and tls_key of the section to PEM files that belong together");
		SSL_CTX_free(ctx);
		return rc;
	}
	pthread_mutex_lock(&lock);
	old = current;
	current = ctx;
	pthread_mutex_unlock(&lock);
	SSL_CTX_free(old);
	return 0;
}

void tls_free(void)
{
	SSL_CTX_free(current);
	current = NULL;
}

/* ---- a connection ----------------------------------------------------------------------------- */

struct ssl_st *tls_open(int fd)
{
	SSL *ssl;

	pthread_mutex_lock(&lock);
	ssl = SSL_new(current);
	pthread_mutex_unlock(&lock);
	if (ssl && SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		ssl = NULL;
	}
	if (ssl)
		SSL_set_accept_state(ssl);
	return ssl;
}

/* What SSL_read() or SSL_write() returned. */
static ssize_t check_result(const SSL *ssl, int rc)
{
	int why = rc > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl, rc);

	return rc > 0 ? rc : why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? -1 : 0;
}

ssize_t tls_read(struct ssl_st *ssl, void *bytes, size_t len)
{
	ERR_clear_error();
	return check_result(ssl, SSL_read(ssl, bytes, len < INT_MAX ? (int)len : INT_MAX));
}

ssize_t tls_write(struct ssl_st *ssl, const void *bytes, size_t len)
{
	ERR_clear_error();
	return check_result(ssl, SSL_write(ssl, bytes, len < INT_MAX ? (int)len : INT_MAX));
}

void tls_end(struct ssl_st *ssl)
{
	ERR_clear_error();
	SSL_shutdown(ssl);
}

void tls_close(struct ssl_st *ssl)
{
	SSL_free(ssl);
}
