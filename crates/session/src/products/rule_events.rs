//! Runs the commands of rules in a process apart from the agent: it reads the agent's stream `events`, and needs no rights.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use weigh_account::rules::RuleSet;
use weigh_agent::{StreamClient, StreamError};
use weigh_collect::notice;
use weigh_schema::rule::RuleEvent;
use weigh_schema::stream::{EVENTS, RecordBody, StreamRead, StreamRecords};

use super::rules::{CommandSettings, RuleCommands};

/// The first pause before an agent that has gone is asked again; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Bytes of events that are taken at once.
const AT_MOST_BYTES: u64 = 1 << 18;

/// Runs the commands of these rules for the events of the agent at a socket, for ever. Errors: no rule has a command; no
/// threads are left.
pub fn run_commands(socket: &Path, rules: &RuleSet) -> anyhow::Result<()> {
    let commands = RuleCommands::start(rules.rules(), CommandSettings::default());
    let commands = commands.context("cannot start a thread for the commands of rules")?;
    let commands = commands.context("no rule of the file has a command")?;
    let mut position = Position::default();
    let mut pause = FIRST_PAUSE;
    loop {
        let read = StreamClient::connect(socket).and_then(|client| {
            pause = FIRST_PAUSE;
            position.follow(&client, &mut |event| commands.take(&event))
        });
        let Err(error) = read;
        notice!("no events: {error}; the agent is asked again in {} s", pause.as_secs_f64());
        std::thread::sleep(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// How far the events were read.
#[derive(Default)]
struct Position {
    next_sequence: u64,
    /// Of which numbering; none before the first look.
    numbering_ns: Option<u64>,
}

impl Position {
    /// Until the agent has gone.
    fn follow(
        &mut self,
        client: &StreamClient,
        take: &mut dyn FnMut(RuleEvent),
    ) -> Result<std::convert::Infallible, StreamError> {
        loop {
            let records = client.read(self.read())?;
            if !self.take(&records) {
                continue;
            }
            if records.lost > 0 {
                notice!("{} events were missed", records.lost);
            }
            records.records.into_iter().for_each(|record| {
                if let RecordBody::Event(event) = record.body {
                    take(*event);
                }
            });
        }
    }

    fn read(&self) -> StreamRead {
        let is_first = self.numbering_ns.is_none();
        StreamRead {
            stream: EVENTS.to_string(),
            from_sequence: self.next_sequence,
            at_most_bytes: AT_MOST_BYTES,
            newest: is_first,
            wait: !is_first,
            interval_ms: None,
        }
    }

    /// Goes on behind these; of another numbering all are new. Whether they are the next ones: what was there before the
    /// first look is old.
    fn take(&mut self, records: &StreamRecords) -> bool {
        let known = self.numbering_ns.replace(records.numbering_ns);
        let is_next = known == Some(records.numbering_ns);
        let is_other = known.is_some() && !is_next;
        self.next_sequence = if is_other { 0 } else { records.next_sequence };
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_where_it_was_and_begins_anew_with_a_new_agent() {
        let records = |next_sequence, numbering_ns| StreamRecords {
            next_sequence,
            numbering_ns,
            ..StreamRecords::default()
        };
        let mut position = Position::default();
        assert!(!position.take(&records(17, 1)), "what was there before it is old");
        assert_eq!((position.read().from_sequence, position.read().wait), (17, true));
        assert!(position.take(&records(19, 1)));
        assert_eq!(position.read().from_sequence, 19);
        assert!(!position.take(&records(25, 2)), "there may be some before them");
        assert_eq!(position.read().from_sequence, 0, "all of the new agent's are new");
        assert!(position.take(&records(25, 2)));
        assert_eq!(position.read().from_sequence, 25);
    }
}
