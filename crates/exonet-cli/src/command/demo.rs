//! `exon demo`: see [`crate::demo`].

use crate::args::DemoArgs;
use crate::demo::Demo;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::Settings;

pub(super) async fn run(settings: &Settings, args: &DemoArgs) -> Result<Exit, Failure> {
    Demo::new(settings, args).run().await
}
