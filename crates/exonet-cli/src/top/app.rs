//! The state of the view: the figures, and the choices of the user.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::course::{PeerView, View};
use super::table::{COLUMNS, Column};

/// The longest filter.
const LONGEST_FILTER: usize = 60;

/// The action that a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    Quit,
    /// End as on an interrupt signal.
    Interrupt,
}

/// The figures, and the choices of the user.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// None: there is no sample yet.
    view: Option<View>,
    /// The newest figures while the picture is paused.
    newer: Option<View>,
    sort: Column,
    /// Sorts in the reverse of the usual order of the column.
    reversed: bool,
    filter: String,
    typing: bool,
    help: bool,
    paused: bool,
    /// The index of the chosen peer among the shown peers.
    cursor: usize,
    /// The index of the first peer on the screen.
    top: usize,
    /// The number of peers that fit on the screen.
    room: usize,
    /// The reason why there are no new figures.
    trouble: Option<String>,
    colour: bool,
}

impl App {
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour, ..Self::default() }
    }

    /// Shows new figures.
    pub(crate) fn show(&mut self, view: View) {
        self.trouble = None;
        if self.paused && self.view.is_some() {
            self.newer = Some(view);
        } else {
            self.view = Some(view);
        }
        self.keep_in_sight();
    }

    /// Notes the reason why there are no new figures.
    pub(crate) fn lack(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// Handles a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Asked {
        let plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Asked::Interrupt,
            _ if self.help => self.help = false,
            code if self.typing => self.type_in(code, plain),
            KeyCode::Char('q') if plain => return Asked::Quit,
            KeyCode::Esc if self.filter.is_empty() => return Asked::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Right | KeyCode::Char('>') => self.sort_by(1),
            KeyCode::Left | KeyCode::Char('<') => self.sort_by(COLUMNS.len() - 1),
            KeyCode::Char(digit @ '0'..='9') => self.sort_by_number(digit),
            code => self.travel(code),
        }
        self.keep_in_sight();
        Asked::Nothing
    }

    fn type_in(&mut self, code: KeyCode, plain: bool) {
        match code {
            KeyCode::Char(c) if plain && self.filter.len() < LONGEST_FILTER && c.is_ascii_graphic() => {
                self.filter.push(c);
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            code => self.travel(code),
        }
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let Some(newer) = self.newer.take_if(|_| !self.paused) {
            self.view = Some(newer);
        }
    }

    fn sort_by(&mut self, further: usize) {
        let at = COLUMNS.iter().position(|column| *column == self.sort).unwrap_or_default();
        self.sort_at((at + further) % COLUMNS.len());
    }

    fn sort_by_number(&mut self, digit: char) {
        let digit = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).unwrap_or_default();
        // 0 comes after 9, as on a keyboard.
        self.sort_at((digit + 9) % 10);
    }

    fn sort_at(&mut self, at: usize) {
        if let Some(column) = COLUMNS.get(at) {
            (self.sort, self.reversed) = (*column, false);
        }
    }

    fn travel(&mut self, code: KeyCode) {
        let page = self.room.max(1);
        self.cursor = match code {
            KeyCode::Up | KeyCode::Char('k') => self.cursor.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.cursor.saturating_add(1),
            KeyCode::PageUp => self.cursor.saturating_sub(page),
            KeyCode::PageDown => self.cursor.saturating_add(page),
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => self.cursor,
        };
    }

    /// Sets the number of peers that fit on the screen.
    pub(super) fn fit(&mut self, room: usize) {
        self.room = room;
        self.keep_in_sight();
    }

    /// Keeps the chosen peer among the shown peers, and on the screen.
    fn keep_in_sight(&mut self) {
        let shown = self.shown().len();
        self.cursor = self.cursor.min(shown.saturating_sub(1));
        let room = self.room.max(1);
        self.top = self.top.min(self.cursor).max((self.cursor + 1).saturating_sub(room));
        // There are no empty lines below while there are peers above.
        self.top = self.top.min(shown.saturating_sub(room));
    }

    /// The peers that match the filter, in the chosen order.
    pub(super) fn shown(&self) -> Vec<&PeerView> {
        let peers = self.view.iter().flat_map(|view| &view.peers);
        let mut shown: Vec<&PeerView> = peers.filter(|peer| self.lets_through(peer)).collect();
        let order = |a: &&PeerView, b: &&PeerView| {
            let order = self.sort.order(a, b);
            let order = if self.reversed { order.reverse() } else { order };
            // Peers that compare equal keep their order from one sample to the next.
            order.then_with(|| self.sort.tie(a, b)).then_with(|| a.figures.id.cmp(&b.figures.id))
        };
        shown.sort_by(order);
        shown
    }

    fn lets_through(&self, peer: &PeerView) -> bool {
        let filter = self.filter.to_ascii_lowercase();
        let has = |text: &str| text.to_ascii_lowercase().contains(&filter);
        has(peer.called())
            || has(&peer.figures.id)
            || peer.figures.address.as_deref().is_some_and(has)
            || has(peer.figures.state.name())
    }

    pub(super) const fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    pub(super) const fn sort(&self) -> Column {
        self.sort
    }

    pub(super) const fn reversed(&self) -> bool {
        self.reversed
    }

    pub(super) const fn colour(&self) -> bool {
        self.colour
    }

    pub(super) const fn wants_help(&self) -> bool {
        self.help
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }

    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The filter, if there is one, and whether it is being typed.
    pub(super) fn filter(&self) -> Option<(&str, bool)> {
        (self.typing || !self.filter.is_empty()).then_some((&*self.filter, self.typing))
    }

    /// The indexes of the chosen peer and of the first peer on the screen.
    pub(super) const fn place(&self) -> (usize, usize) {
        (self.cursor, self.top)
    }
}

/// Orders two numbers that may be unknown: the larger comes first, and an unknown one last.
pub(super) fn descending(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
