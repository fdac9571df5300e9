//! A large table that the kernel makes beforehand, which takes it as long as many programs: it is made by a thread, while
//! others load the programs that do without it.
//!
//! libbpf makes a table of one entry. The descriptor of the real one then takes that one's place, before any program that
//! refers to it is loaded.

use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::OnceLock;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{AsRawLibbpf as _, Error, libbpf_sys as sys};

/// `r = ` a value of 64 bits, or a map
const SET_WIDE: u8 = 0x18;

/// A table and the room that it is to have.
pub(crate) struct Large {
    pub(crate) name: &'static str,
    pub(crate) entries: u32,
}

/// The table in libbpf's object.
pub(super) struct Table {
    object: *mut sys::bpf_object,
    map: *mut sys::bpf_map,
    entries: u32,
    made: OnceLock<Result<(), c_int>>,
}

// SAFETY: the pointers are to what the object owns, and what is read of it does not change until all programs are loaded.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// None if the object has no such table.
    pub(super) fn of<S: OpenSkel<'static>>(open: &mut S, large: &Large) -> Option<Table> {
        let object = open.open_object_mut();
        let mut map = object.maps_mut().find(|map| map.name() == large.name)?;
        map.set_max_entries(1).ok()?;
        let map = map.as_libbpf_object().as_ptr();
        let object = object.as_libbpf_object().as_ptr();
        Some(Table { object, map, entries: large.entries, made: OnceLock::new() })
    }

    /// Whether instructions that libbpf has relocated refer to it.
    pub(super) fn is_used_by(&self, instructions: &[sys::bpf_insn]) -> bool {
        // SAFETY: the object is there.
        let descriptor = unsafe { sys::bpf_map__fd(self.map) };
        let is_reference = |i: &sys::bpf_insn| {
            let kind = u32::from(i.src_reg());
            i.code == SET_WIDE
                && [sys::BPF_PSEUDO_MAP_FD, sys::BPF_PSEUDO_MAP_VALUE].contains(&kind)
        };
        instructions.iter().any(|i| is_reference(i) && i.imm == descriptor)
    }

    /// Makes it, or waits until it is made.
    pub(super) fn make(&self) -> libbpf_rs::Result<()> {
        let made = self.made.get_or_init(|| {
            self.make_anew().map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL))
        });
        made.map_err(Error::from_raw_os_error)
    }

    fn make_anew(&self) -> io::Result<()> {
        // SAFETY: the object is there and its maps are made; a descriptor that is returned is new.
        unsafe {
            let options = sys::bpf_map_create_opts {
                sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
                btf_fd: sys::bpf_object__btf_fd(self.object).cast_unsigned(),
                btf_key_type_id: sys::bpf_map__btf_key_type_id(self.map),
                btf_value_type_id: sys::bpf_map__btf_value_type_id(self.map),
                map_flags: sys::bpf_map__map_flags(self.map),
                ..Default::default()
            };
            let name = CStr::from_ptr(sys::bpf_map__name(self.map));
            let made = sys::bpf_map_create(
                sys::bpf_map__type(self.map),
                name.as_ptr(),
                sys::bpf_map__key_size(self.map),
                sys::bpf_map__value_size(self.map),
                self.entries,
                &options,
            );
            if made < 0 {
                return Err(io::Error::from_raw_os_error(-made));
            }
            put_in_place_of(sys::bpf_map__fd(self.map), &OwnedFd::from_raw_fd(made))
        }
    }
}

/// What a descriptor stands for becomes what another one does.
///
/// # Safety
/// Nobody may rely on what it has stood for.
pub(super) unsafe fn put_in_place_of(descriptor: RawFd, other: &OwnedFd) -> io::Result<()> {
    // SAFETY: the caller vouches for it.
    match unsafe { libc::dup3(other.as_raw_fd(), descriptor, libc::O_CLOEXEC) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
