//! The picture as lines.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Clear, Paragraph};

use super::app::App;
use super::course::{PeerView, View};
use super::short;
use super::table::Layout;
use crate::control::figures::PeerState;
use crate::units::{Size, count, counted, whole};

const KEYS: &str = "q quit  ? help  p pause  / filter  < > sort";
const HELP: [&str; 14] = [
    "q, Ctrl-C         quit",
    "up, down, j, k    choose a peer: its id and address stand below",
    "page up, down     a screen further; home, end: to the first, the last",
    "left, right       sort by the next column; 1 to 9 and 0: by that one",
    "r                 sort in the other direction",
    "/                 show only peers with this in name, id, address or state",
    "p, space          pause; continue",
    "Esc               forget the filter; quit",
    "",
    "IN/s OUT/s        messages a second        BYTE/s   bytes a second, both ways",
    "LOSS              packets lost, of those of the last 10 s",
    "QUEUED            messages that have not left",
    "DOUBT, OLDEST     messages that have left and have no outcome, and for how long",
    "BYTES             BYTE/s over time, each peer on a scale of its own",
];

/// A dimmed line.
fn remark(text: impl Into<String>) -> Line<'static> {
    Line::styled(text.into(), Style::new().add_modifier(Modifier::DIM))
}

fn bold(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::BOLD))
}

fn rate(rate: Option<f64>) -> String {
    rate.and_then(whole).map_or_else(|| short::NONE.to_owned(), count)
}

fn bytes(rate: Option<f64>) -> String {
    rate.and_then(whole).map_or_else(|| short::NONE.to_owned(), |rate| Size(rate).to_string())
}

/// The lines about the node.
fn head(view: &View) -> Vec<Line<'static>> {
    let (node, rates) = (&view.node, view.rates);
    let up = short::uptime(Duration::from_millis(node.up_ms));
    let mut of_node = vec![bold(node.identity.clone())];
    of_node.push(Span::raw(format!(
        "   exon {} (process {}, {})   durability {}   up {up}",
        node.command, node.pid, node.version, node.durability
    )));
    let there = view.peers.iter().filter(|peer| peer.figures.state == PeerState::Up).count();
    let peers = counted(view.peers.len() as u64, "peer");
    vec![
        Line::from(of_node),
        Line::raw(node.peer.clone()),
        Line::raw(format!(
            "messages/s in {}, out {}   bytes/s in {}, out {}",
            rate(rates.map(|rates| rates.messages_in)),
            rate(rates.map(|rates| rates.messages_out)),
            bytes(rates.map(|rates| rates.bytes_in)),
            bytes(rates.map(|rates| rates.bytes_out)),
        )),
        Line::raw(format!(
            "in doubt {}  queued {}  not taken {}  unknown {}  journal lag {}  {peers}, {} up",
            count(view.in_doubt),
            count(view.queued),
            count(node.figure("messages_waiting")),
            count(node.figure("messages_unknown")),
            Size(node.journal_lag_bytes),
            count(there as u64),
        )),
    ]
}

/// The line about the current state.
fn state(app: &App, shown: usize) -> Line<'static> {
    let loud = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
    if let Some(trouble) = app.trouble() {
        return Line::styled(trouble.to_owned(), Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
    }
    let mut parts = Vec::new();
    if app.is_paused() {
        parts.push("paused: p continues".to_owned());
    }
    if let Some((filter, typing)) = app.filter() {
        let cursor = if typing { "_" } else { "" };
        let all = app.view().map_or(0, |view| view.peers.len());
        parts.push(format!("/{filter}{cursor}   {} of {}", count(shown as u64), counted(all as u64, "peer")));
    }
    Line::styled(parts.join("   "), loud)
}

fn layout(width: usize, shown: &[&PeerView]) -> Layout {
    Layout::new(width, shown.iter().map(|peer| peer.called().len()).max().unwrap_or_default())
}

/// The line that replaces an empty table.
fn nothing(app: &App) -> Line<'static> {
    match (app.view(), app.filter()) {
        (None, _) => remark("looking ..."),
        (_, Some((filter, _))) if !filter.is_empty() => {
            remark(format!("no peer has {filter:?}; Esc shows all"))
        }
        _ => remark("no peers yet: others reach this node at the address above"),
    }
}

/// The lines about the chosen peer and the order of the table.
fn foot(app: &App, shown: &[&PeerView]) -> [Line<'static>; 2] {
    let (cursor, _) = app.place();
    let chosen = shown.get(cursor).map_or_else(String::new, |peer| {
        let figures = &peer.figures;
        let at = figures.address.as_deref().map_or_else(String::new, |address| format!("@{address}"));
        let carrier = if figures.tcp { " (tcp)" } else { "" };
        format!("{}{at}{carrier}", figures.id)
    });
    let place = if shown.is_empty() { 0 } else { cursor + 1 };
    let way = if app.reversed() { ", reversed" } else { "" };
    let sorted =
        format!("   {} of {} by {}{way}", count(place as u64), count(shown.len() as u64), app.sort().name());
    [Line::raw(chosen), Line::from(vec![bold(KEYS), Span::raw(sorted)])]
}

/// Draws the picture, on a screen of any size.
pub(crate) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = app.view().map(head).unwrap_or_default();
    // Besides the head, there is a line for the state, a line for the titles, and two lines at the foot.
    let room = height.saturating_sub(lines.len() + 4);
    app.fit(room);
    let shown = app.shown();
    let ((cursor, top), table) = (app.place(), layout(width, &shown));
    lines.push(state(app, shown.len()));
    lines.push(table.head(app.sort()));
    if shown.is_empty() {
        lines.push(nothing(app));
    }
    for (at, peer) in shown.iter().enumerate().skip(top).take(room) {
        let mut row = table.row(peer);
        // Only the name is reversed: reversed bars would be misleading.
        if let Some(name) = row.spans.first_mut().filter(|_| at == cursor) {
            name.style = name.style.add_modifier(Modifier::REVERSED);
        }
        lines.push(row);
    }
    lines.resize(height.saturating_sub(2).max(lines.len().min(height)), Line::default());
    lines.truncate(height.saturating_sub(2));
    lines.extend(foot(app, &shown));
    let helps = app.wants_help();
    let (text, area) = (shaded(lines, app.colour()), frame.area());
    frame.render_widget(Paragraph::new(text), area);
    if helps {
        help(frame, area);
    }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'static>> = [Line::default(), Line::from(bold("KEYS")), Line::default()]
        .into_iter()
        .chain(HELP.map(Line::raw))
        .collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(Text::from(lines)), area);
}

/// Removes colours if the user wants none. Words say the same as the colours.
fn shaded(mut lines: Vec<Line<'static>>, colour: bool) -> Text<'static> {
    if !colour {
        for line in &mut lines {
            line.style.fg = None;
            line.spans.iter_mut().for_each(|span| span.style.fg = None);
        }
    }
    Text::from(lines)
}

/// The picture as plain text of `width` characters, with all peers.
pub(crate) fn whole_text(app: &App, width: usize) -> String {
    let shown = app.shown();
    let table = layout(width, &shown);
    let mut lines = app.view().map(head).unwrap_or_default();
    lines.push(Line::default());
    if shown.is_empty() {
        lines.push(nothing(app));
    } else {
        lines.push(table.head(app.sort()));
        lines.extend(shown.iter().map(|peer| table.row(peer)));
    }
    let plain = |line: Line<'_>| {
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        text.trim_end().to_owned()
    };
    lines.into_iter().map(plain).collect::<Vec<_>>().join("\n")
}
