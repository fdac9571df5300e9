//! Reads `/proc/net/dev`; emits `node_net_*` of each interface of weigh's network namespace.

use weigh_parse::node::each_interface;
use weigh_schema::byte_text;
use weigh_schema::node_metric::*;
use weigh_schema::update::Scope;
use weigh_schema::{Metric, Quality};

use super::block::BlockWriter;
use super::error::{NodeError, NodeRoots};
use super::file::{FileShape, KernelFile, ReadBuffer};
use super::reader::NodeReader;

static FIELDS: [(usize, &Metric); 8] = [
    (0, &node_net_received_bytes_total),
    (1, &node_net_received_packets_total),
    (2, &node_net_receive_errors_total),
    (3, &node_net_receive_drops_total),
    (8, &node_net_sent_bytes_total),
    (9, &node_net_sent_packets_total),
    (10, &node_net_send_errors_total),
    (11, &node_net_send_drops_total),
];

const HEAD: &[u8] = b"Inter-";

struct Interfaces(KernelFile);

pub(super) fn open(
    roots: &NodeRoots,
    _: &mut ReadBuffer,
) -> Result<Box<dyn NodeReader>, NodeError> {
    Ok(Box::new(Interfaces(KernelFile::open(roots.proc.join("net/dev"), FileShape::ShortRecords)?)))
}

impl NodeReader for Interfaces {
    fn read(
        &mut self,
        buffer: &mut ReadBuffer,
        out: &mut BlockWriter<'_>,
    ) -> Result<(), NodeError> {
        let text = self.0.read(buffer)?;
        let mut has_any = false;
        each_interface(text, |interface| {
            has_any = true;
            let scope = || Scope::Interface(byte_text::keep(interface.name));
            out.instance([b"interface", interface.name], scope);
            for (field, metric) in &FIELDS {
                out.count(metric, Quality::Exact, interface.fields[*field]);
            }
        });
        // A namespace may have none, and the head alone.
        match has_any || text.starts_with(HEAD) {
            true => Ok(()),
            false => Err(self.0.holds_no("interface")),
        }
    }
}
