//! Tests of `weigh io`, of files in recordings, and of `weigh io mount`.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod agent_io;
mod ahead;
mod beside_traced;
mod calls;
mod command;
mod counts;
mod device;
mod doctor_io;
mod everybody;
mod files;
mod mixed;
mod mount;
mod names;
mod recorded;
mod rootless;
mod run_traced;
mod short_words;
mod stacked;
mod states;
mod subjects;
mod terminal;
mod traced;
mod truth;
