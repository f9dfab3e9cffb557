/* SPDX-License-Identifier: MIT */
#include "port/pg.h"

#include <endian.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

static const PGresult *pgres(const struct pg_result *res)
{
	return (const PGresult *)res;
}

size_t pg_rows(const struct pg_result *res)
{
	return (size_t)PQntuples(pgres(res));
}

int pg_column(const struct pg_result *res, const char *name)
{
	return PQfnumber(pgres(res), name);
}

bool pg_null(const struct pg_result *res, size_t row, int col)
{
	return PQgetisnull(pgres(res), (int)row, col);
}

const char *pg_text(const struct pg_result *res, size_t row, int col, size_t *len)
{
	if (len)
		*len = (size_t)PQgetlength(pgres(res), (int)row, col);
	return PQgetvalue(pgres(res), (int)row, col);
}

int64_t pg_tid(const struct pg_result *res, size_t row, int col)
{
	const char *p = PQgetvalue(pgres(res), (int)row, col);
	uint32_t page;
	uint16_t line;

	if (PQgetisnull(pgres(res), (int)row, col) ||
	    PQgetlength(pgres(res), (int)row, col) != (int)(sizeof(page) + sizeof(line)))
		return 0;
	memcpy(&page, p, sizeof(page));
	memcpy(&line, p + sizeof(page), sizeof(line));
	return (int64_t)be32toh(page) << 16 | be16toh(line);
}

int64_t pg_int(const struct pg_result *res, size_t row, int col)
{
	const char *p = PQgetvalue(pgres(res), (int)row, col);
	int len = PQgetlength(pgres(res), (int)row, col);
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	if (PQgetisnull(pgres(res), (int)row, col))
		return 0;
	if (PQfformat(pgres(res), col) == 0)
		return strtoll(p, NULL, 10);
	switch (len) {
	case 2:
		memcpy(&v16, p, 2);
		return (int16_t)be16toh(v16);
	case 4:
		memcpy(&v32, p, 4);
		return (int32_t)be32toh(v32);
	case 8:
		memcpy(&v64, p, 8);
		return (int64_t)be64toh(v64);
	default:
		return 0;
	}
}

double pg_float(const struct pg_result *res, size_t row, int col)
{
	const char *p = PQgetvalue(pgres(res), (int)row, col);
	uint64_t bits;
	double v;

	if (PQgetisnull(pgres(res), (int)row, col))
		return 0;
	if (PQfformat(pgres(res), col) == 0)
		return strtod(p, NULL);
	if (PQgetlength(pgres(res), (int)row, col) != 8)
		return 0;
	memcpy(&bits, p, 8);
	bits = be64toh(bits);
	memcpy(&v, &bits, 8);
	return v;
}

bool pg_bool(const struct pg_result *res, size_t row, int col)
{
	char c = PQgetisnull(pgres(res), (int)row, col) ? 0 : *PQgetvalue(pgres(res), (int)row, col);

	return PQfformat(pgres(res), col) == 0 ? c == 't' : c != 0;
}

void pg_result_free(struct pg_result *res)
{
	PQclear((PGresult *)res);
}
