//! In which form a value is written: by which function, and by which other one where the device does not have that.
//!
//! Each form is one frame. Pure; what a device turned out not to have is kept by the plant.

use std::borrow::Cow;

use tokio_modbus::{ExceptionCode, Request};

use super::plant::{Entry, Learned};
use crate::{
    codec::value::Raw,
    profile::modbus::{Fallback, PartWrite, Table, WriteFunction, Writes},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// FC 5 or 6.
    Single,
    /// FC 15 or 16.
    Multiple,
    /// FC 22: the device changes a part of a register.
    Mask,
    /// The register was read, and is written with a part of it changed, by FC 6.
    ModifiedSingle,
    /// The same by FC 16.
    ModifiedMultiple,
}

impl Form {
    /// The form to begin with.
    pub(super) fn new(entry: &Entry, raw: &Raw, writes: Writes, learned: Learned) -> Self {
        let single = is_single(entry, learned);
        match raw {
            Raw::Masked { .. } if writes.part == PartWrite::Mask => Self::Mask,
            Raw::Masked { .. } if writes.part == PartWrite::Auto && !learned.no_mask => Self::Mask,
            Raw::Masked { .. } => Self::modified(single),
            Raw::Bits(bits) if bits.len() == 1 && single => Self::Single,
            Raw::Words(words) if words.len() == 1 && single => Self::Single,
            Raw::Bits(_) | Raw::Words(_) => Self::Multiple,
        }
    }

    /// The form to try where the device refuses this one with `exception`.
    pub(super) fn other(
        self,
        entry: &Entry,
        raw: &Raw,
        writes: Writes,
        learned: Learned,
        exception: ExceptionCode,
    ) -> Option<Self> {
        let lacks = match exception {
            ExceptionCode::IllegalFunction => writes.fallback != Fallback::Off,
            ExceptionCode::IllegalDataAddress => writes.fallback == Fallback::IllegalAddress,
            _ => false,
        };
        match self {
            _ if !lacks => None,
            Self::Single => Some(Self::Multiple),
            Self::Multiple => (cells(raw) == 1).then_some(Self::Single),
            Self::Mask if writes.part == PartWrite::Auto => Some(Self::modified(is_single(entry, learned))),
            Self::Mask => None,
            Self::ModifiedSingle => Some(Self::ModifiedMultiple),
            Self::ModifiedMultiple => Some(Self::ModifiedSingle),
        }
    }

    fn modified(single: bool) -> Self {
        if single { Self::ModifiedSingle } else { Self::ModifiedMultiple }
    }

    /// Whether the device answers with the very bytes of the request.
    pub(super) fn is_echoed(self) -> bool {
        matches!(self, Self::Single | Self::Mask | Self::ModifiedSingle)
    }

    /// Whether the register must be read before.
    pub(super) fn is_modified(self) -> bool {
        matches!(self, Self::ModifiedSingle | Self::ModifiedMultiple)
    }

    /// Keeps in mind that the device has this form.
    pub(super) fn learn(self, entry: &Entry, learned: &mut Learned) {
        let single = matches!(self, Self::Single | Self::ModifiedSingle);
        let other = (entry.function == WriteFunction::Single) != single;
        match (self, entry.table) {
            (Self::Mask, _) => {}
            (_, Table::Coil) => learned.other_coil = other,
            _ => learned.other_register = other,
        }
    }

    /// The request that writes `raw`; `held` is what the register holds now, where it was read.
    pub(super) fn request(self, entry: &Entry, raw: &Raw, held: Option<u16>) -> Option<Request<'static>> {
        let address = entry.address;
        Some(match (self, raw) {
            (Self::Single, Raw::Bits(bits)) => Request::WriteSingleCoil(address, *bits.first()?),
            (Self::Single, Raw::Words(words)) => Request::WriteSingleRegister(address, *words.first()?),
            (_, Raw::Bits(bits)) => Request::WriteMultipleCoils(address, Cow::Owned(bits.clone())),
            (_, Raw::Words(words)) => Request::WriteMultipleRegisters(address, Cow::Owned(words.clone())),
            (Self::Mask, Raw::Masked { mask, bits }) => {
                // Application protocol, section 6.16: what the AND mask keeps stays, the rest comes from the OR mask.
                Request::MaskWriteRegister(address, !mask, bits & mask)
            }
            (form, Raw::Masked { mask, bits }) => {
                let word = (held? & !mask) | (bits & mask);
                if form == Self::ModifiedSingle {
                    Request::WriteSingleRegister(address, word)
                } else {
                    Request::WriteMultipleRegisters(address, Cow::Owned(vec![word]))
                }
            }
        })
    }
}

/// How many coils or registers a value takes.
pub(super) fn cells(raw: &Raw) -> usize {
    match raw {
        Raw::Bits(bits) => bits.len(),
        Raw::Words(words) => words.len(),
        Raw::Masked { .. } => 1,
    }
}

/// Whether a coil or register is written by the function for one of them.
fn is_single(entry: &Entry, learned: Learned) -> bool {
    let other = if entry.table == Table::Coil { learned.other_coil } else { learned.other_register };
    (entry.function == WriteFunction::Single) != other
}
