//! Stub.
#![allow(missing_docs, unused, clippy::all)]
use super::*;use crate::{Now,Mono,NodeId};use crate::crypto::SecretKey;use core::net::SocketAddr;use bytes::Bytes;
pub struct Node;
pub enum Boot{Ephemeral,Stored{clock:u64}}
impl Node {
  pub fn new(config: Config, key: SecretKey , boot: Boot, seed: [u8; 32], now: Now) -> Self { unimplemented!() }
  pub fn id(&self) -> NodeId { unimplemented!() }
  pub fn handle_datagram(&mut self, now: Now, arrival: Arrival, data: &mut [u8]) { unimplemented!() }
  pub fn handle_timeout(&mut self, now: Now) { unimplemented!() }
  pub fn handle_persisted(&mut self, now: Now, through: Lsn) { unimplemented!() }
  pub fn handle_persist_failed(&mut self, now: Now) { unimplemented!() }
  pub fn poll_persist(&mut self) -> Option<Batch> { unimplemented!() }
  pub fn poll_timeout(&self) -> Option<Mono> { unimplemented!() }
  pub fn poll_transmit(&mut self, now: Now, max_segments: usize, buf: &mut Vec<u8>) -> Option<Transmit> { unimplemented!() }
  pub fn poll_event(&mut self) -> Option<Event> { unimplemented!() }
  pub fn add_hint(&mut self, now: Now, peer: NodeId, address: SocketAddr) { unimplemented!() }
  pub fn send(&mut self, now: Now, peer: NodeId, hints: &[SocketAddr], message: Outgoing) -> Result<MessageKey, SendError> { unimplemented!() }
  pub fn send_stream(&mut self, now: Now, peer: NodeId, hints: &[SocketAddr], head: Outgoing, len: u64) -> Result<MessageKey, SendError> { unimplemented!() }
  pub fn has_room(&self, peer: &NodeId) -> bool { unimplemented!() }
  pub fn body_write(&mut self, now: Now, key: MessageKey, data: &mut Bytes ) -> BodyWrite { unimplemented!() }
  pub fn cancel(&mut self, now: Now, key: MessageKey) -> Result<(), CancelError> { unimplemented!() }
  pub fn abandon(&mut self, now: Now, key: MessageKey) { unimplemented!() }
  pub fn abandon_peer(&mut self, now: Now, peer: &NodeId) { unimplemented!() }
  pub fn status(&self, key: MessageKey) -> Status { unimplemented!() }
  pub fn open_messages(&self) -> Vec<OpenMessage> { unimplemented!() }
  pub fn accept(&mut self, now: Now) -> Option<Incoming> { unimplemented!() }
  pub fn done(&mut self, now: Now, key: DeliveryKey) -> bool { unimplemented!() }
  pub fn release(&mut self, now: Now, key: DeliveryKey) { unimplemented!() }
  pub fn recv(&mut self, now: Now) -> Option<Incoming> { unimplemented!() }
  pub fn body_read(&mut self, now: Now, key: DeliveryKey) -> BodyRead { unimplemented!() }
  pub fn admit(&mut self, now: Now, id: NodeId, yes: bool) { unimplemented!() }
  pub fn ping(&mut self, now: Now, peer: NodeId, hints: &[SocketAddr], cookie: u64) -> Result<(), SendError> { unimplemented!() }
  pub fn peer_stats(&self, peer: &NodeId) -> Option<PeerStats> { unimplemented!() }
  pub fn peers(&self) -> Vec<NodeId> { unimplemented!() }
  pub fn stats(&self) -> Stats { unimplemented!() }
  pub fn close(&mut self, now: Now) { unimplemented!() }
  pub fn is_quiet(&self) -> bool { unimplemented!() }
  pub fn rebind(&mut self, now: Now) { unimplemented!() }
}