/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* MPI_Pcontrol(): regions and events by IPM's convention. */
#include "mpi.h"

#include <stdarg.h>
#include <sys/uio.h>
#include <unistd.h>

/* Programs call MPI_Pcontrol() with a level alone, too: then what is behind it is anything. */
enum { MOST_LABEL = 128 };

/* Copies a text that may not be one; its length, or 0. */
static size_t copy_label(char *to, const char *from, size_t most)
{
	struct iovec here = { to, most }, there = { (void *)from, most };
	int kept = errno;
	ssize_t got = from ? process_vm_readv(getpid(), &here, 1, &there, 1, 0) : -1;

	/* It may lie at the end of its page. */
	size_t in_page = 4096 - ((uintptr_t)from & 4095);
	if (got < 0 && from && in_page < most) {
		here.iov_len = there.iov_len = in_page;
		got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
	}
	errno = kept;
	for (ssize_t i = 0; i < got; i++) {
		if (!to[i])
			return (size_t)i;
		if (to[i] < ' ' || to[i] > '~')
			return 0;
	}
	return most < MOST_LABEL && got == (ssize_t)most ? most : 0;
}

/* As IPM has it: 1 enters a region, -1 leaves it, 0 tells an event; without a label 2 publishes. */
void mpi_control(int level, const char *label, size_t length)
{
	char text[MOST_LABEL];
	size_t known;

	if (!mpi_listens())
		return;
	if (level < -1 || level > 1 || !(known = copy_label(text, label, length))) {
		if (level == 2)
			tools_api.weigh_publish();
		return;
	}
	weigh_name name = tools_api.weigh_region_name_of(text, known);
	if (level == 1)
		tools_begin((const void *)(uintptr_t)name, name);
	else if (level == -1)
		tools_end((const void *)(uintptr_t)name, "MPI_Pcontrol end without begin");
	else
		tools_api.weigh_event_tell(name, 1);
}

TOOL int MPI_Pcontrol(const int level, ...);
TOOL int MPI_Pcontrol(const int level, ...)
{
	int (*real)(int, ...) = mpi_real("PMPI_Pcontrol");
	va_list list;

	va_start(list, level);
	const char *label = va_arg(list, const char *);
	va_end(list);
	mpi_control(level, label, MOST_LABEL);
	return real ? real(level, label) : 0;
}
