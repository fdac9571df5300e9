/*
 * Calls whose cost in parts of the kernel is known: by the program's own clocks, or by what the
 * kernel counts for it elsewhere. Each kind of work is done by a call of its own name.
 *
 * usage: costs FILE
 *
 * It makes FILE anew, and a network of its own (needs CAP_SYS_ADMIN). Times in the truth are sums of
 * nanoseconds from before to after all calls of a kind, and `_cpu_ns` of the thread's CPU time.
 *
 * | call | does | truth |
 * |---|---|---|
 * | clock_nanosleep | sleeps 37 ms, 23 times | sleeps, sleep_off_ns, sleep_switches |
 * | lseek | 50 times, after 10 ms of computing each | seeks, seek_cpu_ns, computed_ns |
 * | preadv | reads 80,000,030 bytes of /dev/zero, 10 times | zeros_bytes, zeros_cpu_ns |
 * | preadv2 | reads nothing, then /dev/zero into 1,024 pages that were never touched | faults_kernel, pages_taken |
 * | – | touches 700 pages | faults_user |
 * | pwrite64 | writes 1,052,672 bytes | written_bytes, dirtied_bytes |
 * | fsync | once | synced_ns |
 * | pread64 | reads 8 MiB of FILE that are not in the page cache | cold_bytes, cold_pages, cold_device_bytes |
 * | readv | reads them again | warm_bytes, warm_device_bytes |
 * | sendto, recvfrom | 1,000,003 bytes through a TCP connection | tcp_bytes, tcp_sent_bytes |
 * | sendmsg, recvmsg | 97 datagrams of 1,013 bytes by UDP | udp_bytes, udp_packets, udp_device_bytes |
 * | epoll_wait | waits 29 ms for a thread that writes into a pipe, 11 times | pipe_off_ns |
 * | futex | waits 31 ms for a thread that holds a mutex, 7 times | mutex_off_ns |
 * | timerfd_settime | starts a timer of 3 ms, 19 times, and waits for its end | timers |
 * | writev | writes 13 times to a terminal that takes each up by a work item | works |
 */
#include "common.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <termios.h>

#define PAGE 4096
#define BIG 1000003
#define GREAT 8000003
#define COLD (8 << 20)

static char bytes[COLD];

static void must(long long got, long long expected, const char *what)
{
	if (got != expected)
		die("%s: %lld, not %lld", what, got, expected);
}

static struct iovec part(void *start, size_t length)
{
	return (struct iovec){ .iov_base = start, .iov_len = length };
}

/* What some calls took, by the thread's own clocks. */
struct taken {
	uint64_t wall, cpu, began, cpu_began;
};

static void begin(struct taken *taken)
{
	taken->cpu_began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	taken->began = clock_ns(CLOCK_MONOTONIC);
}

static void end(struct taken *taken)
{
	taken->wall += clock_ns(CLOCK_MONOTONIC) - taken->began;
	taken->cpu += clock_ns(CLOCK_THREAD_CPUTIME_ID) - taken->cpu_began;
}

static uint64_t off_cpu(const struct taken *taken)
{
	return taken->wall - taken->cpu;
}

static struct rusage used(void)
{
	struct rusage usage;
	must(getrusage(RUSAGE_THREAD, &usage), 0, "getrusage");
	return usage;
}

/* What a file of /proc counts, behind the last of these words. */
static uint64_t counted(const char *path, const char *line, int column)
{
	char text[8192], *at;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		die("%s", path);
	close(fd);
	text[n] = 0;
	at = strstr(text, line);
	if (!at)
		die("%s: no %s", path, line);
	at += strlen(line);
	for (;;) {
		uint64_t value = strtoull(at, &at, 10);
		if (!column--)
			return value;
	}
}

static void pause_us(long us)
{
	struct timespec time = { .tv_nsec = us * 1000 };
	pselect(0, NULL, NULL, NULL, &time, NULL);
}

static void sleeps(void)
{
	struct taken taken = { 0 };
	struct timespec pause = { .tv_nsec = 37000000 };
	long switches = 0;

	for (int i = 0; i < 23; i++) {
		begin(&taken);
		switches -= used().ru_nvcsw;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		switches += used().ru_nvcsw;
		end(&taken);
	}
	truth("sleeps", 23);
	truth("sleep_off_ns", off_cpu(&taken));
	truth("sleep_switches", switches);
}

static void computing(int file)
{
	struct taken taken = { 0 };
	uint64_t computed = 0;

	for (int i = 0; i < 50; i++) {
		uint64_t began = clock_ns(CLOCK_THREAD_CPUTIME_ID), now;
		do {
			/* Hardly any calls: the clock is one. */
			for (volatile int round = 0; round < 300000; round++)
				;
			now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		} while (now - began < 10000000);
		computed += now - began;
		begin(&taken);
		must(lseek(file, i, SEEK_SET), i, "lseek");
		end(&taken);
	}
	truth("seeks", 50);
	truth("seek_cpu_ns", taken.cpu);
	truth("computed_ns", computed);
}

