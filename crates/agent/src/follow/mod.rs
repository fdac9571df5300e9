//! A job that is followed in the kernel for a user without privileges: the user's weigh asks, over a
//! stream, what it would ask the kernel side itself, and another process with the agent's privileges,
//! one for each job, answers.

pub(crate) mod remote;
mod serve;
mod sessions;
pub(crate) mod user;

pub(crate) use remote::stream_for;
pub use remote::{RemoteError, RemoteJob, answers, session, socket, stream};
pub use serve::{be_session, is_session};
pub(crate) use sessions::{Sessions, refusal};
