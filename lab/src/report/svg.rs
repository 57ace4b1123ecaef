//! A drawing.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use resvg::{tiny_skia, usvg};

use super::style::{Marker, Style};

/// Pixels of a PNG for one of the drawing.
const SCALE: f32 = 2.0;

/// SVG in the making. Coordinates are pixels from the upper left.
pub(super) struct Drawing {
    width: f64,
    height: f64,
    body: String,
}

/// Where text stands relative to its place.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Drawing {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub(super) fn text(&mut self, at: (f64, f64), size: f64, anchor: Anchor, bold: bool, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if bold { "bold" } else { "normal" };
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.body,
            r##"<text x="{:.1}" y="{:.1}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}">{text}</text>"##,
            at.0, at.1
        );
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{colour}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], style: Style) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.body,
            r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="{}" stroke-dasharray="{}"/>"#,
            points.join(" "),
            style.colour,
            style.width,
            style.dash
        );
    }

    pub(super) fn rectangle(&mut self, at: (f64, f64), size: (f64, f64), colour: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{colour}"/>"#,
            at.0, at.1, size.0, size.1
        );
    }

    pub(super) fn marker(&mut self, (x, y): (f64, f64), style: Style) {
        let r = 2.2 + style.width * 0.6;
        let corners: &[(f64, f64)] = match style.marker {
            Marker::Circle => {
                let _ = writeln!(
                    self.body,
                    r#"<circle cx="{x:.1}" cy="{y:.1}" r="{r:.1}" fill="{}"/>"#,
                    style.colour
                );
                return;
            }
            Marker::Square => &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
            Marker::Diamond => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            Marker::Triangle => &[(0.0, -1.2), (1.2, 1.0), (-1.2, 1.0)],
        };
        let points: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx * r, y + dy * r)).collect();
        let _ = writeln!(self.body, r#"<polygon points="{}" fill="{}"/>"#, points.join(" "), style.colour);
    }

    pub(super) fn svg(&self) -> String {
        let (width, height, body) = (self.width, self.height, &self.body);
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" fill="#222">
<rect width="100%" height="100%" fill="#fff"/>
{body}</svg>
"##
        )
    }

    /// Writes `NAME.png` into a directory.
    pub(super) fn png(&self, name: &str, pngs: &Path) -> Result<()> {
        let mut options = usvg::Options::default();
        options.fontdb_mut().load_system_fonts();
        let tree = usvg::Tree::from_str(&self.svg(), &options)?;
        let size = tree.size().to_int_size().scale_by(SCALE).context("an empty drawing")?;
        let mut pixels = tiny_skia::Pixmap::new(size.width(), size.height()).context("an empty drawing")?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.save_png(pngs.join(format!("{name}.png")))?;
        Ok(())
    }
}
