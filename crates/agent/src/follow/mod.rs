//! A job that is followed in the kernel for a user without privileges: the user's weigh asks, over a
//! stream, what it would ask the kernel side itself, and another process with the agent's privileges,
//! one for each job, answers.

mod remote;
mod serve;
mod sessions;

pub use remote::{RemoteError, RemoteJob, answers, session, socket, stream};
pub(crate) use remote::{ask, session_for};
pub(crate) use serve::User;
pub use serve::{be_session, is_session};
pub(crate) use sessions::Sessions;
