//! `weigh trace packets`: each packet as it leaves through a device, or comes in by one, with what the kernel
//! knows of it; or its journey: where it is on its way, and for how long.
//!
//! It is a stream as any other, of events with the fields that a file of packets needs, or of those between the
//! layers, and of the times between them.

use weigh_collect::trace;
use weigh_trace::sets::PACKET_LEAVES;

use super::settings::TraceSettings;
use super::tracepoint_groups::is_listed;

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

/// What the sockets of IP see of packets: their data is there, somebody has read it. Data of a small datagram is copied
/// without any event of its packet.
const SOCKETS: [&str; 2] = [
    "sock:sk_data_ready{id=sk} if sk->__sk_common.skc_family in (2, 10)",
    "sock:sock_recv_length{id=sk, ret} if sk->__sk_common.skc_family in (2, 10) && ret > 0",
];
/// From where to where it is then. A packet is handed up by one CPU, one after the other.
const SOCKET_LAYERS: [&str; 2] = [
    "net:netif_receive_skb -> sock:sk_data_ready by cpu within 4s",
    "sock:sk_data_ready -> sock:sock_recv_length by id within 4s",
];
/// Where sockets tell nothing, before Linux 6.3, a packet is let go of when it was read.
const CONSUMED: &str = "skb:consume_skb{id=skb, len=skb->len}";
const CONSUMED_LAYER: &str = "net:netif_receive_skb -> skb:consume_skb by id within 4s";

/// Bytes of each ring: at least, at most. To make, map and free it takes a microsecond or more for each page, whether
/// packets come or not.
const RING: (u64, u64) = (4 << 20, 64 << 20);
/// The same of a journey's.
const RING_OF_JOURNEY: usize = 8 << 20;
/// So many packets of the greatest length a ring has room for: where they are only copied, and where more is to be done
/// with them, which lost some beside builds with half as much.
const PACKETS_OF_RING: (u64, u64) = (16_384, 32_768);
/// weigh is waked when a CPU has written one part in so many of its ring: each time costs as much as some hundred packets.
const WAKES_OF_RING: u64 = 4;
/// Bytes of a packet's record besides, with its stamp.
const BESIDES: u64 = 128;
/// All rings together take one part in so many of the memory that is available.
const PART_OF_MEMORY: u64 = 8;

/// What is to be followed of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketsRequest {
    /// They themselves.
    Packets {
        /// Bytes that are kept of each.
        snap_bytes: u32,
        /// Those that leave.
        leaving: bool,
        /// Those that come in.
        coming: bool,
        /// Whether each says which process has it.
        comments: bool,
        /// Whether they go into a file that they are only copied into.
        are_copied: bool,
    },
    /// How long they are where on their way.
    Journey,
}

/// Has a stream follow packets, or their journey.
pub fn follow_packets(settings: &mut TraceSettings, wanted: PacketsRequest) {
    match wanted {
        PacketsRequest::Journey => {
            settings.ring_bytes = settings.ring_bytes.or(Some(RING_OF_JOURNEY));
            let tells_sockets = SOCKETS.iter().all(|event| is_listed(Some("sock"), name_of(event)));
            let is_filtered = !settings.filters.is_empty();
            let (events, layers) = journey(tells_sockets, is_filtered);
            settings.events = events.into_iter().map(str::to_string).collect();
            settings.synthesis.latency = layers.into_iter().map(str::to_string).collect();
        }
        PacketsRequest::Packets { snap_bytes, leaving, coming, comments, are_copied } => {
            let wanted = wanted_bytes(snap_bytes, are_copied);
            let bytes = settings.ring_bytes.unwrap_or_else(|| usual_ring_bytes(wanted));
            settings.ring_bytes = Some(bytes);
            settings.wake_bytes = settings.wake_bytes.or(Some(bytes as u64 / WAKES_OF_RING));
            let points = [(PACKET_LEAVES, leaving), (COMES, coming)];
            let points = points.into_iter().filter(|(_, is_wanted)| *is_wanted);
            settings.events = points.map(|(point, _)| event(point, snap_bytes, comments)).collect();
        }
    }
}

/// The name of an event, without its group.
fn name_of(event: &str) -> &str {
    let name = event.split(['{', ' ']).next().unwrap_or(event);
    name.split_once(':').map_or(name, |(_, name)| name)
}

