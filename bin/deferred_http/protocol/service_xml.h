/* SPDX-License-Identifier: MIT */
/* service_xml - the service properties of an account as XML, section 6.2 of the protocol. */
#ifndef SERVICE_XML_H
#define SERVICE_XML_H

#include "http/fault.h"
#include "protocol/json.h"

void service_xml_write(const struct service_properties *properties, struct buf *out);

/* Properties that the document does not mention stay as they are. */
enum fault service_xml_read(struct arena *arena, const char *document, size_t len,
			    struct service_properties *properties);

#endif
