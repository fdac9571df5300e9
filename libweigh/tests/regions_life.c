/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Regions over forks, execs, threads, signals and kills.
 *
 * usage: regions_life [CASE]
 */
#include "profile.h"
#include <setjmp.h>
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
	in_handler = sum_of_name(&p, "in a handler", PROFILE_REGION, VERSION_AT_CALLS);
	counted = sum_of_name(&p, "in a handler", PROFILE_COUNTER, VERSION_AT_INCLUSIVE);
	SAME(in_handler + counted + lost, 2 * (uint64_t)handled);
	CHECK(in_handler > 0);
}

static sigjmp_buf again;

static void jumps(int signal)
{
	(void)signal;
	handled++;
	siglongjmp(again, 1);
}

/* A handler leaves whatever it interrupts, libweigh too: the thread's later regions count. */
static void jumps_out(void)
{
	struct itimerval soon = { { 0, 0 }, { 0, 50 } };

	CHECK(signal(SIGALRM, jumps) != SIG_ERR);
	while (handled < 3000) {
		WEIGH_BEGIN("may be left");
		if (!sigsetjmp(again, 1)) {
			setitimer(ITIMER_REAL, &soon, 0);
			for (;;) {
				WEIGH_REGION("often");
				weigh_count("often", 1);
			}
		}
		WEIGH_END("may be left");
		SAME(this_thread(&p)[THREAD_AT_DEPTH], 0);
	}
	CHECK(calls_of(&p, REGION(&p, "may be left")) >= 2990);
	for (uint64_t i = 0; i < used(&p, PROFILE_NODES); i++)
		number_of(&p, i, VERSION_AT_CALLS);
	WEIGH_BEGIN("afterwards");
	WEIGH_BEGIN("often");
	WEIGH_END("often");
	WEIGH_END("afterwards");
	SAME(calls_of(&p, REGION(&p, "afterwards", "often")), 1);
}

/* Minutes: so that a hang ends. */
static void *goes_on(void *unused)
{
	(void)unused;
	sleep(300);
	CHECK(!"it goes on");
	return 0;
}

static void *gives_out_a_name(void *unused)
{
	(void)unused;
	WEIGH_REGION("of another thread");
	return 0;
}

static void another_thread_goes_on(void)
{
	pthread_t watch, other;
	sigset_t alarm;

	/* The handler jumps on the first thread's stack. */
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	CHECK(!pthread_sigmask(SIG_BLOCK, &alarm, 0));
	CHECK(!pthread_create(&watch, 0, goes_on, 0));
	CHECK(!pthread_create(&other, 0, gives_out_a_name, 0));
	CHECK(!pthread_join(other, 0));
	CHECK(!pthread_sigmask(SIG_UNBLOCK, &alarm, 0));
}

static void gives_out_names(void)
{
	static volatile int number;
	char text[32];

	sprintf(text, "name %d", number++);
	CHECK(weigh_region_name(text));
}

static void calls_once(void)
{
	WEIGH_REGION("first of a child");
}

/* In children a handler leaves what is done over and over, at another moment each time: their other threads go on. */
static void jumps_out_in_children(void (*over_and_over)(void), int first_us)
{
	struct itimerval soon = { { 0, 0 }, { 0, 0 } };

	CHECK(signal(SIGALRM, jumps) != SIG_ERR);
	for (int i = 1; i <= 150; i++) {
		pid_t child;

		soon.it_value.tv_usec = first_us + 2 * i;
		child = fork();
		if (!child) {
			if (!sigsetjmp(again, 1)) {
				setitimer(ITIMER_REAL, &soon, 0);
				for (;;)
					over_and_over();
			}
			another_thread_goes_on();
			SAME(weigh_regions_why() != 0, 0);
			_exit(0);
		}
		child_succeeds(child);
		while (receive_profile(listener, &p))
			munmap((void *)p.words, head(&p, PROFILE_AT_BYTES));
	}
}

static void jumps_out_of_names(void)
{
	jumps_out_in_children(gives_out_names, 500);
}

