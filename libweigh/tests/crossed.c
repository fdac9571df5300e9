/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program that connects to the agent, leaves the connection to its child, and executes another program: what may the
 * child have accounted of it, and what may another program of the same user read?
 *
 * usage: crossed leave PROGRAM WAY ROOT    connects, and executes PROGRAM, which goes on in that WAY; ROOT is a program of
 *                                          root's that is measured. Says the PID; at the first line says what it was
 *                                          answered, as numbers; at the second the program ends
 *        crossed wait WAY                  what PROGRAM is executed as
 *        crossed peer PID                  asks for the accounts of that process
 *        crossed closed -                  closes itself, connects, and has itself accounted
 *        crossed take PID                  takes a PID, for the first user and group that are nobody's
 */
#include "check.h"
#include <dirent.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "../src/page.h"

#define READY 8 /* descriptors of the executed program */
#define GO_ON 9
#define NOBODY 65534
#define OTHER 61111

static int dial(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int agent = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	strncpy(address.sun_path, getenv(WEIGH_AGENT_VARIABLE), sizeof(address.sun_path) - 1);
	CHECK(!connect(agent, (struct sockaddr *)&address, sizeof(address)));
	return agent;
}

static int ask(int agent, uint64_t kind, uint64_t number, uint64_t value)
{
	struct weigh_request request = { WEIGH_LAYOUT, kind, number, value };
	struct weigh_reply reply;

	if (send(agent, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request) ||
	    recv(agent, &reply, sizeof(reply), 0) != sizeof(reply))
		return WEIGH_GONE;
	return (int)reply.reason;
}

static int ask_for_peer(uint64_t pid)
{
	int agent = dial();

	SAME(ask(agent, WEIGH_ASK_ENTER, 0, 0), WEIGH_MEASURED);
	return ask(agent, WEIGH_ASK_PEER, pid, 0);
}

/* What the kernel's own rule says. */
static int kernel_lets_look(int pid)
{
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	folder = opendir(path);
	if (folder)
		closedir(folder);
	return folder != 0;
}

static void await_line(void)
{
	char line[16];

	CHECK(fgets(line, sizeof(line), stdin));
}

static void leave_to(int agent, int ready, int go_on, const char *way, uint64_t root)
{
	int pid = getppid();
	char byte;

	CHECK(read(ready, &byte, 1) == 1);
	if (!strcmp(way, "end"))
		close(go_on);
	printf("%d\n", pid);
	fflush(stdout);
	await_line();
	printf("%d ", ask(agent, WEIGH_ASK_JOIN, pid, 0));
	printf("%d ", ask(agent, WEIGH_ASK_COUNT, pid, ~0ULL));
	printf("%d ", ask(agent, WEIGH_ASK_PEER, root, 0));
	printf("%d ", ask_for_peer(pid));
	printf("%d\n", kernel_lets_look(pid));
	fflush(stdout);
	await_line();
}

static int leave(char **arguments)
{
	int agent = dial(), ready[2], go_on[2];

	SAME(ask(agent, WEIGH_ASK_ENTER, 0, 0), WEIGH_MEASURED);
	CHECK(!pipe(ready) && !pipe(go_on));
	if (!fork()) {
		close(go_on[0]);
		leave_to(agent, ready[0], go_on[1], arguments[3], strtoul(arguments[4], 0, 10));
		_exit(0);
	}
	close(go_on[1]);
	CHECK(dup2(ready[1], READY) == READY && dup2(go_on[0], GO_ON) == GO_ON);
	execl(arguments[2], "crossed", "wait", arguments[3], (char *)0);
	return 1;
}

static int wait_there(const char *way)
{
	char byte;

	if (!strcmp(way, "become"))
		CHECK(!setresgid(OTHER, OTHER, OTHER) && !setresuid(OTHER, OTHER, OTHER));
	if (!strcmp(way, "close"))
		CHECK(!prctl(PR_SET_DUMPABLE, 0));
	if (!strcmp(way, "apart"))
		CHECK(!unshare(CLONE_NEWUSER));
	CHECK(write(READY, "r", 1) == 1);
	CHECK(!read(GO_ON, &byte, 1));
	return 0;
}

static int take(pid_t pid)
{
	struct clone_args wanted = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1 };
	long made = syscall(SYS_clone3, &wanted, sizeof(wanted));

	CHECK(made >= 0);
	if (!made) {
		CHECK(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY));
		CHECK(!prctl(PR_SET_DUMPABLE, 1) && !prctl(PR_SET_PDEATHSIG, SIGKILL));
		puts("taken");
		fflush(stdout);
		pause();
	}
	await_line();
	CHECK(!kill((pid_t)made, SIGKILL) && waitpid((pid_t)made, 0, 0) == made);
	return 0;
}

static int closed(void)
{
	int agent;

	CHECK(!prctl(PR_SET_DUMPABLE, 0));
	agent = dial();
	SAME(ask(agent, WEIGH_ASK_ENTER, 0, 0), WEIGH_MEASURED);
	printf("%d\n", ask(agent, WEIGH_ASK_JOIN, getpid(), 0));
	return 0;
}

int main(int count, char **arguments)
{
	const char *what = count > 2 ? arguments[1] : "";

	if (!strcmp(what, "leave") && count == 5)
		return leave(arguments);
	if (!strcmp(what, "wait"))
		return wait_there(arguments[2]);
	if (!strcmp(what, "take"))
		return take(atoi(arguments[2]));
	if (!strcmp(what, "closed"))
		return closed();
	CHECK(!strcmp(what, "peer"));
	printf("%d\n", ask_for_peer(strtoul(arguments[2], 0, 10)));
	return 0;
}
