/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Regions over forks, execs, threads, signals and kills; many names, many threads; braked regions; sums.
 *
 * usage: regions_life [CASE]
 */
#include "profile.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <weigh_region.h>

static struct profile p;
static int listener;

static struct profile next_profile(void)
{
	struct profile next;

	for (int i = 0; i < 1000; i++) {
		if (receive_profile(listener, &next))
			return next;
		usleep(10000);
	}
	CHECK(!"a profile comes");
	return next;
}

static void child_succeeds(pid_t child)
{
	int status;

	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	SAME(status, 0);
}

static void forks(char *self)
{
	uint64_t root = this_thread(&p)[THREAD_AT_ROOT], before = used(&p, PROFILE_NODES);
	struct profile of_child;
	pid_t child;

	WEIGH_BEGIN("open over a fork");
	child_succeeds(fork() ?: (_exit(0), 0));
	child = fork();
	if (!child) {
		/* Nothing is open; the name has the number that it has in the parent. */
		WEIGH_END("open over a fork");
		for (int i = 0; i < 5; i++) {
			WEIGH_BEGIN("open over a fork");
			WEIGH_BEGIN("in the child");
			WEIGH_END("in the child");
			WEIGH_END("open over a fork");
		}
		weigh_count("counted", 3);
		_exit(0);
	}
	child_succeeds(child);
	of_child = next_profile();
	SAME(of_child.pid, child);
	SAME(head(&of_child, PROFILE_AT_ENDED), 0);
	const uint64_t *thread = thread_of(&of_child, child);
	CHECK(thread);
	SAME(calls_of(&of_child, child_node(&of_child, thread[THREAD_AT_ROOT], PROFILE_REGION, "open over a fork")), 5);
	SAME(unbalanced_of(&of_child, child_node(&of_child, thread[THREAD_AT_ROOT], PROFILE_REGION, "open over a fork")), 1);
	SAME(number_of(&of_child, child_node(&of_child, thread[THREAD_AT_ROOT], PROFILE_COUNTER, "counted"),
		       VERSION_AT_INCLUSIVE), 3);
	/* None of it is in the parent's. */
	SAME(used(&p, PROFILE_NODES), before + 1);
	SAME(calls_of(&p, child_node(&p, root, PROFILE_REGION, "open over a fork")), 0);
	WEIGH_END("open over a fork");
	SAME(calls_of(&p, child_node(&p, root, PROFILE_REGION, "open over a fork")), 1);
	/* After an exec a profile begins; the one before stays as it was. */
	child = fork();
	if (!child) {
		WEIGH_BEGIN("before exec");
		execl(self, self, "again", (char *)0);
		_exit(3);
	}
	child_succeeds(child);
	of_child = next_profile();
	SAME(of_child.pid, child);
	SAME(head(&of_child, PROFILE_AT_ENDED), 0);
	SAME(thread_of(&of_child, child)[THREAD_AT_DEPTH], 1);
	of_child = next_profile();
	SAME(of_child.pid, child);
	SAME(head(&of_child, PROFILE_AT_ENDED), 1);
	SAME(thread_of(&of_child, child)[THREAD_AT_DEPTH], 0);
}

static pid_t tid;

static void *ends_inside(void *way)
{
	tid = (pid_t)syscall(SYS_gettid);
	WEIGH_BEGIN("left by the thread");
	WEIGH_BEGIN("innermost");
	spin(1000000);
	if (way)
		pthread_exit(0);
	return 0;
}

