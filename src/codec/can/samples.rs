//! Frames for tests: what strategies draw.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{BusError, Data, Fd, Frame, Id, fd_length};

pub(super) fn ids() -> impl Strategy<Value = Id> {
    prop_oneof![
        (0..=0x7FF_u32).prop_filter_map("11 bits", Id::standard),
        (0..=0x1FFF_FFFF_u32).prop_filter_map("29 bits", Id::extended),
    ]
}

/// Frames of classic CAN: with up to 8 bytes, or remote.
pub(super) fn classic() -> impl Strategy<Value = Frame> {
    prop_oneof![
        (ids(), vec(any::<u8>(), 0..=8))
            .prop_filter_map("a length", |(id, bytes)| { Data::new(id, &bytes, None).map(Frame::Data) }),
        (ids(), 0..=8_u8).prop_map(|(id, len)| Frame::Remote { id, len }),
    ]
}

/// Frames of CAN FD, whose senders may be error-passive.
pub(super) fn fd(esi: impl Strategy<Value = bool>) -> impl Strategy<Value = Frame> {
    (ids(), 0..=15_u8, vec(any::<u8>(), 64), any::<bool>(), esi).prop_filter_map(
        "a length",
        |(id, dlc, bytes, brs, esi)| {
            let bytes = bytes.get(..usize::from(fd_length(dlc)?))?;
            Data::new(id, bytes, Some(Fd { brs, esi })).map(Frame::Data)
        },
    )
}

pub(super) fn errors() -> impl Strategy<Value = Frame> {
    (0..=0x1FFF_FFFF_u32, any::<[u8; 8]>()).prop_map(|(class, data)| Frame::Error(BusError { class, data }))
}
