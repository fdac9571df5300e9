//! Tests of `weigh trace`.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod agent;
mod clients;
mod ctl;
mod damage;
mod end;
mod formats;
mod growth;
mod into_buffers;
mod live_values;
mod machine;
mod packet_filters;
mod read;
mod stream;
mod synthesis;
mod user;
