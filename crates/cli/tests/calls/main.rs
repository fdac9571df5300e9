//! Tests of `weigh calls`, `explain` and libweigh.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod accounts;
mod accuracy;
mod by_library;
mod by_part;
mod explain;
mod foreign;
mod functions;
mod libweigh;
mod libweigh_configured;
mod libweigh_parts;
mod libweigh_region_faces;
mod libweigh_regions;
mod libweigh_rust;
mod libweigh_started;
mod verified;
