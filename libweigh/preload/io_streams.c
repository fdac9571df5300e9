/*
 * Streams (stdio): what they move they move inside the C library, by functions that it looks up in tables
 * of its own. Wherever these name what reads, writes, seeks and closes a stream's descriptor, ours are put
 * in their place, which call them. So each call is seen that is made, and nothing else of a stream changes.
 *
 * Refuses where the tables do not look as they are known: then the process says that its streams are not
 * seen. The tables may be written to for a moment only, before the program begins.
 */
#include "io.h"

#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>

typedef ssize_t (*stream_read)(FILE *, void *, ssize_t);
typedef ssize_t (*stream_write)(FILE *, const void *, ssize_t);
typedef off64_t (*stream_seek)(FILE *, off64_t, int);
typedef int (*stream_close)(FILE *);
typedef int (*stream_stat)(FILE *, void *);

static stream_read own_read;
static stream_write own_write;
static stream_seek own_seek;
static stream_close own_close;
static stream_stat own_stat;

/* Entries of such a table: the functions that go to the descriptor follow each other. */
enum { READ = 14, WRITE, SEEK, CLOSE, STAT, ENTRIES = 21 };

static ssize_t read_stream(FILE *stream, void *data, ssize_t size)
{
	int fd = stream->_fileno;
	IO_BEGIN();
	ssize_t n = own_read(stream, data, size);

	IO_MOVED(fd, n, IO_PLAIN, false, IO_AT_POSITION, 0, read);
	return n;
}

/* It writes until all is written or there is an error: nearly always that is one call. */
static ssize_t write_stream(FILE *stream, const void *data, ssize_t size)
{
	int fd = stream->_fileno;
	IO_BEGIN();
	ssize_t n = own_write(stream, data, size);

	/* It tells of no error but by a number that is too small. */
	IO_MOVED(fd, n == 0 && size > 0 ? -1 : n, IO_PLAIN, true, IO_AT_POSITION, 0, write);
	return n;
}

static off64_t seek_stream(FILE *stream, off64_t to, int from)
{
	int fd = stream->_fileno;
	IO_BEGIN();
	off64_t at = own_seek(stream, to, from);

	io_sought(fd, at, io_began);
	return at;
}

static int close_stream(FILE *stream)
{
	io_closes(stream->_fileno);
	return own_close(stream);
}

static int stat_stream(FILE *stream, void *about)
{
	int fd = stream->_fileno;
	IO_BEGIN();
	int result = own_stat(stream, about);

	io_did(fd, IO_DID_METADATA, result < 0, SYS_fstat, io_began);
	return result;
}

/* What the C library protects once it is loaded. */
struct part {
	const void *holds;
	uintptr_t from, to;
};

static int find_part(struct dl_phdr_info *about, size_t size, void *place)
{
	struct part *part = place;

	(void)size;
	for (int i = 0; i < about->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &about->dlpi_phdr[i];
		uintptr_t from = about->dlpi_addr + header->p_vaddr;
		if (header->p_type == PT_GNU_RELRO && (uintptr_t)part->holds - from < header->p_memsz) {
			part->from = from;
			part->to = from + header->p_memsz;
		}
	}
	return part->from != 0;
}

static void put_in_place(void **from, void **to)
{
	void *const known[] = { own_read, own_write, own_seek, own_close, own_stat };
	void *const ours[] = { read_stream, write_stream, seek_stream, close_stream, stat_stream };

	for (void **at = from; at + STAT - READ < to; at++)
		if (!memcmp(at, known, sizeof known))
			memcpy(at, ours, sizeof ours);
}

void io_see_streams(void)
{
	void **table = next_function("_IO_file_jumps");
	struct part part = { .holds = table };
	uintptr_t page = getauxval(AT_PAGESZ);

	own_read = (stream_read)next_function("_IO_file_read");
	own_write = (stream_write)next_function("_IO_file_write");
	own_seek = (stream_seek)next_function("_IO_file_seek");
	own_close = (stream_close)next_function("_IO_file_close");
	own_stat = (stream_stat)next_function("_IO_file_stat");
	if (!table || !own_read || !own_write || !own_seek || !own_close || !own_stat ||
	    !dl_iterate_phdr(find_part, &part) || table[READ] != (void *)own_read ||
	    table[WRITE] != (void *)own_write || table[STAT] != (void *)own_stat)
		goto unseen;
	/* Only what is whole in pages is protected. */
	uintptr_t from = part.from & -page, to = part.to & -page;
	if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE))
		goto unseen;
	put_in_place((void **)part.from, (void **)to);
	mprotect((void *)from, to - from, PROT_READ);
	return;
unseen:
	__atomic_fetch_add(&uses_file->head.without_streams, 1, __ATOMIC_RELAXED);
}
