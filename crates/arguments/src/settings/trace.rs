//! What the command line says, as the product takes it.

use crate::trace::{
    KEYS, PacketDirection, SynthesisArguments, TraceArguments, TraceAttachArguments,
    TracePacketsArguments, TraceReadArguments,
};
use weigh_export::stream::has_processes;
use weigh_session::products::trace::{
    PacketsRequest, SynthesisSettings, TraceSettings, follow_packets,
};

impl From<&TraceArguments> for TraceSettings {
    fn from(arguments: &TraceArguments) -> TraceSettings {
        TraceSettings {
            command: arguments.command.clone(),
            events: arguments.events.clone(),
            filters: arguments.filters.clone(),
            sampling: arguments.sampling.clone(),
            output: arguments.output.clone(),
            pid: arguments.pid,
            system: arguments.system,
            duration: arguments.duration,
            ring_bytes: arguments.buffer,
            per_cpu: arguments.per_cpu,
            total_order: arguments.total_order,
            wake_bytes: arguments.wake,
            buffers: arguments.into.clone(),
            has_triggers: !arguments.live_values.on_event.is_empty(),
            adaptations: arguments.when.clone(),
            synthesis: SynthesisSettings {
                has_readers: arguments.live_values.has_readers(),
                ..synthesis(&arguments.synthesis)
            },
        }
    }
}

impl From<&TraceAttachArguments> for TraceSettings {
    fn from(arguments: &TraceAttachArguments) -> TraceSettings {
        TraceSettings {
            filters: arguments.filters.clone(),
            output: arguments.output.clone(),
            duration: arguments.duration,
            wake_bytes: arguments.wake,
            has_triggers: !arguments.live_values.on_event.is_empty(),
            synthesis: SynthesisSettings {
                has_readers: arguments.live_values.has_readers(),
                ..synthesis(&arguments.synthesis)
            },
            ..TraceSettings::default()
        }
    }
}

impl From<&TraceReadArguments> for TraceSettings {
    fn from(arguments: &TraceReadArguments) -> TraceSettings {
        TraceSettings {
            filters: arguments.filters.clone(),
            output: arguments.output.clone(),
            synthesis: synthesis(&arguments.synthesis),
            ..TraceSettings::default()
        }
    }
}

impl From<&TracePacketsArguments> for TraceSettings {
    fn from(arguments: &TracePacketsArguments) -> TraceSettings {
        let mut settings = TraceSettings {
            command: arguments.command.clone(),
            filters: arguments.filters.clone(),
            sampling: arguments.sampling.clone(),
            output: arguments.output.clone(),
            pid: arguments.pid,
            system: arguments.system,
            duration: arguments.duration,
            ring_bytes: arguments.buffer,
            synthesis: SynthesisSettings {
                keys: KEYS as usize,
                live: arguments.live,
                json: arguments.json.clone(),
                ..SynthesisSettings::default()
            },
            ..TraceSettings::default()
        };
        let has_processes = arguments.output.as_deref().and_then(has_processes);
        let wanted = match arguments.journey {
            true => PacketsRequest::Journey,
            false => PacketsRequest::Packets {
                snap_bytes: arguments.snap,
                leaving: arguments.direction != Some(PacketDirection::In),
                coming: arguments.direction != Some(PacketDirection::Out),
                comments: !arguments.no_comments && has_processes.unwrap_or(true),
                are_copied: has_processes.is_some(),
            },
        };
        follow_packets(&mut settings, wanted);
        settings
    }
}

fn synthesis(arguments: &SynthesisArguments) -> SynthesisSettings {
    SynthesisSettings {
        latency: arguments.latency.clone(),
        sequence: arguments.sequence.clone(),
        rate: arguments.rate.clone(),
        top: arguments.top.clone(),
        histogram: arguments.histogram.clone(),
        keys: arguments.keys as usize,
        live: arguments.live,
        json: arguments.json.clone(),
        every: arguments.every,
        has_readers: false,
    }
}
