//! Runs the interoperability tests: real peers, driven from Python: pymodbus and libmodbus as PLCs, mbpoll as
//! another master, mosquitto as a broker, python-can, cantools and can-utils on CAN buses, and the official MCP client.
//!
//! It makes a virtual environment under `target/`, installs the pinned packages there when they changed, and runs
//! pytest on the program that Cargo built. libmodbus, mbpoll, mosquitto and can-utils are no Python packages: `.ci/run`
//! installs them.
//! Arguments go to pytest: `cargo test --test interop -- -k pairs`.
#![expect(clippy::print_stdout, reason = "it says what it runs")]

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fieldbridge");
const VERSION: &str =
    "import sys; sys.exit('needs Python 3.11 or later' if sys.version_info < (3, 11) else 0)";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("interop: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop");
    let python = python(&tests.join("requirements.txt"))?;
    finish(
        Command::new(python)
            .args(["-B", "-m", "pytest", "-c"])
            .arg(tests.join("pytest.ini"))
            .arg("--rootdir")
            .arg(&tests)
            .args(env::args_os().skip(1))
            .arg(&tests)
            .env("FIELDBRIDGE", PROGRAM)
            .env("PYTHONUNBUFFERED", "1"),
    )
}

/// The interpreter of a virtual environment that holds exactly what `requirements` pins.
fn python(requirements: &Path) -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop-venv");
    let python = place.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let installed = place.join("installed.txt");
    let read = |path: &Path| fs::read_to_string(path);
    let wanted = read(requirements).map_err(|error| format!("{}: {error}", requirements.display()))?;
    if python.exists() && read(&installed).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", place.display()));
        }
        _ => {}
    }
    let base = env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    finish(Command::new(&base).args(["-c", VERSION]))?;
    finish(Command::new(&base).args(["-m", "venv"]).arg(&place))?;
    finish(Command::new(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(requirements))?;
    fs::write(&installed, wanted).map_err(|error| format!("{}: {error}", installed.display()))?;
    Ok(python)
}

/// Runs a command to its end and takes nothing but success.
fn finish(command: &mut Command) -> Result<(), String> {
    println!("interop: {command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{:?} ended with {status}", command.get_program())),
        Err(error) => Err(format!("{:?} cannot be run: {error}", command.get_program())),
    }
}
