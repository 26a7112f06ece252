//! Signals of one message that share a name or bits.
//!
//! Owns when two signals can be there in one frame. Must not know syntax.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
};

use super::{
    Notes,
    build::{Draft, Part},
    select::chain,
};

/// Most comparisons in one file, which bounds the time that messages with very many signals take.
const MOST_EFFORT: usize = 1 << 25;

/// What is left of the comparisons.
#[derive(Debug)]
pub(super) struct Effort {
    left: usize,
    is_spent: bool,
}

impl Default for Effort {
    fn default() -> Self {
        Self { left: MOST_EFFORT, is_spent: false }
    }
}

impl Effort {
    /// `false` where there is too little left.
    fn take(&mut self, effort: usize) -> bool {
        match self.left.checked_sub(effort) {
            Some(left) => self.left = left,
            None => self.is_spent = true,
        }
        !self.is_spent
    }

    pub(super) fn finish(&self, notes: &mut Notes) {
        if self.is_spent {
            notes.add_file("has too many signals in one message to tell all that overlap");
        }
    }
}

/// Leaves out signals that have the name of one before them which can be in the same frame.
pub(super) fn check_names(draft: &mut Draft, effort: &mut Effort, notes: &mut Notes) {
    let mut named = HashMap::<&str, Vec<&Part>>::new();
    let mut out = Vec::new();
    for (place, part) in draft.parts.iter().enumerate().filter(|(_, part)| !part.is_out) {
        let same = named.entry(part.name()).or_default();
        match same.iter().find(|first| !are_exclusive(&draft.parts, first, part, effort)) {
            None => same.push(part),
            Some(first) => {
                let problem =
                    format!("has the name of the one in line {}; it is left out", first.signal.line);
                notes.add(part.signal.line, draft.note(part, &problem));
                out.push(place);
            }
        }
    }
    for place in out {
        if let Some(part) = draft.parts.get_mut(place) {
            part.is_out = true;
        }
    }
}

/// Tells of signals that share bits with one before them which can be in the same frame.
pub(super) fn check_bits(draft: &Draft, effort: &mut Effort, notes: &mut Notes) {
    let parts = draft.parts.iter().filter(|part| !part.is_out);
    let mut bits = parts
        .enumerate()
        .map(|(place, part)| Bits { place, part, masks: part.signal.place.masks().collect() })
        .collect::<Vec<_>>();
    bits.sort_by_key(Bits::first);
    // By the later of two in the file: the first that it overlaps.
    let mut found = BTreeMap::<usize, (&Part, &Part, usize)>::new();
    let mut open = Vec::<&Bits<'_>>::new();
    for next in &bits {
        open.retain(|one| one.end() > next.first());
        for one in &open {
            if !effort.take(1) {
                return;
            }
            if one.overlaps(next) && !are_exclusive(&draft.parts, one.part, next.part, effort) {
                let (first, second) = if one.place < next.place { (*one, next) } else { (next, *one) };
                let known = found.entry(second.place).or_insert((first.part, second.part, first.place));
                if first.place < known.2 {
                    *known = (first.part, second.part, first.place);
                }
            }
        }
        open.push(next);
    }
    for (first, second, _) in found.values() {
        let problem = format!("overlaps {} in line {}", first.signal.name, first.signal.line);
        notes.add(second.signal.line, draft.note(second, &problem));
    }
}

/// The bits of a signal.
#[derive(Debug)]
struct Bits<'p> {
    /// Place of the signal in the message.
    place: usize,
    part: &'p Part,
    masks: Vec<(usize, u8)>,
}

impl Bits<'_> {
    fn first(&self) -> usize {
        self.masks.first().map_or(0, |(byte, _)| *byte)
    }

    fn end(&self) -> usize {
        self.first() + self.masks.len()
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.masks.iter().any(|(byte, mask)| {
            let place = byte.checked_sub(other.first());
            place.and_then(|place| other.masks.get(place)).is_some_and(|(_, other)| mask & other != 0)
        })
    }
}

/// Whether no frame has both: a multiplexer selects either.
fn are_exclusive(parts: &[Part], first: &Part, second: &Part, effort: &mut Effort) -> bool {
    chain(parts, first).any(|one| {
        chain(parts, second).any(|other| {
            one.by == other.by
                && effort.take(one.ranges.len() + other.ranges.len())
                && are_apart(&one.ranges, &other.ranges)
        })
    })
}

/// Whether ranges that ascend have no number in common.
fn are_apart(mut one: &[(u64, u64)], mut other: &[(u64, u64)]) -> bool {
    while let ([first, rest @ ..], [second, others @ ..]) = (one, other) {
        match (first.1.cmp(&second.0), second.1.cmp(&first.0)) {
            (Ordering::Less, _) => one = rest,
            (_, Ordering::Less) => other = others,
            _ => return false,
        }
    }
    true
}
