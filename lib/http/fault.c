/* SPDX-License-Identifier: MIT */
#include "http/fault.h"

const struct fault_info *fault_info(enum fault fault)
{
	static const struct fault_info table[] = { [FAULT_NONE] = { 200, "", "" },
#define X(code, status, message) [FAULT_##code] = { status, #code, message },
						   FAULTS(X)
#undef X
	};

	return &table[fault];
}
