/*
 * One thing that was done with a file is added to what is kept of it: the same as the BPF programs count
 * (crates/collect/bpf/io/account.h), by the same rules, which both include.
 */
#include "io_table.h"
#include "io/access_rules.h"

#include <sys/socket.h>
#include <sys/stat.h>

/* What a call moved. */
struct move {
	unsigned transfer, call;
	uint32_t wrote;
	bool failed, is_placed, is_direct;
	__u64 calls, bytes, from, began, ended;
};

static inline void keep_time(struct io_use *use, uint64_t began, uint64_t ended, unsigned call)
{
	if (!use->numbers.first_ns)
		use->numbers.first_ns = began;
	use->numbers.last_ns = ended;
	if (ended - began > use->slowest_time) {
		use->slowest_time = ended - began;
		use->slowest_call = call;
		use->slowest_at = ended;
	}
}

static inline void count_move(struct io_use *use, const struct move *move)
{
	struct io_numbers *numbers = &use->numbers;
	bool wrote = move->wrote;

	count_moved(numbers, move->transfer, -1, &move->wrote, move->calls, &move->bytes);
	*(wrote ? &numbers->write_ns : &numbers->read_ns) += move->ended - move->began;
	if (wrote)
		use->unsynced += move->bytes;
	numbers->failed += move->failed;
	if (move->is_direct)
		count_direct(numbers, 1, move->is_placed, move->from, move->bytes);
	if (move->is_placed)
		place_access(numbers, use->directions, &move->wrote, &move->from, &move->bytes);
	keep_time(use, move->began, move->ended, move->call);
}

/* Of many files, and of all processes: no place in one means anything. */
static void count_in_rest(const struct move *move)
{
	struct io_numbers *numbers = &uses_file->uses[0].numbers;
	bool wrote = move->wrote;

	if (move->failed)
		return;
#define ADD(to, by) __atomic_fetch_add(&(to), by, __ATOMIC_RELAXED)
	ADD(uses_file->head.rest_calls, 1);
	ADD(numbers->bytes[move->transfer][wrote], move->bytes);
	ADD(numbers->calls[move->transfer][wrote], move->calls);
	ADD(numbers->sizes[wrote][size_bucket(move->bytes)], move->calls);
	ADD(*(wrote ? &numbers->write_ns : &numbers->read_ns), move->ended - move->began);
#undef ADD
}

/* Reads and writes of it are at an offset. */
static bool has_offsets(const struct io_use *use)
{
	return S_ISREG(use->mode) || S_ISBLK(use->mode);
}

/* Where n bytes at the file's own position were; negative where nobody knows. */
static int64_t place_by_position(struct descriptor *descriptor, int fd, size_t n)
{
	int64_t at = descriptor->position;

	if (LIKELY(at >= 0 && descriptor->epoch == io_epoch && !descriptor->twin &&
		   !(descriptor->flags & (IO_SHARED | IO_MANY | O_APPEND)))) {
		if (LIKELY(is_single_threaded()))
			descriptor->position = at + n;
		else
			at = __atomic_fetch_add(&descriptor->position, n, __ATOMIC_RELAXED);
		return at;
	}
	at = io_ask_position(fd);
	descriptor->position = at;
	return at < (int64_t)n ? -1 : at - (int64_t)n;
}

static void count_in_process(const struct move *move)
{
	uint64_t *failed = move->wrote ? &io_self->failed_writes : &io_self->failed_reads;

	if (move->failed && move->transfer <= IO_VECTORED && errno != EBADF)
		__atomic_fetch_add(failed, 1, __ATOMIC_RELAXED);
}

/* A call failed because its descriptor is none; it fails so, too, where it may not be read or written. */
static bool is_nobodys(int fd)
{
	return errno == EBADF && !io_is_known(fd);
}

