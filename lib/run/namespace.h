/* SPDX-License-Identifier: MIT */
/*
 * namespace - a user namespace for each runner.
 *
 * Functions of one user may look into each other's processes, where they would find params and receipts. They cannot do
 * that across user namespaces. All ids are the same inside and outside. Only root can make such namespaces. A program
 * that gains rights of root does not work in one, so they are not used where the config file allows such a program.
 */
#ifndef NAMESPACE_H
#define NAMESPACE_H

#include "run/runner_setup.h"

#include <sys/types.h>

bool namespace_wanted(const struct runner_setup *setup);

/* In the child. It has no ids until its parent has given them. Safe after fork. */
void namespace_enter(int sock);

/* In the parent. A child without ids cannot become the user of functions, and ends. Later ones get no namespace. */
void namespace_map_ids(pid_t pid, int sock);

#endif
