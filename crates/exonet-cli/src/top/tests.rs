//! Pictures, as a terminal would show them.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::course::{Course, View};
use super::draw::draw;
use super::*;
use crate::control::figures::{NodeFigures, PeerFigures, PeerState};

fn node(up_ms: u64) -> NodeFigures {
    let figures = [("messages_sent", up_ms), ("messages_received", 2 * up_ms), ("out_bytes", 1_024 * up_ms)];
    NodeFigures {
        id: "wyh5".repeat(14),
        peer: format!("{}@192.0.2.7:3966", "wyh5".repeat(14)),
        identity: "shop".to_owned(),
        command: "up".to_owned(),
        pid: 4_242,
        version: "0.1.0".to_owned(),
        durability: "sync".to_owned(),
        up_ms,
        journal_lag_bytes: 1_536,
        figures: figures.map(|(name, figure)| (name.to_owned(), figure)).into(),
    }
}

/// The peer of this number after `looks` samples. Each peer sends more than the one before it.
fn peer(n: u64, looks: u64) -> PeerFigures {
    PeerFigures {
        id: format!("{n:04}{}", "abcd".repeat(13)),
        state: [PeerState::Up, PeerState::Away, PeerState::Idle][usize::try_from(n % 3).unwrap()],
        address: n.is_multiple_of(3).then(|| format!("192.0.2.{}:7", n % 200)),
        tcp: false,
        rtt_ms: n.is_multiple_of(3).then_some(n as f64),
        packets_sent: looks * 100,
        packets_lost: looks * (n % 3),
        messages_in: looks * n,
        messages_out: looks * 2 * n,
        bytes_in: looks * n * 10,
        bytes_out: looks * looks * n,
        queued: n / 2,
        in_doubt: n,
        oldest_in_doubt_ms: (n > 0).then_some(n * 1_000),
    }
}

fn view(peers: u64) -> View {
    let mut course = Course::new([(peer(1, 0).id, "till-7".to_owned())].into());
    let at = |look: u64| Sample {
        node: node(60_000 + look * 1_000),
        peers: (0..peers).map(|n| peer(n, look)).collect(),
    };
    for look in 0..20 {
        course.add(at(look));
    }
    course.add(at(20))
}

fn app(peers: u64) -> App {
    let mut app = App::new(true);
    app.show(view(peers));
    app
}

fn terminal(width: u16, height: u16) -> Terminal<TestBackend> {
    Terminal::new(TestBackend::new(width, height)).unwrap()
}

fn shown_in(terminal: &mut Terminal<TestBackend>, app: &mut App) -> Vec<String> {
    terminal.draw(|frame| draw(app, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(buffer.area.width).max(1));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()).collect()
}

fn shown(app: &mut App) -> Vec<String> {
    shown_in(&mut terminal(80, 24), app)
}

