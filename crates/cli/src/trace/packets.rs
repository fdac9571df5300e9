//! `weigh trace packets`: each packet as it leaves through a device, or comes in by one, with what the kernel
//! knows of it.
//!
//! It is a stream as any other, of two events with the fields that a file of packets needs.

use crate::arguments::{TraceArguments, TracePacketsArguments};

/// Where packets leave, and where they come in.
pub const LEAVES: &str = "net:net_dev_start_xmit";
const COMES: &str = "net:netif_receive_skb";

/// What `weigh trace` would have to be told.
pub fn as_stream(asked: &TracePacketsArguments) -> TraceArguments {
    let event = |point: &str| {
        format!(
            "{point}{{id=skb, len=skb->len, head=skb->head, data=skb->data, mac=skb->mac_header, \
             network=skb->network_header, tail=skb->tail, dev=skb->dev->name, \
             ifindex=skb->dev->ifindex, type=skb->dev->type, process=comm, \
             packet=bytes(skb->head + skb->mac_header, {})}}",
            asked.snap
        )
    };
    TraceArguments {
        subject: None,
        command: asked.command.clone(),
        events: [LEAVES, COMES].map(event).to_vec(),
        filters: asked.filters.clone(),
        sampling: asked.sampling.clone(),
        output: Some(asked.output.clone()),
        counters: Vec::new(),
        pid: asked.pid,
        system: asked.system,
        duration: asked.duration,
        buffer: asked.buffer,
        per_cpu: false,
        wake: None,
        synthesis: Default::default(),
        quiet: asked.quiet,
    }
}
