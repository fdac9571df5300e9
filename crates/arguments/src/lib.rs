//! The command line, declared once: parser, help, man pages, completions and hints are derived from it.
//!
//! Reads the words of a command line; emits the arguments of a verb, and of them the settings of a product. Refuses what
//! cannot be meant. It opens no file, asks neither the environment nor the clock, and prints nothing.

#![cfg_attr(test, allow(clippy::expect_used, clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod agent;
mod calls;
mod choice;
pub mod completions;
mod control;
pub mod hints;
mod io;
mod live_values;
pub mod manual;
mod numbers;
mod others;
mod run;
mod serve;
mod settings;
mod status;
mod token;
mod trace;
mod verb;

pub use agent::{
    AgentCommandsArguments, AgentReadArguments, AgentSetArguments, AgentSocket,
    AgentStatusArguments, AgentUrlArguments, AgentVerb, PushArguments,
};
pub use calls::{CallsArguments, CallsMechanism, ExplainArguments};
pub use choice::Choice;
pub use control::{ControlArguments, ControlVerb};
pub use io::{IO_MECHANISMS, IoArguments, IoSubject, IoTelling, MountArguments, RunIoMechanism};
pub use live_values::{LiveValueArguments, MetricsPlace};
pub use others::{
    AgentArguments, DoctorArguments, DoctorIoArguments, DoctorSubject, ExportArguments,
    GenerateArguments, KernelArguments, ReportArguments, ShowArguments, TopArguments,
};
pub use run::{COLLECTORS, RunArguments};
pub use serve::{ServeArguments, TlsArguments};
pub use trace::{
    KEYS, PacketDirection, SynthesisArguments, TraceArguments, TraceAttachArguments, TraceCtl,
    TraceCtlArguments, TraceCtlBuffer, TraceListArguments, TracePacketsArguments,
    TraceReadArguments, TraceSubject,
};
pub use verb::{Arguments, ColorChoice, Verb};
