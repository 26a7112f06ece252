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
    dbc::Dbc,
    dialect::Keys,
    mqtt::Qos,
    qos,
    raw::{ProfileFile, Protocol},
    signal::{Frames, Names},
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
    pub(crate) frames: Frames,
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
        let beside = |file: &str| {
            let within = Path::new(name).parent().unwrap_or(Path::new("")).join(file);
            read_beside(&self.folder.join(&within), &within)
        };
        let profile = parse(document, beside, found).map(Arc::new);
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

/// Reads and checks a profile; what is wrong is noted. Files beside it are read by `beside`.
pub(crate) fn parse(
    document: Document,
    beside: impl Fn(&str) -> io::Result<Vec<u8>>,
    found: &mut Findings,
) -> Option<Profile> {
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
    let mut tags = templates(file.tags.as_ref(), found);
    let frames = frames(&file, &mut tags, beside, found);
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
        frames,
        tags,
    })
}

/// A file beside a profile: in the folder of the site, else built in.
fn read_beside(path: &Path, within: &Path) -> io::Result<Vec<u8>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => embedded_file(within).ok_or(error),
        read => read,
    }
}

fn embedded_file(path: &Path) -> Option<Vec<u8>> {
    EMBEDDED.get_file(path).map(|file| file.contents().to_vec())
}

/// What a profile says of a bus, its DBC file among it; where all signals of that are wanted, `tags` gets them.
fn frames(
    file: &ProfileFile,
    tags: &mut Templates,
    beside: impl Fn(&str) -> io::Result<Vec<u8>>,
    found: &mut Findings,
) -> Frames {
    let mut frames = Frames {
        ranges: file.dbc_ranges.as_ref().map(|at| at.value.0),
        messages: file.messages.as_ref().map(|at| at.value.0.clone()).unwrap_or_default(),
        ..Frames::default()
    };
    if let Some(at) = &file.dbc {
        let dbc = beside(&at.value.0).map_err(|error| error.to_string());
        match dbc.and_then(|bytes| Dbc::parse(&bytes).map_err(|error| error.to_string())) {
            Ok(dbc) => {
                for warning in &dbc.warnings {
                    let line = warning.line.map_or_else(String::new, |line| format!("line {line}: "));
                    at.warn(found, format!("{line}{}", warning.text));
                }
                frames.names = Arc::new(Names::new(&dbc));
                frames.dbc = Some(Arc::new(dbc));
            }
            Err(problem) => found.problems.push(at.spot.problem(What::Unusable(problem))),
        }
    }
    let Some(all) = file.all_signals.as_ref().filter(|all| all.value.0) else { return frames };
    if file.dbc.is_none() {
        let (with, allowed) = ("a profile without `dbc`".to_owned(), "false, or a `dbc`".to_owned());
        found.problems.push(all.spot.problem(What::Conflict { with, allowed }));
    }
    for (first, second) in &frames.names.collisions {
        let with = format!("signals {first} and {second}, which would be one tag");
        let allowed = "false, and a tag for each signal that is wanted".to_owned();
        found.problems.push(all.spot.problem(What::Conflict { with, allowed }));
    }
    let rest = frames.all(&tags.signals, &all.spot);
    tags.signals.extend(rest);
    frames
}

/// Keys and tags that mean nothing to the protocol.
fn check_protocol(protocol: Protocol, file: &ProfileFile, tags: &Templates, found: &mut Findings) {
    fn spot<T>(at: Option<&At<T>>) -> Option<&Spot> {
        at.map(|at| &at.spot).filter(|spot| spot.is_written())
    }
    let keys = [
        (spot(file.scan_ms.as_ref()), Protocol::Modbus),
        (spot(file.reads.as_ref()), Protocol::Modbus),
        (spot(file.writes.as_ref()), Protocol::Modbus),
        (spot(file.availability.as_ref()), Protocol::Mqtt),
        (spot(file.qos.as_ref()), Protocol::Mqtt),
        (spot(file.dbc.as_ref()), Protocol::Can),
        (spot(file.all_signals.as_ref()), Protocol::Can),
        (spot(file.dbc_ranges.as_ref()), Protocol::Can),
        (spot(file.messages.as_ref()), Protocol::Can),
        (spot(file.byte_order.as_ref()).filter(|_| protocol == Protocol::Can), Protocol::Modbus),
    ];
    let with = format!("protocol = \"{}\"", protocol.name());
    for (spot, own) in keys {
        if let Some(spot) = spot.filter(|_| own != protocol) {
            let allowed = "to leave it out".to_owned();
            found.problems.push(spot.problem(What::Conflict { with: with.clone(), allowed }));
        }
    }
    for spot in tags.strange(protocol) {
        let allowed = format!("a tag with a {}", protocol.source());
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
