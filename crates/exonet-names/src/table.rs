//! The table of names and their records, and the rules by which it changes.

use std::collections::BTreeMap;

use exonet::NodeId;
use exonet::naming::{Expect, Found, Name, NamingError, Record, Term, Version};
use serde::{Deserialize, Serialize};

/// The largest number of names in one table.
pub const MOST_NAMES: usize = 10_000;
/// The largest number of names that are bound to one node.
pub const MOST_OF_ONE: usize = 64;
/// The format of the text of a table.
const FORMAT: &str = "exonet-names-1";

/// Which node has each name, and the term of each identity.
///
/// Rules: a name changes only if its record is the one that the request expects. It passes from one node to another
/// only after the first has unbound it. The term of an identity is claimed generation by generation, each by one
/// lineage. After that, claims of an earlier generation do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    names: BTreeMap<Name, Found>,
    claims: BTreeMap<NodeId, Term>,
    /// The last version that was assigned.
    last: u64,
}

impl Table {
    pub(crate) fn look_up(&self, name: &Name) -> Option<&Found> {
        self.names.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (&Name, &Found)> {
        self.names.iter()
    }

    pub(crate) fn bind(
        &mut self,
        name: &Name,
        record: &Record,
        expect: Expect,
    ) -> Result<Version, NamingError> {
        self.check_generation(&record.peer.id, record.generation)?;
        let known = self.names.get(name);
        if let Some(found) = known.filter(|found| found.record.peer.id != record.peer.id) {
            return Err(NamingError::Taken { name: name.clone(), owner: found.record.peer.id });
        }
        let as_expected = match expect {
            Expect::Unbound => known.is_none(),
            Expect::Version(version) => known.is_some_and(|found| found.version == version),
        };
        if !as_expected {
            return Err(NamingError::Changed(name.clone()));
        }
        if let Some(generation) =
            known.map(|found| found.record.generation).filter(|known| *known > record.generation)
        {
            return Err(NamingError::Superseded { generation });
        }
        if known.is_none() {
            self.check_room(&record.peer.id)?;
        }
        let version = self.next_version();
        self.names.insert(name.clone(), Found { record: record.clone(), version });
        Ok(version)
    }

    pub(crate) fn unbind(&mut self, name: &Name, version: Version) -> Result<(), NamingError> {
        match self.names.get(name) {
            Some(found) if found.version == version => {
                self.names.remove(name);
                self.last += 1;
                Ok(())
            }
            Some(_) => Err(NamingError::Changed(name.clone())),
            None => Err(NamingError::Unbound(name.clone())),
        }
    }

    /// Returns whether the claim is new.
    pub(crate) fn claim(&mut self, id: &NodeId, term: Term) -> Result<bool, NamingError> {
        let known = self.claims.get(id).copied().unwrap_or_default();
        if term == known {
            return Ok(false);
        }
        if term.generation <= known.generation {
            return Err(NamingError::Superseded { generation: known.generation });
        }
        if !self.claims.contains_key(id) && self.claims.len() >= MOST_NAMES {
            return Err(NamingError::Denied(format!("there are {MOST_NAMES} identities already")));
        }
        self.claims.insert(*id, term);
        Ok(true)
    }

    fn check_generation(&self, id: &NodeId, generation: u64) -> Result<(), NamingError> {
        match self.claims.get(id).filter(|term| term.generation > generation) {
            Some(term) => Err(NamingError::Superseded { generation: term.generation }),
            None => Ok(()),
        }
    }

    fn check_room(&self, id: &NodeId) -> Result<(), NamingError> {
        if self.names.len() >= MOST_NAMES {
            return Err(NamingError::Denied(format!("there are {MOST_NAMES} names already")));
        }
        let own = self.names.values().filter(|found| found.record.peer.id == *id).count();
        if own >= MOST_OF_ONE {
            return Err(NamingError::Denied(format!("the node has {MOST_OF_ONE} names already")));
        }
        Ok(())
    }

    fn next_version(&mut self) -> Version {
        self.last += 1;
        Version(self.last)
    }
}

// ---- as text

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: String,
    last: u64,
    names: BTreeMap<String, NameText>,
    claims: BTreeMap<String, TermText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NameText {
    peer: String,
    generation: u64,
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TermText {
    generation: u64,
    lineage: [u8; 8],
}

impl Table {
    pub(crate) fn to_text(&self) -> String {
        let names = self.names.iter().map(|(name, found)| {
            let text = NameText {
                peer: found.record.peer.to_string(),
                generation: found.record.generation,
                version: found.version.0,
            };
            (name.to_string(), text)
        });
        let claims = self.claims.iter().map(|(id, term)| {
            (id.to_string(), TermText { generation: term.generation, lineage: term.lineage })
        });
        let (names, claims) = (names.collect(), claims.collect());
        let text = Text { format: FORMAT.to_owned(), last: self.last, names, claims };
        // Maps whose keys are strings can always be written as JSON.
        serde_json::to_string_pretty(&text).unwrap_or_default() + "\n"
    }

    pub(crate) fn from_text(text: &str) -> Result<Self, NamingError> {
        let damaged = |why: &dyn std::fmt::Display| NamingError::Damaged(why.to_string());
        let text: Text = serde_json::from_str(text).map_err(|e| damaged(&e))?;
        if text.format != FORMAT {
            return Err(damaged(&format_args!("it is of the format {:?}, and not {FORMAT:?}", text.format)));
        }
        let mut table = Self { last: text.last, ..Self::default() };
        for (name, NameText { peer, generation, version }) in text.names {
            let name: Name = name.parse().map_err(|e| damaged(&e))?;
            let record = Record { peer: peer.parse().map_err(|e| damaged(&e))?, generation };
            if version > table.last {
                return Err(damaged(&format_args!("a version is above {}", table.last)));
            }
            table.names.insert(name, Found { record, version: Version(version) });
        }
        for (id, TermText { generation, lineage }) in text.claims {
            table.claims.insert(id.parse().map_err(|e| damaged(&e))?, Term { generation, lineage });
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exonet::PeerAddr;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn record(node: u8, port: u16, generation: u64) -> Record {
        Record { peer: PeerAddr::new(NodeId([node; 32]), [format!("127.0.0.1:{port}")]).unwrap(), generation }
    }

    fn term(generation: u64, lineage: u8) -> Term {
        Term { generation, lineage: [lineage; 8] }
    }

    #[test]
    fn of_two_that_want_a_name_one_gets_it() {
        let (mut table, chat) = (Table::default(), name("chat"));
        let first = table.bind(&chat, &record(1, 1, 0), Expect::Unbound).unwrap();
        let taken = NamingError::Taken { name: chat.clone(), owner: NodeId([1; 32]) };
        assert_eq!(table.bind(&chat, &record(2, 2, 0), Expect::Unbound), Err(taken.clone()));
        assert_eq!(table.bind(&chat, &record(2, 2, 0), Expect::Version(first)), Err(taken));
        let changed = Err(NamingError::Changed(chat.clone()));
        assert_eq!(table.bind(&chat, &record(1, 3, 0), Expect::Unbound), changed);
        let second = table.bind(&chat, &record(1, 3, 0), Expect::Version(first)).unwrap();
        assert_eq!(table.bind(&chat, &record(1, 4, 0), Expect::Version(first)), changed, "an old look");
        assert_eq!(table.unbind(&chat, first), Err(NamingError::Changed(chat.clone())));
        table.unbind(&chat, second).unwrap();
        let third = table.bind(&chat, &record(2, 2, 0), Expect::Unbound).unwrap();
        assert!(third > second, "no version comes again");
    }

    #[test]
    fn an_identity_lives_where_its_last_generation_claims() {
        let (mut table, id) = (Table::default(), NodeId([1; 32]));
        assert_eq!(table.claim(&id, Term::default()), Ok(false));
        assert_eq!(table.claim(&id, term(1, 7)), Ok(true));
        assert_eq!(table.claim(&id, term(1, 7)), Ok(false), "it asks again");
        let superseded = |generation| Err(NamingError::Superseded { generation });
        assert_eq!(table.claim(&id, term(1, 8)), superseded(1), "the same checkpoint, restored twice");
        assert_eq!(table.claim(&id, Term::default()), superseded(1), "the former place");
        assert_eq!(
            table.bind(&name("chat"), &record(1, 1, 0), Expect::Unbound).map(|_| false),
            superseded(1)
        );
        table.bind(&name("chat"), &record(1, 1, 1), Expect::Unbound).unwrap();
        assert_eq!(table.claim(&id, term(2, 8)), Ok(true));
    }

    #[test]
    fn a_record_of_an_earlier_generation_replaces_none() {
        let (mut table, chat) = (Table::default(), name("chat"));
        let version = table.bind(&chat, &record(1, 1, 3), Expect::Unbound).unwrap();
        let back = table.bind(&chat, &record(1, 1, 2), Expect::Version(version));
        assert_eq!(back, Err(NamingError::Superseded { generation: 3 }));
    }

    #[test]
    fn one_node_does_not_take_all_names() {
        let mut table = Table::default();
        for n in 0..MOST_OF_ONE {
            table.bind(&name(&format!("n{n}")), &record(1, 1, 0), Expect::Unbound).unwrap();
        }
        let more = |table: &mut Table, node| table.bind(&name("more"), &record(node, 1, 0), Expect::Unbound);
        assert!(matches!(more(&mut table, 1), Err(NamingError::Denied(_))));
        more(&mut table, 2).unwrap();
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let mut table = Table::default();
        assert_eq!(Table::from_text(&table.to_text()), Ok(table.clone()));
        table.bind(&name("chat"), &record(1, 1, 0), Expect::Unbound).unwrap();
        table.claim(&NodeId([1; 32]), term(4, 9)).unwrap();
        let text = table.to_text();
        assert_eq!(Table::from_text(&text), Ok(table));
        for (from, to) in
            [("names-1", "names-2"), ("\"last\": 1", "\"last\": 0"), ("chat", "7chat"), ("{", "")]
        {
            let wrong = text.replacen(from, to, 1);
            assert!(matches!(Table::from_text(&wrong), Err(NamingError::Damaged(_))), "{from}");
        }
    }
}