static void threads_end(void)
{
	for (intptr_t way = 0; way < 2; way++) {
		pthread_t other;
		const uint64_t *thread;
		uint64_t node, inside;

		CHECK(!pthread_create(&other, 0, ends_inside, (void *)way));
		CHECK(!pthread_join(other, 0));
		thread = thread_of(&p, tid);
		CHECK(thread && thread[THREAD_AT_ENDED] > thread[THREAD_AT_BEGUN]);
		SAME(thread[THREAD_AT_DEPTH], 0);
		node = child_node(&p, thread[THREAD_AT_ROOT], PROFILE_REGION, "left by the thread");
		inside = child_node(&p, node, PROFILE_REGION, "innermost");
		SAME(unbalanced_of(&p, node), 1);
		SAME(unbalanced_of(&p, inside), 1);
		SAME(calls_of(&p, inside), 1);
		CHECK(number_of(&p, node, VERSION_AT_INCLUSIVE) <= thread[THREAD_AT_ENDED] - thread[THREAD_AT_BEGUN]);
	}
}

static uint64_t range;

static void *ends_range(void *unused)
{
	(void)unused;
	tid = (pid_t)syscall(SYS_gettid);
	weigh_range_end(range);
	weigh_range_end(range);
	weigh_range_end(12345);
	weigh_region_end(weigh_region_name("on another thread"));
	return 0;
}

static void other_threads_ends(void)
{
	pthread_t other;
	uint64_t root, node;

	WEIGH_BEGIN("on another thread");
	range = weigh_range_begin(weigh_region_name("range"));
	CHECK(!pthread_create(&other, 0, ends_range, 0));
	CHECK(!pthread_join(other, 0));
	root = thread_of(&p, tid)[THREAD_AT_ROOT];
	node = child_node(&p, root, PROFILE_RANGE, "range");
	SAME(calls_of(&p, node), 1);
	CHECK(number_of(&p, node, VERSION_AT_INCLUSIVE) > 0);
	SAME(number_of(&p, node, VERSION_AT_EXCLUSIVE), 0);
	SAME(unbalanced_of(&p, child_node(&p, root, PROFILE_REGION, "(other)")), 2);
	SAME(unbalanced_of(&p, child_node(&p, root, PROFILE_REGION, "on another thread")), 1);
	SAME(this_thread(&p)[THREAD_AT_DEPTH], 1);
	WEIGH_END("on another thread");
	SAME(calls_of(&p, REGION(&p, "on another thread")), 1);
}

static volatile sig_atomic_t handled;

static void handler(int signal)
{
	static weigh_name name;

	(void)signal;
	if (!name)
		name = weigh_region_name("in a handler");
	weigh_region_begin(name);
	weigh_counter_add(name, 1);
	weigh_region_end(name);
	handled++;
}

static uint64_t sum_of_name(const char *name, enum profile_kind kind, unsigned word)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < used(&p, PROFILE_NODES); i++) {
		if (node_at(&p, i)[NODE_AT_KIND] == kind && has_name(&p, node_at(&p, i)[NODE_AT_NAME], name))
			sum += number_of(&p, i, word);
	}
	return sum;
}

/* A handler's regions are whole or counted as lost; what it interrupts is whole. */
static void signals(void)
{
	struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { 0 };
	uint64_t lost = head(&p, PROFILE_AT_OTHER_CALLS), calls = 0, in_handler, counted;

	raise(SIGUSR1);
	CHECK(signal(SIGALRM, handler) != SIG_ERR);
	setitimer(ITIMER_REAL, &often, 0);
	while (handled < 3000) {
		WEIGH_BEGIN("interrupted");
		WEIGH_BEGIN("inside");
		WEIGH_END("inside");
		WEIGH_END("interrupted");
		calls++;
	}
	setitimer(ITIMER_REAL, &never, 0);
	lost = head(&p, PROFILE_AT_OTHER_CALLS) - lost;
	SAME(this_thread(&p)[THREAD_AT_DEPTH], 0);
	SAME(calls_of(&p, REGION(&p, "interrupted")), calls);
	SAME(calls_of(&p, REGION(&p, "interrupted", "inside")), calls);
	SAME(unbalanced_of(&p, REGION(&p, "interrupted")), 0);
	in_handler = sum_of_name("in a handler", PROFILE_REGION, VERSION_AT_CALLS);
	counted = sum_of_name("in a handler", PROFILE_COUNTER, VERSION_AT_INCLUSIVE);
	SAME(in_handler + counted + lost, 2 * (uint64_t)handled);
	CHECK(in_handler > 0);
}

