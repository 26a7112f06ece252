//! Every write leaves its trace in the log: what was intended before a byte leaves, and how it ended.
//!
//! What came from a caller stands in fields, which are escaped, and never in the message: nobody can forge a line.

use tracing::{info, warn};

use super::WriteRequest;
use crate::model::{Accepted, Outcome, Party, Report, Value};

pub(super) fn intent(request: &WriteRequest, accepted: &Accepted) {
    info!(
        target: "fieldbridge::write",
        stamp = request.stamp.number,
        caller = request.caller,
        tag = request.tag,
        requested = request.value,
        sends = accepted.effective.to_string(),
        expect = request.expect,
        reason = request.reason,
        "write intended"
    );
}

pub(super) fn outcome(request: &WriteRequest, report: &Report) {
    let text = |value: &Option<Value>| value.as_ref().map(ToString::to_string);
    let rule = match report.outcome {
        Outcome::Rejected(rule) => Some(rule.name()),
        _ => None,
    };
    macro_rules! record {
        ($level:ident) => {
            $level!(
                target: "fieldbridge::write",
                stamp = request.stamp.number,
                caller = request.caller,
                tag = request.tag,
                requested = request.value,
                outcome = report.outcome.name(),
                rule,
                code = report.code,
                value = text(&report.value),
                previous = text(&report.previous),
                acknowledged_by = report.acknowledged_by.map(Party::name),
                said = report.message,
                reason = request.reason,
                "write ended"
            )
        };
    }
    if report.outcome.is_success() {
        record!(info);
    } else {
        record!(warn);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::{
        io::{self, Write},
        sync::Arc,
    };

    use parking_lot::Mutex;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{control::Control, store::Store};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_caller_can_write_a_line_of_its_own() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let forged = "1\n2026-11-30T20:00:00Z  INFO write ended outcome=\"confirmed\"\u{1b}[2K";
        let request = WriteRequest {
            tag: forged.into(),
            value: forged.into(),
            expect: Some(forged.into()),
            dry_run: false,
            reason: Some(forged.into()),
            caller: forged.into(),
            stamp: Control::new(Arc::new(Store::default())).stamp(),
            cancel: CancellationToken::new(),
        };
        let value = Value::Text(forged.into());
        let accepted = Accepted { requested: value.clone(), effective: value.clone() };
        let report = Report { value: Some(value), ..Report::new(Outcome::NotSent, forged) };
        tracing::subscriber::with_default(subscriber, || {
            intent(&request, &accepted);
            outcome(&request, &report);
        });
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
