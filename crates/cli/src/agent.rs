//! `weigh agent`: serves programs with libweigh, and users' `weigh run`, in the foreground, until it is told to end.

use std::process::ExitCode;

use weigh_session::products::agent::{AgentSettings, serve};

use crate::arguments::AgentArguments;

impl From<&AgentArguments> for AgentSettings {
    fn from(arguments: &AgentArguments) -> AgentSettings {
        AgentSettings {
            socket: arguments.socket.clone(),
            subsystems: arguments.subsystems.clone(),
            config: arguments.config.clone(),
            every_call: arguments.every_call,
            sharing: arguments.share.into(),
            programs_per_user: arguments.per_user,
        }
    }
}

/// Serves until TERM or INT.
pub fn agent(arguments: &AgentArguments) -> anyhow::Result<ExitCode> {
    serve(&arguments.into())?;
    Ok(ExitCode::SUCCESS)
}
