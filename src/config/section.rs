//! Declares the tables of a file once: the same list of keys gives the struct, the reader and the JSON Schema.

use schemars::Schema;

/// Schema of one table, key by key.
#[derive(Debug)]
pub(crate) struct Shape {
    about: String,
    properties: serde_json::Map<String, serde_json::Value>,
    required: Vec<&'static str>,
}

impl Shape {
    pub(crate) fn new(about: &[&str]) -> Self {
        Self { about: sentence(about), properties: serde_json::Map::new(), required: Vec::new() }
    }

    pub(crate) fn key(
        &mut self,
        key: &'static str,
        need: &str,
        docs: &[&str],
        mut schema: Schema,
        default: Option<serde_json::Value>,
    ) {
        if need == "required" {
            self.required.push(key);
        }
        schema.insert("description".to_owned(), sentence(docs).into());
        if let Some(default) = default {
            schema.insert("default".to_owned(), default);
        }
        self.properties.insert(key.to_owned(), schema.to_value());
    }

    pub(crate) fn finish(self) -> Schema {
        let mut schema = schemars::json_schema!({
            "type": "object",
            "description": self.about,
            "properties": self.properties,
            "additionalProperties": false,
        });
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.into());
        }
        schema
    }
}

fn sentence(docs: &[&str]) -> String {
    docs.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Declares a table of a file: a struct of `Option<At<T>>`, its reader, and its JSON Schema, from one list of keys.
///
/// Each key is `required`, `optional`, `default` (with the value it then has), or `implied` (a table whose keys are
/// all optional, read as empty). A key is `None` where it was left out or could not be read; the latter is a problem
/// already noted.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $name:ident {
            $( $(#[doc = $doc:literal])* $need:ident $key:ident: $ty:ty $(= $default:literal)?; )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone)]
        $vis struct $name {
            $( $(#[doc = $doc])* $vis $key: Option<$crate::config::read::At<$ty>>, )*
        }

        impl $name {
            /// Every key of the table, as it is written.
            $vis const KEYS: &'static [&'static str] = &[$( section!(@name $key) ),*];
        }

        impl $crate::config::read::Read for $name {
            fn allowed() -> String {
                format!("a table with {}", Self::KEYS.join(", "))
            }

            fn read(
                node: &$crate::config::read::Node<'_>,
                found: &mut $crate::config::problem::Findings,
            ) -> Option<Self> {
                let Some(map) = node.keys(Self::KEYS, found) else {
                    node.refuse(found, Self::allowed());
                    return None;
                };
                Some(Self { $( $key: section!(@$need node, map, found, $key $(, $default)?), )* })
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut shape = $crate::config::section::Shape::new(&[$($about),*]);
                $(
                    let default: Option<serde_json::Value> = section!(@json $need $($default)?);
                    let schema = generator.subschema_for::<$ty>();
                    shape.key(section!(@name $key), stringify!($need), &[$($doc),*], schema, default);
                )*
                shape.finish()
            }
        }
    };
    (@name r#type) => { "type" };
    (@name $key:ident) => { stringify!($key) };
    (@required $node:ident, $map:ident, $found:ident, $key:ident) => {
        $node.required($map, section!(@name $key), $found)
    };
    (@optional $node:ident, $map:ident, $found:ident, $key:ident) => {
        $node.optional($map, section!(@name $key), $found)
    };
    (@default $node:ident, $map:ident, $found:ident, $key:ident, $default:literal) => {
        $node.defaulted($map, section!(@name $key), &config::Value::from($default), $found)
    };
    (@implied $node:ident, $map:ident, $found:ident, $key:ident) => {
        $node.defaulted(
            $map,
            section!(@name $key),
            &config::Value::from(config::Map::<String, config::Value>::new()),
            $found,
        )
    };
    (@json default $default:literal) => { Some(serde_json::json!($default)) };
    (@json $need:ident) => { None };
}
pub(crate) use section;
