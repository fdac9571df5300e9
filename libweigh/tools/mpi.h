/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * MPI's functions that are wrapped, and what their arguments are.
 *
 * One shim serves Open MPI, MPICH and MPI's standard ABI: handles are pointers in the one and numbers in the other, and
 * both go through in a register or a place on the stack of their own, on x86-64 and aarch64.
 */
#ifndef WEIGH_TOOLS_MPI_H
#define WEIGH_TOOLS_MPI_H

#include "tools.h"

/* An argument, whatever it is. */
typedef intptr_t arg;

/* What moves, by which a call's bytes are known. */
enum mpi_moves {
	MOVES_NOTHING,
	MOVES_TO, /* a message to one rank */
	MOVES_FROM, /* a message from one rank, as long as the status says */
	MOVES_BOTH, /* MPI_Sendrecv */
	MOVES_OVER, /* MPI_Sendrecv_replace */
	MOVES_ALL, /* this rank's part of what all do together */
	MOVES_EACH, /* so much for each rank */
	MOVES_LISTED, /* a list of numbers, one for each rank */
	MOVES_NOTHING_YET, /* those that follow are about requests */
	MOVES_POSTS, /* MPI_Irecv, and persistent requests */
	MOVES_STARTS, /* MPI_Start, MPI_Startall */
	MOVES_FINDS, /* MPI_Mprobe, MPI_Improbe */
	MOVES_MATCHES, /* MPI_Mrecv */
	MOVES_MATCHES_LATER, /* MPI_Imrecv */
	MOVES_DROPS, /* MPI_Request_free */
	/* Waits for requests; the status is the last argument: the second and so on. */
	MOVES_WAITS2,
	MOVES_WAITS3,
	MOVES_WAITS4,
	MOVES_WAITS5,
};

/* A function: which arguments are count, type, peer and communicator, from 1 on; 0: it has none. */
struct mpi_function {
	const char *name;
	uint8_t moves, count, type, peer, comm;
};

