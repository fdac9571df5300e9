! SPDX-License-Identifier: Apache-2.0 OR MIT
! MPI by the module mpi_f08 on two ranks: rank 0 prints what was done.
program mpi_f08_calls
  use mpi_f08
  implicit none
  integer :: rank, i, there(1000), here(1000), total
  type(MPI_Request) :: both(2)
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  total = 0
  do i = 1, 23
    if (rank == 0) call MPI_Send(there, 100 + i, MPI_INTEGER, 1, 7, MPI_COMM_WORLD)
    if (rank == 1) call MPI_Recv(here, 1000, MPI_INTEGER, 0, 7, MPI_COMM_WORLD, status)
    call MPI_Irecv(here, 1000, MPI_INTEGER, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, both(1))
    call MPI_Isend(there, 10 + i, MPI_INTEGER, 1 - rank, 8, MPI_COMM_WORLD, both(2))
    call MPI_Waitall(2, both, MPI_STATUSES_IGNORE)
    total = total + 4 * (10 + i)
  end do
  call MPI_Allreduce(there, here, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) then
    print '(a)', 'calls 2 MPI_Init', 'calls 23 MPI_Send', 'sum 10304 MPI_Send bytes', 'calls 23 MPI_Recv'
    print '(a)', 'sum 10304 MPI_Recv bytes', 'calls 46 MPI_Irecv', 'calls 46 MPI_Waitall', 'sum 24 MPI_Allreduce bytes'
    print '(a,i0,a)', 'sum ', 2 * total, ' MPI_Irecv bytes'
    print '(a,i0,a)', 'sum ', total, ' MPI from rank 1 bytes'
    print '(a)', 'calls 2 MPI_Finalize'
  end if
  call MPI_Finalize()
end program
