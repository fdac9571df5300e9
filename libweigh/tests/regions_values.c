/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Phases, counters, gauges, events, metadata; publishing by itself; what is sent to the program; regions that were
 * measured elsewhere, and in a file.
 *
 * usage: regions_values
 *        regions_values file FOLDER
 */
#include "profile.h"
#include <sys/wait.h>
#include <weigh_region.h>

static struct profile p;

static double value_of(uint64_t node, unsigned word)
{
	uint64_t bits = number_of(&p, node, word);
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static uint64_t root(void)
{
	return this_thread(&p)[THREAD_AT_ROOT];
}

static void counters(void)
{
	static const int64_t numbers[] = { 5, -7, 1000000000000, 0 };
	uint64_t node;

	for (size_t i = 0; i < 4; i++)
		weigh_count("cells", numbers[i]);
	node = child_node(&p, root(), PROFILE_COUNTER, "cells");
	SAME(calls_of(&p, node), 4);
	SAME(number_of(&p, node, VERSION_AT_INCLUSIVE), 999999999998);
	SAME(number_of(&p, node, VERSION_AT_EXCLUSIVE), 0);
	SAME(number_of(&p, node, VERSION_AT_MIN), (uint64_t)-7);
	SAME(number_of(&p, node, VERSION_AT_MAX), 1000000000000);
	weigh_gauge("level", 2.5);
	weigh_gauge("level", -1.5);
	node = child_node(&p, root(), PROFILE_GAUGE, "level");
	SAME(calls_of(&p, node), 2);
	CHECK(value_of(node, VERSION_AT_INCLUSIVE) == 1.0 && value_of(node, VERSION_AT_EXCLUSIVE) == -1.5);
	CHECK(value_of(node, VERSION_AT_MIN) == -1.5 && value_of(node, VERSION_AT_MAX) == 2.5);
}

/* More than there is room for: the last ones are there. */
static void events(void)
{
	uint64_t count = PROFILE_EVENTS_RECORDS + 11, node;

	for (uint64_t i = 0; i < count; i++)
		weigh_event_value("residual", (double)i);
	node = child_node(&p, root(), PROFILE_EVENT, "residual");
	SAME(calls_of(&p, node), count);
	SAME(used(&p, PROFILE_EVENTS), count);
	for (uint64_t i = 11; i < count; i++) {
		const uint64_t *event = record(&p, PROFILE_EVENTS, i, EVENT_LENGTH);
		double value;

		SAME(event[EVENT_AT_STAMP], i + 1);
		memcpy(&value, &event[EVENT_AT_VALUE], sizeof(value));
		CHECK(value == (double)i);
		CHECK(has_name(&p, event[EVENT_AT_NAME], "residual"));
	}
}

static void phases(void)
{
	uint64_t epoch, before = used(&p, PROFILE_PHASES), node;

	for (uint64_t i = 0; i < 10; i++) {
		WEIGH_PHASE("iteration", 100 + i);
		WEIGH_REGION("in a phase");
		spin(10000);
	}
	SAME(used(&p, PROFILE_PHASES), before + 10);
	node = child_node(&p, root(), PROFILE_PHASE, "iteration");
	SAME(calls_of(&p, node), 10);
	SAME(calls_of(&p, child_node(&p, node, PROFILE_REGION, "in a phase")), 10);
	for (uint64_t i = 0; i < 10; i++) {
		const uint64_t *phase = record(&p, PROFILE_PHASES, before + i, PHASE_LENGTH);

		SAME(phase[PHASE_AT_STAMP], before + i + 1);
		SAME(phase[PHASE_AT_ITERATION], 100 + i);
		CHECK(phase[PHASE_AT_BEGUN] < phase[PHASE_AT_ENDED]);
		CHECK(has_name(&p, phase[PHASE_AT_NAME], "iteration"));
	}
	/* At each third end of that phase, and of no other. */
	epoch = head(&p, PROFILE_AT_EPOCH);
	weigh_publish_every(0, weigh_region_name("iteration"), 3);
	for (int i = 0; i < 9; i++) {
		WEIGH_PHASE_BEGIN("iteration", 1);
		WEIGH_PHASE_END("iteration");
		WEIGH_PHASE_BEGIN("another phase", 1);
		WEIGH_PHASE_END("another phase");
	}
	SAME(head(&p, PROFILE_AT_EPOCH), epoch + 3);
	/* By time, at ends of regions. */
	epoch = head(&p, PROFILE_AT_EPOCH);
	weigh_publish_every(0.05, 0, 0);
	for (uint64_t begun = monotonic_ns(); monotonic_ns() - begun < 500000000;) {
		WEIGH_REGION("again and again");
		usleep(100);
	}
	CHECK(head(&p, PROFILE_AT_EPOCH) > epoch && head(&p, PROFILE_AT_EPOCH) <= epoch + 11);
	weigh_publish_every(0, 0, 0);
}

static void send_control(uint64_t kind, double number, const char *key, const char *text)
{
	uint64_t *words = (uint64_t *)p.words, written = head(&p, PROFILE_AT_CONTROL_WRITTEN);
	uint64_t *control = (uint64_t *)record(&p, PROFILE_CONTROL, written, CONTROL_LENGTH);

	memset(control, 0, CONTROL_LENGTH * sizeof(*control));
	control[CONTROL_AT_KIND] = kind;
	memcpy(&control[CONTROL_AT_NUMBER], &number, sizeof(number));
	strcpy((char *)&control[CONTROL_AT_KEY], key);
	strcpy((char *)&control[CONTROL_AT_TEXT], text);
	__atomic_store_n(&control[CONTROL_AT_STAMP], written + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&words[PROFILE_AT_CONTROL_WRITTEN], written + 1, __ATOMIC_RELEASE);
}

static void once(const char *name)
{
	weigh_region_begin(weigh_region_name(name));
	weigh_region_end(0);
}

static void control(void)
{
	struct weigh_control got;
	uint64_t epoch = head(&p, PROFILE_AT_EPOCH);

	SAME(weigh_poll_control(&got), 0);
	for (int i = 0; i < 200; i++) {
		send_control(WEIGH_CONTROL_VALUE, i + 0.5, "steps", "many");
		send_control(WEIGH_CONTROL_PUBLISH, 0, "", "");
		SAME(weigh_poll_control(&got), 1);
		SAME(got.kind, WEIGH_CONTROL_VALUE);
		CHECK(got.number == i + 0.5 && !strcmp(got.key, "steps") && !strcmp(got.text, "many"));
		SAME(weigh_poll_control(&got), 1);
		SAME(weigh_poll_control(&got), 0);
	}
	SAME(head(&p, PROFILE_AT_EPOCH), epoch + 200);
	SAME(head(&p, PROFILE_AT_CONTROL_READ), 400);
	once("switched");
	weigh_region_begin(weigh_region_name("switched"));
	send_control(WEIGH_CONTROL_REGIONS_OFF, 0, "switched", "");
	SAME(weigh_poll_control(&got), 1);
	/* What is open is measured to its end; what begins now is not. */
	weigh_region_end(0);
	weigh_region_begin(weigh_region_name("switched"));
	once("not switched");
	weigh_region_end(0);
	SAME(calls_of(&p, REGION(&p, "switched")), 2);
	SAME(calls_of(&p, REGION(&p, "switched", "not switched")), 1);
	send_control(WEIGH_CONTROL_REGIONS_ON, 0, "switched", "");
	SAME(weigh_poll_control(&got), 1);
	once("switched");
	SAME(calls_of(&p, REGION(&p, "switched")), 3);
	send_control(WEIGH_CONTROL_REGIONS_OFF, 0, "", "");
	SAME(weigh_poll_control(&got), 1);
	once("switched");
	once("new while all are off");
	send_control(WEIGH_CONTROL_REGIONS_ON, 0, "", "");
	SAME(weigh_poll_control(&got), 1);
	SAME(calls_of(&p, REGION(&p, "switched")), 3);
	once("new while all are off");
	SAME(calls_of(&p, REGION(&p, "new while all are off")), 1);
	send_control(WEIGH_CONTROL_REGIONS_OFF, 0, "by*pattern", "");
	send_control(WEIGH_CONTROL_REGIONS_ON, 0, "*other pattern", "");
	CHECK(weigh_poll_control(&got) && weigh_poll_control(&got));
	once("by this pattern");
	once("by some other pattern");
	once("by a pattern not");
	once("switched");
	SAME(calls_of(&p, REGION(&p, "by some other pattern")), 1);
	SAME(calls_of(&p, REGION(&p, "by a pattern not")), 1);
	SAME(calls_of(&p, REGION(&p, "switched")), 4);
	send_control(WEIGH_CONTROL_REGIONS_ON, 0, "", "");
	SAME(weigh_poll_control(&got), 1);
	once("by this pattern");
	SAME(calls_of(&p, REGION(&p, "by this pattern")), 1);
}

static bool says(const char *key, const char *value)
{
	for (uint64_t i = 0; i < used(&p, PROFILE_METADATA); i++) {
		const uint64_t *m = record(&p, PROFILE_METADATA, i, METADATA_LENGTH);

		if (has_name(&p, m[METADATA_AT_KEY], key) && m[METADATA_AT_BYTES] == strlen(value) &&
		    !memcmp(record(&p, PROFILE_TEXTS, m[METADATA_AT_TEXT], 1), value, strlen(value)))
			return true;
	}
	return false;
}

static void texts(void)
{
	static char longer[3000];
	char name[] = "written over";
	weigh_name number;

	weigh_metadata("input", "case-7.nml");
	CHECK(says("input", "case-7.nml"));
	weigh_metadata("input", "case-8.nml");
	CHECK(says("input", "case-8.nml") && !says("input", "case-7.nml"));
	/* Names are copied; what is behind the first 1,023 bytes is counted. */
	number = weigh_region_name(name);
	memset(name, 'x', sizeof(name) - 1);
	CHECK(has_name(&p, number, "written over"));
	memset(longer, 'l', sizeof(longer) - 1);
	number = weigh_region_name(longer);
	SAME(record(&p, PROFILE_NAMES, number, NAME_LENGTH)[NAME_AT_BYTES], PROFILE_MOST_TEXT);
	SAME(record(&p, PROFILE_NAMES, number, NAME_LENGTH)[NAME_AT_CUT], sizeof(longer) - 1 - PROFILE_MOST_TEXT);
	number = weigh_region_name_of("zero\0inside", 11);
	CHECK(number && number != weigh_region_name("zero"));
}

static void elsewhere(void)
{
	uint64_t node;

	usleep(20000);
	WEIGH_BEGIN("around");
	usleep(20000);
	weigh_region_add(weigh_region_name("kernel on a device"), 12, 15000000, 1000000, 2000000);
	WEIGH_END("around");
	usleep(100000);
	weigh_publish();
	node = REGION(&p, "around", "kernel on a device");
	SAME(calls_of(&p, node), 12);
	CHECK(ns_of(&p, number_of(&p, node, VERSION_AT_INCLUSIVE)) > 14990000);
	CHECK(ns_of(&p, number_of(&p, node, VERSION_AT_INCLUSIVE)) < 15010000);
	CHECK(ns_of(&p, number_of(&p, node, VERSION_AT_MAX)) < 2002000);
	SAME(number_of(&p, REGION(&p, "around"), VERSION_AT_INCLUSIVE),
	     number_of(&p, REGION(&p, "around"), VERSION_AT_EXCLUSIVE) + number_of(&p, node, VERSION_AT_INCLUSIVE));
	/* Without an agent an account says why it has nothing; the region is measured all the same. */
	CHECK(weigh_region_account(weigh_region_name("with an account"), WEIGH_ALL));
	once("with an account");
	node = REGION(&p, "with an account");
	SAME(calls_of(&p, node), 1);
	SAME(account_of(&p, node)->calls, 1);
	SAME(account_of(&p, node)->unmeasured, bit(WEIGH_FIRST_OWN) - 1);
}

static void run_again(const char *path)
{
	pid_t child = fork();
	int status;

	if (!child) {
		unsetenv(PROFILE_VARIABLE);
		setenv(PROFILE_FILE_VARIABLE, path, 1);
		execl("/proc/self/exe", "regions_values", "writes", (char *)0);
		_exit(3);
	}
	CHECK(waitpid(child, &status, 0) == child);
	SAME(status, 0);
}

static void check_file(const char *path)
{
	struct profile of_file = open_profile(path);
	uint64_t records = head(&of_file, PROFILE_AT_SECTIONS + 2 * PROFILE_NODES + 1);
	uint64_t first = record(&of_file, PROFILE_THREADS, 0, THREAD_LENGTH)[THREAD_AT_ROOT];

	SAME(records, PROFILE_NODES_RECORDS / 8);
	SAME(head(&of_file, PROFILE_AT_ENDED), 1);
	SAME(calls_of(&of_file, child_node(&of_file, first, PROFILE_REGION, "in a file")), 3);
	/* What it says last of the clock is of the end. */
	CHECK(head(&of_file, PROFILE_AT_LAST_NS) - head(&of_file, PROFILE_AT_FIRST_NS) >= 30000000);
	SAME(record(&of_file, PROFILE_THREADS, 0, THREAD_LENGTH)[THREAD_AT_DEPTH], 0);
}

static void files(const char *folder)
{
	char path[4096], other[4200];
	struct stat about;
	int before = 0;

	snprintf(path, sizeof(path), "%s/plain", folder);
	run_again(path);
	check_file(path);
	CHECK(!stat(path, &about) && about.st_blocks * 512 >= about.st_size);
	/* What is there already is left as it is. */
	run_again(path);
	for (int pid = 1; pid < 4194304 && !before; pid++) {
		snprintf(other, sizeof(other), "%s.%d", path, pid);
		before = !access(other, F_OK);
	}
	CHECK(before);
	check_file(other);
	/* Where there is no place, and no room, the program runs all the same. */
	snprintf(path, sizeof(path), "%s/no such folder/x", folder);
	run_again(path);
	run_again("/dev/full/x");
	snprintf(path, sizeof(path), "%s/full/x", folder);
	run_again(path);
	CHECK(access(path, F_OK));
}

static void write_in_file(void)
{
	for (int i = 0; i < 3; i++) {
		WEIGH_REGION("in a file");
		usleep(10000);
	}
	WEIGH_BEGIN("open at the end");
}

int main(int count, char **arguments)
{
	int listener;

	if (count == 2 && !strcmp(arguments[1], "writes")) {
		write_in_file();
		return 0;
	}
	if (count == 3) {
		files(arguments[2]);
		return 0;
	}
	listener = listener_of_this(arguments);
	once("first");
	CHECK(receive_profile(listener, &p));
	counters();
	events();
	phases();
	control();
	texts();
	elsewhere();
	return 0;
}