fn press(app: &mut App, code: KeyCode) -> Asked {
    app.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_in(app: &mut App, text: &str) {
    for c in text.chars() {
        press(app, KeyCode::Char(c));
    }
}

/// The first column of the rows of the table.
fn names(lines: &[String]) -> Vec<&str> {
    let rows = lines.iter().skip(6).take(lines.len().saturating_sub(8));
    rows.filter_map(|row| row.split_whitespace().next()).collect()
}

#[test]
fn a_node_with_peers_fits_on_the_smallest_terminal() {
    let lines = shown(&mut app(4));
    assert!(
        lines[0].starts_with("shop   exon up (process 4242, 0.1.0)   durability sync   up 1 min 20 s"),
        "{lines:?}"
    );
    assert!(lines[1].ends_with("@192.0.2.7:3966"));
    assert_eq!(lines[2], "messages/s in 2,000, out 1,000   bytes/s in 0 B, out 1000.0 KiB");
    assert!(
        lines[3]
            .starts_with("in doubt 6  queued 2  not taken 0  unknown 0  journal lag 1.5 KiB  4 peers, 2 up")
    );
    assert_eq!(lines[5], "PEER        STATE       RTT  LOSS  IN/s OUT/s BYTE/s QUEUED  DOUBT OLDEST BYTES");
    assert_eq!(names(&lines)[..2], ["0003abcdabc", "0002abcdabc"], "most in doubt comes first");
    let till = lines.iter().find(|line| line.starts_with("till-7")).unwrap();
    let cells: Vec<&str> = till.split_whitespace().collect();
    assert_eq!(cells[1..10], ["away", "-", "1.0%", "1", "2", "49", "0", "1", "1s"]);
    assert!(cells[10].contains('█'), "{till}");
    assert!(lines[22].starts_with("0003abcd") && lines[22].ends_with("@192.0.2.3:7"), "{}", lines[22]);
    assert!(lines[23].starts_with("q quit"), "{}", lines[23]);
}

#[test]
fn a_node_without_peers_says_so() {
    let lines = shown(&mut app(0));
    assert!(lines[6].contains("no peers yet"), "{lines:?}");
    let none = shown(&mut App::new(true));
    assert!(none.iter().any(|line| line.contains("looking")));
}

#[test]
fn a_thousand_peers_scroll() {
    let mut app = app(1_000);
    assert_eq!(names(&shown(&mut app)).len(), 16);
    press(&mut app, KeyCode::End);
    let lines = shown(&mut app);
    assert!(names(&lines).last().unwrap().starts_with("0000"), "{lines:?}");
    assert!(lines[22].starts_with("0000abcd") && lines[23].contains("1,000 of 1,000"), "{lines:?}");
    press(&mut app, KeyCode::Up);
    press(&mut app, KeyCode::PageUp);
    let lines = shown(&mut app);
    assert!(lines[22].starts_with("0017abcd"), "{}", lines[22]);
    press(&mut app, KeyCode::Home);
    assert!(names(&shown(&mut app))[0].starts_with("0999"));
    // The number of peers shrinks.
    press(&mut app, KeyCode::End);
    app.show(view(3));
    assert_eq!(names(&shown(&mut app)).len(), 3);
}

#[test]
fn every_column_sorts_both_ways() {
    let mut app = app(30);
    for digit in "1234567890".chars() {
        press(&mut app, KeyCode::Char(digit));
        let (first, lines) = (app.shown()[0].figures.id.clone(), shown(&mut app));
        let highest = match digit {
            '1' => "0000",
            '2' => "0028",
            '3' => "0027",
            '4' => "0029",
            _ => "0029",
        };
        assert!(first.starts_with(highest), "{digit}: {first}\n{}", lines.join("\n"));
        press(&mut app, KeyCode::Char('r'));
        assert_ne!(app.shown()[0].figures.id, first, "{digit}");
    }
    press(&mut app, KeyCode::Right);
    assert!(shown(&mut app)[23].contains("by peer"), "behind the last comes the first");
    press(&mut app, KeyCode::Left);
    assert!(shown(&mut app)[23].contains("by oldest in doubt"));
}

#[test]
fn a_filter_is_typed_kept_and_forgotten() {
    let mut app = app(30);
    press(&mut app, KeyCode::Char('/'));
    type_in(&mut app, "Tillq");
    assert!(shown(&mut app)[4].contains("/Tillq_   0 of 30 peers"), "q is typed, and quits not");
    assert!(shown(&mut app)[6].contains("no peer has"));
    press(&mut app, KeyCode::Backspace);
    press(&mut app, KeyCode::Enter);
    let lines = shown(&mut app);
    assert_eq!((names(&lines), &*lines[4]), (vec!["till-7"], "/Till   1 of 30 peers"));
    assert_eq!(press(&mut app, KeyCode::Esc), Asked::Nothing);
    assert_eq!(names(&shown(&mut app)).len(), 16);
    assert_eq!(press(&mut app, KeyCode::Esc), Asked::Quit);
}

#[test]
fn a_pause_keeps_the_picture_and_then_shows_the_latest() {
    let mut app = app(4);
    press(&mut app, KeyCode::Char('p'));
    app.show(view(9));
    let lines = shown(&mut app);
    assert!(lines[4].contains("paused") && lines[3].contains("4 peers"), "{lines:?}");
    press(&mut app, KeyCode::Char(' '));
    assert!(shown(&mut app)[3].contains("9 peers"));
}

#[test]
fn help_covers_the_picture_until_the_next_key() {
    let mut app = app(4);
    press(&mut app, KeyCode::Char('?'));
    let lines = shown(&mut app);
    assert!(
        lines.iter().any(|line| line.contains("sort in the other direction")) && !lines[0].contains("shop")
    );
    assert!(lines.iter().all(|line| line.chars().count() <= 80));
    assert_eq!(press(&mut app, KeyCode::Char('q')), Asked::Nothing, "it closes the help");
    assert!(shown(&mut app)[0].contains("shop"));
    assert_eq!(press(&mut app, KeyCode::Char('q')), Asked::Quit);
    assert_eq!(app.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Asked::Interrupt);
}

#[test]
fn a_node_that_has_ended_leaves_its_last_picture() {
    let mut app = app(4);
    app.lack("no node runs identity shop now: waiting".to_owned());
    let lines = shown(&mut app);
    assert_eq!((names(&lines).len(), &*lines[4]), (4, "no node runs identity shop now: waiting"));
    app.show(view(4));
    assert_eq!(shown(&mut app)[4], "");
}

#[test]
fn any_size_is_drawn_on() {
    for (width, height) in [(0, 0), (1, 1), (10, 3), (40, 7), (79, 24), (300, 90)] {
        for peers in [0, 3, 200] {
            let (mut app, mut terminal) = (app(peers), terminal(width, height));
            shown_in(&mut terminal, &mut app);
            press(&mut app, KeyCode::End);
            press(&mut app, KeyCode::Char('?'));
            shown_in(&mut terminal, &mut app);
        }
    }
    let mut app = app(30);
    let wide = shown_in(&mut terminal(200, 24), &mut app);
    assert!(names(&wide)[0].len() == 56, "a wide screen shows whole ids: {}", wide[6]);
}

#[test]
fn without_colour_there_is_none() {
    let colours = |colour: bool| {
        let mut app = App::new(colour);
        app.show(view(6));
        let mut terminal = terminal(80, 24);
        terminal.draw(|frame| draw(&mut app, frame)).unwrap();
        let cells = terminal.backend().buffer().content();
        let modified = cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED));
        (cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset), modified)
    };
    assert_eq!((colours(true), colours(false)), ((true, true), (false, true)));
}

#[test]
fn plain_text_has_all_peers_and_no_blank_ends() {
    let text = whole_text(&app(100), 120);
    assert_eq!(text.lines().count(), 6 + 100);
    assert!(text.lines().all(|line| line.trim_end() == line && line.chars().count() <= 120), "{text}");
    assert!(whole_text(&app(0), 80).ends_with("at the address above"));
}

#[test]
fn a_script_is_told_rates_and_what_is_not_known() {
    let told = serde_json::to_value(line(&view(2))).unwrap();
    assert_eq!((&told["type"], &told["node"]["messages_out_per_second"]), (&"top".into(), &1_000.0.into()));
    assert_eq!((&told["node"]["in_doubt"], &told["peers"][1]["name"]), (&1.into(), &"till-7".into()));
    let peer = &told["peers"][1];
    assert_eq!(
        (&peer["state"], &peer["rtt_ms"], &peer["loss"]),
        (&"away".into(), &serde_json::Value::Null, &0.01.into())
    );
    assert_eq!((&peer["messages_in_per_second"], &peer["bytes_out_per_second"]), (&1.0.into(), &39.into()));
    assert_eq!(Duration::from_millis(told["node"]["up_ms"].as_u64().unwrap()).as_secs(), 80);
}
