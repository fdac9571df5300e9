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
    print '(a)', 'calls MPI_Init 2', 'calls MPI_Send 58', 'sum MPI_Send_bytes 13456', 'calls MPI_Recv 58'
    print '(a)', 'sum MPI_Recv_bytes 13456', 'sum MPI_to_rank_1_bytes 13340', 'sum MPI_from_rank_1_bytes 116'
    print '(a)', 'calls MPI_Barrier 2', 'calls MPI_Finalize 2'
  end if
  call mpi_finalize(error)
end program
