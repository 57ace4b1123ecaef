//! The exon command.
fn main() {}
