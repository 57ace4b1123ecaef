pub(crate) async fn receive(_: Option<&std::path::Path>, _: usize) -> Result<crate::exit::Exit, crate::failure::Failure> { Ok(crate::exit::Exit::Success) }
