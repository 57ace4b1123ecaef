//! The picture of a move: its steps in a row, and below them the pause that clients saw.

use std::fmt::Write as _;

/// What moves with one number of clients took, in milliseconds: medians.
pub(crate) struct Row {
    pub(crate) clients: usize,
    /// In the order in which they come. The first goes on beside the service.
    pub(crate) steps: Vec<(&'static str, f64)>,
    /// Of the median client, and of the one that waited longest.
    pub(crate) pause: [f64; 2],
}

/// Colours that can be told apart without seeing all of them, after Okabe and Ito.
const COLOURS: [&str; 8] =
    ["#999999", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"];
const WIDTH: f64 = 900.0;
/// Where the bars begin, and what they may take.
const LEFT: f64 = 110.0;
const SPAN: f64 = WIDTH - LEFT - 190.0;
const TOP: f64 = 120.0;
const ROW: f64 = 74.0;
const BAR: f64 = 22.0;

/// The picture, as SVG.
pub(crate) fn draw(rows: &[Row]) -> String {
    let still = |row: &Row| row.steps.iter().skip(1).map(|step| step.1).sum::<f64>();
    let most = rows.iter().map(|row| still(row).max(row.pause[1])).fold(1.0, f64::max);
    let step = axis_step(most);
    let end = (most / step).ceil() * step;
    let at = |ms: f64| LEFT + ms / end * SPAN;
    let height = TOP + ROW * rows.len() as f64 + 50.0;

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, 16.0, 26.0, 17.0, "start", "A move, step by step");
    let about = "ms from the moment at which the service takes nothing more; loopback; medians of the moves. What goes ahead, before that, is not shown";
    text(&mut svg, 16.0, 46.0, 11.5, "start", about);
    legend(&mut svg, rows);

    let mut tick = 0.0;
    while tick <= end + step / 2.0 {
        let bottom = TOP + ROW * rows.len() as f64;
        let _ = writeln!(
            svg,
            "<line x1=\"{0:.1}\" y1=\"{TOP}\" x2=\"{0:.1}\" y2=\"{bottom}\" stroke=\"#ddd\"/>",
            at(tick)
        );
        text(&mut svg, at(tick), bottom + 18.0, 11.5, "middle", &format!("{tick}"));
        tick += step;
    }
    text(&mut svg, at(end / 2.0), TOP + ROW * rows.len() as f64 + 38.0, 11.5, "middle", "ms");

    for (n, row) in rows.iter().enumerate() {
        let y = TOP + ROW * n as f64 + 10.0;
        let clients = match (row.clients / 1_000, row.clients % 1_000) {
            (0, 1) => "1 client".to_owned(),
            (0, few) => format!("{few} clients"),
            (many, rest) => format!("{many},{rest:03} clients"),
        };
        text(&mut svg, LEFT - 8.0, y + 16.0, 12.0, "end", &clients);
        let mut from = 0.0;
        for (nth, (_, took)) in row.steps.iter().enumerate().skip(1) {
            rect(&mut svg, [at(from), y, took / end * SPAN, BAR], colour(nth));
            from += took;
        }
        text(&mut svg, at(from) + 6.0, y + 16.0, 11.5, "start", &format!("{from:.0}"));
        let [median, longest] = row.pause;
        text(&mut svg, LEFT - 8.0, y + 39.0, 11.0, "end", "pause");
        rect(&mut svg, [at(0.0), y + 30.0, longest / end * SPAN, 10.0], "#ccc");
        rect(&mut svg, [at(0.0), y + 30.0, median / end * SPAN, 10.0], "#555");
        let said = format!("{median:.0} in the median, {longest:.0} at most");
        text(&mut svg, at(longest) + 6.0, y + 39.0, 11.0, "start", &said);
    }
    svg + "</svg>\n"
}

fn legend(svg: &mut String, rows: &[Row]) {
    let mut x = 16.0;
    for (nth, (name, _)) in rows.first().map_or(&[][..], |row| &row.steps).iter().enumerate().skip(1) {
        rect(svg, [x, 66.0, 12.0, 12.0], colour(nth));
        text(svg, x + 17.0, 76.0, 11.5, "start", name);
        x += 34.0 + 7.2 * name.len() as f64;
    }
    rect(svg, [16.0, 90.0, 12.0, 10.0], "#555");
    text(svg, 33.0, 99.0, 11.5, "start", "the pause of the median client");
    rect(svg, [256.0, 90.0, 12.0, 10.0], "#ccc");
    text(svg, 273.0, 99.0, 11.5, "start", "of the client that waited longest");
}

fn colour(nth: usize) -> &'static str {
    COLOURS[(nth - 1) % COLOURS.len()]
}

/// The distance between two lines of the axis: 1, 2 or 5 times a power of ten, so that there are 5 to 12.
fn axis_step(most: f64) -> f64 {
    let tenth = 10_f64.powf((most / 10.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * tenth)
        .into_iter()
        .find(|step| most / step <= 12.0)
        .unwrap_or(most)
}

fn text(svg: &mut String, x: f64, y: f64, size: f64, anchor: &str, what: &str) {
    let weight = if size > 14.0 { "bold" } else { "normal" };
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{what}</text>"
    );
}

fn rect(svg: &mut String, [x, y, width, height]: [f64; 4], colour: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
    );
}
