/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * MPI in Fortran: mpi_send_() and so on. Open MPI's call PMPI_Send() themselves, so that a wrapper of MPI_Send() hears
 * nothing of them; where one calls MPI_Send(), that call is MPI's own, and is not told twice. What a program calls by the
 * module mpi_f08 of Open MPI calls ompi_send_f(), which is the same function by another name.
 */
#include "mpi.h"

#include <stdarg.h>

/* One more argument than in C: the error. */
#define FORTRAN_PARAMETERS(count) MPI_PARAMETERS_##count, arg error
#define WRAP(name, fortran, count, moves, ...)                                            \
	TOOL void mpi_##fortran##_(FORTRAN_PARAMETERS(count));                            \
	TOOL void mpi_##fortran##_(FORTRAN_PARAMETERS(count))                             \
	{                                                                                 \
		static void (*real)(FORTRAN_PARAMETERS(count));                           \
		const arg args[] = { MPI_ARGUMENTS_##count };                             \
		arg status[MPI_STATUS_WORDS];                                             \
		struct mpi_call call;                                                     \
                                                                                          \
		if (!real)                                                                \
			real = mpi_real("pmpi_" #fortran "_");                            \
		mpi_begin(&call, MPI_NUMBER_##name, args, true);                          \
		if (real) {                                                               \
			MPI_STATUS_##moves                                                \
			real(MPI_ARGUMENTS_##count, error);                               \
		}                                                                         \
		mpi_end(&call, status, !real || *(const int *)error);                     \
	}                                                                                 \
	TOOL void ompi_##fortran##_f(FORTRAN_PARAMETERS(count))                           \
		__attribute__((alias("mpi_" #fortran "_")));
MPI_FUNCTIONS(WRAP)

TOOL void mpi_init_(int *error);
TOOL void mpi_init_(int *error)
{
	void (*real)(int *) = mpi_real("pmpi_init_");
	bool entered = mpi_enter("MPI_Init");

	if (real)
		real(error);
	mpi_leave(entered);
	if (entered)
		mpi_after_init();
}

TOOL void mpi_init_thread_(int *required, int *provided, int *error);
TOOL void mpi_init_thread_(int *required, int *provided, int *error)
{
	void (*real)(int *, int *, int *) = mpi_real("pmpi_init_thread_");
	bool entered = mpi_enter("MPI_Init_thread");

	if (real)
		real(required, provided, error);
	mpi_leave(entered);
	if (entered)
		mpi_after_init();
}

TOOL void mpi_finalize_(int *error);
TOOL void mpi_finalize_(int *error)
{
	void (*real)(int *) = mpi_real("pmpi_finalize_");
	bool entered = mpi_enter("MPI_Finalize");

	if (real)
		real(error);
	mpi_leave(entered);
}

TOOL void ompi_init_f(int *error) __attribute__((alias("mpi_init_")));
TOOL void ompi_init_thread_f(int *required, int *provided, int *error) __attribute__((alias("mpi_init_thread_")));
TOOL void ompi_finalize_f(int *error) __attribute__((alias("mpi_finalize_")));

/* The handle is gone when it is back. */
TOOL void mpi_comm_free_(int *comm, int *error);
TOOL void mpi_comm_free_(int *comm, int *error)
{
	void (*real)(int *, int *) = mpi_real("pmpi_comm_free_");
	bool entered = mpi_enter("MPI_Comm_free");

	if (entered && comm)
		mpi_forget(mpi_abi.comm_of ? mpi_abi.comm_of(*comm) : *comm);
	if (real)
		real(comm, error);
	mpi_leave(entered);
}
TOOL void ompi_comm_free_f(int *comm, int *error) __attribute__((alias("mpi_comm_free_")));

/* A label has its length behind it, where there is one. */
TOOL void mpi_pcontrol_(const int *level, const char *label, size_t length);
TOOL void mpi_pcontrol_(const int *level, const char *label, size_t length)
{
	void (*real)(const int *, const char *, size_t) = mpi_real("pmpi_pcontrol_");

	if (level && length < 128)
		mpi_control(*level, length ? label : NULL, length);
	if (real)
		real(level, label, length);
}
