/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A stencil on two ranks: halo exchange, a sum over all, a checkpoint each tenth iteration. Its regions are libweigh's, its MPI
 * is not annotated. Rank 0 prints what both have done, and how long the iterations took.
 */
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weigh_region.h>

enum { ITERATIONS = 97, ROWS = 301, COLUMNS = 1009, EACH = 10 };
static double cells[2][ROWS + 2][COLUMNS];
static long checkpoints, checkpoint_bytes;

static void exchange_halo(double (*own)[COLUMNS], int rank)
{
	/* Rank 1 is below rank 0. */
	double *halo = own[rank ? 0 : ROWS + 1], *edge = own[rank ? 1 : ROWS];
	MPI_Request both[2];

	WEIGH_REGION("halo");
	MPI_Irecv(halo, COLUMNS, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &both[0]);
	MPI_Isend(edge, COLUMNS, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &both[1]);
	MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

static double compute(double (*from)[COLUMNS], double (*to)[COLUMNS])
{
	double change = 0;

	WEIGH_REGION("compute");
	for (int i = 1; i <= ROWS; i++) {
		for (int j = 1; j < COLUMNS - 1; j++) {
			to[i][j] = 0.25 * (from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]);
			change += fabs(to[i][j] - from[i][j]);
		}
	}
	return change;
}

static double sum_of_all(double own)
{
	double sum;

	WEIGH_REGION("residual");
	MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	weigh_gauge("residual", sum);
	return sum;
}

static void checkpoint(double (*own)[COLUMNS], int rank)
{
	char name[32];
	int file;

	WEIGH_REGION("checkpoint");
	snprintf(name, sizeof name, "checkpoint.%d", rank);
	file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	for (int i = 1; i <= ROWS; i++) {
		ssize_t written = write(file, own[i], sizeof own[i]);
		checkpoint_bytes += written;
		weigh_count("checkpoint bytes", written);
	}
	close(file);
	checkpoints++;
}

static void tell(double seconds)
{
	const long halo = 2L * ITERATIONS * COLUMNS * (long)sizeof(double);

	printf("calls %d halo\ncalls %d compute\ncalls %d residual\ncalls %ld checkpoint\n", 2 * ITERATIONS, 2 * ITERATIONS,
	       2 * ITERATIONS, 2 * checkpoints);
	printf("calls %d MPI_Irecv\ncalls %d MPI_Isend\ncalls %d MPI_Waitall\ncalls %d MPI_Allreduce\n", 2 * ITERATIONS,
	       2 * ITERATIONS, 2 * ITERATIONS, 2 * ITERATIONS);
	printf("sum %ld MPI_Irecv bytes\nsum %ld MPI_Isend bytes\nsum %d MPI_Allreduce bytes\n", halo, halo,
	       2 * ITERATIONS * (int)sizeof(double));
	printf("sum %ld MPI from rank 0 bytes\nsum %ld MPI from rank 1 bytes\n", halo / 2, halo / 2);
	printf("sum %ld checkpoint bytes\nphases %d iteration\nseconds %.6f\n", 2 * checkpoint_bytes, 2 * ITERATIONS, seconds);
}

int main(int argc, char **argv)
{
	double begun, change = 1;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < ROWS + 2; i++)
		cells[0][i][0] = cells[1][i][0] = 1 + rank;
	MPI_Barrier(MPI_COMM_WORLD);
	begun = MPI_Wtime();
	for (uint64_t i = 0; i < ITERATIONS; i++) {
		WEIGH_PHASE("iteration", i);
		exchange_halo(cells[i % 2], rank);
		change = sum_of_all(compute(cells[i % 2], cells[1 - i % 2]));
		if (i % EACH == EACH - 1)
			checkpoint(cells[1 - i % 2], rank);
		weigh_publish();
	}
	if (rank == 0)
		tell(MPI_Wtime() - begun);
	MPI_Finalize();
	return change > 0 ? 0 : 1;
}
