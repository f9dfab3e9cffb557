/* SPDX-License-Identifier: MIT */
/* borrowed - has no table of its own, and is linked with a library that has one: the plugin sample. */

int deferred_borrowed_nothing(void);
int deferred_borrowed_nothing(void)
{
	return 0;
}
