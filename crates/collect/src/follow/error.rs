//! What goes wrong in a mechanism, with its name.

use std::error::Error;
use std::fmt;

/// Why something cannot be followed, or not any more. It reads as the mechanism's own error does.
#[derive(Debug)]
pub struct MechanismError {
    name: &'static str,
    error: Box<dyn Error + Send + Sync>,
}

impl MechanismError {
    /// An error of the mechanism of that name.
    pub fn new(
        name: &'static str,
        error: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> MechanismError {
        MechanismError { name, error: error.into() }
    }

    /// The mechanism's name, as in options.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The mechanism's own error, if it is one of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

impl fmt::Display for MechanismError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for MechanismError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_the_mechanisms_own_and_is_found_by_its_type() {
        let error = MechanismError::new("poll", std::io::Error::other("no /proc"));
        assert_eq!((error.to_string().as_str(), error.name()), ("no /proc", "poll"));
        assert!(error.source().is_none(), "no cause is named twice");
        assert!(error.downcast_ref::<std::io::Error>().is_some());
        assert!(error.downcast_ref::<fmt::Error>().is_none());
    }
}