static void many_names(void)
{
	char text[32];
	uint64_t node;
	weigh_name name;

	for (int i = 0; i < 10000; i++) {
		sprintf(text, "name number %d", i);
		name = weigh_region_name(text);
		CHECK(name > 1);
		SAME(weigh_region_name(text), name);
		weigh_region_begin(name);
		weigh_region_end(name);
	}
	for (int i = 0; i < 10000; i += 271) {
		sprintf(text, "name number %d", i);
		node = child_node(&p, this_thread(&p)[THREAD_AT_ROOT], PROFILE_REGION, text);
		SAME(calls_of(&p, node), 1);
	}
	SAME(head(&p, PROFILE_AT_NAMES_LOST), 0);
	for (int i = 0; i < 10000; i++) {
		sprintf(text, "another name %d", i);
		name = weigh_region_name(text);
		weigh_region_begin(name);
		weigh_region_end(name);
	}
	CHECK(head(&p, PROFILE_AT_NAMES_LOST) > 3000);
	SAME(used(&p, PROFILE_NAMES), PROFILE_NAMES_RECORDS);
	SAME(calls_of(&p, REGION(&p, "(other)")) + sum_of_name("another name 5", PROFILE_REGION, VERSION_AT_CALLS),
	     head(&p, PROFILE_AT_NAMES_LOST) + 1);
}

/* More places in the call tree than there are: what finds none is (other), and its time is in nobody else's. */
static void many_places(void)
{
	enum { OUTER = 250, INNER = 200 };
	weigh_name names[OUTER];
	char text[32];
	uint64_t calls;

	for (int i = 0; i < OUTER; i++) {
		sprintf(text, "place %d", i);
		names[i] = weigh_region_name(text);
	}
	for (int i = 0; i < OUTER; i++) {
		weigh_region_begin(names[i]);
		for (int j = 0; j < INNER; j++) {
			weigh_region_begin(names[j]);
			weigh_region_end(names[j]);
		}
		weigh_region_end(names[i]);
	}
	SAME(this_thread(&p)[THREAD_AT_DEPTH], 0);
	SAME(used(&p, PROFILE_NODES), PROFILE_NODES_RECORDS);
	/* Two nodes are the thread's, one is of the first region. */
	calls = calls_of(&p, REGION(&p, "(other)"));
	SAME(calls, OUTER * (1 + INNER) - (PROFILE_NODES_RECORDS - 3));
	SAME(head(&p, PROFILE_AT_NODES_LOST), calls);
	SAME(unbalanced_of(&p, REGION(&p, "(other)")), 0);
	/* Another thread finds no room. */
	pthread_t other;
	CHECK(!pthread_create(&other, 0, ends_range, 0));
	CHECK(!pthread_join(other, 0));
	SAME(head(&p, PROFILE_AT_THREADS_LOST), 1);
}

static pthread_key_t late_key;

static void late(void *unused)
{
	(void)unused;
	WEIGH_REGION("in a destructor");
}

static void *has_a_destructor(void *unused)
{
	(void)unused;
	tid = (pid_t)syscall(SYS_gettid);
	WEIGH_REGION("of the thread");
	CHECK(!pthread_setspecific(late_key, &late_key));
	return 0;
}

/* Destructors of the program's run before the thread's record ends. */
static void late_calls(void)
{
	pthread_t other;
	uint64_t root;

	CHECK(!pthread_key_create(&late_key, late));
	CHECK(!pthread_create(&other, 0, has_a_destructor, 0));
	CHECK(!pthread_join(other, 0));
	root = thread_of(&p, tid)[THREAD_AT_ROOT];
	SAME(calls_of(&p, child_node(&p, root, PROFILE_REGION, "in a destructor")), 1);
	CHECK(thread_of(&p, tid)[THREAD_AT_ENDED]);
	SAME(used(&p, PROFILE_THREADS), 2);
}