/* Name, arguments in C, what moves, count, type, peer, communicator. In Fortran there is one argument more. */
#define MPI_FUNCTIONS(DO)                                  \
	DO(Send, send, 6, TO, 2, 3, 4, 6)                      \
	DO(Bsend, bsend, 6, TO, 2, 3, 4, 6)                    \
	DO(Ssend, ssend, 6, TO, 2, 3, 4, 6)                    \
	DO(Rsend, rsend, 6, TO, 2, 3, 4, 6)                    \
	DO(Isend, isend, 7, TO, 2, 3, 4, 6)                    \
	DO(Ibsend, ibsend, 7, TO, 2, 3, 4, 6)                  \
	DO(Issend, issend, 7, TO, 2, 3, 4, 6)                  \
	DO(Irsend, irsend, 7, TO, 2, 3, 4, 6)                  \
	DO(Recv, recv, 7, FROM, 2, 3, 4, 6)                    \
	DO(Irecv, irecv, 7, POSTS, 0, 0, 4, 6)                 \
	DO(Mrecv, mrecv, 5, MATCHES, 0, 0, 0, 0)               \
	DO(Imrecv, imrecv, 5, MATCHES_LATER, 0, 0, 0, 0)       \
	DO(Send_init, send_init, 7, POSTS, 2, 3, 4, 6)         \
	DO(Bsend_init, bsend_init, 7, POSTS, 2, 3, 4, 6)       \
	DO(Ssend_init, ssend_init, 7, POSTS, 2, 3, 4, 6)       \
	DO(Rsend_init, rsend_init, 7, POSTS, 2, 3, 4, 6)       \
	DO(Recv_init, recv_init, 7, POSTS, 0, 0, 4, 6)         \
	DO(Sendrecv, sendrecv, 12, BOTH, 2, 3, 4, 11)          \
	DO(Sendrecv_replace, sendrecv_replace, 9, OVER, 2, 3, 4, 8) \
	DO(Probe, probe, 4, NOTHING, 0, 0, 0, 0)               \
	DO(Iprobe, iprobe, 5, NOTHING, 0, 0, 0, 0)             \
	DO(Mprobe, mprobe, 5, FINDS, 0, 0, 0, 0)               \
	DO(Improbe, improbe, 6, FINDS, 0, 0, 0, 0)             \
	DO(Wait, wait, 2, WAITS2, 0, 0, 0, 0)                  \
	DO(Waitall, waitall, 3, WAITS3, 0, 0, 0, 0)            \
	DO(Waitany, waitany, 4, WAITS4, 0, 0, 0, 0)            \
	DO(Waitsome, waitsome, 5, WAITS5, 0, 0, 0, 0)          \
	DO(Test, test, 3, WAITS3, 0, 0, 0, 0)                  \
	DO(Testall, testall, 4, WAITS4, 0, 0, 0, 0)            \
	DO(Testany, testany, 5, WAITS5, 0, 0, 0, 0)            \
	DO(Testsome, testsome, 5, WAITS5, 0, 0, 0, 0)          \
	DO(Request_free, request_free, 1, DROPS, 0, 0, 0, 0)   \
	DO(Start, start, 1, STARTS, 0, 0, 0, 0)                \
	DO(Startall, startall, 2, STARTS, 0, 0, 0, 0)          \
	DO(Barrier, barrier, 1, NOTHING, 0, 0, 0, 0)           \
	DO(Bcast, bcast, 5, ALL, 2, 3, 0, 5)                   \
	DO(Gather, gather, 8, ALL, 2, 3, 0, 8)                 \
	DO(Gatherv, gatherv, 9, ALL, 2, 3, 0, 9)               \
	DO(Scatter, scatter, 8, ALL, 5, 6, 0, 8)               \
	DO(Scatterv, scatterv, 9, ALL, 6, 7, 0, 9)             \
	DO(Allgather, allgather, 7, ALL, 2, 3, 0, 7)           \
	DO(Allgatherv, allgatherv, 8, ALL, 2, 3, 0, 8)         \
	DO(Alltoall, alltoall, 7, EACH, 2, 3, 0, 7)            \
	DO(Alltoallv, alltoallv, 9, LISTED, 2, 4, 0, 9)        \
	DO(Alltoallw, alltoallw, 9, NOTHING, 0, 0, 0, 0)       \
	DO(Reduce, reduce, 7, ALL, 3, 4, 0, 7)                 \
	DO(Allreduce, allreduce, 6, ALL, 3, 4, 0, 6)           \
	DO(Reduce_scatter, reduce_scatter, 6, LISTED, 3, 4, 0, 6) \
	DO(Reduce_scatter_block, reduce_scatter_block, 6, EACH, 3, 4, 0, 6) \
	DO(Scan, scan, 6, ALL, 3, 4, 0, 6)                     \
	DO(Exscan, exscan, 6, ALL, 3, 4, 0, 6)                 \
	DO(Ibarrier, ibarrier, 2, NOTHING, 0, 0, 0, 0)         \
	DO(Ibcast, ibcast, 6, ALL, 2, 3, 0, 5)                 \
	DO(Igather, igather, 9, ALL, 2, 3, 0, 8)               \
	DO(Iscatter, iscatter, 9, ALL, 5, 6, 0, 8)             \
	DO(Iallgather, iallgather, 8, ALL, 2, 3, 0, 7)         \
	DO(Ialltoall, ialltoall, 8, EACH, 2, 3, 0, 7)          \
	DO(Ireduce, ireduce, 8, ALL, 3, 4, 0, 7)               \
	DO(Iallreduce, iallreduce, 7, ALL, 3, 4, 0, 6)         \
	DO(Neighbor_allgather, neighbor_allgather, 7, ALL, 2, 3, 0, 7) \
	DO(Neighbor_alltoall, neighbor_alltoall, 7, NOTHING, 0, 0, 0, 0) \
	DO(Put, put, 8, ALL, 2, 3, 0, 0)                       \
	DO(Get, get, 8, ALL, 2, 3, 0, 0)                       \
	DO(Accumulate, accumulate, 9, ALL, 2, 3, 0, 0)         \
	DO(Win_fence, win_fence, 2, NOTHING, 0, 0, 0, 0)       \
	DO(Win_lock, win_lock, 4, NOTHING, 0, 0, 0, 0)         \
	DO(Win_unlock, win_unlock, 2, NOTHING, 0, 0, 0, 0)     \
	DO(Win_flush, win_flush, 2, NOTHING, 0, 0, 0, 0)       \
	DO(Win_create, win_create, 6, NOTHING, 0, 0, 0, 0)     \
	DO(Win_free, win_free, 1, NOTHING, 0, 0, 0, 0)         \
	DO(File_close, file_close, 1, NOTHING, 0, 0, 0, 0)     \
	DO(File_read, file_read, 5, ALL, 3, 4, 0, 0)           \
	DO(File_read_all, file_read_all, 5, ALL, 3, 4, 0, 0)   \
	DO(File_read_at, file_read_at, 6, ALL, 4, 5, 0, 0)     \
	DO(File_read_at_all, file_read_at_all, 6, ALL, 4, 5, 0, 0) \
	DO(File_write, file_write, 5, ALL, 3, 4, 0, 0)         \
	DO(File_write_all, file_write_all, 5, ALL, 3, 4, 0, 0) \
	DO(File_write_at, file_write_at, 6, ALL, 4, 5, 0, 0)   \
	DO(File_write_at_all, file_write_at_all, 6, ALL, 4, 5, 0, 0) \
	DO(Comm_dup, comm_dup, 2, NOTHING, 0, 0, 0, 0)         \
	DO(Comm_split, comm_split, 4, NOTHING, 0, 0, 0, 0)     \
	DO(Comm_create, comm_create, 3, NOTHING, 0, 0, 0, 0)

