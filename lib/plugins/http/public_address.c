/* SPDX-License-Identifier: MIT */
#include "public_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char not_public_4[] = "0.0.0.0/8, 10.0.0.0/8, 100.64.0.0/10, 127.0.0.0/8, 169.254.0.0/16, 172.16.0.0/12, "
				   "192.0.0.0/24, 192.0.2.0/24, 192.88.99.0/24, 192.168.0.0/16, 198.18.0.0/15, "
				   "198.51.100.0/24, 203.0.113.0/24, 224.0.0.0/3";
static const char unicast_6[] = "2000::/3", nat64[] = "64:ff9b::/96";
/* Of unicast_6. The first network has Teredo, the third is 6to4. */
static const char not_public_6[] = "2001::/23, 2001:db8::/32, 2002::/16, 3fff::/20";

struct network {
	int family;
	unsigned int bits;
	unsigned char bytes[16];
};

/* "10.0.0.0/8", or one address. */
static bool network_read(const char *text, size_t len, struct network *n)
{
	char copy[PUBLIC_ADDRESS_NETWORK_SIZE], *slash, *end;
	unsigned long bits;

	if (len >= sizeof(copy))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	end = copy + len;
	n->family = strchr(copy, ':') ? AF_INET6 : AF_INET;
	bits = n->family == AF_INET ? 32 : 128;
	if ((slash = strchr(copy, '/'))) {
		*slash++ = '\0';
		n->bits = (unsigned int)bits;
		bits = strtoul(slash, &end, 10);
		if (*slash < '0' || *slash > '9' || bits > n->bits)
			return false;
	}
	n->bits = (unsigned int)bits;
	return !*end && inet_pton(n->family, copy, n->bytes) == 1;
}

/* The next network of a list in *item and its length; 0 at the end. */
static size_t network_next(const char **list, const char **item)
{
	*item = *list + strspn(*list, ", \t");
	*list = *item + strcspn(*item, ", \t");
	return (size_t)(*list - *item);
}

static bool in_networks(const struct network *address, const char *list)
{
	const char *item;
	size_t len;

	while ((len = network_next(&list, &item))) {
		struct network n;
		unsigned int whole, rest;

		if (!network_read(item, len, &n) || n.family != address->family)
			continue;
		whole = n.bits / 8;
		rest = n.bits % 8;
		if (memcmp(n.bytes, address->bytes, whole) == 0 &&
		    (!rest || (n.bytes[whole] ^ address->bytes[whole]) >> (8 - rest) == 0))
			return true;
	}
	return false;
}

static bool is_public(const struct network *address)
{
	struct network within = { .family = AF_INET };

	if (address->family == AF_INET)
		return !in_networks(address, not_public_4);
	memcpy(within.bytes, address->bytes + 12, 4);
	if (in_networks(address, nat64))
		return is_public(&within);
	return in_networks(address, unicast_6) && !in_networks(address, not_public_6);
}

bool public_address_ok(const struct sockaddr *address, const char *networks)
{
	struct network a = { .family = AF_INET };
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (address->sa_family == AF_INET) {
		memcpy(&v4, address, sizeof(v4));
		memcpy(a.bytes, &v4.sin_addr, 4);
	} else if (address->sa_family == AF_INET6) {
		memcpy(&v6, address, sizeof(v6));
		if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
			memcpy(a.bytes, v6.sin6_addr.s6_addr + 12, 4);
		} else {
			a.family = AF_INET6;
			memcpy(a.bytes, &v6.sin6_addr, 16);
		}
	} else {
		return false;
	}
	return is_public(&a) || (networks && in_networks(&a, networks));
}

bool public_address_networks_ok(const char *networks, char wrong[PUBLIC_ADDRESS_NETWORK_SIZE])
{
	const char *item;
	struct network n;
	size_t len;

	while ((len = network_next(&networks, &item)))
		if (!network_read(item, len, &n)) {
			snprintf(wrong, PUBLIC_ADDRESS_NETWORK_SIZE, "%.*s", (int)(len < 60 ? len : 60), item);
			return false;
		}
	return true;
}
