//! The requests: what the kernel asks for is done with the folder below, by descriptors.
//!
//! The kernel has checked the caller's permissions already (`default_permissions`). Locks are the kernel's own,
//! among the users of the mount.

mod answer;
mod attributes;
mod data;
mod directories;
mod kernel;
mod listing;
mod names;
mod served;
mod settings;

pub use served::{Served, Sight, State};
pub use settings::{Control, MountRequest};

#[cfg(test)]
mod tests;
