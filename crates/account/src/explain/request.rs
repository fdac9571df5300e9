//! A request to explain calls, and the two readings that answer it.
//!
//! Reads rows of calls, by a function that can be called again; emits a report. Refuses names of calls, and tokens, that no
//! row has, and intervals where there are none.

use std::collections::BTreeSet;
use std::fmt;

use weigh_schema::amount::show_number_of;
use weigh_schema::call_row::CallRow;
use weigh_schema::explain::{AskedToken, ExplainReport, INTERVAL, Of, SlowRule};
use weigh_schema::nearest;

use super::compare::{FollowedCommand, Missing};
use super::intervals::Intervals;
use super::survey::Survey;

/// What is to be compared.
#[derive(Clone, Copy, Debug)]
pub struct ExplainRequest<'a> {
    /// Calls or intervals.
    pub of: Of,
    /// These calls alone; empty: all.
    pub calls: &'a [String],
    /// The intervals of these tokens with all others.
    pub tokens: &'a [AskedToken],
    /// Which calls are slow.
    pub slow: SlowRule,
}

/// Hands out all calls, each time it is called.
pub type CallReader<'a, E> = &'a dyn Fn(&mut dyn FnMut(CallRow)) -> Result<(), E>;

/// Why there is nothing to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NothingToExplain {
    /// No call has that name.
    NoCall {
        /// The name.
        name: String,
        /// One like it.
        near: Option<String>,
    },
    /// No call is of an interval.
    NoIntervals,
    /// No interval is of that token.
    NoToken {
        /// The token.
        token: AskedToken,
        /// Intervals of others: they say whether it is the right file.
        intervals: u64,
        /// How many tokens they are of.
        tokens: u64,
    },
}

/// What a file of calls does: `holds no call named 'fsnyc'; did you mean fsync?`
impl fmt::Display for NothingToExplain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NothingToExplain::NoCall { name, near } => {
                write!(f, "holds no call named '{name}'")?;
                near.iter().try_for_each(|near| write!(f, "; did you mean {near}?"))
            }
            NothingToExplain::NoIntervals => f.write_str(
                "holds no intervals: no call was made between weigh_begin() and weigh_end() of \
                 libweigh; --by call compares single calls",
            ),
            NothingToExplain::NoToken { token, intervals, tokens } => write!(
                f,
                "holds no interval of {token}: it has {} of {}",
                Of::Interval.number(*intervals),
                show_number_of(*tokens, "token", "tokens")
            ),
        }
    }
}

impl std::error::Error for NothingToExplain {}

/// Answers a request, by two readings; `missing` is what the rows do not hold.
pub fn explain<E>(
    request: &ExplainRequest<'_>,
    followed: FollowedCommand,
    missing: Missing,
    read: CallReader<'_, E>,
) -> Result<Result<ExplainReport, NothingToExplain>, E> {
    let mut survey = Survey::asked_for(request.tokens);
    let kinds = match request.of {
        Of::Call => survey_calls(request.calls, &mut survey, read)?,
        Of::Interval | Of::Token => survey_intervals(request.of, &mut survey, read)?,
    };
    let kinds = match kinds {
        Ok(kinds) => kinds,
        Err(nothing) => return Ok(Err(nothing)),
    };
    let mut comparison = survey.compare(request.slow);
    each(read, request.of, |row| {
        if kinds.contains(&row.call) {
            comparison.add(&row);
        }
    })?;
    Ok(Ok(comparison.report(request.of, followed, missing)))
}

/// Hands out all calls, or all intervals.
fn each<E>(read: CallReader<'_, E>, of: Of, mut visit: impl FnMut(CallRow)) -> Result<(), E> {
    let mut intervals = Intervals::new(of);
    read(&mut |row| {
        if let Some(row) = intervals.add(row) {
            visit(row);
        }
    })?;
    intervals.rest().for_each(visit);
    Ok(())
}

/// The kinds of calls that are asked for.
fn survey_calls<E>(
    calls: &[String],
    survey: &mut Survey,
    read: CallReader<'_, E>,
) -> Result<Result<BTreeSet<String>, NothingToExplain>, E> {
    let is_asked = |call: &String| calls.is_empty() || calls.contains(call);
    let (mut found, mut others) = (BTreeSet::new(), BTreeSet::new());
    each(read, Of::Call, |row| {
        let of_kind = if is_asked(&row.call) {
            survey.add(&row);
            &mut found
        } else {
            &mut others
        };
        if !of_kind.contains(&row.call) {
            of_kind.insert(row.call);
        }
    })?;
    let Some(name) = calls.iter().find(|call| !found.contains(*call)).cloned() else {
        return Ok(Ok(found));
    };
    let known = others.iter().chain(&found).map(String::as_str);
    let near = nearest(&name, known).first().map(|near| near.to_string());
    Ok(Err(NothingToExplain::NoCall { name, near }))
}

fn survey_intervals<E>(
    of: Of,
    survey: &mut Survey,
    read: CallReader<'_, E>,
) -> Result<Result<BTreeSet<String>, NothingToExplain>, E> {
    let mut is_any = false;
    each(read, of, |row| {
        is_any = true;
        survey.add(&row);
    })?;
    if !is_any {
        return Ok(Err(NothingToExplain::NoIntervals));
    }
    match survey.unfound() {
        Some(token) => Ok(Err(no_token(token.clone(), read)?)),
        None => Ok(Ok(BTreeSet::from([INTERVAL.to_string()]))),
    }
}

fn no_token<E>(token: AskedToken, read: CallReader<'_, E>) -> Result<NothingToExplain, E> {
    let (mut intervals, mut tokens) = (0, BTreeSet::new());
    each(read, Of::Interval, |row| {
        intervals += 1;
        tokens.extend(row.interval.map(|interval| interval.token));
    })?;
    Ok(NothingToExplain::NoToken { token, intervals, tokens: tokens.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(of: Of, calls: &[String], tokens: &[AskedToken]) -> Result<ExplainReport, String> {
        let read = |visit: &mut dyn FnMut(CallRow)| {
            for call in ["fsync", "read"] {
                visit(CallRow { call: call.to_string(), ..CallRow::default() });
            }
            Ok::<(), ()>(())
        };
        let request = ExplainRequest { of, calls, tokens, slow: SlowRule::Share(0.01) };
        let followed = FollowedCommand { words: "a command".to_string(), base64: None };
        let answer = explain(&request, followed, Missing::default(), &read);
        answer.unwrap().map_err(|nothing| nothing.to_string())
    }

    #[test]
    fn a_name_that_no_call_has_is_refused_with_one_like_it() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let report = answer(Of::Call, &names(&["read"]), &[]).unwrap();
        assert_eq!((report.calls_total, report.kinds.len()), (1, 1));
        assert_eq!(report.command, "a command");
        let refusal = answer(Of::Call, &names(&["fsnyc"]), &[]).unwrap_err();
        assert_eq!(refusal, "holds no call named 'fsnyc'; did you mean fsync?");
    }

    #[test]
    fn where_no_call_is_of_an_interval_there_is_none_to_explain() {
        let refusal = answer(Of::Interval, &[], &[]).unwrap_err();
        assert!(refusal.starts_with("holds no intervals: "), "{refusal}");
    }
}
