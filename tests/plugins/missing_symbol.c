/* SPDX-License-Identifier: MIT */
/* missing_symbol - a shared object, but no plugin. */

extern __attribute__((visibility("default"))) int something_else;
int something_else = 1;
