//! What happened, as lines of JSON in the manner of qlog.
use exonet_proto::node::Event;
use exonet_proto::{Mono, NodeId, Now};
pub(crate) struct Trace;
impl Trace {
    pub(crate) fn new(_: Mono, _: NodeId) -> Self {
        Self
    }
    pub(crate) fn event(&mut self, _: Now, _: &Event) {}
}
