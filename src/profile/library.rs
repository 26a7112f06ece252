//! Finds profiles: in the folder of a site, then among those built into the program.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use config::{Value, ValueKind};
use include_dir::{Dir, include_dir};

use super::{
    Defaults, Sign, Templates,
    dialect::Keys,
    mqtt::Qos,
    qos,
    raw::{ProfileFile, Protocol},
    signs, templates,
};
use crate::config::{
    Document, Problem, What,
    problem::{Findings, nearest},
    read::{At, Node, Read, Spot},
};

/// The profiles built into the program.
static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/devices");

/// What a model of device has.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) vendor: String,
    pub(crate) model: String,
    pub(crate) description: String,
    pub(crate) defaults: Defaults,
    pub(crate) dialect: Keys,
    pub(crate) protocol: Protocol,
    pub(crate) qos: Option<Qos>,
    pub(crate) signs: Vec<Sign>,
    pub(crate) tags: Templates,
}

/// The profiles that a site can use, each read once.
#[derive(Debug)]
pub(crate) struct Library {
    folder: PathBuf,
    /// `None` for one that is not there or has problems, already noted.
    read: HashMap<String, Option<Arc<Profile>>>,
}

impl Library {
    /// The profiles of the site file at `site`: in `devices/` beside the folder that holds the file (`devices/` for
    /// `config/site.toml`), then those built in.
    pub(crate) fn beside(site: &Path) -> Self {
        let holder = site.parent().unwrap_or(Path::new(""));
        let above = match holder.components().next_back() {
            Some(Component::Normal(_)) => holder.parent().unwrap_or(Path::new("")).to_owned(),
            _ => holder.join(".."),
        };
        Self { folder: above.join("devices"), read: HashMap::new() }
    }

    /// The profile `name`, that `device` asks for; a problem with it is noted once, one with the name for each.
    pub(crate) fn get(&mut self, name: &str, asked: &Spot, found: &mut Findings) -> Option<Arc<Profile>> {
        if let Some(profile) = self.read.get(name) {
            return profile.clone();
        }
        let path = self.folder.join(format!("{name}.toml"));
        let document = match std::fs::read_to_string(&path) {
            Ok(text) => Some(Document::new(path.display().to_string(), text)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                embedded(name)
            }
            Err(error) => {
                let origin = Document::new(path.display().to_string(), String::new()).file(None, None);
                let what = What::Unreadable(error.to_string());
                found.problems.push(Problem { origin, key: String::new(), value: None, what });
                self.read.insert(name.to_owned(), None);
                return None;
            }
        };
        let Some(document) = document else {
            // Not kept: each device that asks for it gets its own problem.
            found.problems.push(asked.problem(self.unknown(name)));
            return None;
        };
        let profile = parse(document, found).map(Arc::new);
        self.read.insert(name.to_owned(), profile.clone());
        profile
    }

    fn unknown(&self, name: &str) -> What {
        let mut known = embedded_names();
        known.extend(names_in(&self.folder, "", 4));
        known.sort();
        known.dedup();
        let looked = format!("{} nor in the program", self.folder.display());
        What::UnknownProfile { looked, nearest: nearest(name, known.iter().map(String::as_str)), known }
    }
}

/// Reads and checks a profile; what is wrong is noted.
pub(crate) fn parse(document: Document, found: &mut Findings) -> Option<Profile> {
    let document = Arc::new(document);
    let tree = match document.tree() {
        Ok(tree) => Value::new(None, ValueKind::Table(tree)),
        Err(problems) => {
            found.problems.extend(problems);
            return None;
        }
    };
    let before = found.problems.len();
    let file = ProfileFile::read(&Node::root(&tree, &document), found)?;
    let tags = templates(file.tags.as_ref(), found);
    let dialect = Keys::new(file.reads.as_ref(), file.writes.as_ref(), found);
    let signs = signs(file.availability.as_ref(), found);
    if let Some(protocol) = &file.protocol {
        check_protocol(protocol.value.0, &file, &tags, found);
    }
    if found.problems.len() > before {
        return None;
    }
    let order = file.byte_order.as_ref().map(|at| at.value.0.0);
    let text = |at: &At<crate::config::leaf::Text>| at.value.0.clone();
    Some(Profile {
        vendor: file.vendor.as_ref().map(text)?,
        model: file.model.as_ref().map(text)?,
        description: file.description.as_ref().map(text).unwrap_or_default(),
        defaults: Defaults::new(file.scan_ms.as_ref(), order, file.stale_after_ms.as_ref()),
        dialect,
        protocol: file.protocol.as_ref()?.value.0,
        qos: file.qos.as_ref().map(qos),
        signs: signs.unwrap_or_default(),
        tags,
    })
}

/// Keys and tags that mean nothing to the protocol.
fn check_protocol(protocol: Protocol, file: &ProfileFile, tags: &Templates, found: &mut Findings) {
    fn spot<T>(at: Option<&At<T>>) -> Option<&Spot> {
        at.map(|at| &at.spot)
    }
    let (name, keys, strange) = match protocol {
        Protocol::Modbus => {
            let strange = tags.topics.iter().map(|tag| &tag.spot).collect::<Vec<_>>();
            ("modbus", vec![spot(file.availability.as_ref()), spot(file.qos.as_ref())], strange)
        }
        Protocol::Mqtt => {
            let strange = tags.registers.iter().map(|tag| &tag.spot).collect();
            let keys = [spot(file.scan_ms.as_ref()), spot(file.reads.as_ref()), spot(file.writes.as_ref())];
            ("mqtt", keys.to_vec(), strange)
        }
    };
    let with = format!("protocol = \"{name}\"");
    for spot in keys.into_iter().flatten() {
        let allowed = "to leave it out".to_owned();
        found.problems.push(spot.problem(What::Conflict { with: with.clone(), allowed }));
    }
    for spot in strange {
        let kind = if protocol == Protocol::Mqtt { "`topic`" } else { "`register`" };
        let allowed = format!("a tag with a {kind}");
        found.problems.push(spot.problem(What::Conflict { with: with.clone(), allowed }));
    }
}

fn embedded(name: &str) -> Option<Document> {
    let text = EMBEDDED.get_file(format!("{name}.toml"))?.contents_utf8()?;
    Some(Document::new(format!("devices/{name}.toml (built in)"), text.to_owned()))
}

/// Names of the profiles built in.
pub(crate) fn embedded_names() -> Vec<String> {
    fn collect(dir: &Dir<'_>, names: &mut Vec<String>) {
        for file in dir.files().filter(|file| file.path().extension() == Some(OsStr::new("toml"))) {
            names.push(file.path().with_extension("").to_string_lossy().replace('\\', "/"));
        }
        dir.dirs().for_each(|dir| collect(dir, names));
    }
    let mut names = Vec::new();
    collect(&EMBEDDED, &mut names);
    names.sort();
    names
}

/// Names of the profiles below a folder, `depth` folders deep.
fn names_in(folder: &Path, prefix: &str, depth: usize) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let file = file.to_string_lossy();
        if entry.path().is_dir() {
            if depth > 0 {
                names.extend(names_in(&entry.path(), &format!("{prefix}{file}/"), depth - 1));
            }
        } else if let Some(name) = file.strip_suffix(".toml") {
            names.push(format!("{prefix}{name}"));
        }
    }
    names
}
