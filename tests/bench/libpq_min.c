/* SPDX-License-Identifier: MIT */
/* The smallest program that asks PostgreSQL something: what a start of check_deferred is measured against. */
#include <libpq-fe.h>

int main(int argc, char **argv)
{
	PGconn *conn = PQconnectdb(argc > 1 ? argv[1] : "");
	PGresult *res = PQexec(conn, "select 1");
	int rc = PQresultStatus(res) != PGRES_TUPLES_OK;

	PQclear(res);
	PQfinish(conn);
	return rc;
}
