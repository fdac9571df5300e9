//! What an agent costs: `cargo run --release -p weigh-session --example agent_cost -- SOCKET INTERVAL_SECONDS`, as an ordinary
//! user. It is `weigh agent` without its command line; `/proc/PID/task/*/schedstat` has what it costs.

use std::time::Duration;

use weigh_schema::call::Sharing;
use weigh_session::products::agent::{AgentSettings, serve};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().unwrap_or_else(|| "/tmp/weigh-agent-cost.sock".to_string());
    let interval = arguments.next().and_then(|word| word.parse().ok()).unwrap_or(1.0);
    serve(&AgentSettings {
        commands_are_apart: false,
        page: None,
        socket: socket.into(),
        subsystems: Vec::new(),
        config: None,
        every_call: false,
        sharing: Sharing::default(),
        programs_per_user: 64,
        interval: Duration::from_secs_f64(interval),
        state: None,
        statsd: None,
        otlp: None,
        rules: None,
    })
}
