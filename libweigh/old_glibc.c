/*
 * What libweigh.so calls of glibc, in versions that glibc 2.28 has, too: the linker leads its calls here (--wrap).
 * libweigh.a has none of it: where that is linked decides.
 */
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#else
#define OLDEST "GLIBC_2.17"
#endif

#define FORWARD(type, name, parameters, ...)                              \
	extern type old_##name parameters;                                \
	__asm__(".symver old_" #name ", " #name "@" OLDEST);              \
	__attribute__((visibility("hidden"))) type __wrap_##name parameters; \
	type __wrap_##name parameters                                     \
	{                                                                 \
		return old_##name(__VA_ARGS__);                           \
	}

FORWARD(int, pthread_key_create, (pthread_key_t *key, void (*end)(void *)), key, end)
FORWARD(void *, pthread_getspecific, (pthread_key_t key), key)
FORWARD(int, pthread_setspecific, (pthread_key_t key, const void *value), key, value)
FORWARD(int, pthread_once, (pthread_once_t *once, void (*first)(void)), once, first)
FORWARD(int, pthread_mutex_trylock, (pthread_mutex_t *mutex), mutex)

/* A function of its own since 2.33. */
__attribute__((visibility("hidden"))) int __wrap_fstat(int fd, struct stat *about);
int __wrap_fstat(int fd, struct stat *about)
{
	return syscall(SYS_fstat, fd, about);
}
