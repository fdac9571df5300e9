/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Bytes that requests move. What is received is known where the program waits for its request, by the status of that call. Where
 * the program wants none, the wrapper has statuses of its own. What a persistent request sends is known from its begin on.
 *
 * A request is remembered from its begin to its end, a persistent one to MPI_Request_free(), a matched message to its receive.
 * While a call waits for a request, it is that call's alone: the handle may be another request's as soon as the call is back.
 */
#include "mpi.h"

#include <pthread.h>
#include <stdlib.h>

/* Who sends. */
enum source {
	SOURCE_KNOWN,
	SOURCE_OF_WORLD, /* whom the status names */
	SOURCE_OF_GROUP, /* the same, in a group */
};

/* Whose a handle is: handles of one of these are numbers of their own. */
enum handle {
	HANDLE_OF_C,
	HANDLE_OF_FORTRAN,
	MESSAGE_OF_C,
	MESSAGE_OF_FORTRAN,
};

enum state {
	STATE_PENDING,
	STATE_IDLE, /* a persistent request that is not started */
	STATE_STARTED,
	STATE_SENDS, /* a persistent request, whether started or not */
};

struct receive {
	arg request, group;
	int64_t bytes; /* that are sent each time */
	int rank; /* in MPI_COMM_WORLD */
	uint8_t source, handle, is_there, state, number;
};
_Static_assert(MPI_NUMBERS <= UINT8_MAX, "a function's number");

/* What a call waits for, in the order of its requests. */
struct mpi_waiting {
	unsigned count;
	arg statuses;
	struct receive receives[];
};

