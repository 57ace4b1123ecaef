//! A node, watched: `exon top`.
//!
//! [`Sample`] is one look at the node, by its control socket. [`Course`] makes rates and trends of several. [`App`] is what the
//! user has chosen to see of that; [`draw`] makes lines of it, and [`screen`] shows them, in a terminal that is put back however
//! that ends.

mod app;
mod course;
mod draw;
mod line;
mod sample;
mod screen;
mod short;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use app::{App, Asked};
pub(crate) use course::Course;
pub(crate) use draw::whole_text;
pub(crate) use line::line;
pub(crate) use sample::Sample;
pub(crate) use screen::{Said, Screen, unfit};
