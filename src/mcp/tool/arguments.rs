//! Arguments of a call, checked by us: the SDK hands over whatever the client sent.

use rmcp::model::JsonObject;
use serde_json::{Number, Value as Json};

/// Most significant digits of a decimal that a float64 is sure to give back as they were.
const EXACT_DIGITS: usize = 15;
/// Longest text that an argument may have.
const MOST_BYTES: usize = 1000;
/// Longest array that a value may be, as text.
const ARRAY_BYTES: usize = 16 * 1024;
/// Longest piece of an argument that an error message repeats.
const SHOWN_CHARS: usize = 80;

/// A JSON object of arguments. `null` counts as left out.
#[derive(Debug)]
pub(super) struct Arguments(JsonObject);

/// What is wrong with an argument, in one sentence: its name, what came, what is allowed.
type Problem = String;

impl Arguments {
    pub(super) fn new(arguments: JsonObject) -> Self {
        Self(arguments)
    }

    /// Refuses arguments that are not in `allowed`.
    pub(super) fn only(&self, allowed: &[&str]) -> Result<(), Problem> {
        match self.0.keys().find(|name| !allowed.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let allowed = allowed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                Err(format!("unknown argument `{}`: allowed are {allowed}", shorten(name)))
            }
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::String(text)) => short(name, text).map(Some),
            Some(other) => Err(wrong(name, other, "a string")),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Json::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(wrong(name, other, "true or false")),
        }
    }

    /// A number of rows, from 1 to `most`.
    pub(super) fn limit(&self, name: &str, default: usize, most: usize) -> Result<usize, Problem> {
        let Some(value) = self.get(name) else { return Ok(default) };
        whole(value)
            .and_then(|number| usize::try_from(number).ok())
            .filter(|number| (1..=most).contains(number))
            .ok_or_else(|| wrong(name, value, &format!("an integer from 1 to {most}")))
    }

    /// One to `most` texts.
    pub(super) fn texts(&self, name: &str, most: usize) -> Result<Vec<&str>, Problem> {
        let allowed = format!("an array of 1 to {most} strings");
        let Some(value) = self.get(name) else { return Err(missing(name, &allowed)) };
        let Json::Array(items) = value else { return Err(wrong(name, value, &allowed)) };
        if items.is_empty() || items.len() > most {
            return Err(format!("`{name}` has {} items: allowed is {allowed}", items.len()));
        }
        items
            .iter()
            .map(|item| short(name, item.as_str().ok_or_else(|| wrong(name, item, &allowed))?))
            .collect()
    }

    /// One to `most` objects, each with arguments of its own.
    pub(super) fn objects(&self, name: &str, most: usize) -> Result<Vec<Self>, Problem> {
        let allowed = format!("an array of 1 to {most} objects");
        let Some(value) = self.get(name) else { return Err(missing(name, &allowed)) };
        let Json::Array(items) = value else { return Err(wrong(name, value, &allowed)) };
        if items.is_empty() || items.len() > most {
            return Err(format!("`{name}` has {} items: allowed is {allowed}", items.len()));
        }
        let object = |item: &Json| match item {
            Json::Object(object) => Ok(Self(object.clone())),
            other => Err(wrong(name, other, &allowed)),
        };
        items.iter().map(object).collect()
    }

    /// A value to write, as text. A number becomes the text that it was written as; an array the JSON of such.
    pub(super) fn value(&self, name: &str) -> Result<Option<String>, Problem> {
        let text = match self.get(name) {
            None => return Ok(None),
            Some(Json::String(text)) => text.to_owned(),
            Some(Json::Array(items)) => {
                let elements = items.iter().map(|item| match item {
                    Json::String(_) => Ok(item.to_string()),
                    item => scalar(name, item, "an array of strings, numbers or booleans"),
                });
                format!("[{}]", elements.collect::<Result<Vec<_>, _>>()?.join(","))
            }
            Some(other) => {
                let allowed =
                    "a string such as \"72.5\" or \"on\", a number, a boolean, or an array of these";
                scalar(name, other, allowed)?
            }
        };
        let most = if text.starts_with('[') { ARRAY_BYTES } else { MOST_BYTES };
        bounded(name, &text, most)?;
        Ok(Some(text))
    }

    fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name).filter(|value| !value.is_null())
    }
}

pub(super) fn missing(name: &str, allowed: &str) -> Problem {
    format!("`{name}` is missing: allowed is {allowed}")
}

fn wrong(name: &str, value: &Json, allowed: &str) -> Problem {
    format!("`{name}` is {}: allowed is {allowed}", shorten(&value.to_string()))
}

/// A number or a boolean as text.
fn scalar(name: &str, value: &Json, allowed: &str) -> Result<String, Problem> {
    match value {
        Json::Bool(flag) => Ok(flag.to_string()),
        Json::Number(number) => exact(number).ok_or_else(|| {
            format!("`{name}` has the number {number}, which JSON cannot carry exactly: send it as a string")
        }),
        other => Err(wrong(name, other, allowed)),
    }
}

