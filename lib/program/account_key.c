/* SPDX-License-Identifier: MIT */
#include "program/account_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHERE "account key"
#define FORMAT 1
#define NONCE_BYTES 12
#define TAG_BYTES 16

/* ---- base64 ----------------------------------------------------------------------------------- */

void account_key_text(char text[ACCOUNT_KEY_TEXT], const unsigned char *key, size_t len)
{
	EVP_EncodeBlock((unsigned char *)text, key, (int)len);
}

/* OpenSSL would take blanks around it and ignores what the last letter says beyond the last byte. */
static bool decode(const char *text, unsigned char *out, size_t min, size_t max, size_t *len)
{
	unsigned char buf[ACCOUNT_KEY_TEXT], again[ACCOUNT_KEY_TEXT];
	size_t text_len = strlen(text), padding, n;
	int decoded;
	bool ok;

	if (text_len == 0 || text_len % 4 != 0 || text_len >= ACCOUNT_KEY_TEXT)
		return false;
	padding = text[text_len - 1] != '=' ? 0 : text[text_len - 2] != '=' ? 1 : 2;
	decoded = EVP_DecodeBlock(buf, (const unsigned char *)text, (int)text_len);
	n = decoded > 2 ? (size_t)decoded - padding : 0;
	ok = n >= min && n <= max;
	if (ok) {
		EVP_EncodeBlock(again, buf, (int)n);
		ok = strcmp((const char *)again, text) == 0;
	}
	if (ok) {
		memcpy(out, buf, n);
		*len = n;
	}
	OPENSSL_cleanse(buf, sizeof(buf));
	OPENSSL_cleanse(again, sizeof(again));
	return ok;
}

bool account_key_parse(const char *text, unsigned char key[ACCOUNT_KEY_MAX], size_t *len)
{
	return decode(text, key, ACCOUNT_KEY_MIN, ACCOUNT_KEY_MAX, len);
}

/* ---- the master key --------------------------------------------------------------------------- */

/* A user who can write the file can make keys valid. A user who can read the file needs only a dump for all keys. */
static int check_file(int fd, const char *path, struct deferred_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_errno(err, DEFERRED_ECONFIG, WHERE,
				   "cannot look at key file '%s'\nlet the user of this program read it", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, DEFERRED_ECONFIG, WHERE, "key file '%s' is not a regular file", path);
	if (st.st_uid != geteuid() && st.st_uid != 0) {
		error_set(err, DEFERRED_ECONFIG, WHERE, "key file '%s' belongs to another user (uid %u)", path,
			  (unsigned)st.st_uid);
		error_hint(err, "chown the file to root or to the user of this program");
		return DEFERRED_ECONFIG;
	}
	if (st.st_mode & 027) {
		error_set(err, DEFERRED_ECONFIG, WHERE, "key file '%s' has mode %04o", path,
			  (unsigned)(st.st_mode & 07777));
		error_hint(err, "chmod 0600 the file, or 0640 with a group of its own");
		return DEFERRED_ECONFIG;
	}
	return 0;
}

static int read_file(int fd, const char *path, unsigned char master[ACCOUNT_MASTER_BYTES], struct deferred_error *err)
{
	char text[ACCOUNT_KEY_TEXT + 8];
	ssize_t n = read(fd, text, sizeof(text) - 1);
	size_t len = 0;
	bool ok;

	if (n < 0)
		return error_errno(err, DEFERRED_ECONFIG, WHERE,
				   "cannot read key file '%s'\nlet the user of this program read it", path);
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	ok = decode(text, master, ACCOUNT_MASTER_BYTES, ACCOUNT_MASTER_BYTES, &len);
	OPENSSL_cleanse(text, sizeof(text));
	if (ok)
		return 0;
	error_set(err, DEFERRED_ECONFIG, WHERE, "key file '%s' does not hold a key", path);
	error_hint(err,
		   "restore the file from a copy: its first line is %d bytes in base64, as 'deferred account add' "
		   "wrote it",
		   ACCOUNT_MASTER_BYTES);
	return DEFERRED_ECONFIG;
}

