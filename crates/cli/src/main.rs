//! The `weigh` binary: arguments in, tables and progress out.
//!
//! Thin: it joins the collectors, the accounting, the recording and the page, and prints errors
//! once, with what was being done.

#![cfg_attr(test, allow(clippy::expect_used, clippy::unwrap_used))]
#![deny(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod agent;
mod calls;
mod control;
mod destination;
mod doctor;
mod explain;
mod export;
mod generate;
mod io;
mod live;
mod push;
mod regions;
mod rows_file;
mod run;
mod serve;
mod show;
mod terminal;
mod top;
mod trace;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;

use weigh_collect::memory_reserve::PatientAllocator;
use weigh_collect::spawn::{SignalMask, SpawnError};
use weigh_collect::{inherited, last_resort, message, notice, signals};
use weigh_schema::library::Followed;
use weigh_schema::printable::is_unprintable;

use weigh_arguments::{Arguments, GenerateArguments, Verb, hints};
use weigh_session::status_in_spite_of_error as status_of_command;
use weigh_session::{
    doctor as trials, in_full, local_agent, products, run_after_fault, run_unmeasured,
};

#[global_allocator]
static ALLOCATOR: PatientAllocator = PatientAllocator;

/// weigh's own failures, as `env`, `nohup` and `docker run` do.
const FAILED: u8 = 125;

/// Of a thread that does the work where the main thread has less.
const STACK_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    message::say_panics();
    let _finish = message::Finish;
    if let Some(command) = run::is_helper(std::env::args_os()) {
        // What the user's command inherits by it is as weigh was started.
        inherited::hear_of_children();
        return run::be_helper(&command);
    }
    if let Some(words) = trace::is_trigger_helper(std::env::args_os()) {
        inherited::hear_of_children();
        return trace::be_trigger_helper(&words);
    }
    inherited::settle();
    if !inherited::is_stack_small() {
        return work();
    }
    let worker = std::thread::Builder::new().name("weigh".into()).stack_size(STACK_BYTES);
    match worker.spawn(work) {
        Ok(worker) => {
            // Signals are the worker's.
            let _ = SignalMask::block(&signals::taken(true));
            worker.join().unwrap_or(ExitCode::from(FAILED))
        }
        Err(_) => work(),
    }
}

fn work() -> ExitCode {
    if local_agent::is_helper(std::env::args_os()) {
        return local_agent::be_helper();
    }
    if let Some(place) = trials::place_of_calls(std::env::args_os()) {
        return trials::be_caller(&place);
    }
    if products::calls::is_caller(std::env::args_os()) {
        return products::calls::be_caller();
    }
    match weigh_agent::is_session(std::env::args_os()) {
        Some((peer, Followed::Events)) => return trace::be_stream(peer),
        Some(session) => return weigh_agent::be_session(session),
        None => {}
    }
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "generate") {
        return generate(std::env::args_os().skip(1));
    }
    let words = hints::help_first(std::env::args_os().collect());
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error, &words),
    };
    show::choose_color(arguments.color);
    weigh_collect::delays::restore_abandoned();
    if let Some(command) = arguments.verb.command_to_run_anyway() {
        // What no exec can take is refused when the command is to be started.
        let _ = last_resort::prepare(command);
    }
    // A fault of weigh's own is no reason to lose the status of a command that has begun, or to leave it unrun.
    let outcome = catch_unwind(AssertUnwindSafe(|| execute(arguments.verb)));
    match outcome {
        Ok(Err(error)) => ended(run_unmeasured(error).map(not_executed)),
        Ok(outcome) => ended(outcome),
        Err(panic) => status_of_command()
            .or_else(|| run_after_fault().map(not_executed))
            .unwrap_or_else(|| resume_unwind(panic)),
    }
}

/// Not even in weigh's place.
fn not_executed(error: SpawnError) -> ExitCode {
    notice!("{error}");
    ExitCode::from(error.exit_status())
}

fn execute(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Run(run) => run::execute(*run),
        Verb::Calls(calls) => calls::execute(&calls),
        Verb::Trace(trace) => trace::execute(&trace),
        Verb::Io(io) => io::execute(&io),
        Verb::Explain(explain) => explain::execute(&explain),
        Verb::Show(show) => show::show(&show),
        Verb::Report(report) => show::report(&report),
        Verb::Export(wanted) => export::execute(&wanted),
        Verb::Control(control) => control::execute(&control),
        Verb::Doctor(doctor) => doctor::doctor(&doctor),
        Verb::Agent(agent) => agent::agent(&agent),
        Verb::Push(push) => push::execute(&push),
        Verb::Top(top) => top::execute(&top),
        Verb::Serve(serve) => serve::execute(&serve),
    }
}

/// For builds of weigh: `weigh generate DIR`.
fn generate(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = arguments.collect();
    match GenerateArguments::try_parse_from(&words) {
        Ok(arguments) => ended(generate::generate(&arguments)),
        Err(error) => refused(&error, &words),
    }
}

/// Help and version on standard output; what is wrong in one line, with what to type.
fn refused(error: &clap::Error, words: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as NoVerb;
    if error.use_stderr() && error.kind() != NoVerb {
        notice!("{}", hints::refusal_text(error, words, is_program));
        return ExitCode::from(FAILED);
    }
    // It repeats arguments as they are. Colours are for what steers no terminal without them.
    let is_plain = |argument: &OsString| !argument.to_string_lossy().contains(is_unprintable);
    let text = |color: bool| match color && words.iter().all(is_plain) {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    match error.use_stderr() {
        true => message::show(&text(show::color(&std::io::stderr()))),
        false => {
            let _ = show::print(&text(show::color(&std::io::stdout())));
        }
    }
    ExitCode::from(if error.use_stderr() { FAILED } else { 0 })
}

/// Whether that is a program: a path to one, or a name that is found as a shell finds it.
fn is_program(word: &str) -> bool {
    let is_one = |path: &Path| {
        path.metadata()
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if word.contains('/') {
        return is_one(Path::new(word));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| is_one(&folder.join(word)))
}

fn ended(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        Err(error) => {
            notice!("{}", in_full(&error));
            status_of_command().unwrap_or(ExitCode::from(FAILED))
        }
    }
}