/// Events and layers of a journey. Filters are over packets, and what sockets tell is of none.
fn journey(tells_sockets: bool, is_filtered: bool) -> (Vec<&'static str>, Vec<&'static str>) {
    let (mut events, mut layers) = (JOURNEY.to_vec(), LAYERS.to_vec());
    match (tells_sockets, is_filtered) {
        (true, true) => {}
        (true, false) => {
            events.extend(SOCKETS);
            layers.extend(SOCKET_LAYERS);
        }
        (false, _) => {
            events.push(CONSUMED);
            layers.push(CONSUMED_LAYER);
        }
    }
    (events, layers)
}

/// The event of packets at a tracepoint.
fn event(point: &str, snap_bytes: u32, comments: bool) -> String {
    let process = if comments { "process=comm, " } else { "" };
    format!(
        "{point}{{id=skb, mac=skb->mac_header, network=skb->network_header, dev=skb->dev->name, \
         ifindex=skb->dev->ifindex, type=skb->dev->type, {process}packet=packet(skb, {snap_bytes})}}"
    )
}

/// Bytes that a ring has for packets.
fn wanted_bytes(snap_bytes: u32, are_copied: bool) -> u64 {
    let packets = if are_copied { PACKETS_OF_RING.0 } else { PACKETS_OF_RING.1 };
    ((u64::from(snap_bytes) + BESIDES) * packets).next_power_of_two()
}

/// Bytes of each ring, if nothing else is asked for.
fn usual_ring_bytes(wanted: u64) -> usize {
    if wanted <= RING.0 {
        return RING.0 as usize;
    }
    let memory = weigh_collect::host::memory_available_bytes().unwrap_or_default();
    ring_bytes(wanted, trace::cpus_online().len() as u64, memory)
}

/// The same, as far as the memory that is available allows.
fn ring_bytes(wanted: u64, rings: u64, memory: u64) -> usize {
    let most = 1 << (memory / PART_OF_MEMORY / rings.max(1)).max(1).ilog2();
    wanted.min(most).clamp(RING.0, RING.1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_as_large_as_packets_and_memory_allow() {
        let mib = |snap, rings, memory: u64| {
            ring_bytes(wanted_bytes(snap, true), rings, memory << 20) >> 20
        };
        assert_eq!([96, 500, 1000, 4096].map(|snap| mib(snap, 2, 1 << 20)), [4, 16, 32, 64]);
        assert_eq!([32, 256, 16384].map(|memory| mib(4096, 2, memory)), [4, 16, 64]);
        assert_eq!((mib(4096, 64, 2048), mib(4096, 0, 0)), (4, 4));
        assert_eq!(usual_ring_bytes(wanted_bytes(96, true)), 4 << 20);
        assert_eq!(wanted_bytes(96, false) >> 20, 8);
    }

    #[test]
    fn the_last_layers_are_those_that_the_kernel_tells() {
        assert_eq!(SOCKETS.map(name_of), ["sk_data_ready", "sock_recv_length"]);
        let last = |tells, filtered| journey(tells, filtered).1[LAYERS.len()..].to_vec();
        assert_eq!(last(true, false), SOCKET_LAYERS);
        assert_eq!(last(true, true), [""; 0]);
        assert_eq!(
            (last(false, true), last(false, false)),
            (vec![CONSUMED_LAYER], vec![CONSUMED_LAYER])
        );
        // Each layer is between events that are followed.
        for (tells, filtered) in [(true, false), (true, true), (false, false)] {
            let (events, layers) = journey(tells, filtered);
            let names: Vec<&str> = events.iter().map(|event| name_of(event)).collect();
            for layer in layers {
                let ends = layer.split([' ', '>']).filter_map(|word| word.split_once(':'));
                assert!(ends.map(|(_, name)| name).all(|name| names.contains(&name)), "{layer}");
            }
        }
    }

    #[test]
    fn one_way_is_one_event() {
        let events = |leaving, coming| {
            let mut settings = TraceSettings::default();
            let (snap_bytes, comments, are_copied) = (96, leaving, true);
            let wanted =
                PacketsRequest::Packets { snap_bytes, leaving, coming, comments, are_copied };
            follow_packets(&mut settings, wanted);
            let quarter = settings.ring_bytes.map(|bytes| bytes as u64 / 4);
            assert!(quarter.is_some() && settings.wake_bytes == quarter);
            settings.events
        };
        let (both, coming) = (events(true, true), events(false, true));
        assert_eq!((both.len(), coming.len()), (2, 1));
        assert!(both.iter().all(|event| event.contains("process=comm, ")));
        assert!(coming[0].starts_with(COMES) && !coming[0].contains("comm"), "{coming:?}");
    }
}
