//! The only crate that touches the kernel, and the only one with `unsafe`: BPF programs, /proc,
//! control groups, counters, signals, the start of the command.
//!
//! Reads one kernel source per module; emits the readings and events of `schema::event`. Knows
//! `schema` and no other crate of weigh. What does not work says why: as an error, or as the
//! status of a collector.
#![cfg_attr(test, allow(clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod allocation_count;
pub mod allowed;
pub mod call_filter;
pub mod calls;
pub mod cgroup;
pub mod clock;
pub mod code_pages;
pub mod collectors;
mod core_types;
pub mod cpu_limit;
mod cpu_waits;
pub mod daemonize;
pub mod delays;
pub mod fanotify;
mod features;
mod fentry_check;
pub mod file_flags;
pub mod file_watch;
pub mod follow;
pub mod footprint;
pub mod free_memory;
pub mod free_space;
pub mod gpu;
pub mod hardware;
pub mod host;
pub mod host_state;
pub mod inherited;
pub mod inspect;
pub mod io;
pub mod job;
mod job_error;
mod job_limits;
mod join;
pub mod kernel_types;
pub mod last_resort;
mod layout;
mod libbpf_log;
mod limit_watchdog;
mod loading;
mod map_sizing;
mod membership;
pub mod memory_reserve;
pub mod message;
pub mod mount_over;
pub mod node;
mod offers;
pub mod otlp;
pub mod pages;
mod perf;
pub mod poll;
pub mod preload;
pub mod process_detail;
pub mod process_list;
pub mod procfs;
pub mod profile;
pub mod ptrace;
mod reaped_io;
pub mod requirements;
mod resident_marks;
pub mod rusage;
mod secure_start;
pub mod session_watch;
mod shared_map;
pub mod signals;
mod socket_name;
mod spaces;
pub mod spawn;
pub mod standing_threads;
pub mod survivors;
mod table;
pub mod terminal;
pub mod throttling;
pub mod tools;
pub mod trace;
pub mod tracefs;

pub use weigh_parse::statsd;
