/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * MPI in C: each function is a region of its name, calls MPI's own by its profiling name, and adds its bytes to the
 * counter `NAME bytes`; a message, to those of its peer (`MPI to rank N bytes`, `... ns`; `from`).
 *
 * Ranks are those of MPI_COMM_WORLD. A receive's bytes are what came; of requests they are told where the program waits for
 * them (mpi_requests.c). What MPI's functions call of MPI themselves is not told.
 */
#include "mpi.h"

#include <pthread.h>
#include <stdio.h>
#include <time.h>

static const struct mpi_function functions[] = {
#define ROW(name, fortran, count, moves, ...) { "MPI_" #name, MOVES_##moves, __VA_ARGS__ },
	MPI_FUNCTIONS(ROW)
#undef ROW
};
static _Atomic weigh_name regions[MPI_NUMBERS], bytes_of[MPI_NUMBERS];

/* Inside of one of MPI's functions: what they call themselves is theirs. */
static __thread unsigned depth;

static const char owner;

void *mpi_real(const char *name)
{
	int kept = errno;
	/* The program's own copy of an object comes first. */
	void *found = dlsym(RTLD_DEFAULT, name);

	if (!found)
		found = tools_find_in("mpi", name);
	errno = kept;
	return found;
}

struct mpi_abi mpi_abi;

/* What stands for no status, or no statuses, in Fortran: the variable of that name, in the compilers' spellings. */
static const void *no_fortran_status[8];

static void find_fortran(void)
{
	static const char *const names[] = { "mpi_fortran_status_ignore_", "mpi_fortran_status_ignore",
					     "mpi_fortran_status_ignore__",	"mpi_fortran_statuses_ignore_",
					     "mpi_fortran_statuses_ignore",	"mpi_fortran_statuses_ignore__" };
	void *const *one = mpi_real("MPI_F_STATUS_IGNORE"), *const *several = mpi_real("MPI_F_STATUSES_IGNORE");

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		no_fortran_status[i] = mpi_real(names[i]);
	no_fortran_status[6] = one ? *one : NULL;
	no_fortran_status[7] = several ? *several : NULL;
}

/* MPICH has both: the library's name tells. */
static bool is_standard(void)
{
	Dl_info about;
	void *init = mpi_real("PMPI_Init");

	return init && dladdr(init, &about) && about.dli_fname && strstr(about.dli_fname, "libmpi_abi");
}

static void find_abi(void)
{
	void *open_mpi = mpi_real("ompi_mpi_comm_world");

	find_fortran();
	mpi_abi.type_of = mpi_real("PMPI_Type_f2c");
	mpi_abi.comm_of = mpi_real("PMPI_Comm_f2c");
	mpi_abi.request_bytes = sizeof(arg);
	if (open_mpi) {
		mpi_abi.world = (arg)open_mpi;
		mpi_abi.no_rank = -2;
		mpi_abi.byte = (arg)mpi_real("ompi_mpi_byte");
		mpi_abi.status_bytes = 24;
	} else if (!is_standard()) {
		mpi_abi.world = 0x44000000;
		mpi_abi.no_status = 1;
		mpi_abi.source_at = 2;
		mpi_abi.no_rank = -1;
		mpi_abi.byte = 0x4c00010d;
		mpi_abi.status_bytes = 20;
		mpi_abi.request_bytes = sizeof(int);
	} else {
		mpi_abi.world = 0x101;
		mpi_abi.no_rank = -3;
		mpi_abi.byte = 0x247;
		mpi_abi.status_bytes = 32;
	}
}

bool mpi_listens(void)
{
	static _Atomic int listens; /* 1: no, 2: yes */

	if (!listens) {
		bool found = tools_listen("mpi");
		if (found)
			find_abi();
		listens = 1 + found;
	}
	return listens == 2 && tools_active();
}

