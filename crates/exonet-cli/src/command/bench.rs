use crate::{args::*, exit::Exit, failure::Failure, settings::Settings}; pub(super) async fn run(_: &Settings, _: BenchArgs) -> Result<Exit, Failure> { Ok(Exit::Success) }
