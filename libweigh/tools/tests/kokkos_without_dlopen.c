/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Asks for a tool as a Kokkos does that was built without dlopen(), and warns as it does. */
#include <stdio.h>
#include <stdlib.h>

static void warn_of(const char *name, const char *value)
{
	if (value)
		fprintf(stderr, "Warning: environment variable '%s=%s' ignored because kokkos-tools is disabled.\n", name, value);
}

int main(void)
{
	warn_of("KOKKOS_PROFILE_LIBRARY", getenv("KOKKOS_PROFILE_LIBRARY"));
	warn_of("KOKKOS_TOOLS_LIBS", getenv("KOKKOS_TOOLS_LIBS"));
	return 0;
}
