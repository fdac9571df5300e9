/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* MPI on two ranks: messages of odd lengths, on a communicator of the other order too; rank 0 prints what was done. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	static char buffer[8000];
	double own = 1, sum;
	int rank, size;
	MPI_Comm reversed;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
	MPI_Pcontrol(1, "solve");
	for (int i = 0; i < 37; i++) {
		if (rank == 0)
			MPI_Send(buffer, 101 + i, MPI_CHAR, 1, 5, MPI_COMM_WORLD);
		else
			MPI_Recv(buffer, 7777, MPI_CHAR, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Pcontrol(-1, "solve");
	/* Rank 0 of the world is rank 1 there. */
	for (int i = 0; i < 11; i++) {
		MPI_Request request;
		MPI_Status status;
		if (rank == 1) {
			MPI_Isend(buffer, 13, MPI_INT, 1, 1, reversed, &request);
			MPI_Wait(&request, &status);
		} else {
			MPI_Recv(buffer, 100, MPI_INT, 0, 1, reversed, &status);
		}
	}
	MPI_Sendrecv(buffer, 9, MPI_INT, 1 - rank, 3, buffer + 100, 99, MPI_INT, 1 - rank, 3, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	MPI_Comm_free(&reversed);
	MPI_Pcontrol(2);
	if (rank == 0)
		printf("calls 2 MPI_Init\ncalls 37 MPI_Send\nsum 4403 MPI_Send bytes\ncalls 48 MPI_Recv\n"
		       "sum 4975 MPI_Recv bytes\ncalls 74 MPI_Allreduce\nsum 592 MPI_Allreduce bytes\n"
		       "calls 11 MPI_Isend\nsum 572 MPI_Isend bytes\ncalls 11 MPI_Wait\ncalls 2 MPI_Sendrecv\n"
		       "calls 2 solve\nsum 4439 MPI to rank 1 bytes\nsum 4439 MPI from rank 0 bytes\n"
		       "sum 608 MPI to rank 0 bytes\nsum 608 MPI from rank 1 bytes\ncalls 2 MPI_Finalize\n");
	MPI_Finalize();
	return sum == 2 * size / 2 ? 0 : 1;
}
