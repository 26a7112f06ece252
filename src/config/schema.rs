//! The JSON Schemas of site and profile files, from the same declarations as their readers.

use schemars::{JsonSchema, generate::SchemaSettings};

use super::raw::SiteFile;
use crate::profile::raw::ProfileFile;

/// JSON Schema (draft 2020-12) of a site file, as text.
#[must_use]
pub fn site_schema() -> String {
    text::<SiteFile>("fieldbridge site")
}

/// JSON Schema (draft 2020-12) of a profile, as text.
#[must_use]
pub fn profile_schema() -> String {
    text::<ProfileFile>("fieldbridge profile")
}

fn text<T: JsonSchema>(title: &str) -> String {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    format!("{:#}\n", schema.to_value())
}
