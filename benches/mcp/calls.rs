//! The JSON-RPC messages that the client sends, and what it asks of an answer.

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use crate::{
    common::handshake::LEGACY,
    plant::{TAGS, tag},
    server::Subject,
};

/// Tags that stand for all: as many as one call may name.
const SAMPLE: usize = TAGS / 10;

/// Revision of the protocol that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25: initialize, sessions.
    Legacy,
    /// 2026-07-28: no sessions; every request says who sends it.
    Modern,
}

impl Era {
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Legacy => LEGACY,
            Self::Modern => "2026-07-28",
        }
    }
}

/// Calls of one tool: all alike but for their id and their tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) subject: Subject,
    pub(crate) era: Era,
}

impl Calls {
    pub(crate) fn tool(self) -> &'static str {
        match self.subject {
            Subject::Fieldbridge => "read_tags",
            Subject::Echo | Subject::Lean => "echo",
        }
    }

    /// A call for this tag: `read_tags` of it, or an echo of its path.
    pub(crate) fn request(self, id: u64, tag: &str) -> String {
        let arguments = match self.subject {
            Subject::Fieldbridge => format!(r#"{{"tags":["{tag}"]}}"#),
            Subject::Echo | Subject::Lean => format!(r#"{{"text":"{tag}"}}"#),
        };
        let meta = match self.era {
            Era::Legacy => "",
            Era::Modern => concat!(
                r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
                r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"#,
                r#""io.modelcontextprotocol/clientCapabilities":{}}"#
            ),
        };
        let tool = self.tool();
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}{meta}}}}}"#
        )
    }

    /// The id of an answer, which must be a success; from `read_tags` a good value. Looks at the text only, so that
    /// the client's own work hides no difference between the servers.
    pub(crate) fn check(self, answer: &str) -> Result<u64> {
        let sign = match self.subject {
            Subject::Fieldbridge => r#""quality":"good""#,
            Subject::Echo | Subject::Lean => r#""text":"plc/line-"#,
        };
        let id = answer
            .split_once(r#""id":"#)
            .map(|(_, rest)| rest)
            .and_then(|rest| rest.get(..rest.find(|other: char| !other.is_ascii_digit())?))
            .and_then(|digits| digits.parse().ok());
        match id {
            Some(id) if answer.contains(sign) && !answer.contains(r#""isError":true"#) => Ok(id),
            _ => bail!("not the answer that was asked for: {answer}"),
        }
    }

    /// Whether an answer is a success and tells of this tag, whatever its quality.
    pub(crate) fn tells(answer: &str, tag: &str) -> Result<()> {
        let parsed: Value = serde_json::from_str(answer)?;
        let result = parsed.get("result");
        let ok = result.is_some_and(|result| {
            result.get("isError").and_then(Value::as_bool) != Some(true)
                && result
                    .pointer("/content/0/text")
                    .and_then(Value::as_str)
                    .is_some_and(|text| text.contains(tag))
        });
        ensure!(ok, "not an answer about {tag}: {answer}");
        Ok(())
    }

    /// `read_tags` of a tenth of the plant, from all over it and of every kind.
    pub(crate) fn sample(self, id: u64) -> String {
        let tags = (0..SAMPLE).map(|index| tag(index * TAGS / SAMPLE + index % 10)).collect::<Vec<_>>();
        self.request(id, &tags.join(r#"",""#))
    }

    /// Whether every tag is good in an answer to [`Self::sample`].
    pub(crate) fn all_good(answer: &str) -> bool {
        answer.matches(r#""quality":"good""#).count() == SAMPLE
    }
}
