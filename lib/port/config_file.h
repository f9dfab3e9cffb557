/* SPDX-License-Identifier: MIT */
/* config_file - read a config file. */
#ifndef CONFIG_FILE_H
#define CONFIG_FILE_H

#include "port/config_section.h"

/*
 * Read the file config->path into config. The text in front of the error is the file, the line and what is wrong there.
 *
 * Returns 0, DEFERRED_ECONFIG or DEFERRED_ENOMEM.
 */
int config_file_read(struct config *config, struct deferred_error *err);

#endif
