//! Files for drafts of profiles: never over one that is there.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
};

use toml::Value;

/// Where the drafts go.
#[derive(Debug)]
pub(super) struct Drafts {
    file: PathBuf,
    /// What stands in the name of a file before what it is of, where there are several.
    of: &'static str,
}

/// Why a draft cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum DraftError {
    #[error("{} is there already and is not overwritten: allowed is the name of a new file", .0.display())]
    Exists(PathBuf),
    #[error("{} cannot be written: there is no folder {}", .0.display(), .1.display())]
    Folder(PathBuf, PathBuf),
    #[error("{} names no file", .0.display())]
    Name(PathBuf),
    #[error("cannot write {}", .path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Drafts {
    /// Refuses at once what would fail at the end.
    pub(super) fn claim(file: PathBuf, of: &'static str) -> Result<Self, DraftError> {
        if file.exists() {
            return Err(DraftError::Exists(file));
        }
        let Some(name) = stem(&file) else { return Err(DraftError::Name(file)) };
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(DraftError::Folder(file.clone(), folder.to_owned()));
        }
        let prefix = format!("{name}-{of}-");
        for entry in folder.read_dir().into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                return Err(DraftError::Exists(entry.path()));
            }
        }
        Ok(Self { file, of })
    }

    /// Writes texts, each with what it is of: a single one into the file itself. Which files those are.
    pub(super) fn write(&self, drafts: &[(String, String)]) -> Result<Vec<PathBuf>, DraftError> {
        let mut files = Vec::new();
        for (of, text) in drafts {
            let path = if drafts.len() == 1 { self.file.clone() } else { self.path(of) };
            put(&path, text)?;
            files.push(path);
        }
        Ok(files)
    }

    fn path(&self, of: &str) -> PathBuf {
        let name = stem(&self.file).unwrap_or_default();
        self.file.with_file_name(format!("{name}-{}-{of}.toml", self.of))
    }
}

fn stem(file: &Path) -> Option<String> {
    file.file_stem().map(|name| name.to_string_lossy().into_owned())
}

fn put(path: &Path, text: &str) -> Result<(), DraftError> {
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => DraftError::Exists(path.to_owned()),
        _ => DraftError::Write { path: path.to_owned(), source },
    })
}

/// A text as TOML has it.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
