//! What every open collector of the node does.

use super::block::BlockWriter;
use super::error::NodeError;
use super::file::ReadBuffer;
use super::group_info::NodeGroup;

/// An open collector.
pub(super) trait NodeReader {
    /// Writes all of its samples, in an order that stays while the machine does not change.
    fn read(&mut self, buffer: &mut ReadBuffer, out: &mut BlockWriter<'_>)
    -> Result<(), NodeError>;

    /// The control groups that its samples are about.
    fn groups(&self) -> Box<dyn Iterator<Item = &NodeGroup> + '_> {
        Box::new(std::iter::empty())
    }
}
