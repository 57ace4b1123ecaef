//! The steps from a state.

use std::rc::Rc;

use super::Scene;
use super::ledger::{Fate, Message};
use super::world::{Bound, Copy, World, Wrong};
use crate::half::{Gap, Mark, Receiver};

struct Steps<'a> {
    scene: &'a Scene,
    from: &'a World,
    to: Vec<(String, World)>,
}

/// Every step from a state, and where it leads.
pub(super) fn of(scene: &Scene, from: &World) -> Vec<(String, World)> {
    let mut this = Steps { scene, from, to: Vec::new() };
    this.writes();
    for m in 0..scene.script.len() {
        this.gives_up(m as Message);
    }
    for at in 0..from.tokens.len() {
        this.comes(at as u8, &from.tokens[at]);
    }
    this.reads();
    this.claims();
    this.crashes();
    this.to
}

impl Steps<'_> {
    fn add(&mut self, what: String, change: impl FnOnce(&Scene, &mut World) -> Result<(), Wrong>) {
        let mut to = self.from.clone();
        to.wrong = change(self.scene, &mut to).err();
        if to != *self.from {
            self.to.push((what, to));
        }
    }

    // --- the writer ---

    fn writes(&mut self) {
        for stream in 0..2 {
            if let Some(m) = self.from.writer.next_of(self.scene, stream) {
                self.add(format!("m{m} is bound"), |scene, w| {
                    let ledger = Rc::make_mut(&mut w.ledger);
                    let token = Rc::make_mut(&mut w.writer).bind(scene, ledger, m);
                    Rc::make_mut(&mut w.tokens).extend(token);
                    Ok(())
                });
            }
        }
        if self.from.writer.may_close() {
            self.add("the writer closes its record".into(), |_, w| {
                Rc::make_mut(&mut w.writer).close();
                Ok(())
            });
        }
    }

    fn gives_up(&mut self, m: Message) {
        let (left, open) = (self.from.left, self.from.ledger.fate(m) == Fate::Open);
        if open && left.cancels > 0 && self.from.writer.may_cancel(self.scene, m) {
            self.add(format!("m{m} is not wanted any more"), |scene, w| {
                w.left.cancels -= 1;
                let slot = w.writer.slot_of(m);
                if Rc::make_mut(&mut w.writer).cancel(scene, Rc::make_mut(&mut w.ledger), m)? {
                    let tokens = Rc::make_mut(&mut w.tokens).iter_mut();
                    tokens.filter(|token| Some(token.s) == slot).for_each(|token| token.revoked = true);
                }
                Ok(())
            });
        }
        if let Some(s) = self.from.writer.slot_of(m).filter(|_| open && left.gives_up > 0) {
            self.add(format!("m{m} is given up"), |scene, w| {
                w.left.gives_up -= 1;
                let ledger = Rc::make_mut(&mut w.ledger);
                Rc::make_mut(&mut w.writer).give_up(scene, ledger, m, s, Fate::Unknown)
            });
        }
    }

    // --- what the network has of a message ---

    fn comes(&mut self, at: u8, token: &Bound) {
        let Bound { m, s, .. } = *token;
        let place = usize::from(at);
        if let Some(gap) = self.from.reader.turn_of(self.scene, token) {
            self.add(format!("m{m} in {} comes, and the application hears {gap:?}", s.0), |scene, w| {
                Rc::make_mut(&mut w.ledger).hear(m, gap)?;
                let reader = Rc::make_mut(&mut w.reader);
                if gap == Gap::Breaks {
                    reader.break_off(scene, token);
                    return Ok(());
                }
                if scene.hands_out {
                    reader.handed = Some(at);
                    return Ok(());
                }
                let (ledger, tokens) = (Rc::make_mut(&mut w.ledger), Rc::make_mut(&mut w.tokens));
                reader.take(scene, ledger, &mut tokens[place], None)
            });
        }
        if token.revoked {
            self.add(format!("REVOKE_STREAM of m{m} in {} comes", s.0), |scene, w| {
                let (ledger, tokens) = (Rc::make_mut(&mut w.ledger), Rc::make_mut(&mut w.tokens));
                Rc::make_mut(&mut w.reader).on_revoke(scene, ledger, at, &mut tokens[place])
            });
        }
        if token.withdrawn {
            self.add(format!("WITHDRAWN of m{m} in {} comes", s.0), |scene, w| {
                let ledger = Rc::make_mut(&mut w.ledger);
                Rc::make_mut(&mut w.writer).on_withdrawn(scene, ledger, token)
            });
        }
        if let Some(mark) = token.verdict {
            let fate = if mark == Mark::Rejected { Fate::Rejected } else { Fate::Delivered };
            self.add(format!("VERDICT of m{m} in {} comes: {mark:?}", s.0), |scene, w| {
                let ledger = Rc::make_mut(&mut w.ledger);
                Rc::make_mut(&mut w.writer).on_verdict(scene, ledger, token, fate)
            });
        }
    }

    // --- the reader ---

    fn reads(&mut self) {
        let (reader, left) = (&self.from.reader, self.from.left);
        if let Some(at) = reader.handed {
            let m = self.from.tokens[usize::from(at)].m;
            for mark in [None, Some(Mark::Done), Some(Mark::Rejected)] {
                if mark.is_some() && left.marks == 0 {
                    continue;
                }
                let word = mark.map_or("takes".into(), |mark| format!("says {mark:?} of"));
                self.add(format!("the application {word} m{m}"), |scene, w| {
                    w.left.marks -= u8::from(mark.is_some());
                    let (ledger, tokens) = (Rc::make_mut(&mut w.ledger), Rc::make_mut(&mut w.tokens));
                    let reader = Rc::make_mut(&mut w.reader);
                    reader.handed = None;
                    reader.take(scene, ledger, &mut tokens[usize::from(at)], mark)
                });
            }
            self.add(format!("the application gives m{m} back"), |_, w| {
                Rc::make_mut(&mut w.reader).handed = None;
                Ok(())
            });
        }
        let Some(record) = reader.record.as_ref() else { return };
        if left.evictions > 0 {
            self.add("the reader evicts its record".into(), |_, w| {
                w.left.evictions -= 1;
                Rc::make_mut(&mut w.reader).evict(Rc::make_mut(&mut w.ledger));
                Ok(())
            });
        }
        if left.ends > 0 && !record.is_closed() {
            self.add("the reader closes its record".into(), |_, w| {
                w.left.ends -= 1;
                Rc::make_mut(&mut w.reader).close();
                Ok(())
            });
        }
    }

    // --- ASK and STATE ---

    fn claims(&mut self) {
        let has_record = self.from.reader.record.is_some();
        self.add("ASK comes".into(), |scene, w| {
            let ask = Rc::make_mut(&mut w.writer).ask(scene);
            if ask.n > 0 || has_record {
                Rc::make_mut(&mut w.reader).on_ask(scene, ask);
            }
            Ok(())
        });
        let says = self.from.writer.sender.is_some();
        if says {
            self.add("STATE comes".into(), |scene, w| {
                let (state, ledger) = (w.reader.state(), Rc::make_mut(&mut w.ledger));
                Rc::make_mut(&mut w.writer).on_state(scene, ledger, &w.tokens, &state)
            });
        }
        self.copies();
        if self.from.left.copies == 0 {
            return;
        }
        if says {
            self.add("the network keeps an ASK".into(), |scene, w| {
                w.left.copies -= 1;
                let ask = Rc::make_mut(&mut w.writer).ask(scene);
                Rc::make_mut(&mut w.copies).push(Copy::of_ask(ask));
                Ok(())
            });
        }
        if self.from.reader.record.as_ref().is_some_and(|record: &Receiver| record.free() > 0) {
            self.add("the network keeps a STATE".into(), |_, w| {
                w.left.copies -= 1;
                let state = w.reader.state();
                Rc::make_mut(&mut w.copies).push(Copy::State(state));
                Ok(())
            });
        }
    }

    fn copies(&mut self) {
        for (at, copy) in self.from.copies.iter().enumerate() {
            match copy {
                Copy::Ask(_, 0) => {}
                Copy::Ask(ask, _) => self.add(format!("a copy comes: {ask:?}"), |scene, w| {
                    if let Copy::Ask(_, times) = &mut Rc::make_mut(&mut w.copies)[at] {
                        *times -= 1;
                    }
                    Rc::make_mut(&mut w.reader).on_ask(scene, *ask);
                    Ok(())
                }),
                Copy::State(state) => self.add(format!("a copy comes: {state:?}"), |scene, w| {
                    let ledger = Rc::make_mut(&mut w.ledger);
                    Rc::make_mut(&mut w.writer).on_state(scene, ledger, &w.tokens, state)
                }),
            }
        }
    }

    // --- deaths ---

    fn crashes(&mut self) {
        if self.from.left.crashes[0] > 0 {
            self.add("the writer's process dies".into(), |scene, w| {
                w.left.crashes[0] -= 1;
                let (ledger, tokens) = (Rc::make_mut(&mut w.ledger), Rc::make_mut(&mut w.tokens));
                Rc::make_mut(&mut w.writer).crash(scene, ledger, tokens);
                Ok(())
            });
        }
        if self.from.left.crashes[1] > 0 {
            self.add("the reader's process dies".into(), |scene, w| {
                w.left.crashes[1] -= 1;
                Rc::make_mut(&mut w.reader).crash(scene, Rc::make_mut(&mut w.ledger));
                Ok(())
            });
        }
    }
}
