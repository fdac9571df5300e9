//! What a probe of a function costs on this machine, tried out.
//!
//! Makes a call that does next to nothing, as it is, with probes at the entry and the return of its
//! function, and the same as a thread that is followed; emits the differences. While that goes on the
//! kernel side learns where on the stack this kernel tells of returns. Refuses where the call has no
//! function of its own that can be probed.

use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use libbpf_rs::skel::OpenSkel as _;
use libbpf_rs::{MapCore as _, MapFlags};
use rustix::process::PidfdFlags;
use weigh_schema::call::ProbeCost;
use weigh_schema::subsystem::Subsystem;

use super::Functions;
use super::attach::{ProbeMethod, Programs, attach_place};
use super::recipe::{self, Recipe};
use crate::calls::layout::{self, skeleton};
use crate::calls::link::Link;
use crate::calls::program_names::{ALWAYS, MANY, OWN};
use crate::offers::Offers;
use crate::{core_types, libbpf_log, loading, requirements};

/// The function of a call that does nothing but this.
const TRIED: &str =
    if cfg!(target_arch = "aarch64") { "__arm64_sys_getppid" } else { "__x64_sys_getppid" };

/// Of so many rounds the median is taken.
const ROUNDS: usize = 9;
const CALLS: u32 = 64;

/// What a probe costs on this machine, tried out by itself; nothing stays attached.
pub fn probe_cost() -> Result<ProbeCost, String> {
    super::function_probes()?;
    requirements::check().map_err(|error| error.to_string())?;
    libbpf_log::collect();
    let functions = Functions::of_trial();
    let kernel = core_types::of_this_kernel();
    let offers = Offers::new(&kernel);
    let builder = skeleton::CallsSkelBuilder::default();
    let opened = loading::open(builder, &skeleton::DATA, &offers);
    let (_types, mut open) = opened.map_err(|error| error.to_string())?;
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(name.starts_with(OWN) && (functions.many || !name.ends_with(MANY)));
    }
    let mut skeleton = loading::load(open, &offers).map_err(|error| error.to_string())?;
    let unknown = || "it cannot be tried by this thread".to_string();
    functions.try_out(&mut skeleton)?.cost().ok_or_else(unknown)
}

/// The probes of the trial: held while it lasts.
pub(super) struct Trial {
    without: Duration,
    _links: Vec<Link>,
}

impl Trial {
    /// Attaches, at which it turns out whether the kernel allows it.
    pub(super) fn begin(
        skeleton: &mut skeleton::CallsSkel<'static>,
        programs: &Programs,
        way: &ProbeMethod,
    ) -> Result<Trial, String> {
        // Whatever is asked for: this one is.
        let part = Subsystem::named(ALWAYS).map_or(0, Subsystem::index) as u32;
        let recipe = Recipe { bounds: true, tries: true, part, ..Recipe::default() };
        let bytes = recipe::bytes(&recipe);
        // No function at a border gets that far.
        let last = skeleton.maps.recipes.max_entries() - 1;
        let put = skeleton.maps.recipes.update(&last.to_ne_bytes(), &bytes, MapFlags::ANY);
        put.map_err(|error| error.to_string())?;
        if let Some(variables) = skeleton.maps.bss_data.as_deref_mut() {
            variables.trier = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        }
        let without = round_of_many();
        let links = attach_place(programs, way, (TRIED, 0), true, u64::from(last))?;
        Ok(Trial { without, _links: links })
    }

    /// Makes the calls; nothing if only the price for others can be tried, as by a thread that is not
    /// its process's first.
    pub(super) fn cost(&self, skeleton: &skeleton::CallsSkel<'static>) -> Option<ProbeCost> {
        let process = rustix::process::getpid();
        if rustix::thread::gettid() != process {
            return None;
        }
        let others = round_of_many();
        let this = rustix::process::pidfd_open(process, PidfdFlags::empty()).ok()?;
        let key = this.as_raw_fd().to_ne_bytes();
        let windows = &skeleton.maps.members;
        windows.update(&key, &layout::inside(), MapFlags::ANY).ok()?;
        let followed = round_of_many();
        windows.delete(&key).ok()?;
        let more =
            |time: Duration| time.saturating_sub(self.without).as_secs_f64() / f64::from(CALLS);
        Some(ProbeCost { followed_seconds: more(followed), others_seconds: more(others) })
    }
}

/// How long some of the calls take.
fn round_of_many() -> Duration {
    let mut rounds = [Duration::ZERO; ROUNDS];
    for round in &mut rounds {
        let began = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(rustix::process::getppid());
        }
        *round = began.elapsed();
    }
    rounds.sort_unstable();
    rounds[ROUNDS / 2]
}
