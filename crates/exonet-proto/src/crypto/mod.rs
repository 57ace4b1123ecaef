//! Stub.
#![allow(missing_docs)]
pub struct SecretKey([u8;32]);
impl SecretKey { pub fn from_bytes(b:[u8;32])->Self{Self(b)} pub fn expose(&self)->&[u8;32]{&self.0} pub fn node_id(&self)->crate::NodeId{unimplemented!()} }