/* What has no place of its own, or has to be asked for. */
static void count_slowly(int fd, ssize_t n, uint64_t calls, uint32_t what, uint64_t from, uint64_t began)
{
	if (!io_is_on || !known.pid || (n < 0 && is_nobodys(fd)))
		return;
	unsigned place = what >> 5 & 3;
	struct move move = { .transfer = what & 15, .wrote = what >> 4 & 1, .call = what >> 8,
			     .failed = n < 0, .calls = n < 0 ? 0 : calls, .bytes = n < 0 ? 0 : n,
			     .from = from, .ended = io_now() };
	struct descriptor *descriptor = io_descriptor(fd, true);
	struct io_use *use = descriptor ? io_use_of(descriptor, fd) : NULL;

	/* It may have been turned off, or on, meanwhile. */
	move.began = began && began < move.ended ? began : move.ended;
	if (move.failed)
		count_in_process(&move);
	if (use) {
		move.is_direct = descriptor->flags & O_DIRECT;
		if (!move.failed && place && has_offsets(use)) {
			move.is_placed = true;
			if (place == IO_AT_POSITION) {
				int64_t at = place_by_position(descriptor, fd, n);
				move.is_placed = at >= 0;
				move.from = at;
			}
		}
		if (LIKELY(io_lock(&use->lock))) {
			bool is_open = __atomic_load_n(&descriptor->use, __ATOMIC_RELAXED) == use && io_is_open(use);
			if (LIKELY(is_open))
				count_move(use, &move);
			io_unlock(&use->lock);
			if (LIKELY(is_open))
				return;
		}
	}
	count_in_rest(&move);
}

void io_moved_many(int fd, ssize_t n, uint64_t calls, uint32_t what, uint64_t from, uint64_t began)
{
	count_slowly(fd, n, calls, what, from, began);
}

/*
 * The ordinary case: one thread, on from where it was at the same file, which nobody else moves through.
 * Nothing else is looked at than what is changed.
 */
void io_moved(int fd, ssize_t n, uint32_t what, uint64_t from, uint64_t began)
{
	struct descriptor *descriptor = &io_first[(unsigned)fd % IO_FIRST];
	struct io_use *use = __atomic_load_n(&descriptor->use, __ATOMIC_ACQUIRE);
	bool wrote = what >> 4 & 1;

	if ((unsigned)fd >= IO_FIRST || n <= 0 || !use || descriptor->life != io_life || !began ||
	    !is_single_threaded() || *(volatile uint64_t *)&use->lock || descriptor->flags ||
	    descriptor->twin || descriptor->epoch != io_epoch || (what >> 5 & 3) != IO_AT_POSITION ||
	    descriptor->position < 0 || !known.pid) {
		count_slowly(fd, n, 1, what, from, began);
		return;
	}
	struct io_direction *direction = &use->directions[wrote];
	struct io_numbers *numbers = &use->numbers;
	uint64_t at = descriptor->position, to = at + n;
	bool is_placed = has_offsets(use);
	if (is_placed && (!direction->accesses || direction->last_to != at || direction->seen[0].to != at ||
			  !has_one_stretch(direction))) {
		count_slowly(fd, n, 1, what, from, began);
		return;
	}
	*(volatile uint64_t *)&use->lock = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (is_placed) {
		descriptor->position = to;
		numbers->placed++;
		if (to > numbers->highest)
			numbers->highest = to;
		(*(wrote ? &numbers->consecutive_writes : &numbers->consecutive_reads))++;
		direction->accesses++;
		direction->last_stride = at - direction->last_from;
		direction->last_from = at;
		direction->last_to = to;
		direction->seen[0].to = to;
	}
	numbers->bytes[what & 15][wrote] += n;
	numbers->calls[what & 15][wrote]++;
	numbers->sizes[wrote][size_bucket(n)]++;
	if (wrote)
		use->unsynced += n;
	uint64_t ended = io_now(), took = ended - began;
	*(wrote ? &numbers->write_ns : &numbers->read_ns) += took;
	numbers->last_ns = ended;
	if (took > use->slowest_time) {
		use->slowest_time = took;
		use->slowest_call = what >> 8;
		use->slowest_at = ended;
	}
	io_unlock(&use->lock);
}

/* Of newer kernels than some C libraries know. */
enum { APPEND = 0x10, NO_APPEND = 0x20 };

/* The open file's flags: asked for where somebody else may have changed them. */
static int flags_of(int fd)
{
	const struct descriptor *known_as = io_is_known(fd) ? io_descriptor(fd, false) : NULL;

	if (LIKELY(known_as && known_as->epoch == io_epoch && !known_as->twin &&
		   !(known_as->flags & (IO_SHARED | IO_MANY))))
		return known_as->flags;
	long flags = RAW(fcntl, fd, F_GETFL);
	return flags < 0 ? 0 : flags;
}

/* Of a regular file; negative for all others, for they do not grow by what is written. */
static int64_t size_of(int fd)
{
	struct stat about;

	return !RAW(fstat, fd, &about) && S_ISREG(about.st_mode) ? about.st_size : -1;
}

