/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Requests on two ranks: messages of odd lengths, from a rank or from any, in a communicator of the other order too, waited for
 * in each way there is, with statuses and without; by persistent requests, and by messages that were matched before. Rank 0
 * prints what came.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static char from[4096], to[4096];

/* Ends a receive and a send. */
static void end_both(int how, MPI_Request *both)
{
	MPI_Status statuses[2];
	int at, flag = 0, places[2], some, left = 2;

	switch (how) {
	case 0:
		MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
		break;
	case 1:
		MPI_Wait(&both[0], MPI_STATUS_IGNORE);
		MPI_Wait(&both[1], statuses);
		break;
	case 2:
		MPI_Waitany(2, both, &at, MPI_STATUS_IGNORE);
		MPI_Waitany(2, both, &at, statuses);
		break;
	case 3:
		for (; left; left -= some)
			MPI_Waitsome(2, both, &some, places, statuses);
		break;
	case 4:
		while (!flag)
			MPI_Test(&both[0], &flag, MPI_STATUS_IGNORE);
		MPI_Wait(&both[1], MPI_STATUS_IGNORE);
		break;
	case 5:
		while (!flag)
			MPI_Testall(2, both, &flag, MPI_STATUSES_IGNORE);
		break;
	case 6:
		for (; left; left -= flag)
			MPI_Testany(2, both, &at, &flag, statuses);
		break;
	default:
		for (; left; left -= some)
			MPI_Testsome(2, both, &some, places, MPI_STATUSES_IGNORE);
	}
}

/* The type is gone before the message is there; the communicator, too. */
static void by_a_type_that_is_gone(int rank)
{
	MPI_Datatype triple;
	MPI_Request both[2];
	MPI_Comm other;

	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
	MPI_Type_contiguous(3, MPI_INT, &triple);
	MPI_Type_commit(&triple);
	MPI_Irecv(from, 9, triple, MPI_ANY_SOURCE, 6, other, &both[0]);
	MPI_Isend(to, 15, MPI_INT, rank, 6, other, &both[1]);
	MPI_Type_free(&triple);
	MPI_Comm_free(&other);
	MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

/* Nothing comes of it. */
static void cancelled(int rank)
{
	MPI_Request none;

	MPI_Irecv(from, 9, MPI_CHAR, 1 - rank, 99, MPI_COMM_WORLD, &none);
	MPI_Cancel(&none);
	MPI_Wait(&none, MPI_STATUS_IGNORE);
	MPI_Irecv(from, 9, MPI_CHAR, MPI_PROC_NULL, 99, MPI_COMM_WORLD, &none);
	MPI_Wait(&none, MPI_STATUS_IGNORE);
}

/* A pair of persistent requests, started in both ways; waited for once more than they are started. Returns the bytes of a rank. */
static int by_persistent_requests(int rank, MPI_Comm comm, int peer, int source)
{
	MPI_Request both[2];

	(void)rank;
	MPI_Recv_init(from, sizeof from, MPI_CHAR, source, 7, comm, &both[0]);
	MPI_Send_init(to, 57, MPI_SHORT, peer, 7, comm, &both[1]);
	for (int i = 0; i < 9; i++) {
		if (i % 2) {
			MPI_Startall(2, both);
		} else {
			MPI_Start(&both[0]);
			MPI_Start(&both[1]);
		}
		MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
	}
	MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
	MPI_Request_free(&both[0]);
	MPI_Request_free(&both[1]);
	return 9 * 57 * (int)sizeof(short);
}

/* Probed, and received at once and by a request. */
static int by_matched_messages(MPI_Comm comm, int peer, int source)
{
	MPI_Message message;
	MPI_Request request, sends[6];
	int found, bytes = 0;

	for (int i = 0; i < 6; i++) {
		bytes += 201 + i;
		MPI_Isend(to, 201 + i, MPI_CHAR, peer, 8, comm, &sends[i]);
	}
	for (int i = 0; i < 6; i++) {
		if (i % 2) {
			MPI_Mprobe(source, 8, comm, &message, MPI_STATUS_IGNORE);
		} else {
			do
				MPI_Improbe(source, 8, comm, &found, &message, MPI_STATUS_IGNORE);
			while (!found);
		}
		if (i < 3) {
			MPI_Mrecv(from, sizeof from, MPI_CHAR, &message, MPI_STATUS_IGNORE);
		} else {
			MPI_Imrecv(from, sizeof from, MPI_CHAR, &message, &request);
			MPI_Wait(&request, MPI_STATUS_IGNORE);
		}
	}
	MPI_Waitall(6, sends, MPI_STATUSES_IGNORE);
	return bytes;
}

int main(int argc, char **argv)
{
	int rank, sum = 0, persistent, matched;
	MPI_Comm reversed;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
	for (int i = 0; i < 48; i++) {
		/* The other one has this one's number there. */
		MPI_Comm comm = i % 3 ? MPI_COMM_WORLD : reversed;
		int peer = i % 3 ? 1 - rank : rank, bytes = 101 + 7 * i;
		MPI_Request both[2];

		MPI_Irecv(from, sizeof from, MPI_CHAR, i % 5 ? peer : MPI_ANY_SOURCE, 5, comm, &both[0]);
		MPI_Isend(to, bytes, MPI_CHAR, peer, 5, comm, &both[1]);
		end_both(i % 8, both);
		sum += bytes;
	}
	by_a_type_that_is_gone(rank);
	sum += 60;
	cancelled(rank);
	persistent = by_persistent_requests(rank, MPI_COMM_WORLD, 1 - rank, 1 - rank);
	persistent += by_persistent_requests(rank, reversed, rank, MPI_ANY_SOURCE);
	matched = by_matched_messages(MPI_COMM_WORLD, 1 - rank, MPI_ANY_SOURCE);
	matched += by_matched_messages(reversed, rank, MPI_ANY_SOURCE);
	matched += by_matched_messages(reversed, rank, rank);
	MPI_Comm_free(&reversed);
	if (rank == 0) {
		int all = sum + persistent + matched;

		printf("calls 102 MPI_Irecv\nsum %d MPI_Irecv bytes\nsum %d MPI from rank 0 bytes\nsum %d MPI from rank 1 bytes\n"
		       "sum %d MPI to rank 0 bytes\nsum %d MPI to rank 1 bytes\n",
		       2 * sum, all, all, all, all);
		printf("sum %d MPI_Recv_init bytes\nsum %d MPI_Send_init bytes\nsamples 36 MPI_Recv_init bytes\n", 2 * persistent,
		       2 * persistent);
		/* Of six messages three each, of 201 to 203 and of 204 to 206 bytes, in three communicators on two ranks. */
		printf("sum %d MPI_Mrecv bytes\nsum %d MPI_Imrecv bytes\ncalls 18 MPI_Imrecv\n", 6 * 606, 6 * 615);
	}
	MPI_Finalize();
	return 0;
}
