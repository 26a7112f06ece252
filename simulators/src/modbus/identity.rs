//! What a unit says of itself: Read Device Identification (application protocol V1.1b3, section 6.21).
//!
//! Knows the objects and their encoding; no tables.

use tokio_modbus::{ExceptionCode, Response, prelude::ReadCode};

/// Function code, and MEI type.
const FUNCTION: u8 = 43;
const MEI_TYPE: u8 = 0x0E;
/// A longer text is cut, so that all objects fit one answer.
const LONGEST: usize = 32;

/// The basic objects, which every device with the function has, and the regular ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub vendor: String,
    pub product_code: String,
    pub revision: String,
    pub vendor_url: Option<String>,
    pub product_name: Option<String>,
    pub model_name: Option<String>,
}

impl Identity {
    /// Object id and text, in the order of the ids.
    fn objects(&self) -> Vec<(u8, &[u8])> {
        [
            Some(&self.vendor),
            Some(&self.product_code),
            Some(&self.revision),
            self.vendor_url.as_ref(),
            self.product_name.as_ref(),
            self.model_name.as_ref(),
        ]
        .into_iter()
        .zip(0..)
        .filter_map(|(text, id)| text.map(|text| (id, text.as_bytes())))
        .map(|(id, text)| (id, text.get(..LONGEST).unwrap_or(text)))
        .collect()
    }

    /// The answer in one piece; exception 0x02 where one object is asked for that does not exist.
    pub(super) fn answer(&self, code: ReadCode, object: u8) -> Result<Response, ExceptionCode> {
        let all = self.objects();
        let basic = all.iter().all(|(id, _)| *id < 3);
        let last = if code == ReadCode::Basic { 2 } else { u8::MAX };
        let wanted: Vec<_> = if code == ReadCode::Specific {
            all.iter().filter(|(id, _)| *id == object).collect()
        } else {
            // An unknown object starts the list anew, says the specification.
            let first = if all.iter().any(|(id, _)| *id == object) { object } else { 0 };
            all.iter().filter(|(id, _)| (first..=last).contains(id)).collect()
        };
        if wanted.is_empty() {
            return Err(ExceptionCode::IllegalDataAddress);
        }
        let count = u8::try_from(wanted.len()).unwrap_or(u8::MAX);
        // Conformity: basic or regular, as a list and one by one. Then: nothing follows, and the number of objects.
        let mut body = vec![MEI_TYPE, code.value(), if basic { 0x81 } else { 0x82 }, 0, 0, count];
        for (id, text) in wanted {
            body.extend([*id, u8::try_from(text.len()).unwrap_or(u8::MAX)]);
            body.extend_from_slice(text);
        }
        Ok(Response::Custom(FUNCTION, body.into()))
    }
}
