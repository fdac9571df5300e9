//! `weigh push`: publishes values, or an event, over the agent's socket.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use weigh_agent::{StreamClient, StreamRequest};
use weigh_schema::stream::{MOST_PUSHED, PushedEvent, PushedSample};

use crate::agent::socket;
use weigh_arguments::PushArguments;

/// Publishes all values, or none.
pub fn execute(arguments: &PushArguments) -> anyhow::Result<ExitCode> {
    if arguments.values.len() > MOST_PUSHED {
        bail!("{} values: at most {MOST_PUSHED} are taken at once", arguments.values.len());
    }
    let client = || StreamClient::connect(&socket(&arguments.at));
    if let Some((name, text)) = &arguments.event {
        let event = PushedEvent {
            scope: arguments.scope.clone().into(),
            name: name.clone(),
            severity: arguments.severity,
            text: text.clone(),
        };
        event.check().map_err(anyhow::Error::msg)?;
        client()?.send(&StreamRequest::PushEvent(event)).context("nothing was published")?;
        return Ok(ExitCode::SUCCESS);
    }
    let samples: Vec<PushedSample> =
        arguments.values.iter().map(|v| sample(v, arguments)).collect();
    // What the agent would refuse is said without it.
    samples.iter().try_for_each(PushedSample::check).map_err(anyhow::Error::msg)?;
    client()?.send(&StreamRequest::Push(samples)).context("nothing was published")?;
    Ok(ExitCode::SUCCESS)
}

fn sample((metric, value): &(String, f64), arguments: &PushArguments) -> PushedSample {
    PushedSample {
        scope: arguments.scope.clone().into(),
        metric: metric.clone(),
        value: *value,
        unit: arguments.unit,
        query: None,
    }
}
