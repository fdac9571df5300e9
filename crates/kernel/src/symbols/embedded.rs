//! x
use super::Symbols;
use crate::elf::Elf;
use thiserror::Error;
/// e
#[derive(Debug, Error)]
pub enum EmbeddedError {
    /// x
    #[error("x")]
    None,
}
/// f
pub fn find(_elf: &Elf) -> Result<Symbols, EmbeddedError> {
    Err(EmbeddedError::None)
}