static uint64_t now_ns(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static weigh_name cached(_Atomic weigh_name *name, const char *format, const char *text)
{
	char room[64];

	if (!*name) {
		snprintf(room, sizeof room, format, text);
		*name = tools_api.weigh_region_name(room);
	}
	return *name;
}

bool mpi_enter(const char *name)
{
	if (depth || !mpi_listens())
		return false;
	depth++;
	tools_begin(&owner, tools_api.weigh_region_name(name));
	return true;
}

void mpi_leave(bool entered)
{
	if (!entered)
		return;
	depth--;
	tools_end(&owner, "MPI");
}

void mpi_begin(struct mpi_call *call, enum mpi_number number, const arg *args, bool is_fortran)
{
	*call = (struct mpi_call){ 0 };
	if (depth || !mpi_listens())
		return;
	*call = (struct mpi_call){ .function = &functions[number], .args = args, .number = number, .is_fortran = is_fortran };
	depth++;
	tools_begin(&owner, cached(&regions[number], "%s", functions[number].name));
	if (functions[number].peer)
		call->begun_ns = now_ns();
}

arg mpi_handle_at(const struct mpi_call *call, unsigned at, arg (*convert)(int))
{
	if (!call->is_fortran)
		return call->args[at - 1];
	int number = *(const int *)call->args[at - 1];
	return convert ? convert(number) : number;
}

int64_t mpi_number_at(const struct mpi_call *call, unsigned at)
{
	return call->is_fortran ? *(const int *)call->args[at - 1] : (int)call->args[at - 1];
}

static int size_of_type(arg type)
{
	static int (*real)(arg, int *);
	int bytes = 0;

	if (!real)
		real = mpi_real("PMPI_Type_size");
	return real && !real(type, &bytes) && bytes > 0 ? bytes : 0;
}

static int size_of_comm(arg comm)
{
	static int (*real)(arg, int *);
	int ranks = 0;

	if (!real)
		real = mpi_real("PMPI_Comm_size");
	return real && !real(comm, &ranks) ? ranks : 0;
}

/* The other side of an intercommunicator. */
arg mpi_group_of(arg comm)
{
	int (*test_inter)(arg, int *) = mpi_real("PMPI_Comm_test_inter");
	int (*comm_group)(arg, arg *) = mpi_real("PMPI_Comm_group");
	int (*remote_group)(arg, arg *) = mpi_real("PMPI_Comm_remote_group");
	int is_inter = 0;
	/* MPICH writes an int. */
	arg group = 0;

	if (!test_inter || !comm_group || !remote_group)
		return 0;
	test_inter(comm, &is_inter);
	return (is_inter ? remote_group : comm_group)(comm, &group) ? 0 : group;
}

int mpi_rank_in_world(arg group, int rank)
{
	int (*translate)(arg, int, const int *, arg, int *) = mpi_real("PMPI_Group_translate_ranks");
	int (*free_group)(arg *) = mpi_real("PMPI_Group_free");
	arg world = translate && free_group ? mpi_group_of(mpi_abi.world) : 0;
	int found = -1;

	if (!world)
		return -1;
	if (translate(group, 1, &rank, world, &found) || found < 0)
		found = -1;
	free_group(&world);
	return found;
}

/* The rank in MPI_COMM_WORLD of a rank in another communicator, or -1. */
static int translated(arg comm, int rank)
{
	int (*free_group)(arg *) = mpi_real("PMPI_Group_free");
	arg group = mpi_group_of(comm);
	int found = group ? mpi_rank_in_world(group, rank) : -1;

	if (group && free_group)
		free_group(&group);
	return found;
}

/* What was translated lately. A communicator that is gone takes its entries with it. */
enum { TRANSLATED = 256 };
static struct {
	arg comm;
	int rank, world;
} translations[TRANSLATED];
static pthread_mutex_t translation_lock = PTHREAD_MUTEX_INITIALIZER;

void mpi_forget(arg comm)
{
	pthread_mutex_lock(&translation_lock);
	for (unsigned i = 0; i < TRANSLATED; i++)
		if (translations[i].comm == comm)
			translations[i].comm = 0;
	pthread_mutex_unlock(&translation_lock);
}

bool mpi_is_world(arg comm)
{
	return comm == mpi_abi.world || (int)comm == (int)mpi_abi.world;
}

int mpi_world_rank(arg comm, int rank)
{
	if (mpi_is_world(comm))
		return rank;
	unsigned at = ((uintptr_t)comm / 16 + (unsigned)rank) % TRANSLATED;
	pthread_mutex_lock(&translation_lock);
	bool known = translations[at].comm == comm && translations[at].rank == rank;
	int found = known ? translations[at].world : -1;
	pthread_mutex_unlock(&translation_lock);
	if (known)
		return found;
	found = translated(comm, rank);
	pthread_mutex_lock(&translation_lock);
	translations[at].comm = comm;
	translations[at].rank = rank;
	translations[at].world = found;
	pthread_mutex_unlock(&translation_lock);
	return found;
}

/* Counters of peers, of so many by themselves. */
enum { PEERS = 1024, DIRECTIONS = 2, MEASURES = 2 };
static _Atomic weigh_name peers[PEERS + 1][DIRECTIONS][MEASURES];

static weigh_name peer_name(int rank, bool from, bool of_time)
{
	int at = rank >= 0 && rank < PEERS ? rank : PEERS;
	_Atomic weigh_name *name = &peers[at][from][of_time];
	char room[64];

	if (!*name) {
		const char *way = from ? "from" : "to", *unit = of_time ? "ns" : "bytes";
		if (at < PEERS)
			snprintf(room, sizeof room, "MPI %s rank %d %s", way, at, unit);
		else
			snprintf(room, sizeof room, "MPI %s other ranks %s", way, unit);
		*name = tools_api.weigh_region_name(room);
	}
	return *name;
}

static void tell_peer(arg comm, int rank, bool from, int64_t bytes, uint64_t ns)
{
	if (rank == mpi_abi.no_rank || rank < 0)
		return;
	int world = mpi_world_rank(comm, rank);
	tools_api.weigh_counter_add(peer_name(world, from, false), bytes);
	tools_api.weigh_counter_add(peer_name(world, from, true), (int64_t)ns);
}

void mpi_tell_bytes_from(int world, int64_t bytes)
{
	tools_api.weigh_counter_add(peer_name(world, true, false), bytes);
}

void mpi_tell_bytes_to(int world, int64_t bytes)
{
	tools_api.weigh_counter_add(peer_name(world, false, false), bytes);
}

int64_t mpi_bytes_at(const struct mpi_call *call, unsigned count_at, unsigned type_at)
{
	return mpi_number_at(call, count_at) * size_of_type(mpi_handle_at(call, type_at, mpi_abi.type_of));
}

static int64_t sum_listed(const struct mpi_call *call, unsigned at, int ranks)
{
	const int *counts = (const int *)call->args[at - 1];
	int64_t sum = 0;

	for (int i = 0; counts && i < ranks; i++)
		sum += counts[i];
	return sum;
}

/* Elements of `type` that a status tells of; the source goes to `source`. */
static int64_t received(arg status, arg type, int *source)
{
	static int (*real)(arg, arg, int *);
	int elements = 0;

	if (!real)
		real = mpi_real("PMPI_Get_count");
	*source = ((const int *)status)[mpi_abi.source_at];
	return real && !real(status, type, &elements) && elements > 0 ? elements : 0;
}

bool mpi_is_no_status(const struct mpi_call *call, arg status)
{
	if (!call->is_fortran)
		return status == mpi_abi.no_status || !status;
	for (unsigned i = 0; i < sizeof no_fortran_status / sizeof *no_fortran_status; i++)
		if (no_fortran_status[i] && (const void *)status == no_fortran_status[i])
			return true;
	return !status;
}

arg mpi_status_for(const struct mpi_call *call, arg given, arg *status_room)
{
	if (!call->function || !mpi_is_no_status(call, given))
		return given;
	memset(status_room, 0, MPI_STATUS_WORDS * sizeof *status_room);
	return (arg)status_room;
}

/* A message that was received, by the status of the call. */
static int64_t tell_received(const struct mpi_call *call, arg status, unsigned type_at, unsigned comm_at, uint64_t ns)
{
	arg type = mpi_handle_at(call, type_at, mpi_abi.type_of);
	int source;
	int64_t bytes = received(status, type, &source) * size_of_type(type);

	tell_peer(mpi_handle_at(call, comm_at, mpi_abi.comm_of), source, true, bytes, ns);
	return bytes;
}

/* Where a call has its status: the program's, or ours. */
static arg status_of(const struct mpi_call *call, unsigned at, arg *status_room)
{
	arg status = call->args[at - 1];

	return mpi_is_no_status(call, status) ? (arg)status_room : status;
}

static int64_t tell_message(const struct mpi_call *call, arg *status_room, uint64_t ns)
{
	const struct mpi_function *f = call->function;

	if (f->moves == MOVES_FROM)
		return tell_received(call, status_of(call, 7, status_room), f->type, f->comm, ns);
	arg comm = mpi_handle_at(call, f->comm, mpi_abi.comm_of);
	int64_t sent = mpi_bytes_at(call, f->count, f->type);
	tell_peer(comm, (int)mpi_number_at(call, f->peer), false, sent, ns);
	if (f->moves == MOVES_BOTH)
		tell_received(call, status_of(call, 12, status_room), 8, f->comm, ns);
	else if (f->moves == MOVES_OVER)
		tell_received(call, status_of(call, 9, status_room), f->type, f->comm, ns);
	return sent;
}

static int64_t bytes_moved(const struct mpi_call *call, arg *status_room, uint64_t ns)
{
	const struct mpi_function *f = call->function;

	if (f->peer)
		return tell_message(call, status_room, ns);
	int64_t size = size_of_type(mpi_handle_at(call, f->type, mpi_abi.type_of));
	int ranks = f->moves == MOVES_ALL ? 1 : size_of_comm(mpi_handle_at(call, f->comm, mpi_abi.comm_of));
	if (f->moves == MOVES_LISTED)
		return size * sum_listed(call, f->count, ranks);
	return size * ranks * mpi_number_at(call, f->count);
}

void mpi_tell_bytes(enum mpi_number number, int64_t bytes)
{
	tools_api.weigh_counter_add(cached(&bytes_of[number], "%s bytes", functions[number].name), bytes);
}

static void tell(struct mpi_call *call, arg *status_room)
{
	uint64_t ns = call->begun_ns ? now_ns() - call->begun_ns : 0;

	switch (call->function->moves) {
	case MOVES_POSTS:
		return mpi_request_posted(call);
	case MOVES_STARTS:
		return mpi_requests_started(call);
	case MOVES_FINDS:
		return mpi_message_found(call);
	case MOVES_MATCHES:
		return mpi_message_received(call, status_of(call, 5, status_room));
	case MOVES_MATCHES_LATER:
		return mpi_message_posted(call);
	default:
		if (call->function->moves < MOVES_NOTHING_YET)
			mpi_tell_bytes(call->number, bytes_moved(call, status_room, ns));
	}
}

void mpi_end(struct mpi_call *call, arg *status_room, bool failed)
{
	int kept = errno;

	if (!call->function)
		return;
	if (!failed && call->function->moves != MOVES_NOTHING)
		tell(call, status_room);
	mpi_requests_waited(call, failed);
	mpi_leave(true);
	errno = kept;
}

void mpi_after_init(void)
{
	int (*rank_of)(arg, int *) = mpi_real("PMPI_Comm_rank");
	int rank = -1;
	char text[16];

	if (!mpi_listens() || !rank_of || rank_of(mpi_abi.world, &rank) || rank < 0)
		return;
	tools_set_rank((uint64_t)rank);
	snprintf(text, sizeof text, "%d", rank);
	tools_api.weigh_metadata("mpi_rank", text);
	snprintf(text, sizeof text, "%d", size_of_comm(mpi_abi.world));
	tools_api.weigh_metadata("mpi_size", text);
}

enum { MPI_FAILED = 16 /* MPI_ERR_OTHER or one near it: there is no MPI to call */ };

/* A call with a status has it as the last argument; where the program wants none, the wrapper has one of its own. */
#define WRAP(name, fortran, count, moves, ...)                                                   \
	TOOL int MPI_##name(MPI_PARAMETERS_##count);                                             \
	TOOL int MPI_##name(MPI_PARAMETERS_##count)                                              \
	{                                                                                        \
		static int (*real)(MPI_PARAMETERS_##count);                                      \
		const arg args[] = { MPI_ARGUMENTS_##count };                                    \
		arg status[MPI_STATUS_WORDS];                                                    \
		struct mpi_call call;                                                            \
		int result = MPI_FAILED;                                                         \
                                                                                                 \
		if (!real)                                                                       \
			real = mpi_real("PMPI_" #name);                                          \
		mpi_begin(&call, MPI_NUMBER_##name, args, false);                                \
		if (real) {                                                                      \
			MPI_STATUS_##moves                                                           \
			result = real(MPI_ARGUMENTS_##count);                                    \
		}                                                                                \
		mpi_end(&call, status, result);                                                  \
		return result;                                                                   \
	}
MPI_FUNCTIONS(WRAP)

/* The rest has ends or arguments of its own. */
TOOL int MPI_Init(arg a1, arg a2);
TOOL int MPI_Init(arg a1, arg a2)
{
	int (*real)(arg, arg) = mpi_real("PMPI_Init");
	bool entered = mpi_enter("MPI_Init");
	int result = real ? real(a1, a2) : MPI_FAILED;

	mpi_leave(entered);
	if (entered && !result)
		mpi_after_init();
	return result;
}

TOOL int MPI_Init_thread(arg a1, arg a2, int a3, arg a4);
TOOL int MPI_Init_thread(arg a1, arg a2, int a3, arg a4)
{
	int (*real)(arg, arg, int, arg) = mpi_real("PMPI_Init_thread");
	bool entered = mpi_enter("MPI_Init_thread");
	int result = real ? real(a1, a2, a3, a4) : MPI_FAILED;

	mpi_leave(entered);
	if (entered && !result)
		mpi_after_init();
	return result;
}

TOOL int MPI_Finalize(void);
TOOL int MPI_Finalize(void)
{
	int (*real)(void) = mpi_real("PMPI_Finalize");
	bool entered = mpi_enter("MPI_Finalize");
	int result = real ? real() : MPI_FAILED;

	mpi_leave(entered);
	return result;
}

/* The handle is gone when it is back: another communicator may get its number. */
static int free_comm(const char *name, const char *profiled, arg *comm)
{
	int (*real)(arg *) = mpi_real(profiled);
	bool entered = mpi_enter(name);

	if (entered && comm)
		mpi_forget(*comm);
	int result = real ? real(comm) : MPI_FAILED;
	mpi_leave(entered);
	return result;
}

TOOL int MPI_Comm_free(arg *comm);
TOOL int MPI_Comm_free(arg *comm)
{
	return free_comm("MPI_Comm_free", "PMPI_Comm_free", comm);
}

TOOL int MPI_Comm_disconnect(arg *comm);
TOOL int MPI_Comm_disconnect(arg *comm)
{
	return free_comm("MPI_Comm_disconnect", "PMPI_Comm_disconnect", comm);
}
