//! The task.
use crate::allow::Question;
use crate::builder::Store;
use crate::shared::Shared;
use std::io;
use std::sync::Arc;
pub(crate) struct Driver;
impl Driver {
    pub(crate) fn new(
        _: Arc<Shared>,
        _: Option<Arc<Question>>,
        _: Option<Arc<dyn Store>>,
        _: Option<Box<dyn io::Write + Send>>,
    ) -> io::Result<Self> {
        Ok(Self)
    }
    pub(crate) async fn run(self) {}
}
