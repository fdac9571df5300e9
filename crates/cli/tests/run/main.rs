//! Tests of `weigh run`, `show` and their recordings.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod agent_node;
mod agent_profiles;
mod agent_rules;
mod agent_run;
mod allowed;
mod control;
mod conventions;
mod events;
mod files;
mod fixed_cost;
mod host;
mod joined;
mod limits;
mod mechanisms;
mod memory;
mod network;
mod otlp;
mod phases;
mod processes;
mod recording;
mod region_costs;
mod regions;
#[path = "../../../web/src/schema_check.rs"]
mod schema_check;
mod series;
mod serve;
mod serve_agent;
mod serve_export;
mod serve_tls;
mod signals;
mod spans;
mod syscalls;
mod terminal;
mod top;
mod unseen_sockets;
mod wakeups;
mod written;
