//! Whose events are wanted: a command's, or a process's, and of all that descends from it. See
//! `bpf/trace.bpf.c`.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use libbpf_rs::Link;
use weigh_schema::membership::Stage;

use crate::core_types::{self, follow_types};
use crate::job::{JobError, bpf};
use crate::loading;
use crate::membership;
use crate::offers::Offers;

/// The generated skeleton.
#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks, clippy::unwrap_used)]
#[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_patterns)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/trace.skel.rs"));
}

/// The threads that are followed.
pub(super) struct Members {
    skeleton: skeleton::TraceSkel<'static>,
    _links: Vec<Link>,
}

impl Members {
    /// Attaches what follows forks, execs and ends.
    pub(super) fn open() -> Result<Members, JobError> {
        let kernel = core_types::of_this_kernel();
        let offers = Offers::new(&kernel);
        let builder = skeleton::TraceSkelBuilder::default();
        let (_types, mut open) =
            loading::open(builder, &skeleton::DATA, &offers).map_err(bpf("open"))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            follow_types!(constants, offers, [task_struct]);
        }
        open.progs.member__join.set_autoload(true);
        let skeleton = loading::load(open, &offers).map_err(bpf("load"))?;
        let programs = &skeleton.progs;
        let links = [&programs.member__fork, &programs.member__exec, &programs.member__exit]
            .into_iter()
            .map(|program| program.attach().map_err(bpf("attach")))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Members { skeleton, _links: links })
    }

    /// The storage that programs look into.
    pub(super) fn descriptor(&self) -> i32 {
        self.skeleton.maps.members.as_fd().as_raw_fd()
    }

    pub(super) fn arm(&self, pidfd: BorrowedFd<'_>) -> Result<(), JobError> {
        let armed = Stage::Armed.number().to_ne_bytes();
        membership::arm(&self.skeleton.maps.members, pidfd, &armed)
    }

    pub(super) fn join(&self, pid: u32) -> Result<(), JobError> {
        membership::take_in(&self.skeleton.progs.member__join, pid, || self.total())
    }

    pub(super) fn has(&self, pid: u32) -> bool {
        let stage = membership::entry_of(&self.skeleton.maps.members, pid);
        stage.is_some_and(|stage| stage == Stage::Member.number().to_ne_bytes())
    }

    pub(super) fn living(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |counts| counts.living)
    }

    fn total(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |counts| counts.total)
    }

    pub(super) fn lost(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |counts| counts.lost)
    }
}
