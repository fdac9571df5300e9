//! A job that is followed in the kernel for a user who has no rights of his own: he asks, over a
//! stream, what he would ask the kernel side himself, and another process with the agent's rights,
//! one for each job, answers.

mod remote;
mod serve;
mod sessions;
mod wire;

pub use remote::{RemoteError, RemoteJob, answers, session, socket, stream};
pub use serve::{be_session, is_session, is_stream};
pub(crate) use sessions::{Sessions, Task};
pub use wire::Ask;
