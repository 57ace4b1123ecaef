//! The table of peers.

use std::cmp::Ordering;

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::app::descending;
use super::course::PeerView;
use super::short;
use crate::control::figures::PeerState;
use crate::units::precise;

/// A column that peers can be sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Column {
    Peer,
    State,
    Rtt,
    Loss,
    In,
    Out,
    Bytes,
    Queued,
    #[default]
    Doubt,
    Oldest,
}

/// All columns, from left to right.
pub(super) const COLUMNS: [Column; 10] = [
    Column::Peer,
    Column::State,
    Column::Rtt,
    Column::Loss,
    Column::In,
    Column::Out,
    Column::Bytes,
    Column::Queued,
    Column::Doubt,
    Column::Oldest,
];

/// The minimum and the maximum width of names and of bars.
const NAMES: (usize, usize) = (10, 56);
const BARS: (usize, usize) = (4, 60);

impl Column {
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Peer => "PEER",
            Self::State => "STATE",
            Self::Rtt => "RTT",
            Self::Loss => "LOSS",
            Self::In => "IN/s",
            Self::Out => "OUT/s",
            Self::Bytes => "BYTE/s",
            Self::Queued => "QUEUED",
            Self::Doubt => "DOUBT",
            Self::Oldest => "OLDEST",
        }
    }

    /// The name of the column in a sentence.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::State => "state",
            Self::Rtt => "round-trip time",
            Self::Loss => "loss",
            Self::In => "messages in",
            Self::Out => "messages out",
            Self::Bytes => "bytes",
            Self::Queued => "queued",
            Self::Doubt => "in doubt",
            Self::Oldest => "oldest in doubt",
        }
    }

    /// The width of the column. The width of names depends on the screen.
    const fn width(self) -> usize {
        match self {
            Self::Peer => 0,
            Self::State => 8,
            Self::Loss | Self::In | Self::Out => 5,
            Self::Rtt | Self::Bytes | Self::Queued | Self::Doubt | Self::Oldest => 6,
        }
    }

    const fn is_text(self) -> bool {
        matches!(self, Self::Peer | Self::State)
    }

    fn text(self, peer: &PeerView) -> String {
        let figures = &peer.figures;
        match self {
            Self::Peer => peer.called().to_owned(),
            Self::State => figures.state.name().to_owned(),
            Self::Rtt => short::rtt(figures.rtt_ms),
            Self::Loss => short::share(peer.loss),
            Self::Oldest => short::age(figures.oldest_in_doubt_ms),
            Self::In | Self::Out | Self::Bytes | Self::Queued | Self::Doubt => short::maybe(self.value(peer)),
        }
    }

    /// The value to sort by, if it is a number.
    fn value(self, peer: &PeerView) -> Option<f64> {
        let figures = &peer.figures;
        match self {
            Self::Peer | Self::State => None,
            Self::Rtt => figures.rtt_ms,
            Self::Loss => peer.loss,
            Self::In => peer.rates.map(|rates| rates.messages_in),
            Self::Out => peer.rates.map(|rates| rates.messages_out),
            Self::Bytes => peer.bytes(),
            Self::Queued => Some(precise(figures.queued)),
            Self::Doubt => Some(precise(figures.in_doubt)),
            Self::Oldest => figures.oldest_in_doubt_ms.map(precise),
        }
    }

    /// Texts are ascending and numbers descending, so that the peers that need attention come first.
    pub(super) fn order(self, a: &PeerView, b: &PeerView) -> Ordering {
        match self {
            Self::Peer => a.called().cmp(b.called()),
            Self::State => a.figures.state.cmp(&b.figures.state),
            _ => descending(self.value(a), self.value(b)),
        }
    }

    /// The order of peers with equal values.
    pub(super) fn tie(self, a: &PeerView, b: &PeerView) -> Ordering {
        [Self::Doubt, Self::Queued, Self::Peer]
            .into_iter()
            .fold(Ordering::Equal, |order, column| order.then_with(|| column.order(a, b)))
    }

    fn style(self, peer: &PeerView) -> Style {
        let (state, loss) = (peer.figures.state, peer.loss.unwrap_or_default());
        match self {
            Self::State => match state {
                PeerState::Up => Style::new().fg(Color::Green),
                PeerState::Opening => Style::new().fg(Color::Yellow),
                PeerState::Away | PeerState::Conflict => {
                    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
                }
                PeerState::Idle => Style::new().add_modifier(Modifier::DIM),
            },
            Self::Loss if loss >= 0.05 => Style::new().fg(Color::Red),
            Self::Loss if loss > 0.0 => Style::new().fg(Color::Yellow),
            // A second is longer than the round trip of any path.
            Self::Doubt | Self::Oldest if peer.figures.oldest_in_doubt_ms > Some(1_000) => {
                Style::new().fg(Color::Yellow)
            }
            _ => Style::new(),
        }
    }
}

/// The widths of the table on a screen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    name: usize,
    bars: usize,
}

impl Layout {
    /// The layout for `width` characters and names of at most `longest` characters.
    pub(super) fn new(width: usize, longest: usize) -> Self {
        let fixed: usize = COLUMNS.iter().map(|column| column.width() + 1).sum();
        let left = width.saturating_sub(fixed);
        // Bars get half of the spare width, and the part that names do not need.
        let spare = left.saturating_sub(NAMES.0 + BARS.0);
        let name = (NAMES.0 + spare / 2).clamp(NAMES.0, longest.clamp(NAMES.0, NAMES.1));
        Self { name, bars: left.saturating_sub(name).clamp(BARS.0, BARS.1) }
    }

    fn cell(self, column: Column, text: &str) -> String {
        let width = if column == Column::Peer { self.name } else { column.width() };
        let cut: String = text.chars().take(width).collect();
        if column.is_text() { format!("{cut:<width$} ") } else { format!("{cut:>width$} ") }
    }

    /// The titles. The title of the column by which the table is sorted stands out.
    pub(super) fn head(self, sort: Column) -> Line<'static> {
        let title = |column: Column| {
            let style = Style::new().add_modifier(Modifier::BOLD);
            let style = if column == sort { style.add_modifier(Modifier::UNDERLINED) } else { style };
            let cell = self.cell(column, column.title());
            // The underline is as long as the title.
            let text = cell.trim().to_owned();
            let (before, after) = cell.split_once(text.as_str()).unwrap_or_default();
            [Span::raw(before.to_owned()), Span::styled(text, style), Span::raw(after.to_owned())]
        };
        let mut spans: Vec<Span<'static>> = COLUMNS.into_iter().flat_map(title).collect();
        spans.push(Span::styled("BYTES", Style::new().add_modifier(Modifier::DIM)));
        Line::from(spans)
    }

    pub(super) fn row(self, peer: &PeerView) -> Line<'static> {
        let cell = |column: Column| Span::styled(self.cell(column, &column.text(peer)), column.style(peer));
        let mut spans: Vec<Span<'static>> = COLUMNS.into_iter().map(cell).collect();
        spans.push(Span::styled(short::bars(&peer.trend, self.bars), Style::new().fg(Color::Cyan)));
        Line::from(spans)
    }
}
