/* SPDX-License-Identifier: MIT */
#include "program/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>

int certificate_left(const char *path, bool all, int64_t *seconds, struct deferred_error *err)
{
	FILE *f = fopen(path, "re");
	bool found = false;
	X509 *x;

	if (!f)
		return error_errno(err, DEFERRED_ECONFIG, "certificate",
				   "cannot read certificate '%.300s'\nlet this user read it", path);
	while ((x = PEM_read_X509(f, NULL, NULL, NULL))) {
		int days = 0, rest = 0;

		if (ASN1_TIME_diff(&days, &rest, NULL, X509_get0_notAfter(x)) == 1) {
			int64_t left = days * INT64_C(86400) + rest;

			if (!found || (left < *seconds) == all)
				*seconds = left;
			found = true;
		}
		X509_free(x);
	}
	ERR_clear_error(); /* that there are no more is one */
	fclose(f);
	return found ? 0
		     : error_set(err, DEFERRED_ECONFIG, "certificate",
				 "file '%.300s' has no certificate\nput it there as PEM", path);
}