/// Refuses texts that would only fill answers and logs.
fn short<'a>(name: &str, text: &'a str) -> Result<&'a str, Problem> {
    bounded(name, text, MOST_BYTES)
}

fn bounded<'a>(name: &str, text: &'a str, most: usize) -> Result<&'a str, Problem> {
    if text.len() <= most {
        Ok(text)
    } else {
        Err(format!("`{name}` has a text of {} bytes: allowed are {most}", text.len()))
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn whole(value: &Json) -> Option<u64> {
    value.as_u64().or_else(|| {
        // Some clients send every number as a float.
        let number = value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..1e9).contains(number))?;
        format!("{number:.0}").parse().ok()
    })
}

/// The number's text where it is sure to be the one that was sent: all 64-bit integers, and decimals that a float64
/// gives back digit by digit.
fn exact(number: &Number) -> Option<String> {
    let text = number.to_string();
    if number.is_f64() {
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let digits = mantissa.bytes().filter(u8::is_ascii_digit).skip_while(|&digit| digit == b'0').count();
        if digits > EXACT_DIGITS {
            return None;
        }
    }
    Some(text)
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(json: &str) -> Arguments {
        Arguments::new(serde_json::from_str(json).expect("an object"))
    }

    #[test]
    fn numbers_arrive_as_the_text_they_were_written_as() {
        for text in
            ["0.1", "72.5", "-40", "21.37", "0", "18446744073709551615", "-9223372036854775808", "1.0"]
        {
            let value = arguments(&format!("{{\"value\": {text}}}")).value("value");
            assert_eq!(value, Ok(Some(text.to_owned())));
        }
        assert_eq!(arguments("{\"value\": true}").value("value"), Ok(Some("true".to_owned())));
        assert_eq!(arguments("{\"value\": \" on \"}").value("value"), Ok(Some(" on ".to_owned())));
        assert_eq!(arguments("{\"value\": null}").value("value"), Ok(None));
    }

    #[test]
    fn numbers_that_json_cannot_carry_are_refused() {
        for text in ["4503599627370496.123", "18446744073709551616", "0.30000000000000004"] {
            let problem = arguments(&format!("{{\"value\": {text}}}")).value("value");
            assert!(problem.is_err_and(|problem| problem.contains("send it as a string")), "{text}");
        }
    }

    #[test]
    fn arrays_become_json_whose_numbers_keep_their_digits() {
        let value = |text: &str| arguments(&format!("{{\"value\": {text}}}")).value("value");
        let expected = r#"[1,2.50,true,"18446744073709551615","a \"b\""]"#.replace("2.50", "2.5");
        assert_eq!(value(r#"[1, 2.5, true, "18446744073709551615", "a \"b\""]"#), Ok(Some(expected)));
        assert_eq!(value("[]"), Ok(Some("[]".to_owned())));
        for text in ["[[1]]", "[null]", "[{}]", "[0.30000000000000004]"] {
            assert!(value(text).is_err(), "{text}");
        }
        assert!(value(&format!("[{}1]", "true,".repeat(1967))).is_ok(), "as many as one request can write");
        assert!(value(&format!("[{}1]", "1,".repeat(10_000))).is_err());
        assert!(value(&format!("\"[{}1]\"", "1,".repeat(4000))).is_ok(), "the same as text");
    }

    #[test]
    fn problems_name_the_argument_what_came_and_what_is_allowed() {
        let given =
            arguments(r#"{"limit": "ten", "tags": "a/b", "dry_run": "yes", "device": 7, "value": {"a": 1}}"#);
        let problems = [
            given.limit("limit", 1, 9).expect_err("a text"),
            given.texts("tags", 3).expect_err("a text"),
            given.texts("more", 3).expect_err("missing"),
            given.flag("dry_run").expect_err("a text"),
            given.text("device").expect_err("a number"),
            given.value("value").expect_err("an object"),
            given.only(&["limit", "tags", "dry_run", "device"]).expect_err("value"),
        ];
        assert_eq!(
            problems,
            [
                "`limit` is \"ten\": allowed is an integer from 1 to 9",
                "`tags` is \"a/b\": allowed is an array of 1 to 3 strings",
                "`more` is missing: allowed is an array of 1 to 3 strings",
                "`dry_run` is \"yes\": allowed is true or false",
                "`device` is 7: allowed is a string",
                "`value` is {\"a\":1}: allowed is a string such as \"72.5\" or \"on\", a number, a boolean, or an array of these",
                "unknown argument `value`: allowed are `limit`, `tags`, `dry_run`, `device`",
            ]
        );
    }

    #[test]
    fn limits_may_be_whole_floats() {
        let given = Arguments::new(
            json!({ "a": 7.0, "b": 7.5, "c": 0, "d": 1000 }).as_object().cloned().unwrap_or_default(),
        );
        assert_eq!(given.limit("a", 1, 10), Ok(7));
        assert!(given.limit("b", 1, 10).is_err());
        assert!(given.limit("c", 1, 10).is_err());
        assert!(given.limit("d", 1, 10).is_err());
        assert_eq!(given.limit("e", 3, 10), Ok(3));
    }
}
