//! Registers ↔ texts of a fixed length.

use std::{fmt, sync::Arc};

use super::{Fault, Order, shown};
use crate::model::Refusal;

/// How a text lies in its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Text {
    /// Bytes; an odd number leaves half of the last register unused.
    pub length: u16,
    pub encoding: Encoding,
    pub padding: Padding,
}

/// What the bytes of a text mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    #[default]
    Ascii,
    Latin1,
    Utf8,
    /// One 16-bit unit a register.
    Utf16,
}

/// What fills a text up to its length. Either way a NUL ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Padding {
    #[default]
    Nul,
    Space,
}

impl Text {
    pub(super) fn registers(self) -> u16 {
        self.length.div_ceil(2)
    }

    pub(super) fn decode(self, order: Order, registers: &[u16]) -> Result<Arc<str>, Fault> {
        if registers.len() != usize::from(self.registers()) {
            return Err(Fault::Length { expected: self.registers(), got: registers.len() });
        }
        let words = registers.iter().map(|word| order.word(*word));
        let text = if self.encoding == Encoding::Utf16 {
            let units: Vec<u16> = words.take_while(|unit| *unit != 0).collect();
            String::from_utf16(&units).ok()
        } else {
            let bytes = words.flat_map(u16::to_be_bytes).take(self.length.into());
            self.characters(bytes.take_while(|byte| *byte != 0).collect())
        };
        let text = text.ok_or(Fault::Text(self.encoding))?;
        Ok(match self.padding {
            Padding::Nul => text.into(),
            Padding::Space => text.trim_end_matches(' ').into(),
        })
    }

    fn characters(self, bytes: Vec<u8>) -> Option<String> {
        match self.encoding {
            Encoding::Ascii if !bytes.is_ascii() => None,
            Encoding::Latin1 => Some(bytes.into_iter().map(char::from).collect()),
            _ => String::from_utf8(bytes).ok(),
        }
    }

    /// Appends the registers that hold `text`.
    pub(super) fn encode(self, order: Order, text: &str, words: &mut Vec<u16>) -> Result<(), Refusal> {
        let foreign = |character: char| Refusal::Character {
            text: shown(text),
            character,
            encoding: self.encoding.name(),
        };
        let mut bytes: Vec<u8> = Vec::new();
        for character in text.chars() {
            match self.encoding {
                _ if character == '\0' => return Err(foreign(character)),
                Encoding::Ascii if !character.is_ascii() => return Err(foreign(character)),
                Encoding::Latin1 => {
                    bytes.push(u8::try_from(character).map_err(|_beyond| foreign(character))?);
                }
                Encoding::Ascii | Encoding::Utf8 => {
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Encoding::Utf16 => {
                    let units = character.encode_utf16(&mut [0; 2]).to_vec();
                    bytes.extend(units.into_iter().flat_map(u16::to_be_bytes));
                }
            }
        }
        if bytes.len() > usize::from(self.length) {
            return Err(Refusal::Length { text: shown(text), bytes: bytes.len(), most: self.length });
        }
        let fill: &[u8] = match (self.padding, self.encoding) {
            (Padding::Nul, _) => &[0],
            (Padding::Space, Encoding::Utf16) => &[0, b' '],
            (Padding::Space, _) => b" ",
        };
        let missing = usize::from(self.length) - bytes.len();
        bytes.extend(fill.iter().cycle().take(missing));
        words.extend(bytes.chunks(2).map(|pair| match pair {
            [high, low] => order.word(u16::from_be_bytes([*high, *low])),
            [high] => order.word(u16::from_be_bytes([*high, 0])),
            _ => 0,
        }));
        Ok(())
    }
}

impl Encoding {
    /// The name that people know it by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ascii => "ASCII",
            Self::Latin1 => "Latin-1",
            Self::Utf8 => "UTF-8",
            Self::Utf16 => "UTF-16",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
