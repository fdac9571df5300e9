! SPDX-License-Identifier: Apache-2.0 OR MIT
! Prints what it is sent, until that is `end`; then a range that another procedure ends.
program controlled
  use, intrinsic :: iso_c_binding, only: c_double, c_int64_t
  use weigh_region
  implicit none
  integer(weigh_name), save :: step = 0, overlapping = 0
  integer(c_int64_t) :: range
  integer :: kind
  real(c_double) :: number
  character(len=16) :: key
  character(len=8) :: text

  range = range_begin('overlapping', overlapping)
  do
    call region_begin('step', step)
    call region_end(step)
    if (.not. region_poll_control(kind, number, key, text)) cycle
    print '(i0, 1x, f0.2, 5a)', kind, number, ' [', trim(key), '] [', trim(text), ']'
    if (key == 'end') exit
  end do
  call range_end(range)
end program
