//! Random frames of the simulated battery and engine: signals alone, the whole way from a log to tags, and cantools.

use std::{
    collections::HashMap,
    fmt::Write as _,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use fieldbridge::{
    app::App,
    codec::can::{Data, Fd, Id, Reading},
    config::{self, Site, Wire},
    profile::can::{Key, Point},
};
use tokio::time::sleep;

use crate::Arguments;

const PATIENCE: Duration = Duration::from_secs(120);
/// The messages: identifier, bytes, and whether they are CAN FD.
const MESSAGES: [(&str, usize, bool); 8] = [
    ("1A0", 8, false),
    ("2A0", 8, false),
    ("3A0", 8, false),
    ("4A0", 64, true),
    ("0CF00400", 8, false),
    ("18FEEE00", 8, false),
    ("18FEEF00", 8, false),
    ("18FEE500", 8, false),
];

/// What cantools makes of a log: seconds, and signals.
const CANTOOLS: &str = r##"
import sys, time, cantools
dbs = [cantools.database.load_file(path) for path in sys.argv[2:]]
by_id = {}
for db in dbs:
    for message in db.messages:
        by_id[message.frame_id, message.is_extended_frame] = message
frames = []
for line in open(sys.argv[1]):
    name, data = line.split()[2].split("#", 1)
    data = data[2:] if data.startswith("#") else data
    frames.append((by_id[int(name, 16), len(name) == 8], bytes.fromhex(data)))
begin, signals = time.perf_counter(), 0
for message, data in frames:
    signals += len(message.decode(data, decode_choices=False))
print(time.perf_counter() - begin, signals)
"##;

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let frames = frames(arguments.frames)?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("random.log");
    std::fs::write(&log, text(&frames)?)?;
    let site = site(&log)?;
    let (alone, signals) = alone(&site, &frames);
    let whole = whole(site, frames.len()).await?;
    println!("\ndecode: {} random frames of 8 messages, {signals} signals in them", frames.len());
    println!("  {:<44} {:>12} {:>12}", "", "frames/s", "signals/s");
    let count = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let row = |name: &str, time: Duration, signals: usize| {
        let seconds = time.as_secs_f64();
        println!("  {name:<44} {:>12.0} {:>12.0}", count(frames.len()) / seconds, count(signals) / seconds);
    };
    row("signals alone, one thread", alone, signals);
    row("log → frames → signals → tags in the store", whole, signals);
    match cantools(&log) {
        Ok((time, theirs)) => {
            row("cantools, decode alone, one thread", time, theirs);
            let times =
                |ours: Duration| time.as_secs_f64() / ours.as_secs_f64() * count(signals) / count(theirs);
            println!(
                "  signals alone are {:.0} times, the whole way is {:.0} times as fast (aim: 20)",
                times(alone),
                times(whole)
            );
        }
        Err(error) => println!("  cantools: {error:#}"),
    }
    Ok(())
}

fn frames(count: u32) -> Result<Vec<Data>> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut frames = Vec::new();
    for number in 0..usize::try_from(count)? {
        let (id, length, fd) = MESSAGES.get(number % MESSAGES.len()).context("a message")?;
        let value = u32::from_str_radix(id, 16)?;
        let id = if id.len() == 8 { Id::extended(value) } else { Id::standard(value) };
        let mut bytes = vec![0; *length];
        random.fill(&mut bytes);
        // Pages that there are, so that most frames hold signals.
        if value == 0x2A0 {
            bytes.iter_mut().take(1).for_each(|byte| *byte %= 4);
        }
        let fd = fd.then_some(Fd { brs: true, esi: false });
        frames.push(Data::new(id.context("an identifier")?, &bytes, fd).context("a frame")?);
    }
    Ok(frames)
}

fn text(frames: &[Data]) -> Result<String> {
    let mut text = String::new();
    for (number, frame) in frames.iter().enumerate() {
        let mark = if frame.fd.is_some() { "##1" } else { "#" };
        writeln!(
            text,
            "({}.{:06}) can0 {}{mark}{}",
            number / 10_000,
            number % 10_000 * 100,
            frame.id,
            frame.payload
        )?;
    }
    Ok(text)
}

fn site(log: &Path) -> Result<Site> {
    let text = format!(
        "site = {{ name = 'bench' }}\n[[connections]]\nname = 'bus'\ndriver = 'can-replay'\nlog = '{}'\nspeed = 0\nfd = true\n\
         [[devices]]\nname = 'battery'\nconnection = 'bus'\nprofile = 'demo/battery'\n[[devices]]\nname = 'engine'\n\
         connection = 'bus'\nprofile = 'demo/engine'\nsource_address = 0\n",
        log.display()
    );
    Ok(config::load_text(Path::new("config/bench.toml"), text, std::iter::empty::<(String, String)>())?)
}

/// Looks up and reads every signal of every frame.
fn alone(site: &Site, frames: &[Data]) -> (Duration, usize) {
    let mut points: HashMap<Id, Vec<Arc<Point>>> = HashMap::new();
    for device in site.connections.iter().flat_map(|connection| &connection.devices) {
        let Wire::Can(device) = &device.wire else { continue };
        for spec in &device.tags {
            let id = match spec.source.message.key {
                Key::Id(id) => Some(id),
                // As the frames here have them, with the priorities of the file.
                Key::Group { pgn, source } => [3, 6].into_iter().find_map(|priority: u32| {
                    let id = Id::extended(priority << 26 | pgn << 8 | u32::from(source));
                    id.filter(|id| frames.iter().take(MESSAGES.len()).any(|frame| frame.id == *id))
                }),
            };
            if let Some(id) = id {
                points.entry(id).or_default().push(Arc::clone(&spec.source));
            }
        }
    }
    let mut signals = 0;
    let begin = Instant::now();
    for frame in frames {
        let payload = frame.payload.bytes();
        for point in points.get(&frame.id).into_iter().flatten() {
            if point.conditions.iter().all(|condition| condition.holds(payload) == Some(true)) {
                let reading = point.signal.read(payload);
                signals += usize::from(!matches!(black_box(&reading), Reading::Short));
            }
        }
    }
    (begin.elapsed(), signals)
}

/// The time from the start of a site until its last frame is in the store.
async fn whole(site: Site, frames: usize) -> Result<Duration> {
    let begin = Instant::now();
    let app = App::start(site);
    let count = || {
        let catalogue = app.store().catalogue();
        let counters = catalogue.device("battery").map(|device| Arc::clone(&device.counters))?;
        counters.all().into_iter().find(|(name, _)| *name == "messages").map(|(_, count)| count)
    };
    while count() != Some(u64::try_from(frames)?) {
        ensure!(begin.elapsed() < PATIENCE, "{:?} of {frames} frames", count());
        sleep(Duration::from_millis(2)).await;
    }
    let time = begin.elapsed();
    app.stop().await;
    Ok(time)
}

fn cantools(log: &Path) -> Result<(Duration, usize)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let own = root.join("target/tmp/interop-venv/bin/python");
    let python = std::env::var_os("FIELDBRIDGE_PYTHON").map_or(own, PathBuf::from);
    let mut command = Command::new(&python);
    command.args(["-c", CANTOOLS]).arg(log);
    command.args(["battery", "engine"].map(|name| root.join(format!("devices/demo/{name}.dbc"))));
    let output = command.output().with_context(|| format!("cannot run {}", python.display()))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim_end());
    let text = String::from_utf8(output.stdout)?;
    let (seconds, signals) = text.trim().split_once(' ').context("two numbers")?;
    Ok((Duration::from_secs_f64(seconds.parse()?), signals.parse()?))
}
