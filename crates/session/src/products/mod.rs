//! What is measured with the engine: a product has settings, sources and an outcome. It knows no command line, and
//! neither text nor files of its own: these are sinks of who calls it.

pub mod agent;
pub mod calls;
pub mod control;
mod groups;
pub mod io;
pub mod node;
pub mod rule_events;
pub mod rules;
pub mod run;
pub mod top;
pub mod trace;
