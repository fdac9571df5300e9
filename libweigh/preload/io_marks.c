/* See io_marks.h. */
#include "io.h"

_Thread_local struct mark io_mark;
bool io_is_marked;

void io_tell_mark(void)
{
	/* A child by vfork has its parent's memory, and says where it is for itself alone. */
	io_mark.is_told = !known.pid || raw6(SYS_getpid, 0, 0, 0, 0, 0, 0) == known.local_pid;
	raw6(SYS_prctl, MARK_THREAD, (long)&io_mark.kinds, 0, 0, 0, 0);
}

void io_tell_file(int fd, uint32_t device, uint32_t born, uint64_t inode, uint32_t pid)
{
	if (io_is_marked)
		raw6(SYS_prctl, MARK_FILE, fd, (long)((uint64_t)device << 32 | born), (long)inode, pid, 0);
}
