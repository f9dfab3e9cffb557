/* SPDX-License-Identifier: MIT */
/*
 * public_address - may a request go to this address, although others chose its URL?
 *
 * Every address is refused that is not globally reachable by the registries of IANA (RFC 6890): private, shared,
 * loopback, link-local, multicast, reserved and documentation addresses. An IPv4 address within an IPv6 address is
 * judged as the IPv4 address if it is mapped (::ffff:0:0/96) or of NAT64 (64:ff9b::/96). 6to4 and Teredo are refused.
 */
#ifndef PUBLIC_ADDRESS_H
#define PUBLIC_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* True if the address is public, or lies in one of the networks, such as "10.0.0.0/8, fd00::/8". NULL: no networks. */
bool public_address_ok(const struct sockaddr *address, const char *networks);

#define PUBLIC_ADDRESS_NETWORK_SIZE 64
/* Is the list of networks valid? Otherwise wrong receives its first network that is not. */
bool public_address_networks_ok(const char *networks, char wrong[PUBLIC_ADDRESS_NETWORK_SIZE]);

#endif
