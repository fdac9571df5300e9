/* What the workloads share: reading arguments, touching memory, meeting at a barrier, and telling
 * the truth.
 *
 * Truth is a list of key=value lines. It leaves the program by one write(2), to the file named by
 * the environment variable TRUTH_FILE (created if need be, appended to), else to stderr. */
#ifndef WORKLOADS_COMMON_H
#define WORKLOADS_COMMON_H

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Says what went wrong (with errno's text if errno is set) and ends with status 2. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reads a plain decimal number or dies, naming `what`. */
uint64_t number(const char *text, const char *what);

/* Adds one line to the truth. */
void truth(const char *key, uint64_t value);
void truth_text(const char *key, const char *value);

/* The length of the truth so far, in bytes. */
size_t truth_length(void);

/* Whether the truth goes to a file that has to be opened. */
bool truth_opens_a_file(void);

/* Writes the truth, by one write(2), and forgets it. */
void truth_tell(void);

/* Memory of `bytes`, rounded up to whole pages, between two pages that cannot be touched: the
 * kernel can neither merge it with its neighbours nor let a huge page reach beyond it. */
char *map_pages(uint64_t bytes, int sharing);
void unmap_pages(char *start, uint64_t bytes);
uint64_t whole_pages(uint64_t bytes);

/* Writes to, or reads from, each page once. */
void touch_pages(char *start, uint64_t bytes);
uint64_t read_pages(const char *start, uint64_t bytes);

/* A line of /proc/self/smaps_rollup, such as "Rss:", in bytes. The kernel walks the page tables
 * for it, so that it is right to the page (the counters behind VmRSS are not, on several CPUs).
 * Costs one open and some reads. */
uint64_t mapped_bytes(const char *line);

void sleep_us(uint64_t us);
uint64_t clock_ns(clockid_t clock);

/* A number in memory shared between processes, that one can wait for. */
typedef _Atomic uint32_t gate;
void gate_add(gate *g);
void gate_wait(gate *g, uint32_t at_least);

/* Waits for a child; dies if it did not exit with 0. */
void reap(pid_t child);

/* A known piece of work: touches WORK_MEMORY bytes and gives them back, burns WORK_CPU_NS of this
 * process's CPU time, writes WORK_BYTES into a file that only it sees. */
#define WORK_MEMORY 9000000
#define WORK_CPU_NS 41000000
#define WORK_BYTES 10007
void work(void);

/* The same for who will not be able to open or map any more: what is left is the write. */
int work_but_for_the_write(void);
void work_write(int file);

/* Tells the truth of a program that will be so many processes and do so many pieces of work, and
 * writes `extra` bytes besides: before it does anything, for later it may not be able to. */
void truth_of_works(uint64_t processes, uint64_t works, uint64_t extra);

#endif
