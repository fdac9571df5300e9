! SPDX-License-Identifier: Apache-2.0 OR MIT
!
! Regions for Fortran. Compile this file with the program, and link libweigh (-lweigh).
!
!   use weigh_region
!   integer(weigh_name), save :: solve = 0
!
!   call region_begin('solve', solve)
!   ...
!   call region_end(solve)
!
! The integer keeps the number of the name: one for each place in the source. What each procedure does stands in
! weigh_region.h. Blanks at the end of a text are none of it.
module weigh_region
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, c_null_char, c_size_t
  implicit none
  private

  integer, parameter, public :: weigh_name = c_int32_t

  public :: region_begin, region_end, phase_begin, phase_end, region_count, region_gauge, region_event
  public :: region_metadata, region_publish, region_publish_every, region_poll_control
  public :: range_begin, range_end

  type, bind(C) :: c_control
    integer(c_int64_t) :: kind
    real(c_double) :: number
    character(kind=c_char) :: key(65)
    character(kind=c_char) :: text(169)
  end type

  interface
    function c_name_of(text, length) bind(C, name='weigh_region_name_of') result(name)
      import :: c_char, c_int32_t, c_size_t
      character(kind=c_char), intent(in) :: text(*)
      integer(c_size_t), value :: length
      integer(c_int32_t) :: name
    end function
    subroutine c_region_begin(name) bind(C, name='weigh_region_begin')
      import :: c_int32_t
      integer(c_int32_t), value :: name
    end subroutine
    subroutine region_end(name) bind(C, name='weigh_region_end')
      import :: c_int32_t
      integer(c_int32_t), value :: name
    end subroutine
    subroutine c_phase_begin(name, iteration) bind(C, name='weigh_phase_begin')
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: name
      integer(c_int64_t), value :: iteration
    end subroutine
    subroutine phase_end(name) bind(C, name='weigh_phase_end')
      import :: c_int32_t
      integer(c_int32_t), value :: name
    end subroutine
    subroutine c_counter_add(name, number) bind(C, name='weigh_counter_add')
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: name
      integer(c_int64_t), value :: number
    end subroutine
    subroutine c_gauge_set(name, number) bind(C, name='weigh_gauge_set')
      import :: c_double, c_int32_t
      integer(c_int32_t), value :: name
      real(c_double), value :: number
    end subroutine
    subroutine c_event_tell(name, number) bind(C, name='weigh_event_tell')
      import :: c_double, c_int32_t
      integer(c_int32_t), value :: name
      real(c_double), value :: number
    end subroutine
    subroutine c_metadata(key, text) bind(C, name='weigh_metadata')
      import :: c_char
      character(kind=c_char), intent(in) :: key(*), text(*)
    end subroutine
    subroutine region_publish() bind(C, name='weigh_publish')
    end subroutine
    function c_range_begin(name) bind(C, name='weigh_range_begin') result(range)
      import :: c_int32_t, c_int64_t
      integer(c_int32_t), value :: name
      integer(c_int64_t) :: range
    end function
    subroutine range_end(range) bind(C, name='weigh_range_end')
      import :: c_int64_t
      integer(c_int64_t), value :: range
    end subroutine
    function c_poll_control(control) bind(C, name='weigh_poll_control_') result(found)
      import :: c_control, c_int
      type(c_control), intent(out) :: control
      integer(c_int) :: found
    end function
    subroutine region_publish_every(seconds, phase, iterations) bind(C, name='weigh_publish_every')
      import :: c_double, c_int32_t, c_int64_t
      real(c_double), value :: seconds
      integer(c_int32_t), value :: phase
      integer(c_int64_t), value :: iterations
    end subroutine
  end interface

contains

  subroutine find(text, name)
    character(len=*), intent(in) :: text
    integer(weigh_name), intent(inout) :: name

    if (name == 0) name = c_name_of(text, len_trim(text, c_size_t))
  end subroutine

  subroutine region_begin(text, name)
    character(len=*), intent(in) :: text
    integer(weigh_name), intent(inout) :: name

    call find(text, name)
    call c_region_begin(name)
  end subroutine

  subroutine phase_begin(text, name, iteration)
    character(len=*), intent(in) :: text
    integer(weigh_name), intent(inout) :: name
    integer(c_int64_t), intent(in) :: iteration

    call find(text, name)
    call c_phase_begin(name, iteration)
  end subroutine

  subroutine region_count(text, name, number)
    character(len=*), intent(in) :: text
    integer(weigh_name), intent(inout) :: name
    integer(c_int64_t), intent(in) :: number

    call find(text, name)
    call c_counter_add(name, number)
  end subroutine

  subroutine region_gauge(text, name, number)
    character(len=*), intent(in) :: text
    integer(weigh_name), intent(inout) :: name
    real(c_double), intent(in) :: number

    call find(text, name)
    call c_gauge_set(name, number)
  end subroutine

  subroutine region_event(text, name, number)
    character(len=*), intent(in) :: text
    integer(weigh_name), intent(inout) :: name
    real(c_double), intent(in) :: number

    call find(text, name)
    call c_event_tell(name, number)
  end subroutine

  ! It may end on another thread.
  function range_begin(text, name) result(range)
    character(len=*), intent(in) :: text
    integer(weigh_name), intent(inout) :: name
    integer(c_int64_t) :: range

    call find(text, name)
    range = c_range_begin(name)
  end function

  ! Whether a client has sent something, oldest first: kind 1 is a value under a key of the program's own, as a number and
  ! as a text. Of longer texts than there is room for the beginning is given.
  function region_poll_control(kind, number, key, text) result(found)
    integer, intent(out) :: kind
    real(c_double), intent(out) :: number
    character(len=*), intent(out) :: key, text
    logical :: found
    type(c_control) :: control

    kind = 0
    number = 0
    key = ''
    text = ''
    found = c_poll_control(control) /= 0
    if (.not. found) return
    kind = int(control%kind)
    number = control%number
    call copy(control%key, key)
    call copy(control%text, text)
  end function

  subroutine copy(from, to)
    character(kind=c_char), intent(in) :: from(:)
    character(len=*), intent(out) :: to
    integer :: i

    to = ''
    do i = 1, min(size(from), len(to))
      if (from(i) == c_null_char) exit
      to(i:i) = from(i)
    end do
  end subroutine

  subroutine region_metadata(key, text)
    character(len=*), intent(in) :: key, text

    call c_metadata(trim(key)//c_null_char, trim(text)//c_null_char)
  end subroutine
end module
