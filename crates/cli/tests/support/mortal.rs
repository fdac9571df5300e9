//! Processes that do not outlive their test, however that ends.

use std::io;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Output};

/// A process that is killed when nobody has it any more: a test that fails leaves none running, which others would
/// wait for.
pub struct Mortal(Option<Child>);

impl Mortal {
    /// One that was started.
    #[track_caller]
    pub fn of(spawned: io::Result<Child>) -> Mortal {
        Mortal(Some(spawned.expect("it starts")))
    }

    /// What it has said until its end.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        self.0.take().map_or_else(|| Err(io::ErrorKind::NotFound.into()), Child::wait_with_output)
    }
}

impl Deref for Mortal {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is taken in the end alone")
    }
}

impl DerefMut for Mortal {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is taken in the end alone")
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
