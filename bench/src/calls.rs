//! What a single call costs under each tool: small blocks are read and written, and nothing is.

use anyhow::Result;

use crate::overhead::copying;
use crate::page::{Page, Table};
use crate::rounds::{Length, Rounds, alternate};
use crate::runs::{Arm, Bench};
use crate::spread::Spread;
use crate::tools::{Tool, Tools};

/// A way that takes more microseconds than that for a call is not asked to copy a whole GiB.
const SLOW_CALL: f64 = 5.0;

/// What a call costs under each tool.
#[derive(Default)]
pub struct Calls {
    added: Vec<(Tool, Option<Call>)>,
    rounds: usize,
}

/// By how many microseconds a call takes longer.
struct Call {
    cpu: Spread,
    wall: Spread,
    /// CPU of the tool itself too, beyond what it takes to start and to end.
    all_cpu: f64,
}

/// Blocks that are copied to see what a call costs, each by two calls.
const BLOCKS: u32 = 16_384;

fn microseconds_a_call(seconds: f64) -> f64 {
    seconds * 1e6 / (2.0 * f64::from(BLOCKS))
}

impl Calls {
    /// Reads and writes 64 MiB by 4 KiB under each tool, and nothing.
    pub fn measure(bench: &Bench, tools: &Tools) -> Result<Calls> {
        eprintln!("overhead: calls");
        let tools = tools.all();
        let arms: Vec<Arm> =
            std::iter::once(Arm::Bare).chain(tools.iter().map(Tool::arm)).collect();
        let run = |blocks, seconds| {
            let length = bench.length(Length { least: 3, most: 9, seconds });
            alternate(bench, &arms, (&copying(blocks), 1), length)
        };
        let (rounds, none) = (run(BLOCKS, 25)?, run(0, 15)?);
        let call = |arm| {
            let each = |spread: Spread| spread.times(microseconds_a_call(1.0));
            let all = |rounds: &Rounds| Some(rounds.added(arm, |run| run.all.cpu)?.median);
            Some(Call {
                cpu: each(rounds.added(arm, |run| run.command.cpu)?),
                wall: each(rounds.added(arm, |run| run.command.wall)?),
                all_cpu: microseconds_a_call(all(&rounds)? - all(&none)?),
            })
        };
        let added = tools.into_iter().enumerate().map(|(index, tool)| (tool, call(index + 1)));
        Ok(Calls { added: added.collect(), rounds: rounds.count() })
    }

    /// The microseconds of a call under a tool, if it takes too long for a whole GiB.
    pub fn slow(&self, tool: &Tool) -> Option<f64> {
        let (_, added) = self.added.iter().find(|(other, _)| other.name() == tool.name())?;
        let wall = &added.as_ref()?.wall;
        // The least, for other load only adds to it.
        (wall.least > SLOW_CALL).then_some(wall.median)
    }

    /// The table.
    pub fn write(&self, page: &mut Page) {
        page.heading(2, "A call");
        page.paragraph(&format!(
            "By how many microseconds a read or write of 4 KiB takes longer: 64 MiB from /dev/zero \
             to /dev/null, {} rounds. The last column has the CPU time of the tool too, less what it \
             takes when nothing is copied. A tool that takes more than {SLOW_CALL} µs is not asked \
             to do a whole GiB above and below.",
            self.rounds
        ));
        let mut table = Table::new([
            "tool",
            "wall",
            "least … greatest",
            "CPU of the command",
            "least … greatest",
            "CPU of both",
        ]);
        for (tool, added) in &self.added {
            let cells = |spread: &Spread| {
                [
                    format!("{:+.2} µs", spread.median),
                    format!("{:+.2} … {:+.2}", spread.least, spread.greatest),
                ]
            };
            let cells = match added {
                Some(call) => {
                    let all = vec![format!("{:+.2} µs", call.all_cpu)];
                    [cells(&call.wall).to_vec(), cells(&call.cpu).to_vec(), all].concat()
                }
                None => vec!["failed".into(), "–".into(), "–".into(), "–".into(), "–".into()],
            };
            table.row([vec![tool.name()], cells].concat());
        }
        page.table(&table);
    }
}
