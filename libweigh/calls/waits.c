/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Calls that wait: for descriptors, connections, time, children; and those about memory.
 */
#include "sockets.h"
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

WRAP(int, poll, poll, NO_BYTES, (struct pollfd * fds, nfds_t number, int timeout), fds, number, timeout)
WRAP(int, __poll_chk, poll, NO_BYTES, (struct pollfd * fds, nfds_t number, int timeout, size_t room), fds,
     number, timeout, room)
WRAP(int, ppoll, ppoll, NO_BYTES,
     (struct pollfd * fds, nfds_t number, const struct timespec *timeout, const sigset_t *mask), fds,
     number, timeout, mask)
WRAP(int, select, select, NO_BYTES,
     (int number, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout), number, r, w, e, timeout)
WRAP(int, pselect, pselect6, NO_BYTES,
     (int number, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout, const sigset_t *mask),
     number, r, w, e, timeout, mask)
WRAP(int, epoll_wait, epoll_wait, NO_BYTES, (int fd, struct epoll_event *events, int most, int timeout),
     fd, events, most, timeout)
WRAP(int, epoll_pwait, epoll_pwait, NO_BYTES,
     (int fd, struct epoll_event *events, int most, int timeout, const sigset_t *mask), fd, events, most,
     timeout, mask)
WRAP(int, epoll_ctl, epoll_ctl, NO_BYTES, (int fd, int what, int of, struct epoll_event *event), fd, what,
     of, event)
WRAP_NEW(socket, socket, SOCKET, (int domain, int type, int protocol), domain, type, protocol)
WRAP_NEW(accept, accept, SOCKET, (int fd, struct sockaddr *from, socklen_t *length), fd, from, length)
WRAP_NEW(accept4, accept4, SOCKET, (int fd, struct sockaddr *from, socklen_t *length, int flags), fd,
     from, length, flags)
WRAP(int, connect, connect, NO_BYTES, (int fd, const struct sockaddr *to, socklen_t length), fd, to,
     length)
WRAP(int, shutdown, shutdown, NO_BYTES, (int fd, int how), fd, how)
WRAP(int, setsockopt, setsockopt, NO_BYTES,
     (int fd, int level, int name, const void *value, socklen_t length), fd, level, name, value, length)
WRAP(int, nanosleep, clock_nanosleep, NO_BYTES, (const struct timespec *time, struct timespec *left), time,
     left)
WRAP(int, usleep, clock_nanosleep, NO_BYTES, (useconds_t time), time)
WRAP(unsigned, sleep, clock_nanosleep, NO_BYTES, (unsigned seconds), seconds)
WRAP(pid_t, wait, wait4, NO_BYTES, (int *status), status)
WRAP(pid_t, waitpid, wait4, NO_BYTES, (pid_t who, int *status, int options), who, status, options)
WRAP(pid_t, wait3, wait4, NO_BYTES, (int *status, int options, struct rusage *usage), status, options,
     usage)
WRAP(pid_t, wait4, wait4, NO_BYTES, (pid_t who, int *status, int options, struct rusage *usage), who,
     status, options, usage)
WRAP(int, waitid, waitid, NO_BYTES, (idtype_t type, id_t who, siginfo_t *about, int options), type, who,
     about, options)
WRAP(int, sched_yield, sched_yield, NO_BYTES, (void))
WRAP(int, munmap, munmap, NO_BYTES, (void *at, size_t length), at, length)
WRAP(int, msync, msync, NO_BYTES, (void *at, size_t length, int flags), at, length, flags)

/* Returns the error, and leaves errno alone. */
REAL(int, clock_nanosleep, clockid_t, int, const struct timespec *, struct timespec *)
WRAPPER int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	struct span span;
	int result;

	span_begin(&span, CALL_clock_nanosleep);
	result = real_clock_nanosleep()(clock, flags, time, left);
	span_end(&span, result != 0, 0);
	return result;
}

/* Where a program brings its own malloc(), looking up a function may come here first. */
#define MAP(name)                                                                                  \
	typedef void *(*name##_type)(void *, size_t, int, int, int, off_t);                        \
	static name##_type name##_found;                                                           \
	__attribute__((constructor)) static void find_##name(void)                                 \
	{                                                                                          \
		name##_found = (name##_type)dlsym(RTLD_NEXT, #name);                               \
	}                                                                                          \
	WRAPPER void *name(void *at, size_t length, int rights, int flags, int fd, off_t from)     \
	{                                                                                          \
		struct span span;                                                                  \
		void *result;                                                                      \
                                                                                                   \
		if (!name##_found)                                                                 \
			return (void *)syscall(SYS_mmap, at, length, rights, flags, fd, from);     \
		span_begin(&span, CALL_mmap);                                                      \
		result = name##_found(at, length, rights, flags, fd, from);                        \
		span_end(&span, result == MAP_FAILED, 0);                                          \
		return result;                                                                     \
	}
MAP(mmap)
MAP(mmap64)