/* It makes the profile, and gives the thread its place. */
static void jumps_out_of_the_first_call(void)
{
	jumps_out_in_children(calls_once, 0);
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
	for (int i = 0; i < 1000 && sum_of_name(&of_child, "many", PROFILE_REGION, VERSION_AT_CALLS) < 2000; i++)
		usleep(10000);
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

static pthread_barrier_t barrier;

static void *begins_at_once(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 1000; i++) {
		WEIGH_REGION("at once");
	}
	return 0;
}

/* Eight threads make the first call of a process together: it has one profile. */
static void first_together(void)
{
	struct profile of_child, none;

	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		pthread_t threads[8];

		if (!child) {
			pthread_barrier_init(&barrier, 0, 8);
			for (int j = 0; j < 8; j++)
				CHECK(!pthread_create(&threads[j], 0, begins_at_once, 0));
			for (int j = 0; j < 8; j++)
				CHECK(!pthread_join(threads[j], 0));
			_exit(0);
		}
		child_succeeds(child);
		of_child = next_profile();
		SAME(of_child.pid, child);
		SAME(used(&of_child, PROFILE_THREADS), 8);
		SAME(sum_of_name(&of_child, "at once", PROFILE_REGION, VERSION_AT_CALLS), 8000);
		CHECK(!receive_profile(listener, &none));
		munmap((void *)of_child.words, head(&of_child, PROFILE_AT_BYTES));
	}
}

static void begins_ever_more(void)
{
	char text[32];

	for (uint64_t i = 0;; i++) {
		weigh_name name;

		sprintf(text, "made %d", (int)(i % 5000));
		name = weigh_region_name(text);
		WEIGH_PHASE("phase", i);
		weigh_region_begin(name);
		weigh_count("count", 1);
		weigh_metadata("last", text);
		weigh_region_end(name);
		weigh_publish();
	}
}

/* Whatever number it holds leads to something that is there. */
static void is_sound(const struct profile *of)
{
	uint64_t nodes = used(of, PROFILE_NODES), names = used(of, PROFILE_NAMES);

	CHECK(nodes <= PROFILE_NODES_RECORDS && names <= PROFILE_NAMES_RECORDS);
	for (uint64_t i = 0; i < nodes; i++) {
		const uint64_t *node = node_at(of, i);

		if (!node[NODE_AT_KIND])
			continue;
		CHECK(node[NODE_AT_PARENT] < nodes && node[NODE_AT_NAME] < names);
		CHECK(node[NODE_AT_KIND] == PROFILE_ROOT || record(of, PROFILE_NAMES, node[NODE_AT_NAME], NAME_LENGTH)[NAME_AT_BYTES]);
	}
	for (uint64_t i = 0; i < used(of, PROFILE_THREADS); i++) {
		const uint64_t *thread = record(of, PROFILE_THREADS, i, THREAD_LENGTH);

		CHECK(thread[THREAD_AT_DEPTH] <= 2);
		for (uint64_t j = 0; j < thread[THREAD_AT_DEPTH]; j++)
			CHECK(node_at(of, thread[THREAD_AT_STACK + j * FRAME_LENGTH])[NODE_AT_KIND]);
	}
}

static void killed_anywhere(void)
{
	for (int i = 0; i < 60; i++) {
		struct profile of_child;
		pid_t child = fork();

		if (!child)
			begins_ever_more();
		of_child = next_profile();
		usleep((useconds_t)(i * 173 % 9000));
		CHECK(!kill(child, SIGKILL));
		CHECK(waitpid(child, 0, 0) == child);
		is_sound(&of_child);
		munmap((void *)of_child.words, head(&of_child, PROFILE_AT_BYTES));
	}
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
		{ "threads", threads_end },	  { "others", other_threads_ends }, { "signals", signals },
		{ "late", late_calls },		  { "jumps", jumps_out },	    { "anywhere", killed_anywhere },
		{ "together", first_together },	  { "killed", lives_in_parts },
		{ "descriptors", no_descriptor_is_left }, { "names", jumps_out_of_names },
		{ "first", jumps_out_of_the_first_call },
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