enum { BUCKETS = 4096, WAYS = 8, MOST_REQUESTS = 1 << 20 };
static struct receive table[BUCKETS][WAYS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned remembered;

static struct receive *find(arg request, enum handle handle)
{
	struct receive *bucket = table[(uint64_t)request * 0x9E3779B97F4A7C15ULL >> 52];

	for (unsigned i = 0; i < WAYS; i++)
		if (bucket[i].is_there && bucket[i].request == request && bucket[i].handle == handle)
			return &bucket[i];
	return NULL;
}

static struct receive *free_place(arg request)
{
	struct receive *bucket = table[(uint64_t)request * 0x9E3779B97F4A7C15ULL >> 52];

	for (unsigned i = 0; i < WAYS; i++)
		if (!bucket[i].is_there)
			return &bucket[i];
	return NULL;
}

static void let_go(struct receive *receive)
{
	int (*free_group)(arg *);

	receive->is_there = false;
	if (receive->source != SOURCE_OF_GROUP || !receive->group)
		return;
	free_group = mpi_real("PMPI_Group_free");
	if (free_group)
		free_group(&receive->group);
}

/* Takes it out of the table. One that nothing has begun stays, unless it is to be dropped. */
static bool take(arg request, enum handle handle, bool is_dropped, struct receive *taken)
{
	struct receive *found;

	pthread_mutex_lock(&lock);
	found = find(request, handle);
	if (found && !is_dropped && (found->state == STATE_IDLE || found->state == STATE_SENDS))
		found = NULL;
	if (found) {
		*taken = *found;
		found->is_there = false;
		remembered--;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void put(struct receive *receive)
{
	struct receive *place, old = { 0 };

	pthread_mutex_lock(&lock);
	place = find(receive->request, receive->handle);
	if (place)
		old = *place;
	else if ((place = free_place(receive->request)))
		remembered++;
	if (place)
		*place = *receive;
	pthread_mutex_unlock(&lock);
	if (old.is_there)
		let_go(&old);
	if (place)
		return;
	let_go(receive);
	tools_api.weigh_counter_add(tools_api.weigh_region_name("MPI request without a place"), 1);
}

static unsigned request_bytes(const struct mpi_call *call)
{
	return call->is_fortran ? sizeof(int) : mpi_abi.request_bytes;
}

static arg request_at(const struct mpi_call *call, arg requests, unsigned number)
{
	const char *at = (const char *)requests + (size_t)number * request_bytes(call);

	return request_bytes(call) == sizeof(int) ? *(const int *)at : *(const arg *)at;
}

/* Whom the source of a call names. False: nobody. */
static bool find_source(const struct mpi_call *call, unsigned source_at, unsigned comm_at, struct receive *receive)
{
	int source = (int)mpi_number_at(call, source_at);
	arg comm = mpi_handle_at(call, comm_at, mpi_abi.comm_of);

	if (source == mpi_abi.no_rank)
		return false;
	if (source >= 0) {
		receive->rank = mpi_world_rank(comm, source);
	} else if (mpi_is_world(comm)) {
		receive->source = SOURCE_OF_WORLD;
	} else {
		/* The program may free its communicator before. */
		receive->source = SOURCE_OF_GROUP;
		receive->group = mpi_group_of(comm);
	}
	return true;
}

/* MPI_Irecv() has begun to receive, or a persistent request is made. */
void mpi_request_posted(const struct mpi_call *call)
{
	struct receive receive = { .handle = call->is_fortran, .is_there = true, .number = (uint8_t)call->number };
	bool is_receive = call->number == MPI_NUMBER_Irecv || call->number == MPI_NUMBER_Recv_init;

	if (!find_source(call, call->function->peer, call->function->comm, &receive))
		return;
	if (!is_receive) {
		receive.state = STATE_SENDS;
		receive.bytes = mpi_bytes_at(call, call->function->count, call->function->type);
	} else if (call->number == MPI_NUMBER_Recv_init) {
		receive.state = STATE_IDLE;
	}
	receive.request = request_at(call, call->args[6], 0);
	put(&receive);
}

static void start(const struct mpi_call *call, arg request)
{
	struct receive *found, sends = { 0 };

	pthread_mutex_lock(&lock);
	found = find(request, call->is_fortran);
	if (found && found->state == STATE_IDLE)
		found->state = STATE_STARTED;
	else if (found && found->state == STATE_SENDS)
		sends = *found;
	pthread_mutex_unlock(&lock);
	if (!sends.is_there)
		return;
	mpi_tell_bytes(sends.number, sends.bytes);
	mpi_tell_bytes_to(sends.rank, sends.bytes);
}

/* MPI_Start() or MPI_Startall() has begun them. */
void mpi_requests_started(const struct mpi_call *call)
{
	bool is_one = call->number == MPI_NUMBER_Start;
	int64_t count = is_one ? 1 : mpi_number_at(call, 1);

	for (int64_t i = 0; remembered && i < count; i++)
		start(call, request_at(call, call->args[is_one ? 0 : 1], (unsigned)i));
}

/* MPI_Mprobe() or MPI_Improbe() has found a message: who sends it is in the communicator of that call. */
void mpi_message_found(const struct mpi_call *call)
{
	struct receive message = { .handle = call->is_fortran ? MESSAGE_OF_FORTRAN : MESSAGE_OF_C, .is_there = true };
	bool may_fail = call->number == MPI_NUMBER_Improbe;

	if ((may_fail && !*(const int *)call->args[3]) || !find_source(call, 1, 3, &message))
		return;
	message.request = request_at(call, call->args[may_fail ? 4 : 3], 0);
	put(&message);
}

/* MPI_Mrecv() and MPI_Imrecv() are about to receive it: the handle is gone afterwards. */
void mpi_message_taken(struct mpi_call *call)
{
	struct receive taken;

	if (!call->function || !remembered)
		return;
	if (take(request_at(call, call->args[3], 0), call->is_fortran ? MESSAGE_OF_FORTRAN : MESSAGE_OF_C, true, &taken))
		call->message = (struct mpi_message){ true, taken.source, taken.rank, taken.group };
}

/* Its request goes on as that of MPI_Irecv() does. */
void mpi_message_posted(struct mpi_call *call)
{
	struct receive receive = {
		.request = request_at(call, call->args[4], 0),
		.group = call->message.group,
		.rank = call->message.rank,
		.source = call->message.source,
		.handle = call->is_fortran,
		.is_there = true,
		.number = (uint8_t)call->number,
	};

	if (call->message.is_known)
		put(&receive);
	call->message = (struct mpi_message){ 0 };
}

void mpi_request_dropped(const struct mpi_call *call)
{
	struct receive receive;

	if (call->function && remembered && take(request_at(call, call->args[0], 0), call->is_fortran, true, &receive))
		let_go(&receive);
}

static bool is_of_one(const struct mpi_call *call)
{
	return call->number == MPI_NUMBER_Wait || call->number == MPI_NUMBER_Test;
}

static struct mpi_waiting *new_waiting(const struct mpi_call *call)
{
	int64_t count = is_of_one(call) ? 1 : mpi_number_at(call, 1);
	size_t each = sizeof(struct receive) + mpi_abi.status_bytes;
	struct mpi_waiting *waiting;

	if (count <= 0 || count > MOST_REQUESTS)
		return NULL;
	waiting = calloc(1, sizeof *waiting + (size_t)count * each);
	if (waiting)
		waiting->count = (unsigned)count;
	return waiting;
}

static unsigned take_all(const struct mpi_call *call, struct mpi_waiting *waiting)
{
	arg requests = call->args[is_of_one(call) ? 0 : 1];
	unsigned found = 0;

	for (unsigned i = 0; i < waiting->count; i++)
		found += take(request_at(call, requests, i), call->is_fortran, false, &waiting->receives[i]);
	return found;
}

arg mpi_statuses_for(struct mpi_call *call, arg given)
{
	struct mpi_waiting *waiting;
	int kept = errno;

	if (!call->function || !remembered)
		return given;
	waiting = new_waiting(call);
	errno = kept;
	if (!waiting || !take_all(call, waiting)) {
		free(waiting);
		return given;
	}
	waiting->statuses = mpi_is_no_status(call, given) ? (arg)&waiting->receives[waiting->count] : given;
	call->waiting = waiting;
	return waiting->statuses;
}

/* Bytes, whatever has become of the type; 0 of what was cancelled. */
static int64_t bytes_of(arg status)
{
	static int (*count)(arg, arg, long long *);
	static int (*test_cancelled)(arg, int *);
	long long bytes = 0;
	int is_cancelled = 0;

	if (!count)
		count = mpi_real("PMPI_Get_elements_x");
	if (!test_cancelled)
		test_cancelled = mpi_real("PMPI_Test_cancelled");
	if (!count || count(status, mpi_abi.byte, &bytes) || bytes < 0)
		return 0;
	if (test_cancelled && !test_cancelled(status, &is_cancelled) && is_cancelled)
		return 0;
	return bytes;
}

static int sender(const struct receive *receive, arg status)
{
	int rank = ((const int *)status)[mpi_abi.source_at];

	if (receive->source == SOURCE_KNOWN)
		return receive->rank;
	if (receive->source == SOURCE_OF_WORLD)
		return rank;
	return receive->group ? mpi_rank_in_world(receive->group, rank) : -1;
}

void mpi_message_received(const struct mpi_call *call, arg status)
{
	const struct mpi_message *message = &call->message;
	struct receive receive = { .source = message->source, .rank = message->rank, .group = message->group };
	int64_t bytes = bytes_of(status);

	mpi_tell_bytes(call->number, bytes);
	if (message->is_known)
		mpi_tell_bytes_from(sender(&receive, status), bytes);
}

/* The request in this place has come to its end; its status is in that place. */
static void has_ended(struct mpi_waiting *waiting, int64_t place, unsigned status_place)
{
	struct receive *receive = &waiting->receives[place];
	arg status = waiting->statuses + (arg)status_place * mpi_abi.status_bytes;
	int64_t bytes;

	if (place < 0 || place >= waiting->count || !receive->is_there)
		return;
	bytes = bytes_of(status);
	mpi_tell_bytes(receive->number, bytes);
	mpi_tell_bytes_from(sender(receive, status), bytes);
	if (receive->state == STATE_STARTED)
		receive->state = STATE_IDLE;
	else
		let_go(receive);
}

static void all_have_ended(struct mpi_waiting *waiting)
{
	for (unsigned i = 0; i < waiting->count; i++)
		has_ended(waiting, i, i);
}

static int value(const struct mpi_call *call, unsigned at)
{
	return *(const int *)call->args[at - 1];
}

static void some_have_ended(const struct mpi_call *call)
{
	const int *places = (const int *)call->args[3];

	for (int i = 0; i < value(call, 3); i++)
		has_ended(call->waiting, (int64_t)places[i] - call->is_fortran, (unsigned)i);
}

static void tell_ended(const struct mpi_call *call)
{
	struct mpi_waiting *waiting = call->waiting;

	switch (call->number) {
	case MPI_NUMBER_Test:
		if (!value(call, 2))
			break;
		/* fall through */
	case MPI_NUMBER_Wait:
		has_ended(waiting, 0, 0);
		break;
	case MPI_NUMBER_Testall:
		if (!value(call, 3))
			break;
		/* fall through */
	case MPI_NUMBER_Waitall:
		all_have_ended(waiting);
		break;
	case MPI_NUMBER_Testany:
		if (!value(call, 4))
			break;
		/* fall through */
	case MPI_NUMBER_Waitany:
		has_ended(waiting, (int64_t)value(call, 3) - call->is_fortran, 0);
		break;
	default:
		some_have_ended(call);
	}
}

/* A call that has waited is back. Of one that failed it is not known which requests are gone: all are forgotten. */
void mpi_requests_waited(struct mpi_call *call, bool failed)
{
	struct mpi_waiting *waiting = call->waiting;
	struct receive message = { .source = call->message.source, .group = call->message.group };

	let_go(&message);
	if (!waiting)
		return;
	if (!failed)
		tell_ended(call);
	for (unsigned i = 0; i < waiting->count; i++) {
		struct receive *receive = &waiting->receives[i];

		if (receive->is_there && failed)
			let_go(receive);
		else if (receive->is_there)
			put(receive);
	}
	free(waiting);
	call->waiting = NULL;
}
