//! Merges the layers of a configuration: the site file, then the environment.

use std::{ffi::OsString, path::Path, sync::Arc};

use config::{Config, ConfigBuilder, ConfigError, Map, Source, Value, ValueKind, builder::DefaultState};

use super::{
    document::{Document, child, is_bare},
    problem::{Findings, Origin, Problem, Problems, What, nearest},
    raw::{ServerTable, SiteFile, SiteTable, SiteWriteTable},
    read::{Node, Read, unknown_key},
    resolve::resolve,
    site::Site,
};
use crate::profile::Library;

/// How the environment variables that we read begin.
const PREFIX: &str = "FIELDBRIDGE__";
/// Most keys that a variable names: `site`, `write`, `timeout_ms`.
const DEEPEST: usize = 3;
/// The tables that the environment may set, and their keys: an index into an array would break it.
const TABLES: [(&str, &[&str]); 3] =
    [("site", SiteTable::KEYS), ("site__write", SiteWriteTable::KEYS), ("server", ServerTable::KEYS)];

/// Reads a site file, its profiles and the environment (`std::env::vars_os()`), and checks all of it.
///
/// Environment variables are named by table and key, such as `FIELDBRIDGE__SITE__WRITES`; they win over the file.
pub fn load<K, V>(path: &Path, env: impl IntoIterator<Item = (K, V)>) -> Result<Site, Problems>
where
    K: Into<OsString>,
    V: Into<OsString>,
{
    match std::fs::read_to_string(path) {
        Ok(text) => load_text(path, text, env),
        Err(error) => {
            let origin = Origin::File { path: path.display().to_string(), line: None, column: None };
            let what = What::Unreadable(error.to_string());
            Err(Problems::new(vec![Problem { origin, key: String::new(), value: None, what }]))
        }
    }
}

/// As [`load`], for a site whose text is at hand; `path` names it and says where its profiles lie.
pub fn load_text<K, V>(
    path: &Path,
    text: String,
    env: impl IntoIterator<Item = (K, V)>,
) -> Result<Site, Problems>
where
    K: Into<OsString>,
    V: Into<OsString>,
{
    let mut found = Findings::default();
    let document = Arc::new(Document::new(path.display().to_string(), text));
    let layers = environment(env, &mut found.problems);
    let site = match document.tree() {
        Ok(tree) => match merge(bare_keys(tree, &document, &mut found.problems), layers) {
            Ok(tree) => SiteFile::read(&Node::root(&tree, &document), &mut found)
                .and_then(|file| resolve(&file, path, Library::beside(path), &mut found)),
            Err(error) => {
                let what = What::Unreadable(error.to_string());
                let origin = document.file(None, None);
                found.problems.push(Problem { origin, key: String::new(), value: None, what });
                None
            }
        },
        Err(problems) => {
            found.problems.extend(problems);
            None
        }
    };
    match site {
        Some(site) if found.problems.is_empty() => Ok(site),
        _ => Err(Problems::new(found.problems)),
    }
}

/// One source of settings, as the library merges them.
#[derive(Debug, Clone)]
struct Layer(Map<String, Value>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}

fn merge(file: Map<String, Value>, environment: Vec<Layer>) -> Result<Value, ConfigError> {
    let start = Config::builder().add_source(Layer(file));
    let merged = environment.into_iter().fold(start, ConfigBuilder::<DefaultState>::add_source).build()?;
    Ok(merged.cache)
}

/// The top-level keys that the library takes literally: it reads others, such as `"a.b"`, as paths.
fn bare_keys(
    tree: Map<String, Value>,
    document: &Document,
    problems: &mut Vec<Problem>,
) -> Map<String, Value> {
    let (bare, quoted): (Map<_, _>, Map<_, _>) = tree.into_iter().partition(|(key, _)| is_bare(key));
    for key in quoted.into_keys() {
        let what = unknown_key(&key, SiteFile::KEYS);
        let key = child("", &key);
        problems.push(Problem { origin: document.origin(&key), value: document.written(&key), key, what });
    }
    bare
}

/// One layer a variable, in the order of their names.
fn environment<K, V>(env: impl IntoIterator<Item = (K, V)>, problems: &mut Vec<Problem>) -> Vec<Layer>
where
    K: Into<OsString>,
    V: Into<OsString>,
{
    let mut ours: Vec<(String, OsString)> = env
        .into_iter()
        .map(|(name, text)| (name.into().to_string_lossy().into_owned(), text.into()))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    ours.sort();
    let mut layers = Vec::new();
    for (name, text) in ours {
        let what = match (keys(&name), text.to_str()) {
            (Some(keys), Some(text)) => {
                layers.push(Layer(nested(&name, &keys, text)));
                continue;
            }
            (Some(_), None) => What::NotAllowed { allowed: "a text in UTF-8".to_owned() },
            (None, _) => {
                let known = variables();
                What::Variable { nearest: nearest(&name, known.iter().map(String::as_str)), known }
            }
        };
        let key = name.trim_start_matches(PREFIX).to_ascii_lowercase().replace("__", ".");
        let value = Some(format!("{:?}", text.to_string_lossy()));
        problems.push(Problem { origin: Origin::Variable(name), key, value, what });
    }
    layers
}

/// Table and keys that a variable names; `None` where it may set nothing there.
fn keys(name: &str) -> Option<Vec<String>> {
    let keys: Vec<String> = name.strip_prefix(PREFIX)?.split("__").map(str::to_ascii_lowercase).collect();
    let table = keys.first()?;
    let allowed = TABLES.iter().any(|(known, _)| known == table);
    (allowed && (2..=DEEPEST).contains(&keys.len()) && keys.iter().all(|key| is_bare(key))).then_some(keys)
}

fn nested(name: &str, keys: &[String], text: &str) -> Map<String, Value> {
    let origin = name.to_owned();
    let leaf = Value::new(Some(&origin), ValueKind::String(text.to_owned()));
    let (first, rest) = match keys.split_first() {
        Some((first, rest)) => (first.clone(), rest),
        None => return Map::new(),
    };
    let value = rest
        .iter()
        .rev()
        .fold(leaf, |value, key| Value::new(None, ValueKind::Table(Map::from_iter([(key.clone(), value)]))));
    Map::from_iter([(first, value)])
}

/// Every variable that sets something.
fn variables() -> Vec<String> {
    let is_table = |name: &String| TABLES.iter().any(|(table, _)| table == name);
    TABLES
        .iter()
        .flat_map(|(table, keys)| keys.iter().map(move |key| format!("{table}__{key}")))
        .filter(|name| !is_table(name))
        .map(|name| format!("{PREFIX}{}", name.to_uppercase()))
        .collect()
}
