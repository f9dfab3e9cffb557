/* SPDX-License-Identifier: MIT */
#include "http/tls.h"

#include "base/clock.h"
#include "port/secret_file.h"

#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHAIN_MAX 16
#define KEY_MAX 32768 /* bytes of a key file; that of the longest RSA key has 13,000 */
/* A handshake may still use what was replaced; none lasts that long. */
#define KEEP_NS (10 * 60 * NS_PER_S)

struct shown {
	struct shown *older;
	uint64_t replaced_ns;
	gnutls_pcert_st chain[CHAIN_MAX];
	unsigned int chain_len;
	gnutls_privkey_t key;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shown *current;

static void shown_free(struct shown *s)
{
	for (unsigned int i = 0; i < s->chain_len; i++)
		gnutls_pcert_deinit(&s->chain[i]);
	if (s->key)
		gnutls_privkey_deinit(s->key);
	free(s);
}

static int cannot(struct deferred_error *err, const char *what, const char *file, int rc)
{
	const char *cause = gnutls_strerror(rc); /* a sentence with a full stop */

	return error_set(err, DEFERRED_ECONFIG, "tls", "cannot use %s '%s' (%.*s)", what, file,
			 (int)strcspn(cause, "."), cause);
}

/* Is the key that of the certificate? Otherwise no client could finish a handshake. */
static bool belong_together(struct shown *s)
{
	unsigned char a[64], b[64];
	size_t a_len = sizeof(a), b_len = sizeof(b);
	gnutls_pubkey_t public;
	bool same;

	if (gnutls_pubkey_init(&public) < 0)
		return false;
	same = gnutls_pubkey_import_privkey(public, s->key, 0, 0) == 0 &&
	       gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, a, &a_len) == 0 &&
	       gnutls_pubkey_get_key_id(s->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, b, &b_len) == 0 &&
	       a_len == b_len && memcmp(a, b, a_len) == 0;
	gnutls_pubkey_deinit(public);
	return same;
}

/* The text of the key file, at most KEY_MAX bytes, read from the very file that was looked at. */
static int load_key(const char *file, unsigned char *text, unsigned int *len, struct deferred_error *err)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = 0;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return error_errno(err, DEFERRED_ECONFIG, "tls", "cannot use key '%s'", file);
	if (fstat(fd, &st) < 0 || !secret_file_ok(&st))
		rc = error_set(err, DEFERRED_ECONFIG, "tls", "key '%s' " SECRET_FILE_WRONG, file,
			       (unsigned int)st.st_mode & 07777);
	else if ((n = read(fd, text, KEY_MAX)) < 0)
		rc = error_errno(err, DEFERRED_ECONFIG, "tls", "cannot use key '%s'", file);
	else
		*len = (unsigned int)n;
	close(fd);
	return rc;
}

static int read_files(struct shown *s, const char *certificate_file, const char *key_file, struct deferred_error *err)
{
	gnutls_datum_t pem = { NULL, 0 };
	unsigned int len = CHAIN_MAX;
	unsigned char text[KEY_MAX];
	int rc = gnutls_load_file(certificate_file, &pem);

	if (rc == 0)
		rc = gnutls_pcert_list_import_x509_raw(s->chain, &len, &pem, GNUTLS_X509_FMT_PEM, 0);
	gnutls_free(pem.data);
	if (rc < 0)
		return cannot(err, "certificate", certificate_file, rc);
	s->chain_len = len;
	pem = (gnutls_datum_t){ text, 0 };
	rc = load_key(key_file, text, &pem.size, err);
	if (rc < 0)
		return rc;
	rc = gnutls_privkey_init(&s->key);
	if (rc == 0)
		rc = gnutls_privkey_import_x509_raw(s->key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0);
	explicit_bzero(text, sizeof(text));
	if (rc < 0)
		return cannot(err, "key", key_file, rc);
	if (!belong_together(s))
		return error_set(err, DEFERRED_ECONFIG, "tls", "key '%s' is not that of certificate '%s'", key_file,
				 certificate_file);
	return 0;
}

/* Those that no handshake can still use. Locked. */
static void forget_old(uint64_t now)
{
	struct shown **at = current ? &current->older : NULL;

	while (at && *at) {
		struct shown *s = *at;

		if (now - s->replaced_ns < KEEP_NS) {
			at = &s->older;
			continue;
		}
		*at = s->older;
		shown_free(s);
	}
}

int tls_load(const char *certificate_file, const char *key_file, struct deferred_error *err)
{
	struct shown *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_set(err, DEFERRED_ENOMEM, "tls", "out of memory");
	rc = read_files(s, certificate_file, key_file, err);
	if (rc < 0) {
		error_hint(err, "set http.tls_certificate and http.tls_key to PEM files that belong together");
		shown_free(s);
		return rc;
	}
	pthread_mutex_lock(&lock);
	if (current)
		current->replaced_ns = clock_ns();
	s->older = current;
	current = s;
	forget_old(clock_ns());
	pthread_mutex_unlock(&lock);
	return 0;
}

void tls_free(void)
{
	struct shown *next;

	for (struct shown *s = current; s; s = next) {
		next = s->older;
		shown_free(s);
	}
	current = NULL;
}

static int show(gnutls_session_t session, const gnutls_datum_t *names, int names_len,
		const gnutls_pk_algorithm_t *algorithms, int algorithms_len, gnutls_pcert_st **certificate,
		unsigned int *certificate_len, gnutls_privkey_t *key)
{
	(void)session;
	(void)names;
	(void)names_len;
	(void)algorithms;
	(void)algorithms_len;
	pthread_mutex_lock(&lock);
	*certificate = current->chain;
	*certificate_len = current->chain_len;
	*key = current->key;
	pthread_mutex_unlock(&lock);
	return 0;
}

void *tls_callback(void)
{
	gnutls_certificate_retrieve_function2 *f = show;

	return (void *)f;
}
