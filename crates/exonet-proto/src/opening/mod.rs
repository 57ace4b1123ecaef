//! How channels begin: openings of this node and of others, what they may cost, and what they prove.

pub(crate) mod answer;
pub(crate) mod asking;
pub(crate) mod gate;
pub(crate) mod initiate;
pub(crate) mod life;
pub(crate) mod lives;
pub(crate) mod prefix;
pub(crate) mod refusals;
pub(crate) mod resets;
pub(crate) mod stamping;
