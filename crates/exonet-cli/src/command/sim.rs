//! `exon sim`: see [`crate::sim`].

use crate::args::SimArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;

pub(super) async fn run(settings: &Settings, args: &SimArgs) -> Result<Exit, Failure> {
    crate::sim::run(settings, args).await
}