/* Parameters and arguments of a function with so many. */
#define MPI_PARAMETERS_1 arg a1
#define MPI_PARAMETERS_2 MPI_PARAMETERS_1, arg a2
#define MPI_PARAMETERS_3 MPI_PARAMETERS_2, arg a3
#define MPI_PARAMETERS_4 MPI_PARAMETERS_3, arg a4
#define MPI_PARAMETERS_5 MPI_PARAMETERS_4, arg a5
#define MPI_PARAMETERS_6 MPI_PARAMETERS_5, arg a6
#define MPI_PARAMETERS_7 MPI_PARAMETERS_6, arg a7
#define MPI_PARAMETERS_8 MPI_PARAMETERS_7, arg a8
#define MPI_PARAMETERS_9 MPI_PARAMETERS_8, arg a9
#define MPI_PARAMETERS_12 MPI_PARAMETERS_9, arg a10, arg a11, arg a12
#define MPI_ARGUMENTS_1 a1
#define MPI_ARGUMENTS_2 MPI_ARGUMENTS_1, a2
#define MPI_ARGUMENTS_3 MPI_ARGUMENTS_2, a3
#define MPI_ARGUMENTS_4 MPI_ARGUMENTS_3, a4
#define MPI_ARGUMENTS_5 MPI_ARGUMENTS_4, a5
#define MPI_ARGUMENTS_6 MPI_ARGUMENTS_5, a6
#define MPI_ARGUMENTS_7 MPI_ARGUMENTS_6, a7
#define MPI_ARGUMENTS_8 MPI_ARGUMENTS_7, a8
#define MPI_ARGUMENTS_9 MPI_ARGUMENTS_8, a9
#define MPI_ARGUMENTS_12 MPI_ARGUMENTS_9, a10, a11, a12

/* A call with a status has it as its last argument. */
#define MPI_STATUS_NOTHING
#define MPI_STATUS_TO
#define MPI_STATUS_ALL
#define MPI_STATUS_EACH
#define MPI_STATUS_LISTED
#define MPI_STATUS_FROM a7 = mpi_status_for(&call, a7, status);
#define MPI_STATUS_BOTH a12 = mpi_status_for(&call, a12, status);
#define MPI_STATUS_OVER a9 = mpi_status_for(&call, a9, status);
#define MPI_STATUS_POSTS
#define MPI_STATUS_STARTS
#define MPI_STATUS_FINDS
#define MPI_STATUS_MATCHES                                                        \
	mpi_message_taken(&call);                                                 \
	a5 = mpi_status_for(&call, a5, status);
