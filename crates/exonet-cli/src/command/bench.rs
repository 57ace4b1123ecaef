//! `exon bench`: see [`crate::bench`].

use crate::args::BenchArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;

pub(super) async fn run(settings: &Settings, args: &BenchArgs) -> Result<Exit, Failure> {
    crate::bench::run(settings, args).await
}
