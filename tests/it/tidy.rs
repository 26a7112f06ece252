//! What a module must not know (ARCHITECTURE.md, Modules) is not named in it; and what no file may do.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folder or file in `src/`, and the names that must not stand in it.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "model",
        &[
            "crate::",
            "std::net",
            "tokio::net",
            "tokio::io",
            "serde::",
            "serde_json",
            "schemars",
            "tokio_modbus",
        ],
    ),
    (
        "config",
        &[
            "tokio::net",
            "TcpStream",
            "TcpListener",
            "crate::store",
            "crate::control",
            "crate::mcp",
            "crate::link",
        ],
    ),
    (
        "profile",
        &["std::net", "SocketAddr", "tokio", "crate::store", "crate::control", "crate::mcp", "crate::link"],
    ),
    (
        "codec",
        &[
            "tokio::",
            "std::net",
            "crate::store",
            "crate::control",
            "crate::mcp",
            "crate::link",
            "crate::config",
        ],
    ),
    (
        "link",
        &["crate::store", "crate::control", "crate::mcp", "crate::drivers", "crate::codec", "modbus", "mqtt"],
    ),
    ("drivers", &["crate::store", "crate::control", "crate::mcp"]),
    (
        "store",
        &[
            "crate::drivers",
            "crate::codec",
            "crate::control",
            "crate::mcp",
            "crate::config",
            "rmcp",
            "tokio_modbus",
        ],
    ),
    ("control", &["crate::drivers", "crate::codec", "crate::mcp", "rmcp", "tokio_modbus"]),
    ("mcp", &["crate::drivers", "crate::codec", "crate::config", "crate::profile", "tokio_modbus"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The code of a file: no comments, and no test modules, which may look across.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn is_test(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    name == "tests" || name.ends_with("_tests") || path.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn modules_do_not_know_what_they_must_not() {
    let mut found = Vec::new();
    for (module, names) in FORBIDDEN {
        let folder = root().join("src").join(module);
        for path in sources(&folder).iter().filter(|path| !is_test(path)) {
            let code = code(path);
            for name in names.iter().filter(|name| code.contains(**name)) {
                found.push(format!("{} names `{name}`", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn simulators_use_nothing_of_the_bridge() {
    let folder = root().join("simulators");
    for path in sources(&folder) {
        assert!(!fs::read_to_string(&path).unwrap().contains("fieldbridge::"), "{}", path.display());
    }
    assert!(!fs::read_to_string(folder.join("Cargo.toml")).unwrap().contains("path ="));
}

#[test]
fn every_module_says_what_it_owns() {
    for path in sources(&root().join("src")).iter().filter(|path| !is_test(path)) {
        assert!(fs::read_to_string(path).unwrap().starts_with("//!"), "{} has no `//!`", path.display());
    }
}

#[test]
fn nothing_but_the_command_line_prints() {
    for path in sources(&root().join("src")).iter().filter(|path| !is_test(path)) {
        if !path.components().any(|part| part.as_os_str() == "cli") {
            let code = code(path);
            let found =
                ["println!", "eprintln!", "dbg!", "io::stdout"].into_iter().find(|word| code.contains(word));
            // The one place that hands stdout to the protocol.
            let owns = path.ends_with("mcp/transport/streams.rs");
            assert!(found.is_none() || owns, "{} has {found:?}", path.display());
        }
    }
}
