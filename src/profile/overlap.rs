//! Warns of tags of one device that claim the same registers or bits.

use super::{Defaults, Template, modbus::Table};
use crate::{
    config::problem::{Findings, What},
    model::Access,
};

/// What a tag claims.
struct Claim<'a> {
    tag: &'a Template,
    table: Table,
    first: u16,
    last: u16,
    /// The bits of its register, where it is a part of one.
    mask: Option<u16>,
}

impl Claim<'_> {
    /// Whether both cannot mean what they say, or a write to one would change the other.
    fn clashes(&self, other: &Self) -> bool {
        let writable = |claim: &Self| claim.tag.access == Access::ReadWrite;
        match (self.mask, other.mask) {
            (Some(one), Some(other)) => one & other != 0,
            // The bits of a status word beside the whole of it are what devices have.
            (Some(_), None) | (None, Some(_)) => writable(self) && writable(other),
            (None, None) => true,
        }
    }
}

/// Notes, at each tag of a device, the first other one before it whose place it shares.
pub(crate) fn check_overlaps(templates: &[Template], defaults: Defaults, found: &mut Findings) {
    let mut claims: Vec<Claim<'_>> = templates.iter().map(|tag| tag.claim(defaults)).collect();
    claims.sort_by_key(|claim| (claim.table, claim.first, claim.last));
    let mut open: Vec<&Claim<'_>> = Vec::new();
    for claim in &claims {
        open.retain(|other| other.table == claim.table && other.last >= claim.first);
        if let Some(other) = open.iter().find(|other| other.clashes(claim)) {
            let (first, last) = (claim.first, claim.last.min(other.last));
            let cells = if claim.table.is_bits() { "bit" } else { "register" };
            let shared = if first == last {
                format!("{cells} {first}")
            } else {
                format!("{cells}s {first} to {last}")
            };
            let note = format!("it shares {} {shared} with tag `{}`", claim.table.name(), other.tag.name);
            let problem = claim.tag.spot.problem(What::Note(note));
            // Devices that share a profile share what is odd about it.
            if !found.warnings.contains(&problem) {
                found.warnings.push(problem);
            }
        }
        open.push(claim);
    }
}

impl Template {
    fn claim(&self, defaults: Defaults) -> Claim<'_> {
        let format = self.draft.format(defaults.order);
        let last = self.address.saturating_add(super::place::cells(self.table, &format).saturating_sub(1));
        Claim { tag: self, table: self.table, first: self.address, last, mask: format.mask() }
    }
}