static void *calls_nine(void *unused)
{
	(void)unused;
	for (int i = 0; i < 9; i++) {
		WEIGH_REGION("of a thread");
		weigh_count("of threads", 7);
	}
	return 0;
}

static void many_threads(void)
{
	enum { AT_ONCE = 50, TIMES = 40 };
	pthread_t threads[AT_ONCE];

	for (int i = 0; i < TIMES; i++) {
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_create(&threads[j], 0, calls_nine, 0));
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_join(threads[j], 0));
	}
	SAME(sum_of_name("of a thread", PROFILE_REGION, VERSION_AT_CALLS), 9 * AT_ONCE * TIMES);
	SAME(sum_of_name("of threads", PROFILE_COUNTER, VERSION_AT_INCLUSIVE), 63 * AT_ONCE * TIMES);
	SAME(used(&p, PROFILE_THREADS), AT_ONCE * TIMES + 1);
	SAME(head(&p, PROFILE_AT_THREADS_LOST), 0);
	for (int i = 0; i < 60; i++) {
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_create(&threads[j], 0, calls_nine, 0));
		for (int j = 0; j < AT_ONCE; j++)
			CHECK(!pthread_join(threads[j], 0));
	}
	SAME(head(&p, PROFILE_AT_THREADS_LOST), 2001 + 3000 - PROFILE_THREADS_RECORDS);
	SAME(sum_of_name("of a thread", PROFILE_REGION, VERSION_AT_CALLS) + head(&p, PROFILE_AT_OTHER_CALLS),
	     9 * 5000 + 9 * (2001 + 3000 - PROFILE_THREADS_RECORDS));
}

static void braked(void)
{
	uint64_t node, calls = 1000000, timed;

	for (uint64_t i = 0; i < calls; i++) {
		WEIGH_REGION("short");
	}
	node = REGION(&p, "short");
	SAME(calls_of(&p, node), calls);
	SAME(node_at(&p, node)[NODE_AT_BRAKED], PROFILE_BRAKE_CALLS);
	timed = number_of(&p, node, VERSION_AT_TIMED) - PROFILE_BRAKE_CALLS;
	CHECK(timed > (calls - PROFILE_BRAKE_CALLS) / 72 && timed < (calls - PROFILE_BRAKE_CALLS) / 56);
	CHECK(number_of(&p, node, VERSION_AT_SQUARES) != 0);
	for (uint64_t i = 0; i < 2 * PROFILE_BRAKE_CALLS; i++) {
		WEIGH_REGION("with another inside");
		WEIGH_REGION("short inside");
	}
	SAME(node_at(&p, REGION(&p, "with another inside"))[NODE_AT_BRAKED], 0);
	CHECK(node_at(&p, REGION(&p, "with another inside", "short inside"))[NODE_AT_BRAKED]);
}

/* Over all regions of the thread; of the outermost ones if `root` is its root. */
static uint64_t sum_below(uint64_t root, unsigned word)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < used(&p, PROFILE_NODES); i++) {
		const uint64_t *node = node_at(&p, i);

		if (node[NODE_AT_KIND] == PROFILE_REGION && (root == NOTHING || node[NODE_AT_PARENT] == root))
			sum += number_of(&p, i, word);
	}
	return sum;
}

