//! `exon top`: watches a node.
//!
//! [`Sample`] has the figures of the node at one time, from its control socket. [`Course`] computes rates and trends
//! from several samples. [`App`] holds the choices of the user; [`draw`] makes lines, and [`screen`] shows them in a
//! terminal, which is restored in any case.

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
