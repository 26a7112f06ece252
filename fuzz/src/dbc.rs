//! DBC files: any bytes load or are refused, and what loads is sound.

use std::collections::HashSet;

use arbitrary::Arbitrary;
use fieldbridge::profile::dbc::{Dbc, Number};

#[derive(Debug, PartialEq, Arbitrary)]
pub struct Input<'a> {
    pub data: &'a [u8],
}

pub fn check(input: &Input<'_>) {
    let Ok(dbc) = Dbc::parse(input.data) else { return };
    let mut ids = HashSet::new();
    for message in &dbc.messages {
        assert!(ids.insert(message.id), "{message:?}");
        assert!(message.length <= 1785 && !message.name.is_empty(), "{message:?}");
        for signal in &message.signals {
            assert!(!signal.name.is_empty(), "{signal:?}");
            let length = signal.place.length();
            assert!(signal.number != Number::Float || length == 32 || length == 64, "{signal:?}");
            assert!(signal.range.is_none_or(|(low, high)| low < high), "{signal:?}");
            if let Some(selection) = &signal.selection {
                let by = &message.signals[selection.by];
                assert!(by.is_multiplexer && by.name != signal.name, "{signal:?}");
                assert!(!selection.ranges.is_empty());
                assert!(selection.ranges.iter().all(|(low, high)| low <= high), "{signal:?}");
            }
            // Every chain of multiplexers ends.
            let (mut steps, mut next) = (0, signal.selection.as_ref());
            while let Some(selection) = next {
                steps += 1;
                assert!(steps <= message.signals.len(), "{signal:?}");
                next = message.signals[selection.by].selection.as_ref();
            }
        }
    }
    assert!(dbc.warnings.len() <= 1001);
}