static void zeros(int zero)
{
	struct taken taken = { 0 };
	struct iovec all[10];

	memset(bytes, 1, sizeof(bytes));
	for (int i = 0; i < 10; i++)
		all[i] = part(bytes, GREAT);
	for (int i = 0; i < 10; i++) {
		begin(&taken);
		must(preadv(zero, all, 10, 0), 10 * GREAT, "preadv");
		end(&taken);
	}
	truth("zeros_bytes", 100ull * GREAT);
	truth("zeros_cpu_ns", taken.cpu);
}

static void faults(int zero)
{
	struct rusage before, after;
	uint64_t tables;
	char *in_kernel = map_pages(1024 * PAGE, MAP_PRIVATE), *own = map_pages(700 * PAGE, MAP_PRIVATE);
	struct iovec all = part(in_kernel, 1024 * PAGE);

	madvise(in_kernel, 1024 * PAGE, MADV_NOHUGEPAGE);
	madvise(own, 700 * PAGE, MADV_NOHUGEPAGE);
	/* The first of a kind may have to be looked up by the loader. */
	must(preadv2(zero, &all, 0, 0, 0), 0, "preadv2");
	tables = counted("/proc/self/status", "\nVmPTE:", 0);
	before = used();
	must(preadv2(zero, &all, 1, 0, 0), 1024 * PAGE, "preadv2");
	after = used();
	truth("faults_kernel", after.ru_minflt - before.ru_minflt);
	tables = counted("/proc/self/status", "\nVmPTE:", 0) - tables;
	truth("pages_taken", 1024 + tables * 1024 / PAGE);
	before = used();
	touch_pages(own, 700 * PAGE);
	after = used();
	truth("faults_user", after.ru_minflt - before.ru_minflt);
}

static void writing(int file)
{
	struct taken taken = { 0 };
	uint64_t before = counted("/proc/self/io", "\nwrite_bytes: ", 0);

	must(pwrite(file, bytes, 257 * PAGE, 0), 257 * PAGE, "pwrite");
	truth("written_bytes", 257 * PAGE);
	truth("dirtied_bytes", counted("/proc/self/io", "\nwrite_bytes: ", 0) - before);
	begin(&taken);
	must(fsync(file), 0, "fsync");
	end(&taken);
	truth("synced_ns", taken.wall);
}

static void reading(const char *path)
{
	uint64_t before, between;
	struct iovec all = part(bytes, COLD);
	int file = open(path, O_RDWR | O_TRUNC);

	must(write(file, bytes, COLD), COLD, "write");
	must(fdatasync(file), 0, "fdatasync");
	must(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0, "posix_fadvise");
	before = counted("/proc/self/io", "\nread_bytes: ", 0);
	must(pread(file, bytes, COLD, 0), COLD, "pread");
	between = counted("/proc/self/io", "\nread_bytes: ", 0);
	close(file);
	file = open(path, O_RDONLY);
	must(readv(file, &all, 1), COLD, "readv");
	truth("cold_bytes", COLD);
	truth("cold_device_bytes", between - before);
	truth("warm_bytes", COLD);
	truth("warm_device_bytes", counted("/proc/self/io", "\nread_bytes: ", 0) - between);
	truth("cold_pages", COLD / PAGE);
	close(file);
}

static struct sockaddr_in bind_loopback(int server)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t length = sizeof(address);

	must(bind(server, (struct sockaddr *)&address, length), 0, "bind");
	must(getsockname(server, (struct sockaddr *)&address, &length), 0, "getsockname");
	return address;
}

/* Nobody else's packets are counted here. */
static void own_network(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd;

	must(unshare(CLONE_NEWNET), 0, "unshare(CLONE_NEWNET)");
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	must(ioctl(fd, SIOCSIFFLAGS, &request), 0, "bringing lo up");
	close(fd);
}

static void tcp(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), from = socket(AF_INET, SOCK_STREAM, 0), to;
	struct sockaddr_in address = bind_loopback(listener);
	struct tcp_info info = { 0 };
	socklen_t length = sizeof(info);

	must(listen(listener, 1), 0, "listen");
	must(connect(from, (struct sockaddr *)&address, sizeof(address)), 0, "connect");
	to = accept(listener, NULL, NULL);
	for (ssize_t left = BIG; left > 0;) {
		ssize_t some = left < 7001 ? left : 7001;
		must(sendto(from, bytes, some, 0, NULL, 0), some, "sendto");
		left -= some;
		while (some)
			some -= recvfrom(to, bytes, some, 0, NULL, NULL);
	}
	must(getsockopt(from, IPPROTO_TCP, TCP_INFO, &info, &length), 0, "TCP_INFO");
	truth("tcp_bytes", BIG);
	truth("tcp_sent_bytes", info.tcpi_bytes_sent);
	truth("tcp_retransmitted_bytes", info.tcpi_bytes_retrans);
	close(from), close(to), close(listener);
}

