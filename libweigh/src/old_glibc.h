/*
 * Symbols of glibc in their oldest version, for libraries that are loaded into others' programs: glibc 2.34 has moved
 * them into libc.so.6, and given them new versions there which older ones do not have. Included before all else.
 *
 * With glibc below 2.34 they are in libpthread.so.0 and libdl.so.2, which these libraries name for it.
 */
#ifndef WEIGH_OLD_GLIBC_H
#define WEIGH_OLD_GLIBC_H

#if defined(__gnu_linux__) && (defined(__x86_64__) || defined(__aarch64__))
#if defined(__x86_64__)
#define OLD(name) __asm__(".symver " #name ", " #name "@GLIBC_2.2.5")
#else
#define OLD(name) __asm__(".symver " #name ", " #name "@GLIBC_2.17")
#endif
OLD(dladdr);
OLD(dlclose);
OLD(dlopen);
OLD(dlsym);
OLD(pthread_getspecific);
OLD(pthread_key_create);
OLD(pthread_mutex_trylock);
OLD(pthread_once);
OLD(pthread_setspecific);
#undef OLD
#endif

#endif