int account_key_load(const char *path, unsigned char master[ACCOUNT_MASTER_BYTES], struct deferred_error *err)
{
	/* O_NONBLOCK: a fifo would have us wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY), rc;

	if (fd < 0 && errno == ENOENT) {
		error_set(err, DEFERRED_ENOTFOUND, WHERE, "key file '%s' does not exist", path);
		error_hint(err,
			   "the first 'deferred account add' creates it; setting http.key_file names another file");
		return DEFERRED_ENOTFOUND;
	}
	if (fd < 0)
		rc = errno == ELOOP ? error_set(err, DEFERRED_ECONFIG, WHERE, "key file '%s' is a symbolic link", path)
				    : error_errno(err, DEFERRED_ECONFIG, WHERE, "cannot open key file '%s'", path);
	else
		rc = check_file(fd, path, err);
	if (rc == 0)
		rc = read_file(fd, path, master, err);
	if (rc < 0)
		error_hint(err, "set http.key_file to a regular file that this user can read");
	if (fd >= 0)
		close(fd);
	return rc;
}

static int random_bytes(unsigned char *p, int len, struct deferred_error *err)
{
	return RAND_bytes(p, len) == 1 ? 0
				       : error_set(err, DEFERRED_ESYSTEM, WHERE,
						   "cannot read random numbers\nrepair the installation of libcrypto");
}

/* The folder of path has to have the new entry on disk too. */
static void sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
	free(folder);
}

static int account_key_write_all(int fd, const char *text, size_t len)
{
	return write(fd, text, len) == (ssize_t)len && fsync(fd) == 0 ? 0 : -1;
}

int account_key_make(const char *path, struct deferred_error *err)
{
	unsigned char master[ACCOUNT_MASTER_BYTES];
	char text[ACCOUNT_KEY_TEXT + 1], *temporary = NULL;
	int fd = -1, rc = random_bytes(master, sizeof(master), err);

	if (rc < 0)
		return rc;
	account_key_text(text, master, sizeof(master));
	strcat(text, "\n");
	/* Under another name first, for a file that is there is a whole one; link() leaves one that is there alone. */
	if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
		return error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0600) < 0 || account_key_write_all(fd, text, strlen(text)) < 0 ||
	    (link(temporary, path) < 0 && errno != EEXIST)) {
		rc = error_errno(err, DEFERRED_ESYSTEM, WHERE, "cannot make key file '%s'", path);
		error_hint(err, "make its folder writable for this user, or set http.key_file to another file");
	}
	if (fd >= 0) {
		close(fd);
		unlink(temporary);
		sync_folder(path);
	}
	free(temporary);
	OPENSSL_cleanse(master, sizeof(master));
	OPENSSL_cleanse(text, sizeof(text));
	return rc;
}

int account_key_new(unsigned char key[ACCOUNT_KEY_NEW], struct deferred_error *err)
{
	return random_bytes(key, ACCOUNT_KEY_NEW, err);
}

int account_key_token(struct account_token *token, struct deferred_error *err)
{
	unsigned char key[ACCOUNT_KEY_NEW];
	char *text = stpcpy(token->text, ACCOUNT_TOKEN_PREFIX);
	int rc = account_key_new(key, err);

	if (rc < 0)
		return rc;
	account_key_text(text, key, sizeof(key));
	OPENSSL_cleanse(key, sizeof(key));
	text[strcspn(text, "=")] = '\0';
	for (; *text; text++)
		*text = *text == '+' ? '-' : *text == '/' ? '_' : *text;
	return EVP_Digest(token->text, strlen(token->text), token->sha256, NULL, EVP_sha256(), NULL) == 1
		       ? 0
		       : error_set(err, DEFERRED_ESYSTEM, WHERE,
				   "cannot compute the SHA-256 of a token\nrepair the installation of libcrypto");
}

