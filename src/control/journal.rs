//! Every write leaves its trace in the log: what was intended before a byte leaves, and how it ended.

use tracing::{info, warn};

use super::WriteRequest;
use crate::model::{Accepted, Outcome, Report, Value};

pub(super) fn intent(request: &WriteRequest, accepted: &Accepted) {
    info!(
        target: "fieldbridge::write",
        stamp = request.stamp.number,
        caller = request.caller,
        tag = request.tag,
        requested = request.value,
        sends = %accepted.effective,
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
                reason = request.reason,
                "write ended: {}", report.message
            )
        };
    }
    if report.outcome.is_success() {
        record!(info);
    } else {
        record!(warn);
    }
}
