//! `weigh doctor`: which mechanisms work here, which do not, why, and what is lost without them.
//!
//! Reads what the trials of `weigh_session::doctor` found; emits a table, or JSON.
//!
//! Exit status: 0 if a job is followed exactly, in the kernel; 1 if by a mechanism that needs no
//! privileges and loses something; 125 if `weigh run` does not work at all.

mod kernel;

use std::process::ExitCode;

use weigh_schema::doctor::{DoctorReport, RunVerdict};
use weigh_session::doctor::{examine, io_overhead};
use weigh_session::products::run::convention_findings;
use weigh_show::Screen;
use weigh_show::doctor::{render, render_io, render_short};

use crate::show::{print, print_json, screen};
use weigh_arguments::{DoctorArguments, DoctorIoArguments, DoctorSubject};

/// Makes the trial and says what it found.
pub fn doctor(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    match &arguments.subject {
        Some(DoctorSubject::Kernel(kernel)) => return kernel::doctor(kernel),
        Some(DoctorSubject::Io(io)) => return doctor_io(io),
        None => {}
    }
    let conventions = convention_findings();
    let report = DoctorReport { conventions, ..examine() };
    if arguments.json {
        print_json(&(serde_json::to_string_pretty(&report)? + "\n"))?;
    } else {
        let Screen { columns, color, .. } = screen(&std::io::stdout(), 80);
        let render = if arguments.verbose { render } else { render_short };
        print(&render(&report, columns, color))?;
    }
    Ok(match report.run {
        RunVerdict::Exact => ExitCode::SUCCESS,
        RunVerdict::Reported | RunVerdict::Fallback => ExitCode::from(1),
        RunVerdict::Fails => ExitCode::from(crate::FAILED),
    })
}

/// `weigh doctor io`: what it costs here to see what is read and written.
fn doctor_io(arguments: &DoctorIoArguments) -> anyhow::Result<ExitCode> {
    let overhead = io_overhead()?;
    match arguments.json {
        true => print_json(&(serde_json::to_string_pretty(&overhead)? + "\n"))?,
        false => print(&render_io(&overhead))?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use weigh_session::doctor::{IO_MECHANISMS, collectors};

    use weigh_arguments::COLLECTORS;
    use weigh_session::products::run::Collector;

    #[test]
    fn each_collector_that_can_be_left_out_has_a_note() {
        for (_, name, _) in COLLECTORS.iter().filter(|(collector, ..)| *collector != Collector::Bpf)
        {
            assert!(collectors().any(|info| info.name == *name), "{name}");
        }
        for mechanism in ["processes", "preload", "poll"] {
            assert!(collectors().any(|info| info.name == mechanism), "{mechanism}");
        }
    }

    #[test]
    fn each_mechanism_of_weigh_io_is_tried() {
        let shown = weigh_arguments::IO_MECHANISMS.iter().filter(|(.., help)| !help.is_empty());
        let names: Vec<_> = shown.map(|(_, name, _)| *name).collect();
        let tried: Vec<_> = IO_MECHANISMS.iter().map(|mechanism| mechanism.name).collect();
        assert_eq!(names[1..], tried, "all but auto, in their order");
    }
}