/* ---- encrypting ------------------------------------------------------------------------------- */

static int account_key_begin(EVP_CIPHER_CTX *ctx, const unsigned char *master, const unsigned char *nonce,
			     const char *account, int number, int encrypt)
{
	char what[128];
	int n, len = snprintf(what, sizeof(what), "deferred account %s key %d", account, number);

	return ctx && len < (int)sizeof(what) &&
	       EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, master, nonce, encrypt) == 1 &&
	       EVP_CipherUpdate(ctx, NULL, &n, (const unsigned char *)what, len) == 1;
}

int account_key_encrypt(const unsigned char master[ACCOUNT_MASTER_BYTES], const char *account, int number,
			const unsigned char *key, size_t len, unsigned char cipher[ACCOUNT_CIPHER_MAX],
			size_t *cipher_len, struct deferred_error *err)
{
	unsigned char *nonce = cipher + 1, *body = nonce + NONCE_BYTES;
	EVP_CIPHER_CTX *ctx = NULL;
	int n, rc;

	if (len < ACCOUNT_KEY_MIN || len > ACCOUNT_KEY_MAX)
		return error_set(err, DEFERRED_EINVAL, WHERE,
				 "a key has %d to %d bytes, not %zu\nshorten the key, or lengthen it", ACCOUNT_KEY_MIN,
				 ACCOUNT_KEY_MAX, len);
	cipher[0] = FORMAT;
	rc = random_bytes(nonce, NONCE_BYTES, err);
	if (rc < 0)
		return rc;
	ctx = EVP_CIPHER_CTX_new();
	if (!account_key_begin(ctx, master, nonce, account, number, 1) ||
	    EVP_CipherUpdate(ctx, body, &n, key, (int)len) != 1 || EVP_CipherFinal_ex(ctx, body + len, &n) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, body + len) != 1)
		rc = error_set(err, DEFERRED_ESYSTEM, WHERE,
			       "cannot encrypt key %d of account '%s'\nrepair the installation of libcrypto", number,
			       account);
	*cipher_len = 1 + NONCE_BYTES + len + TAG_BYTES;
	EVP_CIPHER_CTX_free(ctx);
	return rc;
}

int account_key_decrypt(const unsigned char master[ACCOUNT_MASTER_BYTES], const char *account, int number,
			const unsigned char *cipher, size_t cipher_len, unsigned char key[ACCOUNT_KEY_MAX], size_t *len,
			struct deferred_error *err)
{
	const unsigned char *nonce = cipher + 1, *body = nonce + NONCE_BYTES;
	size_t body_len = cipher_len - 1 - NONCE_BYTES - TAG_BYTES; /* wraps around when it is too short */
	unsigned char tag[TAG_BYTES], buf[ACCOUNT_KEY_MAX];
	EVP_CIPHER_CTX *ctx = NULL;
	bool ok = body_len >= ACCOUNT_KEY_MIN && body_len <= ACCOUNT_KEY_MAX && cipher[0] == FORMAT;
	int n;

	if (ok) {
		memcpy(tag, body + body_len, sizeof(tag));
		ctx = EVP_CIPHER_CTX_new();
		ok = account_key_begin(ctx, master, nonce, account, number, 0) &&
		     EVP_CipherUpdate(ctx, buf, &n, body, (int)body_len) == 1 &&
		     EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1 &&
		     EVP_CipherFinal_ex(ctx, buf + body_len, &n) == 1;
		EVP_CIPHER_CTX_free(ctx);
	}
	if (ok) {
		memcpy(key, buf, body_len);
		*len = body_len;
		OPENSSL_cleanse(buf, sizeof(buf));
		return 0;
	}
	error_set(err, DEFERRED_ECONFIG, WHERE, "key %d of account '%s' cannot be decrypted", number, account);
	error_hint(err,
		   "restore the key file it was encrypted with, or make a new key: deferred account rotate %s --key %d",
		   account, number);
	return DEFERRED_ECONFIG;
}
