//! Requests of every function, fit or not, and the answers that a device owes to them.

use std::borrow::Cow;

use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::Bytes;
use tokio_modbus::Request;

/// Functions that are encoded, and two that are not.
pub const FUNCTIONS: [u8; 12] = [1, 2, 3, 4, 5, 6, 15, 16, 22, 43, 17, 0x41];

/// A request, in little.
#[derive(Debug, Clone, PartialEq, Arbitrary)]
pub struct Ask {
    #[arbitrary(with = function)]
    pub function: u8,
    pub address: u16,
    /// See [`Ask::quantity`].
    pub count: u16,
    /// What a write carries: words as they are, or the start of a sequence.
    pub content: [u16; 2],
}

fn function(u: &mut Unstructured<'_>) -> Result<u8> {
    u.choose(&FUNCTIONS).copied()
}

impl Ask {
    /// How many values: mostly about as many as a request can have.
    #[must_use]
    pub fn quantity(&self) -> u16 {
        let most = if matches!(self.function, 3 | 4 | 16) { 128 } else { 2048 };
        if self.count < 0xF000 { self.count % most } else { self.count }
    }

    /// Values to write, all different for a while.
    #[must_use]
    pub fn words(&self) -> Vec<u16> {
        let [first, step] = self.content;
        (0..self.quantity()).map(|at| first.wrapping_add(step.wrapping_mul(at))).collect()
    }

    /// Coils to write.
    #[must_use]
    pub fn coils(&self) -> Vec<bool> {
        self.words().into_iter().map(|word| word.count_ones() % 2 == 1).collect()
    }

    #[must_use]
    pub fn request(&self) -> Request<'static> {
        let (address, [one, two]) = (self.address, self.content);
        match self.function {
            1 => Request::ReadCoils(address, self.quantity()),
            2 => Request::ReadDiscreteInputs(address, self.quantity()),
            3 => Request::ReadHoldingRegisters(address, self.quantity()),
            4 => Request::ReadInputRegisters(address, self.quantity()),
            5 => Request::WriteSingleCoil(address, one % 2 == 1),
            6 => Request::WriteSingleRegister(address, one),
            15 => Request::WriteMultipleCoils(address, self.coils().into()),
            16 => Request::WriteMultipleRegisters(address, self.words().into()),
            22 => Request::MaskWriteRegister(address, one, two),
            // The library does not show the type of the code, but reads it.
            43 => Request::try_from(Bytes::from(vec![43, 0x0E, self.code(), one.to_be_bytes()[1]]))
                .expect("a code from 1 to 4"),
            17 => Request::ReportServerId,
            other => Request::Custom(other, Cow::Borrowed(&[])),
        }
    }

    /// Kind of a device identification (section 6.21).
    fn code(&self) -> u8 {
        1 + self.address.to_be_bytes()[1] % 4
    }

    /// Whether a frame can carry it (Modbus Application Protocol V1.1b3, section 6).
    #[must_use]
    pub fn is_fit(&self) -> bool {
        let most = match self.function {
            1 | 2 => 2000,
            3 | 4 => 125,
            15 => 1968,
            16 => 123,
            5 | 6 | 22 | 43 => return true,
            _ => return false,
        };
        let count = self.quantity();
        (1..=most).contains(&count) && u32::from(self.address) + u32::from(count) <= 65536
    }

    /// The PDU that a device owes to a fit request; `filling` is what it holds.
    #[must_use]
    pub fn owed(&self, filling: &[u8]) -> Bytes {
        let count = self.quantity();
        let mut filling = filling.iter().copied().chain(std::iter::repeat(0));
        let mut pdu = vec![self.function];
        match self.function {
            1..=4 => {
                let size = if self.function < 3 { count.div_ceil(8) } else { 2 * count };
                pdu.push(u8::try_from(size).expect("fit"));
                pdu.extend(filling.take(size.into()));
            }
            43 => {
                pdu.extend([0x0E, self.code(), 0x83, 0xFF, 0]);
                let objects = filling.next().unwrap_or_default() % 4;
                pdu.push(objects);
                for object in 0..objects {
                    let size = filling.next().unwrap_or_default() % 60;
                    pdu.extend([object, size]);
                    pdu.extend(filling.by_ref().take(size.into()));
                }
            }
            5 => {
                pdu.extend(self.address.to_be_bytes());
                pdu.extend(if self.content[0] % 2 == 1 { [0xFF, 0] } else { [0, 0] });
            }
            6 => pdu.extend([self.address, self.content[0]].map(u16::to_be_bytes).concat()),
            22 => {
                let [one, two] = self.content;
                pdu.extend([self.address, one, two].map(u16::to_be_bytes).concat());
            }
            _ => pdu.extend([self.address, count].map(u16::to_be_bytes).concat()),
        }
        pdu.into()
    }
}