int64_t io_end_before(int fd, int64_t at, int how)
{
	if (!io_is_on || !known.pid)
		return -1;
	if (at < 0) {
		/* It moves the file's own position, by the flags to where nobody here expects it. */
		struct descriptor *descriptor = how & APPEND ? io_descriptor(fd, false) : NULL;
		if (descriptor)
			descriptor->position = -1;
		return -1;
	}
	if (!(how & APPEND) && (how & NO_APPEND || !(flags_of(fd) & O_APPEND)))
		return -1;
	return size_of(fd);
}

/* Where others have written at the same time its place is not known. */
void io_wrote_at(int fd, ssize_t n, uint32_t what, uint64_t from, int64_t end, uint64_t began)
{
	const uint32_t place = 3 << 5;

	if (end >= 0 && n > 0) {
		from = end;
		if (size_of(fd) - n != end)
			what &= ~place;
	}
	io_moved(fd, n, what, from, began);
}

static uint32_t place_of(const int64_t *at)
{
	return at ? IO_AT_OFFSET : IO_AT_POSITION;
}

/* The time is one call's. */
void io_copied_bytes(int in, const int64_t *in_at, int out, const int64_t *out_at, ssize_t n,
		     uint32_t call, uint64_t began)
{
	uint64_t moved = n > 0 ? n : 0;

	io_moved(in, n, IO_WHAT(IO_COPIED, 0, place_of(in_at), call), in_at ? *in_at - moved : 0, began);
	io_moved(out, n, IO_WHAT(IO_COPIED, 1, place_of(out_at), call), out_at ? *out_at - moved : 0, 0);
}

void io_uncounted(ssize_t n, bool read, bool wrote)
{
	if (!io_is_on || !known.pid || n < 0)
		return;
	if (read) {
		__atomic_fetch_add(&io_self->uncounted_read_bytes, n, __ATOMIC_RELAXED);
		__atomic_fetch_add(&io_self->uncounted_read_calls, 1, __ATOMIC_RELAXED);
	}
	if (wrote) {
		__atomic_fetch_add(&io_self->uncounted_written_bytes, n, __ATOMIC_RELAXED);
		__atomic_fetch_add(&io_self->uncounted_write_calls, 1, __ATOMIC_RELAXED);
	}
}

/* Each message is a call; the sizes are told as the kernel side tells them: of all together. */
void io_moved_messages(int fd, const struct mmsghdr *messages, int n, bool wrote, uint32_t call,
		       uint64_t began)
{
	ssize_t bytes = n < 0 ? -1 : 0;

	for (int i = 0; i < n; i++)
		bytes += messages[i].msg_len;
	io_moved_many(fd, bytes, n, IO_WHAT(IO_MESSAGE, wrote, IO_NOWHERE, call), 0, began);
}

void io_did(int fd, enum io_deed deed, bool failed, uint32_t call, uint64_t began)
{
	if (!io_is_on || !known.pid || (failed && is_nobodys(fd)))
		return;
	uint64_t ended = io_now();
	struct descriptor *descriptor = io_descriptor(fd, true);
	struct io_use *use = descriptor ? io_use_of(descriptor, fd) : NULL;

	if (!began || began > ended)
		began = ended;
	if (!use || !io_lock(&use->lock))
		return;
	struct io_numbers *numbers = &use->numbers;
	if (io_is_open(use)) {
		*(deed == IO_DID_SYNC ? &numbers->sync_ns : &numbers->metadata_ns) += ended - began;
		numbers->seeks += deed == IO_DID_SEEK;
		numbers->metadata_calls += deed == IO_DID_METADATA;
		numbers->truncates += deed == IO_DID_TRUNCATE;
		numbers->maps += deed == IO_DID_MAP;
		if (deed == IO_DID_SYNC) {
			count_sync(numbers, use->unsynced);
			use->unsynced = 0;
		}
		numbers->failed += failed;
		keep_time(use, began, ended, call);
	}
	io_unlock(&use->lock);
}

void io_sought(int fd, int64_t to, uint64_t began)
{
	struct descriptor *descriptor = io_is_on ? io_descriptor(fd, false) : NULL;

	io_did(fd, IO_DID_SEEK, to < 0, SYS_lseek, began);
	if (descriptor && to >= 0)
		descriptor->position = to;
}

void io_by_path(bool is_open_that_failed, uint64_t began)
{
	if (!io_is_on || !known.pid)
		return;
	__atomic_fetch_add(is_open_that_failed ? &io_self->failed_opens : &io_self->path_calls, 1,
			   __ATOMIC_RELAXED);
	uint64_t ended = io_now();
	__atomic_fetch_add(&io_self->path_time, began && ended > began ? ended - began : 0,
			   __ATOMIC_RELAXED);
}
