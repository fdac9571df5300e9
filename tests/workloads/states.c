/*
 * States of the kernel that calls meet: the CPU, a connection, a device's queue.
 *
 * usage: states migrate COUNT | connection COUNT | direct DEVICE COUNT | frozen DEVICE COUNT MOUNT
 *
 * migrate: has itself moved COUNT times from one CPU to another, by sched_setaffinity; not at all where it may use one
 * alone. Truth: moves; moves_counted: by the kernel's own count of the thread, where that is shown.
 *
 * connection: sends COUNT bytes one by one over loopback to itself, which acknowledges them late; again, until no
 * acknowledgement came in between. Truth: sends; srtt_us, cwnd, unacked: as the kernel told them right before the last send.
 *
 * direct: reads COUNT blocks one after the other past the page cache. Truth: reads.
 *
 * frozen: hands in COUNT writes at once, past the page cache, to a device that lies on a file system which is frozen
 * meanwhile, so that none of them ends before the last one is under way. Truth: writes.
 */
#include "common.h"

#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define BLOCK 4096
#define MOST 64
/* Acknowledgements are delayed by 40 ms at least. */
#define STEADY_NS 30000000
#define TRIES 100

static _Alignas(BLOCK) char blocks[MOST][BLOCK];

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

/* The kernel's own count; -1 where it does not tell. */
static long long migrations(void)
{
	long long count = -1;
	char line[256];
	FILE *file = fopen("/proc/thread-self/sched", "r");

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "se.nr_migrations", 16))
			sscanf(strchr(line, ':') ? strchr(line, ':') + 1 : "", "%lld", &count);
	fclose(file);
	return count;
}

static void migrate(uint64_t count)
{
	int cpus[2], found = 0;
	long long before;
	cpu_set_t may;

	if (sched_getaffinity(0, sizeof(may), &may))
		die("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &may))
			cpus[found++] = cpu;
	pin(cpus[0]);
	before = migrations();
	for (uint64_t i = 0; i < count; i++)
		pin(cpus[(i + 1) % 2 % found]);
	truth("moves", found > 1 ? count : 0);
	if (before >= 0)
		truth("moves_counted", migrations() - before);
}

static int connected(int *other)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	socklen_t length = sizeof(to);
	int listener, sender, one = 1, none = 0;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	sender = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&to, sizeof(to)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&to, &length) ||
	    connect(sender, (struct sockaddr *)&to, sizeof(to)))
		die("a connection");
	*other = accept(listener, 0, 0);
	if (*other < 0 || setsockopt(sender, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) ||
	    setsockopt(*other, IPPROTO_TCP, TCP_QUICKACK, &none, sizeof(none)))
		die("its options");
	close(listener);
	return sender;
}

static void connection(uint64_t count)
{
	struct tcp_info info;
	uint64_t sends = 0, began;
	socklen_t length;
	int sender, other, is_steady = 0;

	for (int try = 0; try < TRIES && !is_steady; try++) {
		sender = connected(&other);
		began = clock_ns(CLOCK_MONOTONIC);
		for (uint64_t i = 0; i < count; i++) {
			length = sizeof(info);
			if (getsockopt(sender, IPPROTO_TCP, TCP_INFO, &info, &length))
				die("TCP_INFO");
			if (send(sender, "x", 1, 0) != 1)
				die("send");
		}
		is_steady = clock_ns(CLOCK_MONOTONIC) - began < STEADY_NS && info.tcpi_unacked > 0;
		sends += count;
		close(sender);
		close(other);
	}
	if (!is_steady)
		die("acknowledgements come at once");
	truth("sends", sends);
	truth("srtt_us", info.tcpi_rtt);
	truth("cwnd", info.tcpi_snd_cwnd);
	truth("unacked", info.tcpi_unacked);
}

static int open_device(const char *path)
{
	int file = open(path, O_RDWR | O_DIRECT);

	if (file < 0)
		die("%s", path);
	return file;
}

static void direct(const char *path, uint64_t count)
{
	int file = open_device(path);

	for (uint64_t i = 0; i < count; i++)
		if (pread(file, blocks[0], BLOCK, 2 * i * BLOCK) != BLOCK)
			die("pread");
	truth("reads", count);
}

static void frozen(const char *path, uint64_t count, const char *mount)
{
	int file = open_device(path), place = open(mount, O_RDONLY | O_DIRECTORY);
	struct iocb requests[MOST], *list[MOST];
	struct io_event events[MOST];
	aio_context_t context = 0;
	uint64_t handed_in = 0;
	long more;

	if (count > MOST)
		die("at most %d writes", MOST);
	if (place < 0 || syscall(SYS_io_setup, MOST, &context) || ioctl(place, FIFREEZE, 0))
		die("%s", mount);
	for (uint64_t i = 0; i < count; i++) {
		/* Not one beside the other, or they become one request. */
		requests[i] = (struct iocb){
			.aio_lio_opcode = IOCB_CMD_PWRITE,
			.aio_fildes = file,
			.aio_buf = (uintptr_t)blocks[i],
			.aio_nbytes = BLOCK,
			.aio_offset = 2 * i * BLOCK,
		};
		list[i] = &requests[i];
	}
	while (handed_in < count) {
		more = syscall(SYS_io_submit, context, count - handed_in, list + handed_in);
		if (more <= 0)
			break;
		handed_in += more;
	}
	if (ioctl(place, FITHAW, 0) || handed_in < count)
		die("io_submit");
	for (uint64_t got = 0; got < count; got += more) {
		more = syscall(SYS_io_getevents, context, 1, MOST, events, 0);
		if (more <= 0)
			die("io_getevents");
		for (long i = 0; i < more; i++)
			if (events[i].res != BLOCK)
				die("a write: %lld", (long long)events[i].res);
	}
	truth("writes", count);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "migrate"))
		migrate(number(argv[2], "COUNT"));
	else if (argc == 3 && !strcmp(argv[1], "connection"))
		connection(number(argv[2], "COUNT"));
	else if (argc == 4 && !strcmp(argv[1], "direct"))
		direct(argv[2], number(argv[3], "COUNT"));
	else if (argc == 5 && !strcmp(argv[1], "frozen"))
		frozen(argv[2], number(argv[3], "COUNT"), argv[4]);
	else
		die("usage: states migrate COUNT | connection COUNT | direct DEVICE COUNT | frozen DEVICE COUNT MOUNT");
	truth_tell();
	return 0;
}
