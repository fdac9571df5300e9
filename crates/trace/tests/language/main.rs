//! What events, filters and syntheses ask for, and the programs that are made of it.
#![allow(clippy::unwrap_used)]

mod any_text;
mod btf_types;
mod executable;
mod packets;
mod synthesis;
mod types;
