/*
 * What weigh calls of glibc, in versions that glibc 2.28 has, too: one binary for RHEL 8, Ubuntu 20.04 and all that is
 * newer. build.rs has the linker lead the calls of each function NAME to __wrap_NAME here.
 *
 * Most of these glibc 2.34 has moved from libpthread, libdl and librt into libc.so.6, and given new versions there. The
 * old ones it keeps. build.rs names the old libraries, in which an older glibc has them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#define SINCE(version) version
#else
#define SINCE(version) "GLIBC_2.17" /* the first one for it */
#endif
#define OLDEST SINCE("GLIBC_2.2.5")

#define OLD(type, name, version, parameters)                   \
	extern type old_##name parameters;                     \
	__asm__(".symver old_" #name ", " #name "@" version);  \
	type __wrap_##name parameters;                         \
	type __wrap_##name parameters

#define FORWARD(type, name, version, parameters, ...) \
	OLD(type, name, version, parameters)          \
	{                                             \
		return old_##name(__VA_ARGS__);       \
	}

/* libdl */
FORWARD(void *, dlopen, OLDEST, (const char *path, int how), path, how)
FORWARD(void *, dlsym, OLDEST, (void *library, const char *name), library, name)
FORWARD(int, dlclose, OLDEST, (void *library), library)
FORWARD(char *, dlerror, OLDEST, (void))

/* libpthread */
FORWARD(int, pthread_create, OLDEST,
	(pthread_t * thread, const pthread_attr_t *how, void *(*first)(void *), void *argument), thread, how, first,
	argument)
FORWARD(int, pthread_join, OLDEST, (pthread_t thread, void **result), thread, result)
FORWARD(int, pthread_detach, OLDEST, (pthread_t thread), thread)
FORWARD(int, pthread_kill, OLDEST, (pthread_t thread, int signal), thread, signal)
FORWARD(int, pthread_sigmask, OLDEST, (int how, const sigset_t *set, sigset_t *before), how, set, before)
FORWARD(int, pthread_setname_np, SINCE("GLIBC_2.12"), (pthread_t thread, const char *name), thread, name)
FORWARD(int, pthread_getattr_np, SINCE("GLIBC_2.2.5"), (pthread_t thread, pthread_attr_t *how), thread, how)
FORWARD(int, pthread_attr_setstacksize, OLDEST, (pthread_attr_t * how, size_t bytes), how, bytes)
FORWARD(int, pthread_attr_getstack, OLDEST, (const pthread_attr_t *how, void **at, size_t *bytes), how, at, bytes)
FORWARD(int, pthread_attr_getguardsize, OLDEST, (const pthread_attr_t *how, size_t *bytes), how, bytes)
FORWARD(int, pthread_key_create, OLDEST, (pthread_key_t * key, void (*end)(void *)), key, end)
FORWARD(int, pthread_key_delete, OLDEST, (pthread_key_t key), key)
FORWARD(int, pthread_setspecific, OLDEST, (pthread_key_t key, const void *value), key, value)

/* librt */
FORWARD(int, timer_create, SINCE("GLIBC_2.3.3"), (clockid_t clock, struct sigevent *how, timer_t *timer), clock, how,
	timer)
FORWARD(int, timer_settime, SINCE("GLIBC_2.3.3"),
	(timer_t timer, int flags, const struct itimerspec *to, struct itimerspec *before), timer, flags, to, before)

/* libm: the new ones set no errno. */
FORWARD(double, exp2, OLDEST, (double x), x)
FORWARD(double, log, OLDEST, (double x), x)
FORWARD(double, log2, OLDEST, (double x), x)
FORWARD(double, pow, OLDEST, (double x, double y), x, y)

/* Functions of their own since 2.30 and 2.33. */
pid_t __wrap_gettid(void);
pid_t __wrap_gettid(void)
{
	return syscall(SYS_gettid);
}

#define ABOUT(name, parameters, ...)                           \
	int __wrap_##name parameters;                          \
	int __wrap_##name parameters                           \
	{                                                      \
		return syscall(SYS_newfstatat, __VA_ARGS__);   \
	}

ABOUT(fstat, (int fd, struct stat *about), fd, "", about, AT_EMPTY_PATH)
ABOUT(fstat64, (int fd, struct stat64 *about), fd, "", about, AT_EMPTY_PATH)
ABOUT(stat64, (const char *path, struct stat64 *about), AT_FDCWD, path, about, 0)
ABOUT(lstat64, (const char *path, struct stat64 *about), AT_FDCWD, path, about, AT_SYMLINK_NOFOLLOW)
ABOUT(fstatat64, (int folder, const char *path, struct stat64 *about, int how), folder, path, about, how)

/*
 * A program that was linked with glibc 2.34 or newer leaves it to glibc to call its initializers. An older one calls what
 * it is given, and so does a newer one.
 */
typedef void (*initializer)(int, char **, char **);
extern const initializer __init_array_start[] __attribute__((visibility("hidden")));
extern const initializer __init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void);

static void initialize(int argc, char **argv, char **environment)
{
	_init();
	for (const initializer *each = __init_array_start; each < __init_array_end; each++)
		(*each)(argc, argv, environment);
}

OLD(int, __libc_start_main, OLDEST,
    (int (*main)(int, char **, char **), int argc, char **argv, void (*first)(int, char **, char **),
     void (*last)(void), void (*loader_last)(void), void *stack))
{
	return old___libc_start_main(main, argc, argv, first ? first : initialize, last, loader_last, stack);
}
