//! Follows the calls of programs in the kernel: what each costs in each part of it.
//!
//! Loads the programs of `bpf/calls.bpf.c` that the wanted subsystems need, attaches them, and reads
//! the table that they keep and the calls that they send. Refuses to start where the programs that
//! hold threads and time together do not load; what else a kernel lacks is named with its reason.

mod attaching;
mod availability;
mod change;
pub mod clients;
mod counting;
mod functions;
mod kernel_calls;
pub(crate) mod layout;
mod link;
mod links;
mod looking;
mod names;
mod on_demand;
mod overhead;
mod packet_demand;
mod page_registration;
mod program_names;
mod program_parts;
mod request;
mod selection;
pub mod shim;
mod thread_credentials;
mod under_way;
mod writeback;

pub use availability::INFO;
pub use counting::Counters;
pub use functions::{
    Border, BorderFunction, Functions, PartBoundaries, function_probes, probe_cost,
};
pub use kernel_calls::KernelCalls;
pub use names::{STORES, name};
pub use program_parts::ANYTHING;
pub use request::{Attached, CallsRequest, Telling};
pub use thread_credentials::ThreadCredentials;
