//! `weigh trace packets`: each packet as it leaves through a device, or comes in by one, with what the kernel
//! knows of it; or its journey: where it is on its way, and for how long.
//!
//! It is a stream as any other, of events with the fields that a file of packets needs, or of those between the
//! layers, and of the times between them.

use weigh_trace::sets::PACKET_LEAVES as LEAVES;

use crate::arguments::{KEYS, SynthesisArguments, TraceArguments, TracePacketsArguments};

/// Where packets come in; they leave at [`LEAVES`].
const COMES: &str = "net:netif_receive_skb";

/// What a packet passes between the layers.
const JOURNEY: [&str; 7] = [
    "net:net_dev_queue{id=skb, len=skb->len, dev=skb->dev->name}",
    "net:net_dev_start_xmit{id=skb, len=skb->len, dev=dev->name}",
    "net:net_dev_xmit{id=skb, len=skb_len, rc, dev=dev->name}",
    "net:netif_rx{id=skb, len=skb->len, dev=skb->dev->name}",
    "net:netif_receive_skb{id=skb, len=skb->len, dev=skb->dev->name}",
    "skb:skb_copy_datagram_iovec{id=skb, len}",
    "skb:kfree_skb{id=skb, len=skb->len, reason}",
];
/// From where to where it is in a layer. The address of one that is gone is given to another: what is longer on its
/// way than that has been lost sight of.
const LAYERS: [&str; 5] = [
    "net:net_dev_queue -> net:net_dev_start_xmit by id within 4s",
    "net:net_dev_start_xmit -> net:net_dev_xmit by id within 4s",
    "net:netif_rx -> net:netif_receive_skb by id within 4s",
    "net:netif_receive_skb -> skb:skb_copy_datagram_iovec by id within 4s",
    "net:netif_receive_skb -> skb:kfree_skb by id within 4s",
];

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
    let events = match asked.journey {
        true => JOURNEY.map(str::to_string).to_vec(),
        false => [LEAVES, COMES].map(event).to_vec(),
    };
    let layers = if asked.journey { LAYERS.map(str::to_string).to_vec() } else { Vec::new() };
    TraceArguments {
        subject: None,
        command: asked.command.clone(),
        events,
        filters: asked.filters.clone(),
        sampling: asked.sampling.clone(),
        output: asked.output.clone(),
        counters: Vec::new(),
        pid: asked.pid,
        system: asked.system,
        duration: asked.duration,
        buffer: Some(asked.buffer),
        per_cpu: false,
        total_order: false,
        into: Vec::new(),
        wake: None,
        synthesis: SynthesisArguments {
            latency: layers,
            keys: KEYS,
            live: asked.live,
            json: asked.json.clone(),
            ..SynthesisArguments::default()
        },
        quiet: asked.quiet,
        status: asked.status,
    }
}
