//! `exon top`: watches a running node.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::running;
use super::stop::requests;
use crate::args::TopArgs;
use crate::control::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::identity::Identity;
use crate::peers;
use crate::settings::Settings;
use crate::top::{App, Asked, Course, Said, Sample, Screen, line, unfit, whole_text};

/// The interval between two samples.
const EVERY: Duration = Duration::from_secs(1);
/// The width of plain text that does not go to a terminal.
const WIDTH: usize = 120;

pub(super) async fn run(settings: &Settings, args: &TopArgs) -> Result<Exit, Failure> {
    let output = settings.output;
    let process = running::find(settings).await?;
    let mut course = Course::new(peers::names(settings));
    let first = Sample::take(&process).await?;
    if output.is_json() {
        course.add(first);
        return tell(settings, &process, course, args.once).await;
    }
    if args.once {
        course.add(first);
        sleep(EVERY).await;
        let mut app = App::new(false);
        app.show(course.add(Sample::take(&process).await?));
        let width = if output.is_terminal() { usize::from(console::Term::stdout().size().1) } else { WIDTH };
        output.text(&whole_text(&app, width))?;
        return Ok(Exit::Success);
    }
    if !output.is_terminal() {
        return Err(Failure::new("standard output is not a terminal, which `exon top` needs")
            .hint("--once prints one screen as plain text, --json a line per second"));
    }
    watch(settings, course, first).await
}

/// Prints a line a second, from the second sample on, because rates need two.
async fn tell(
    settings: &Settings,
    process: &Client,
    mut course: Course,
    once: bool,
) -> Result<Exit, Failure> {
    let mut stop = requests(2)?;
    let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|requests| *requests > 0) => return Ok(Exit::Interrupted),
            _ = ticks.tick() => {}
        }
        let view = course.add(Sample::take(process).await?);
        settings.output.line(&line(&view))?;
        if once {
            return Ok(Exit::Success);
        }
    }
}

/// Shows the node until the user quits. If the node ends, waits for the next node of the identity.
async fn watch(settings: &Settings, mut course: Course, first: Sample) -> Result<Exit, Failure> {
    let mut stop = requests(2)?;
    // This respects NO_COLOR and terminals without colors.
    let mut app = App::new(console::colors_enabled());
    app.show(course.add(first));
    let mut screen = Screen::take()?;
    let mut looks = looks(settings.identity.clone());
    loop {
        screen.show(&mut app)?;
        tokio::select! {
            _ = stop.wait_for(|requests| *requests > 0) => return Ok(Exit::Interrupted),
            said = screen.next() => match said {
                Said::Key(key) => match app.press(key) {
                    Asked::Nothing => {}
                    Asked::Quit => return Ok(Exit::Success),
                    Asked::Interrupt => return Ok(Exit::Interrupted),
                },
                Said::Resized => {}
                Said::Gone(error) => return Err(unfit(&error)),
            },
            Some(seen) = looks.recv() => match seen {
                Ok(sample) => app.show(course.add(sample)),
                Err(failure) => app.lack(format!("{}: waiting", failure.in_parts().0)),
            },
        }
    }
}

/// Takes a sample once a second in a separate task: a node that hangs must not keep the user from quitting.
fn looks(identity: Identity) -> mpsc::Receiver<Result<Sample, Failure>> {
    let (say, seen) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if say.send(look(&identity).await).await.is_err() {
                return;
            }
        }
    });
    seen
}

async fn look(identity: &Identity) -> Result<Sample, Failure> {
    match Client::find(identity).await? {
        Some(process) => Sample::take(&process).await,
        None => Err(Failure::new(format!("no node runs identity {identity} now"))),
    }
}
