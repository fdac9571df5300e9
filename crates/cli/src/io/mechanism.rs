//! Who tells of a job's reads and writes: the best of the mechanisms that were asked for and work here.
//!
//! Emits one who is ready to follow; says on standard error why it is not a better one. Refuses if the
//! mechanism that the user named does not work.

use anyhow::{Context as _, bail};
use weigh_collect::io::{FollowIo, KernelIo, LibraryIo, Telling};
use weigh_collect::preload::why_blind_in;

use crate::arguments::{IoArguments, IoMechanism};

/// The library adds up in memory that it shares with weigh: there is no room in it for each call.
const ONLY_BPF: &str = "--calls: only --mechanism bpf tells of each call";

/// The first that works.
pub fn open(arguments: &IoArguments) -> anyhow::Result<Box<dyn FollowIo>> {
    let telling = if arguments.calls.is_some() { Telling::Each } else { Telling::Sums };
    match arguments.mechanism {
        IoMechanism::Bpf => Ok(Box::new(KernelIo::open(telling)?)),
        IoMechanism::Preload if telling == Telling::Each => bail!(ONLY_BPF),
        IoMechanism::Preload => {
            by_library(arguments).context("--mechanism preload does not work here")
        }
        IoMechanism::Auto => match KernelIo::open(telling) {
            Ok(kernel) => Ok(Box::new(kernel)),
            Err(error) if telling == Telling::Each => Err(error).context(ONLY_BPF),
            Err(error) if arguments.command.is_empty() => Err(error.into()),
            Err(error) => {
                let library = by_library(arguments).with_context(|| error.to_string())?;
                eprintln!(
                    "weigh: the kernel does not tell of reads and writes: {error}. By a library in the \
                     programs instead (preload)."
                );
                Ok(library)
            }
        },
    }
}

fn by_library(arguments: &IoArguments) -> anyhow::Result<Box<dyn FollowIo>> {
    let Some(command) = arguments.command.first() else {
        bail!("a process that runs already takes --mechanism bpf");
    };
    if let Some(why) = why_blind_in(command) {
        eprintln!("weigh: the library can not be in {}: {why}.", command.display());
    }
    Ok(Box::new(LibraryIo::open(command)?))
}
