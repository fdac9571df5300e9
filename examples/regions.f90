! The same in Fortran.
!
!   gfortran .../libweigh/fortran/weigh_region.f90 regions.f90 -o regions $(pkg-config --libs weigh)
program regions
  use, intrinsic :: iso_c_binding, only: c_double, c_int64_t
  use weigh_region
  implicit none
  integer(weigh_name), save :: iteration = 0, residual = 0
  integer(c_int64_t) :: i

  call region_metadata('input', 'case-7')
  do i = 0, 9
    call phase_begin('iteration', iteration, i)
    call solve(4096_c_int64_t)
    call region_event('residual', residual, 1 / real(i + 1, c_double))
    call region_publish()
    call phase_end(iteration)
  end do
  print '(a)', 'done'

contains

  subroutine exchange()
    integer(weigh_name), save :: name = 0

    call region_begin('exchange', name)
    call region_end(name)
  end subroutine

  subroutine solve(cells)
    integer(c_int64_t), intent(in) :: cells
    integer(weigh_name), save :: name = 0, counter = 0

    call region_begin('solve', name)
    call exchange()
    call region_count('cells', counter, cells)
    call region_end(name)
  end subroutine
end program
