//! What every open collector of the node does.

use super::block::BlockWriter;
use super::error::NodeError;
use super::file::ReadBuffer;

/// An open collector.
pub(super) trait NodeReader {
    /// Writes all of its samples, in an order that stays while the machine does not change.
    fn read(&mut self, buffer: &mut ReadBuffer, out: &mut BlockWriter<'_>)
    -> Result<(), NodeError>;
}