static void udp(void)
{
	int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in address = bind_loopback(to);
	struct iovec all = part(bytes, 1013);
	struct msghdr out = { .msg_name = &address, .msg_namelen = sizeof(address), .msg_iov = &all, .msg_iovlen = 1 };
	struct msghdr in = { .msg_iov = &all, .msg_iovlen = 1 };
	const char *device = "/proc/self/net/dev", *lo = "lo:";
	uint64_t sent = counted(device, lo, 8), packets = counted(device, lo, 9);

	for (int i = 0; i < 97; i++) {
		must(sendmsg(from, &out, 0), 1013, "sendmsg");
		must(recvmsg(to, &in, 0), 1013, "recvmsg");
	}
	truth("udp_bytes", 97 * 1013);
	packets = counted(device, lo, 9) - packets;
	truth("udp_packets", packets);
	/* lo leaves out what comes before the IP header. */
	truth("udp_device_bytes", counted(device, lo, 8) - sent + packets * ETH_HLEN);
	close(from), close(to);
}

/* The other thread: it never ends, for to wait for its end would be a futex more. */
static int commands[2], answers[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *other(void *unused)
{
	char command;

	while (read(commands[0], &command, 1) == 1) {
		if (command == 'm') {
			pthread_mutex_lock(&mutex);
			must(write(answers[1], "", 1), 1, "write");
			pause_us(31000);
			pthread_mutex_unlock(&mutex);
		} else {
			pause_us(29000);
			must(write(answers[1], "", 1), 1, "write");
		}
	}
	return unused;
}

static void waits(void)
{
	struct taken piped = { 0 }, locked = { 0 };
	struct epoll_event event = { .events = EPOLLIN };
	int epoll = epoll_create1(0);
	pthread_t thread;
	char byte;

	if (pipe(commands) || pipe(answers) || pthread_create(&thread, NULL, other, NULL))
		die("another thread");
	must(epoll_ctl(epoll, EPOLL_CTL_ADD, answers[0], &event), 0, "epoll_ctl");
	for (int i = 0; i < 11; i++) {
		must(write(commands[1], "p", 1), 1, "write");
		begin(&piped);
		must(epoll_wait(epoll, &event, 1, -1), 1, "epoll_wait");
		end(&piped);
		must(read(answers[0], &byte, 1), 1, "read");
	}
	for (int i = 0; i < 7; i++) {
		must(write(commands[1], "m", 1), 1, "write");
		must(read(answers[0], &byte, 1), 1, "read");
		begin(&locked);
		pthread_mutex_lock(&mutex);
		end(&locked);
		pthread_mutex_unlock(&mutex);
	}
	truth("pipe_off_ns", off_cpu(&piped));
	truth("mutex_off_ns", off_cpu(&locked));
}

static void timers(void)
{
	struct itimerspec soon = { .it_value = { .tv_nsec = 3000000 } };
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t ended, all = 0;

	for (int i = 0; i < 19; i++) {
		must(timerfd_settime(timer, 0, &soon, NULL), 0, "timerfd_settime");
		must(read(timer, &ended, sizeof(ended)), sizeof(ended), "read");
		all += ended;
	}
	truth("timers", all);
}

static void works(void)
{
	int ends[2], number;
	char name[64], byte;
	struct termios raw;
	struct iovec one = part("x", 1);
	uint64_t all = 0;

	ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
	must(grantpt(ends[0]) | unlockpt(ends[0]) | ioctl(ends[0], TIOCGPTN, &number), 0, "a terminal");
	snprintf(name, sizeof(name), "/dev/pts/%d", number);
	ends[1] = open(name, O_RDWR | O_NOCTTY);
	must(tcgetattr(ends[1], &raw), 0, "tcgetattr");
	cfmakeraw(&raw);
	must(tcsetattr(ends[1], TCSANOW, &raw), 0, "tcsetattr");
	for (int i = 0; i < 13; i++) {
		must(writev(ends[0], &one, 1), 1, "writev");
		must(read(ends[1], &byte, 1), 1, "read");
		all++;
		/* What took it up has to have ended, or it would be no new work item. */
		pause_us(2000);
	}
	truth("works", all);
}

int main(int argc, char **argv)
{
	int file, zero;

	if (argc != 2)
		die("usage: costs FILE");
	file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	zero = open("/dev/zero", O_RDONLY);
	if (file < 0 || zero < 0)
		die("%s or /dev/zero", argv[1]);
	own_network();
	sleeps();
	computing(file);
	zeros(zero);
	faults(zero);
	writing(file);
	reading(argv[1]);
	tcp();
	udp();
	waits();
	timers();
	works();
	truth_tell();
	return 0;
}
