//! `weigh trace packets`: each packet as it leaves through a device, or comes in by one, with what the kernel
//! knows of it; or its journey: where it is on its way, and for how long.
//!
//! It is a stream as any other, of events with the fields that a file of packets needs, or of those between the
//! layers, and of the times between them.

use weigh_trace::sets::PACKET_LEAVES;

use super::settings::TraceSettings;

/// Where packets come in; they leave at [`PACKET_LEAVES`].
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

/// Has a stream follow packets, with so many bytes of each, or their journey.
pub fn follow_packets(settings: &mut TraceSettings, journey: bool, snap_bytes: u32) {
    let event = |point: &str| {
        format!(
            "{point}{{id=skb, len=skb->len, head=skb->head, data=skb->data, mac=skb->mac_header, \
             network=skb->network_header, tail=skb->tail, dev=skb->dev->name, \
             ifindex=skb->dev->ifindex, type=skb->dev->type, process=comm, \
             packet=bytes(skb->head + skb->mac_header, {snap_bytes})}}"
        )
    };
    match journey {
        true => {
            settings.events = JOURNEY.map(str::to_string).to_vec();
            settings.synthesis.latency = LAYERS.map(str::to_string).to_vec();
        }
        false => settings.events = [PACKET_LEAVES, COMES].map(event).to_vec(),
    }
}
