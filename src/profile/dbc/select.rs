//! Multiplexing: which raw numbers of which signal select another.
//!
//! Owns how marks and ranges make selections, and what is left out where they do not. Must not know syntax.

use std::collections::HashSet;

use super::{
    Notes, Selection,
    build::{Draft, Part},
    read::Mark,
};

/// Most multiplexers that select each other in a row.
const MOST_DEPTH: usize = 16;

impl Part {
    /// The number of its mark.
    fn number(&self) -> Option<u64> {
        match self.mark {
            Mark::Selected(number) | Mark::Both(number) => Some(number),
            Mark::None | Mark::Bare | Mark::Selects => None,
        }
    }

    /// Whether the ranges hold the number of its mark, where it has one.
    pub(super) fn is_within(&self, ranges: &[(u64, u64)]) -> bool {
        self.number().is_none_or(|number| ranges.iter().any(|(from, to)| (*from..=*to).contains(&number)))
    }
}

/// Finds what selects each signal; leaves out those of which nobody can tell when they are there.
pub(super) fn resolve(draft: &mut Draft, notes: &mut Notes) {
    // Two beside the signal itself tell that there are several.
    let marked = draft.parts.iter().enumerate().filter(|(_, part)| part.mark.selects());
    let multiplexers = marked.map(|(place, _)| place).take(3).collect::<Vec<_>>();
    let choices = draft.parts.iter().flat_map(|part| &part.choices);
    let selectors = choices.map(|choice| choice.by).collect::<HashSet<_>>();
    let find = |(place, part): (usize, &Part)| match by_choice(draft, part, notes) {
        Some(selection) => Ok(Some(selection)),
        None => by_mark(draft, place, part, (&multiplexers, &selectors)),
    };
    let found = draft.parts.iter().enumerate().map(find).collect::<Vec<_>>();
    for (place, selection) in found.into_iter().enumerate() {
        match selection {
            Ok(selection) => {
                if let Some(part) = draft.parts.get_mut(place) {
                    part.signal.is_multiplexer = part.mark.selects();
                    part.selection = selection;
                }
            }
            Err(problem) => leave_out(draft, place, problem, notes),
        }
    }
    cascade(draft, notes);
    check_multiplexers(draft, notes);
}

/// What the ranges in other statements say.
fn by_choice(draft: &Draft, part: &Part, notes: &mut Notes) -> Option<Selection> {
    let by = part.choices.first()?.by;
    let mut ranges = Vec::new();
    for choice in &part.choices {
        if choice.by == by {
            ranges.extend_from_slice(&choice.ranges);
        } else {
            notes.add(
                choice.line,
                draft.note(part, "is selected by a second multiplexer; this one is left out"),
            );
        }
    }
    Some(Selection { by, ranges: merge(ranges) })
}

/// Ranges that ascend and do not overlap.
fn merge(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut merged = Vec::<(u64, u64)>::with_capacity(ranges.len());
    for (from, to) in ranges {
        match merged.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// What the mark says: it names no multiplexer, so that there must be one only.
fn by_mark(
    draft: &Draft,
    place: usize,
    part: &Part,
    (multiplexers, selectors): (&[usize], &HashSet<usize>),
) -> Result<Option<Selection>, &'static str> {
    let Some(number) = part.number() else {
        let is_open = part.mark == Mark::Bare && !selectors.contains(&place);
        let problem = "is marked m without a number, so that nothing tells when it is there";
        return if is_open { Err(problem) } else { Ok(None) };
    };
    let mut others = multiplexers.iter().copied().filter(|other| *other != place);
    match (others.next(), others.next()) {
        (Some(by), None) if !draft.lacks_multiplexer => {
            Ok(Some(Selection { by, ranges: vec![(number, number)] }))
        }
        (None, _) => Err("is selected by a multiplexer, of which its message has none"),
        _ => Err("is selected by one of several multiplexers, and nothing tells by which"),
    }
}

/// Leaves out what is selected by signals that are left out, or by itself in the end.
pub(super) fn cascade(draft: &mut Draft, notes: &mut Notes) {
    let problems =
        draft.parts.iter().map(|part| if part.is_out { None } else { chain_problem(&draft.parts, part) });
    for (place, problem) in problems.collect::<Vec<_>>().into_iter().enumerate() {
        if let Some(problem) = problem {
            leave_out(draft, place, problem, notes);
        }
    }
}

fn chain_problem<'p>(parts: &'p [Part], mut part: &'p Part) -> Option<&'static str> {
    for _ in 0..=MOST_DEPTH {
        part = parts.get(part.selection.as_ref()?.by)?;
        if part.is_out {
            return Some("is selected by a signal that is left out");
        }
    }
    Some("is selected in a circle, or through more than 16 multiplexers")
}

/// What selects a signal, and what selects that, and so on.
pub(super) fn chain<'p>(parts: &'p [Part], part: &'p Part) -> impl Iterator<Item = &'p Selection> {
    let above = |selection: &&'p Selection| parts.get(selection.by)?.selection.as_ref();
    std::iter::successors(part.selection.as_ref(), above).take(MOST_DEPTH)
}

fn leave_out(draft: &mut Draft, place: usize, problem: &str, notes: &mut Notes) {
    let Some(part) = draft.parts.get_mut(place).filter(|part| !part.is_out) else { return };
    part.is_out = true;
    let line = part.signal.line;
    if let Some(part) = draft.parts.get(place) {
        notes.add(line, draft.note(part, &format!("{problem}; it is left out")));
    }
}

/// Tells of numbers that a multiplexer cannot have, and of multiplexers without a mark.
fn check_multiplexers(draft: &mut Draft, notes: &mut Notes) {
    let mut unmarked = Vec::new();
    for part in draft.parts.iter().filter(|part| !part.is_out) {
        let Some(selection) = &part.selection else { continue };
        let Some(by) = draft.parts.get(selection.by) else { continue };
        if !by.signal.is_multiplexer {
            unmarked.push(selection.by);
        }
        let length = by.signal.place.length();
        let most = u64::MAX >> (64 - length);
        if let Some((_, to)) = selection.ranges.iter().find(|(_, to)| *to > most) {
            let problem =
                format!("is selected by {to}, which the {length} bits of {} cannot hold", by.signal.name);
            notes.add(part.signal.line, draft.note(part, &problem));
        }
    }
    unmarked.dedup();
    for place in unmarked {
        let Some(part) = draft.parts.get_mut(place).filter(|part| !part.signal.is_multiplexer) else {
            continue;
        };
        part.signal.is_multiplexer = true;
        let (line, name) = (part.signal.line, &part.signal.name);
        notes.add(line, format!("signal {}.{name} selects others, but is not marked M", draft.message.name));
    }
}
