//! Names over the headers of packets, at an event.
//!
//! Reads paths at an event that hands over a packet (`struct sk_buff`); emits which part of its headers is meant, and
//! where the kernel has them. Refuses them at other events, names that no header has, and `host` and `port`, which are
//! two values, where one is wanted. An argument of the same name goes before.

use crate::btf::TypeKind;
use crate::error::{Refusal, Span, Wrong};
use crate::filter::{Comparison, Filter};
use crate::packet_header::{NAMES, PAIRS, PacketField, dotted, names, path_of};
use crate::path::{Path, Step};
use crate::path_resolve::{PathEnd, Shape, Walker};
use crate::suggest::nearest;

/// Events at which a packet leaves, and at which one comes in.
const LEAVE: &[&str] = &["net_dev_queue", "net_dev_start_xmit", "net_dev_xmit"];
const COME: &[&str] = &[
    "netif_receive_skb",
    "netif_receive_skb_entry",
    "netif_receive_skb_list_entry",
    "netif_rx",
    "netif_rx_entry",
    "napi_gro_receive_entry",
];

/// Where the kernel has a packet's headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketPlaces {
    /// The beginning of its memory.
    pub head: PathEnd,
    /// What has not been taken off yet: IP's header, where the packet comes in.
    pub data: PathEnd,
    /// How far behind the beginning IP's header is; none where `data` says it.
    pub network: Option<PathEnd>,
    /// How far the end of the first part is; headers are looked for there alone.
    pub tail: PathEnd,
    /// What Ethernet carries, in the order of the network.
    pub ether_type: PathEnd,
}

impl PacketField {
    /// What it is.
    pub fn shape(self) -> Shape {
        match self {
            PacketField::EtherType | PacketField::Protocol => Shape::Enum(0),
            PacketField::Address(_) => Shape::Address,
            PacketField::Port { .. } | PacketField::TcpFlags => Shape::Unsigned,
            _ => Shape::Bool,
        }
    }
}

/// A comparison of either of two values as one of each: `port == 53` holds if one of them does, `port != 53` if
/// both do. None if it is no such comparison.
pub(crate) fn either_side(filter: &Filter) -> Option<Filter> {
    let (Filter::Compare { left, .. } | Filter::In { left, .. }) = filter else { return None };
    let name = dotted(left).filter(|_| left.cast.is_none())?;
    let (_, sides) = PAIRS.iter().find(|(pair, _)| *pair == name)?;
    let [source, destination] = sides.map(|side| {
        let mut one = filter.clone();
        if let Filter::Compare { left, .. } | Filter::In { left, .. } = &mut one {
            *left = path_of(side, left.span);
        }
        Box::new(one)
    });
    let is_none = matches!(filter, Filter::Compare { how: Comparison::Unequal, mask: None, .. });
    Some(match is_none {
        true => Filter::And(source, destination),
        false => Filter::Or(source, destination),
    })
}

impl Walker<'_> {
    /// The part of a packet's headers that a path means, if it means one.
    pub(crate) fn packet_field(&self, path: &Path) -> Result<Option<PacketField>, Refusal> {
        let Some(name) = dotted(path).filter(|_| self.argument(&path.base).is_none()) else {
            return Ok(None);
        };
        if let Some((_, [source, destination])) = PAIRS.iter().find(|(pair, _)| *pair == name) {
            let wrong = format!("'{name}' is two values; type {source} or {destination}");
            return Err(path.span.refuse(self.text, Wrong::Unsupported(wrong)));
        }
        let Some((_, field)) = NAMES.iter().find(|(other, _)| *other == name) else {
            return self.no_packet_field(path, name);
        };
        if self.packet_argument().is_none() {
            return Err(self.hands_over_no_packet(path, &name));
        }
        let has_direction = self.leaves().is_some();
        if matches!(field, PacketField::Leaves | PacketField::Comes) && !has_direction {
            let known: Vec<&str> = LEAVE.iter().chain(COME).copied().collect();
            let event = self.event;
            let wrong = format!("{event} does not say whether a packet leaves or comes in");
            let refusal = path.span.refuse(self.text, Wrong::Unsupported(wrong));
            return Err(refusal.near(known.iter().map(|name| format!("net:{name}")).collect()));
        }
        Ok(Some(*field))
    }

    /// Nothing, unless the name begins as those of headers do.
    fn no_packet_field(&self, path: &Path, name: String) -> Result<Option<PacketField>, Refusal> {
        let is_base = |known: &str| known.split('.').next() == Some(path.base.as_str());
        if !names().any(is_base) || self.packet_argument().is_none() {
            return Ok(None);
        }
        let near = match nearest(&name, names()) {
            near if near.is_empty() => {
                names().filter(|known| is_base(known)).map(str::to_string).collect()
            }
            near => near,
        };
        let wrong = Wrong::NoName { what: "header", name };
        Err(path.span.refuse(self.text, wrong).near(near))
    }

    fn hands_over_no_packet(&self, path: &Path, name: &str) -> Refusal {
        let wrong = format!(
            "'{name}' is of packets, and {} hands over none (no argument of it is a struct sk_buff)",
            self.event
        );
        let near = ["net:net_dev_start_xmit", "net:netif_receive_skb"].map(str::to_string);
        path.span.refuse(self.text, Wrong::Unsupported(wrong)).near(near.to_vec())
    }

    /// The argument that is a packet.
    pub(crate) fn packet_argument(&self) -> Option<&str> {
        let is_packet = |kind: u32| {
            let Ok((_, TypeKind::Pointer(to))) = self.btf.bare(kind) else { return false };
            let behind = self.btf.bare(to);
            matches!(behind, Ok((id, TypeKind::Struct { .. })) if self.btf.name(id) == "sk_buff")
        };
        let found = self.arguments.iter().find(|a| a.of_call.is_none() && is_packet(a.kind));
        found.map(|argument| argument.name.as_str())
    }

    /// Whether a packet leaves at the event, or comes in; none if nobody knows.
    pub(crate) fn leaves(&self) -> Option<bool> {
        let name = match self.event.split_once(':') {
            Some(("net", name)) => name,
            Some(_) => return None,
            None => self.event,
        };
        match (LEAVE.contains(&name), COME.contains(&name)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Where the headers are.
    pub(crate) fn packet_places(&self) -> Result<Option<PacketPlaces>, Refusal> {
        let Some(packet) = self.packet_argument() else { return Ok(None) };
        let place = |member: &str| {
            let span = Span::default();
            let steps = vec![(Step::Member(member.to_string()), span)];
            self.follow(&Path { steps, ..Path::of_word(packet, span) })
        };
        let comes = self.leaves() == Some(false);
        Ok(Some(PacketPlaces {
            head: place("head")?,
            data: place("data")?,
            network: if comes { None } else { Some(place("network_header")?) },
            tail: place("tail")?,
            ether_type: place("protocol")?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_value_is_meant_and_unequal_are_both() {
        let split = |text: &str| either_side(&Filter::parse(text).unwrap());
        assert!(matches!(split("port == 53"), Some(Filter::Or(..))));
        assert!(matches!(split("port in (53, 80..90)"), Some(Filter::Or(..))));
        assert!(matches!(split("host != 10.0.0.1"), Some(Filter::And(..))));
        assert!(matches!(split("udp.port & 1"), Some(Filter::Or(..))));
        assert_eq!(split("src.port == 53"), None);
    }
}
