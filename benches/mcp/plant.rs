//! A site of 1,000 tags on one Modbus device, and the simulated PLC that serves them.
//!
//! The PLC lives in the benchmark's process, on a thread of its own, for as long as its [`Plant`].

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use anyhow::{Context, Result};
use simulators::modbus::{Server, Tables};
use tokio::sync::oneshot;

/// Tags of the site; a multiple of four, as many of each [`Kind`].
pub(crate) const TAGS: usize = 1000;
const EACH: u16 = 250;

/// Path of the `index`-th tag.
pub(crate) fn tag(index: usize) -> String {
    format!("plc/line-{}/t{:04}", index % TAGS / 100, index % TAGS)
}

/// The site's file, and its PLC.
#[derive(Debug)]
pub(crate) struct Plant {
    site: PathBuf,
    _stop: oneshot::Sender<()>,
}

impl Plant {
    /// Starts the PLC on a free port and writes site and profile below cargo's folder for temporary files.
    pub(crate) fn start() -> Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (started, address) = mpsc::channel();
        thread::Builder::new().name("plc".to_owned()).spawn(move || {
            let ran = serve(stopped, |bound| started.send(Ok(bound)));
            if let Err(error) = ran {
                // Nobody listens any more where it failed after its start.
                drop(started.send(Err(error)));
            }
        })?;
        let address: std::net::SocketAddr = address.recv().context("the PLC's thread ended")??;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-mcp");
        let site = folder.join("config/plant.toml");
        let profile = folder.join("devices/bench/plc.toml");
        for (file, text) in [(&site, site_file(&address.to_string())), (&profile, profile_file())] {
            fs::create_dir_all(file.parent().context("a folder")?)?;
            fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        Ok(Self { site, _stop: stop })
    }

    /// The file that `fieldbridge serve --config` takes.
    pub(crate) fn site(&self) -> &Path {
        &self.site
    }
}

fn serve<E>(
    stopped: oneshot::Receiver<()>,
    started: impl FnOnce(std::net::SocketAddr) -> Result<(), E>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::start(([127, 0, 0, 1], 0).into(), [(1, tables())])?;
        if started(server.local_addr()).is_ok() {
            // Ends with an error when the plant is dropped, which is what stops it.
            drop(stopped.await);
        }
        server.stop().await;
        Ok(())
    })
}

fn tables() -> Tables {
    let mut tables = Tables::new();
    tables.set_inputs(0, &(0..EACH).map(|index| 200 + index).collect::<Vec<_>>());
    tables.set_holdings(0, &(0..EACH).map(|index| 500 + index).collect::<Vec<_>>());
    tables.set_coils(0, &(0..EACH).map(|index| index % 3 == 0).collect::<Vec<_>>());
    let floats = (0..EACH).flat_map(|index| {
        let bits = (20.0 + f32::from(index) / 7.0).to_bits();
        let [a, b, c, d] = bits.to_be_bytes();
        [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
    });
    tables.set_holdings(1000, &floats.collect::<Vec<_>>());
    tables
}

fn site_file(address: &str) -> String {
    format!(
        r#"[site]
name = "bench"
writes = "allow"

[[connections]]
name = "plc"
driver = "modbus-tcp"
address = "{address}"
timeout_ms = 2000

[[devices]]
name = "plc"
connection = "plc"
unit_id = 1
profile = "bench/plc"
"#
    )
}

fn profile_file() -> String {
    let mut text = String::from(
        "protocol = \"modbus\"\nvendor = \"bench\"\nmodel = \"PLC\"\nscan_ms = 1000\nstale_after_ms = 60000\n",
    );
    for index in 0..TAGS {
        let path = tag(index);
        let name = path.strip_prefix("plc/").unwrap_or(&path);
        let row = index / 4;
        let rest = match index % 4 {
            0 => format!(
                "register = {{ table = \"input\", address = {row} }}\ntype = \"int16\"\nscale = 0.1\nunit = \"°C\"\n\
                 range = [-50.0, 150.0]\ndeadband = 0.2\n"
            ),
            1 => format!(
                "register = {{ table = \"holding\", address = {row} }}\ntype = \"uint16\"\nscale = 0.1\nunit = \"°C\"\n\
                 access = \"read-write\"\nwrite = {{ min = 20.0, max = 95.0 }}\n"
            ),
            2 => format!(
                "register = {{ table = \"holding\", address = {} }}\ntype = \"float32\"\nunit = \"m³/h\"\n",
                1000 + 2 * row
            ),
            _ => format!("register = {{ table = \"coil\", address = {row} }}\ntype = \"bool\"\n"),
        };
        // Writing to a String cannot fail.
        let _ok = writeln!(
            text,
            "\n[[tags]]\nname = \"{name}\"\ndescription = \"Value {index} of the line\"\n{rest}"
        );
    }
    text
}