/* What regions have for themselves is what the outermost ones have, and with the time outside the thread's time. */
static void sums(void)
{
	uint64_t begun = monotonic_ns(), wall, inside, root = this_thread(&p)[THREAD_AT_ROOT];
	double outside = 0;

	for (int i = 0; i < 200; i++) {
		uint64_t before = monotonic_ns();

		WEIGH_BEGIN("a");
		spin(10000);
		WEIGH_BEGIN("b");
		spin(20000);
		WEIGH_BEGIN("c");
		WEIGH_END("c");
		WEIGH_END("b");
		WEIGH_END("a");
		outside -= (double)(monotonic_ns() - before);
	}
	wall = monotonic_ns() - begun;
	outside += (double)wall;
	usleep(100000);
	weigh_publish();
	inside = sum_below(root, VERSION_AT_INCLUSIVE);
	SAME(sum_below(NOTHING, VERSION_AT_EXCLUSIVE), inside);
	CHECK(ns_of(&p, inside) >= 200 * 30000.0);
	/* Each of the 200 has two reads of the clock more outside than inside. */
	CHECK(ns_of(&p, inside) + outside <= (double)wall + 1000);
	CHECK(ns_of(&p, inside) + outside >= (double)wall - 200 * 5000.0);
}

static void lives_in_parts(void)
{
	struct profile of_child;
	struct rlimit none = { 4096, RLIM_INFINITY };
	pid_t child = fork();

	/* Killed while it is inside: what is open can be seen. */
	if (!child) {
		WEIGH_BEGIN("outer of the killed");
		WEIGH_BEGIN("inner of the killed");
		for (;;) {
			WEIGH_REGION("many");
			weigh_count("many", 1);
		}
	}
	of_child = next_profile();
	usleep(200000);
	CHECK(!kill(child, SIGKILL));
	CHECK(waitpid(child, 0, 0) == child);
	SAME(head(&of_child, PROFILE_AT_ENDED), 0);
	const uint64_t *thread = thread_of(&of_child, child);
	CHECK(thread[THREAD_AT_DEPTH] == 2 || thread[THREAD_AT_DEPTH] == 3);
	uint64_t outer = child_node(&of_child, thread[THREAD_AT_ROOT], PROFILE_REGION, "outer of the killed");
	SAME(thread[THREAD_AT_STACK + FRAME_AT_NODE], outer);
	uint64_t inner = child_node(&of_child, outer, PROFILE_REGION, "inner of the killed");
	SAME(thread[THREAD_AT_STACK + FRAME_LENGTH + FRAME_AT_NODE], inner);
	CHECK(calls_of(&of_child, child_node(&of_child, inner, PROFILE_REGION, "many")) > 1000);
	/* Where no file may be so long there is no profile, and no signal. */
	child = fork();
	if (!child) {
		CHECK(!setrlimit(RLIMIT_FSIZE, &none));
		WEIGH_BEGIN("none");
		WEIGH_END("none");
		CHECK(!weigh_regions_active && weigh_regions_why());
		_exit(0);
	}
	child_succeeds(child);
}

static int open_descriptors(void)
{
	int count = 0;

	for (int i = 0; i < 1000; i++)
		count += fcntl(i, F_GETFD) >= 0;
	return count;
}

static void no_descriptor_is_left(void)
{
	int before = open_descriptors();
	pid_t child = fork();

	if (!child) {
		WEIGH_BEGIN("in a child");
		SAME(open_descriptors(), before);
		_exit(0);
	}
	child_succeeds(child);
	CHECK(next_profile().pid == (uint64_t)child);
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "threads", threads_end },	{ "others", other_threads_ends }, { "signals", signals },
		{ "names", many_names },	{ "many", many_threads },	  { "braked", braked },
		{ "places", many_places },	{ "late", late_calls },
		{ "sums", sums },		{ "killed", lives_in_parts },	  { "descriptors", no_descriptor_is_left },
	};

	listener = listener_of_this(arguments);
	if (count == 2 && !strcmp(arguments[1], "again")) {
		WEIGH_REGION("after exec");
		return 0;
	}
	signal(SIGUSR1, handler);
	WEIGH_BEGIN("first");
	WEIGH_END("first");
	CHECK(receive_profile(listener, &p));
	if (count == 1) {
		forks(arguments[0]);
		return 0;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (!strcmp(cases[i].name, arguments[1])) {
			cases[i].run();
			return 0;
		}
	}
	return 2;
}
