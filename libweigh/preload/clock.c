/*
 * The clock that all processes of the job have in common: the one that runs on while the machine
 * sleeps, as weigh sees it.
 *
 * In a time namespace of its own a process has that clock ahead or behind. The clock of the day is
 * the same for all, and weigh has written down how far it is ahead of the other: a process that finds
 * something else is in such a namespace, or the day was set and weigh has not looked yet. Then, and only then,
 * the kernel is asked. Where that cannot be, or it tells of the children's namespace, what weigh has
 * written down last is not long ago.
 */
#include "shim.h"

#include <time.h>

/* Two readings one behind the other, and a tick between them. */
enum { LEEWAY_NS = 10000000, OFFSETS = 255 };

/* Weigh writes its clock down twenty times a second, unless it has little of a CPU or is stopped. */
static const int64_t FRESH_NS = 2000000000;

/* The lead that was found out last, and the one that it was estimated at. */
static _Atomic int64_t known_lead, known_estimate;

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static bool is_near(int64_t a, int64_t b)
{
	return a - b < LEEWAY_NS && b - a < LEEWAY_NS;
}

static const char *number_at(const char *text, int64_t *number)
{
	text += strspn(text, " \t");
	bool is_negative = *text == '-';
	text += is_negative;
	for (*number = 0; *text >= '0' && *text <= '9'; text++)
		*number = *number * 10 + (*text - '0');
	if (is_negative)
		*number = -*number;
	return text;
}

/* What the kernel says; nothing without /proc. */
static bool lead_by_kernel(int64_t *lead)
{
	static const char LABEL[] = "boottime";
	char text[OFFSETS + 1];
	int64_t seconds, ns;
	int fd = raw_open("/proc/self/timens_offsets", O_RDONLY);

	if (fd < 0)
		return false;
	long got = charged_read(fd, text, OFFSETS, self);
	RAW(close, fd);
	text[got > 0 ? got : 0] = 0;
	const char *line = strstr(text, LABEL);
	if (!line)
		return false;
	number_at(number_at(line + strlen(LABEL), &seconds), &ns);
	*lead = seconds * 1000000000ll + ns - (int64_t)shared_head->lead_ns;
	return true;
}

/* Whether weigh would have looked a little while ago, and not later than now. */
static bool agrees_with_weigh(int64_t boot, int64_t lead)
{
	int64_t since = boot - lead - (int64_t)shared_head->told_ns;

	return since > -LEEWAY_NS && since < FRESH_NS;
}

/*
 * The estimate is of no use while the day is set and weigh has not looked; the kernel tells of the
 * namespace that children will be in, which is another one after unshare(2). If weigh is the one
 * that is late, nothing agrees, and the kernel is the best there is.
 */
static int64_t lead_found_out(int64_t boot, int64_t estimate)
{
	int64_t told = 0;
	bool is_told = lead_by_kernel(&told);

	if (is_told && agrees_with_weigh(boot, told))
		return told;
	if (agrees_with_weigh(boot, estimate))
		return estimate;
	if (agrees_with_weigh(boot, 0))
		return 0;
	return is_told ? told : estimate;
}

static int64_t lead_at(int64_t boot)
{
	int64_t estimate = boot + (int64_t)shared_head->day_ahead_ns - clock_ns(CLOCK_REALTIME);

	if (LIKELY(is_near(estimate, 0)))
		return 0;
	if (!is_near(estimate, known_estimate)) {
		known_lead = lead_found_out(boot, estimate);
		known_estimate = estimate;
	}
	return known_lead;
}

uint64_t now_ns(void)
{
	int64_t boot = clock_ns(CLOCK_BOOTTIME);

	return boot - lead_at(boot);
}

uint64_t common_ns(uint64_t own_ns)
{
	return own_ns - lead_at(clock_ns(CLOCK_BOOTTIME));
}
