//! A job that is followed in the kernel for a user who has no rights of his own: he asks, over a
//! stream, what he would ask the kernel side himself, and another process with the agent's rights,
//! one for each job, answers.

mod remote;
mod serve;
mod sessions;
pub(crate) mod wire;

pub(crate) use remote::{PATIENCE, session_for};
pub use remote::{RemoteError, RemoteJob, answers, session, socket, stream};
pub(crate) use serve::User;
pub use serve::{be_session, is_session};
pub(crate) use sessions::Sessions;
pub use wire::Ask;
