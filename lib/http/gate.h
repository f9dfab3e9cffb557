/* SPDX-License-Identifier: MIT */
/*
 * gate - where libmicrohttpd reads from a connection. It has no hook there, but calls recv(2), and for HTTPS
 * gnutls_record_recv(3), of other libraries: both are defined here, and so its calls come here, as the dynamic linker
 * has it. What is read passes wire first; whoever serves counts requests, and refuses those that did not.
 */
#ifndef GATE_H
#define GATE_H

#include "http/wire.h"

/* What is read from fd from now on passes the wire, which is borrowed until gate_close(). False: too many descriptors.
 * */
bool gate_open(int fd, struct wire *w);
void gate_close(int fd);

#endif