#define MPI_STATUS_MATCHES_LATER mpi_message_taken(&call);
#define MPI_STATUS_DROPS mpi_request_dropped(&call);
#define MPI_STATUS_WAITS2 a2 = mpi_statuses_for(&call, a2);
#define MPI_STATUS_WAITS3 a3 = mpi_statuses_for(&call, a3);
#define MPI_STATUS_WAITS4 a4 = mpi_statuses_for(&call, a4);
#define MPI_STATUS_WAITS5 a5 = mpi_statuses_for(&call, a5);

enum mpi_number {
#define NUMBER(name, fortran, ...) MPI_NUMBER_##name,
	MPI_FUNCTIONS(NUMBER)
#undef NUMBER
	MPI_NUMBERS
};

/* A message that was matched by a probe: who sends it. */
struct mpi_message {
	bool is_known;
	uint8_t source;
	int rank;
	arg group;
};

/* A call that is being made. */
struct mpi_call {
	const struct mpi_function *function; /* NULL: nobody listens, or it is MPI's own call */
	const arg *args;
	enum mpi_number number;
	bool is_fortran;
	uint64_t begun_ns;
	struct mpi_waiting *waiting; /* receives that it waits for */
	struct mpi_message message; /* that it receives */
};

/* What differs between implementations. */
extern struct mpi_abi {
	arg world;
	arg no_status;
	arg byte; /* MPI_BYTE */
	int source_at; /* in a status, as an int */
	int no_rank; /* MPI_PROC_NULL */
	unsigned status_bytes, request_bytes;
	/* Handles of Fortran are numbers, from which an implementation makes its own. NULL: they are the same. */
	arg (*type_of)(int), (*comm_of)(int);
} mpi_abi;

/* MPI's own function, by the name that profilers have for it. */
void *mpi_real(const char *name);

void mpi_begin(struct mpi_call *call, enum mpi_number number, const arg *args, bool is_fortran);
/* Of a call that failed only the time is told. */
void mpi_end(struct mpi_call *call, arg *status_room, bool failed);

/* A message's status: the program's, or where it wants none a room of ours. */
arg mpi_status_for(const struct mpi_call *call, arg given, arg *status_room);
enum { MPI_STATUS_WORDS = 8 };

/* Arguments, from 1 on: a handle, or a number. */
arg mpi_handle_at(const struct mpi_call *call, unsigned at, arg (*convert)(int));
int64_t mpi_number_at(const struct mpi_call *call, unsigned at);

bool mpi_is_no_status(const struct mpi_call *call, arg status);

/* Ranks in MPI_COMM_WORLD; -1: of none. A communicator's group is 0 where there is none, and is to be freed. */
bool mpi_is_world(arg comm);
int mpi_world_rank(arg comm, int rank);
arg mpi_group_of(arg comm);
int mpi_rank_in_world(arg group, int rank);

/* The handle of a communicator is gone. */
void mpi_forget(arg comm);

/* So many elements of a type. */
int64_t mpi_bytes_at(const struct mpi_call *call, unsigned count_at, unsigned type_at);

/* Counters of a function, and of whom a message came from, or goes to. */
void mpi_tell_bytes(enum mpi_number number, int64_t bytes);
void mpi_tell_bytes_from(int world, int64_t bytes);
void mpi_tell_bytes_to(int world, int64_t bytes);

/* mpi_requests.c: a request is there, is started, is freed; a call is to wait for requests (by the statuses that it gets
 * then), and has; a message is matched, is to be received, and is, at once or by a request. */
void mpi_request_posted(const struct mpi_call *call);
void mpi_requests_started(const struct mpi_call *call);
void mpi_request_dropped(const struct mpi_call *call);
void mpi_message_found(const struct mpi_call *call);
void mpi_message_taken(struct mpi_call *call);
void mpi_message_received(const struct mpi_call *call, arg status);
void mpi_message_posted(struct mpi_call *call);
arg mpi_statuses_for(struct mpi_call *call, arg given);
void mpi_requests_waited(struct mpi_call *call, bool failed);

/* MPI is ready, or about to end. */
void mpi_after_init(void);

/* MPI_Pcontrol: a level, and perhaps a label. */
void mpi_control(int level, const char *label, size_t length);

/* Whether MPI was asked for, and somebody listens. */
bool mpi_listens(void);

/* A region around what has no arguments of interest. */
bool mpi_enter(const char *name);
void mpi_leave(bool entered);

#endif
