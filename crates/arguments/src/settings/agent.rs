//! What was typed, as settings of the agent.

use weigh_session::products::agent::AgentSettings;

use crate::others::AgentArguments;

impl From<&AgentArguments> for AgentSettings {
    fn from(arguments: &AgentArguments) -> AgentSettings {
        AgentSettings {
            socket: arguments.socket.clone(),
            subsystems: arguments.subsystems.clone(),
            config: arguments.config.clone(),
            functions: arguments.functions.clone(),
            every_call: arguments.every_call,
            sharing: arguments.share,
            programs_per_user: arguments.per_user,
            interval: arguments.interval,
            state: arguments.state.clone(),
            statsd: arguments.statsd,
            otlp: arguments.otlp,
            page: None,
            commands_are_apart: arguments.commands_apart,
            rules: arguments.rules.clone(),
        }
    }
}
