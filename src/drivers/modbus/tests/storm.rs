//! Devices that do anything at all for a while, and behave afterwards: what holds all the time, and that all is good in the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize},
};

use proptest::prelude::*;
use tokio::{runtime::Builder, time::sleep};

use super::*;
use crate::{
    codec::value::Part,
    model::Outcome,
    profile::modbus::{Fallback, PartWrite},
};

const MS: Duration = Duration::from_millis(1);
/// Of a value that is written: its low bits say by which command.
const COMMANDS: u64 = 60;

/// How a link and its devices are.
#[derive(Debug, Clone)]
struct Weather {
    seed: u64,
    rtu: bool,
    /// Whether a serial line echoes.
    echo: bool,
    check_ids: bool,
    max_in_flight: u8,
    /// Tags of two devices, by their addresses.
    addresses: [BTreeSet<u16>; 2],
    most_registers: u16,
    /// Of 100 requests, so many get each kind of trouble.
    silent: u8,
    slow: u8,
    refused: u8,
    spoilt: u8,
    fallback: Fallback,
    part: PartWrite,
}

fn weather() -> impl Strategy<Value = Weather> {
    let addresses = || proptest::collection::btree_set(0..120_u16, 1..25);
    let link = (any::<u64>(), 0..3_u8, any::<bool>(), 1..=8_u8, [addresses(), addresses()], 10..=125_u16);
    let trouble = (0..25_u8, 0..40_u8, 0..25_u8, 0..10_u8);
    let fallback =
        prop_oneof![Just(Fallback::Off), Just(Fallback::IllegalFunction), Just(Fallback::IllegalAddress)];
    let part = prop_oneof![Just(PartWrite::Auto), Just(PartWrite::Mask), Just(PartWrite::ReadModifyWrite)];
    (link, trouble, fallback, part).prop_map(|(link, trouble, fallback, part)| {
        let (seed, line, check_ids, max_in_flight, addresses, most_registers) = link;
        let (silent, slow, refused, spoilt) = trouble;
        Weather {
            seed,
            rtu: line > 0,
            echo: line == 2,
            check_ids,
            max_in_flight,
            addresses,
            most_registers,
            silent,
            slow,
            refused,
            spoilt,
            fallback,
            part,
        }
    })
}

/// Tag `100 * unit + n` holds a register; those at odd addresses are written, and one register in bits.
fn units(weather: &Weather) -> Vec<Unit> {
    (1..=2_u8)
        .map(|unit_id| {
            let base = 1000 * u32::from(unit_id);
            let addresses = &weather.addresses[usize::from(unit_id) - 1];
            let mut tags: Vec<_> = addresses
                .iter()
                .map(|at| Polled {
                    scan: if at % 3 == 0 { 5 * SECOND } else { SECOND },
                    ..polled(base + u32::from(*at), Table::Holding, *at, Kind::Uint16)
                })
                .collect();
            tags.push(polled(base + 500, Table::Input, 7, Kind::Uint16));
            for bit in 0..4 {
                let mut tag = polled(base + 600 + u32::from(bit), Table::Holding, 300, Kind::Bool);
                Arc::make_mut(&mut tag.point).format.part = Part::Bit(bit);
                tags.push(tag);
            }
            let mut unit = unit(unit_id, tags);
            unit.dialect.writes.fallback = weather.fallback;
            unit.dialect.writes.part = weather.part;
            unit
        })
        .collect()
}

/// Frames of writes by unit id, address and value.
type Frames = BTreeMap<(u8, u16, u16), Vec<Vec<u8>>>;

/// What the peer saw.
#[derive(Debug, Default)]
struct Seen {
    open: Mutex<BTreeMap<u64, Asked>>,
    most: AtomicUsize,
    count: AtomicU64,
    /// Whether what is on the wire can be told: nothing was given up before its time.
    strict: AtomicBool,
    problems: Mutex<Vec<String>>,
    /// Frames of writes, by unit, address and the value in them.
    writes: Mutex<Frames>,
}

impl Seen {
    fn came(&self, asked: &Asked) -> u64 {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock().unwrap();
        // What is asked after a time-out was given up.
        open.retain(|_, other| other.at.elapsed() < TIMEOUT);
        let strict = self.strict.load(Ordering::Relaxed);
        if strict && asked.is_write() && !open.is_empty() {
            self.problems.lock().unwrap().push(format!("{asked:?} beside {open:?}"));
        }
        if strict && open.values().any(|other| (other.unit_id, &other.pdu) == (asked.unit_id, &asked.pdu)) {
            self.problems.lock().unwrap().push(format!("{asked:?} twice at a time"));
        }
        open.insert(number, asked.clone());
        self.most.fetch_max(if strict { open.len() } else { 0 }, Ordering::Relaxed);
        number
    }
}

/// A world of registers, each of which holds its address, or what was written to it.
#[derive(Debug, Default)]
struct World {
    held: BTreeMap<(u8, u16), u16>,
    /// Values that were written by whole registers.
    taken: BTreeSet<u16>,
}

impl World {
    fn value(&self, unit_id: u8, at: u16) -> u16 {
        self.held.get(&(unit_id, at)).copied().unwrap_or(at)
    }

    fn answer(&mut self, asked: &Asked) -> Vec<u8> {
        let word = |at: usize| u16::from_be_bytes([asked.pdu[at], asked.pdu[at + 1]]);
        let place = (asked.unit_id, asked.address());
        if let 6 | 16 = asked.pdu[0] {
            self.taken.insert(word(asked.pdu.len() - 2));
        }
        match asked.pdu[0] {
            3 | 4 => return asked.registers(|at| self.value(asked.unit_id, at)),
            6 => drop(self.held.insert(place, word(3))),
            16 => drop(self.held.insert(place, word(6))),
            22 => {
                let held = self.value(place.0, place.1);
                self.held.insert(place, (held & word(3)) | (word(5) & !word(3)));
            }
            other => panic!("function {other}"),
        }
        asked.echo()
    }
}

/// Devices in any mood until `calm`, and reasonable ones afterwards.
fn moody(weather: &Weather, peer: Peer, calm: Instant, world: &Arc<Mutex<World>>) -> Arc<Seen> {
    let (weather, world) = (weather.clone(), world.clone());
    let seen = Arc::<Seen>::default();
    seen.strict.store(is_strict(&weather), Ordering::Relaxed);
    let noted = seen.clone();
    let (input, output) = tokio::io::split(peer.0);
    let mut input = Peer(input, peer.1);
    let output = Arc::new(tokio::sync::Mutex::new(Peer(output, peer.1)));
    let mut chance = fastrand::Rng::with_seed(weather.seed);
    tokio::spawn(async move {
        while let Some(asked) = input.asked().await {
            let number = noted.came(&asked);
            if weather.echo {
                output.lock().await.answer(&asked, &asked.pdu).await;
            }
            if asked.is_write() {
                let value = if asked.pdu[0] == 16 { &asked.pdu[6..8] } else { &asked.pdu[3..5] };
                let key = (asked.unit_id, asked.address(), u16::from_be_bytes([value[0], value[1]]));
                noted.writes.lock().unwrap().entry(key).or_default().push(asked.pdu.clone());
            }
            let mut roll = chance.u8(..100);
            let mut is = |share: u8| {
                let hit = roll < share;
                roll = roll.saturating_sub(share);
                hit && Instant::now() < calm
            };
            let (silent, refused, spoilt, slow) =
                (is(weather.silent), is(weather.refused), is(weather.spoilt), is(weather.slow));
            let code = *chance.choice(&[1, 2, 3, 4, 5, 6, 0x0A, 0x0B, 0x42]).unwrap();
            let delay = if slow { chance.u32(100..900) } else { chance.u32(0..20) };
            if silent {
                if chance.bool() {
                    drop(world.lock().unwrap().answer(&asked));
                }
                continue;
            }
            let too_long = asked.count() > weather.most_registers && !asked.is_write();
            let pdu = match () {
                () if refused => asked.exception(code),
                () if too_long => asked.exception(3),
                () => world.lock().unwrap().answer(&asked),
            };
            let (noted, output) = (noted.clone(), output.clone());
            let cut = pdu.len() - 1;
            tokio::spawn(async move {
                sleep(delay * MS).await;
                let mut output = output.lock().await;
                noted.open.lock().unwrap().remove(&number);
                if spoilt && output.1 {
                    let mut frame = rtu_frame(asked.unit_id, &pdu);
                    let last = frame.len() - 1;
                    frame[last / 2] ^= 0x10;
                    output.bytes(&frame).await;
                } else if spoilt {
                    // Of another length than it must have.
                    output.answer(&asked, &pdu[..cut]).await;
                } else {
                    output.answer(&asked, &pdu).await;
                }
            });
        }
    });
    seen
}

/// Whether commands have all the time that they need.
fn is_strict(weather: &Weather) -> bool {
    weather.seed.is_multiple_of(2)
}

fn link(weather: &Weather) -> ModbusEndpoint {
    let base = if weather.rtu { serial() } else { endpoint("plc:502", TIMEOUT) };
    ModbusEndpoint { max_in_flight: weather.max_in_flight, check_ids: weather.check_ids, ..base }
}

/// Sessions one after the other until one lasts for so long; a session that ends in between is a loss that must be told.
struct Sessions {
    driver: Option<Modbus>,
    world: Arc<Mutex<World>>,
    told: Vec<Arc<Recorder>>,
}

impl Sessions {
    fn next(&mut self, weather: &Weather, calm: Instant) -> (Rig, Arc<Seen>) {
        let (rig, peer) = run(self.driver.take().unwrap());
        self.told.push(rig.told.clone());
        (rig, moody(weather, peer, calm, &self.world))
    }
}

async fn storm(weather: Weather) {
    let calm = Instant::now() + 120 * SECOND;
    let driver = Modbus::new(link(&weather), &units(&weather), Arc::default());
    let mut sessions = Sessions { driver: Some(driver), world: Arc::default(), told: Vec::new() };
    let mut chance = fastrand::Rng::with_seed(weather.seed ^ 1);
    let mut commands = 0;
    while Instant::now() < calm {
        let (mut rig, seen) = sessions.next(&weather, calm);
        let stop = Instant::now() + Duration::from_secs(chance.u64(5..60));
        let mut waiting = Vec::new();
        while Instant::now() < stop.min(calm) && !rig.task.is_finished() {
            sleep(chance.u32(10..2000) * MS).await;
            for _ in 0..chance.u64(0..3) {
                if commands < COMMANDS {
                    commands += 1;
                    let within = if is_strict(&weather) { 60_000 } else { chance.u32(200..6000) } * MS;
                    let value = Value::U64(10_000 + commands);
                    let target = target(&weather, &mut chance);
                    let report = rig.write_by(target, value, chance.bool(), within, Grant::default());
                    waiting.push((Some(10_000 + commands), report));
                    let bit = Value::Bool(chance.bool());
                    let report = rig.write_by(1600 + chance.u32(0..4), bit, false, within, Grant::default());
                    waiting.push((None, report));
                }
            }
        }
        seen.strict.store(false, Ordering::Relaxed);
        rig.stop.cancel();
        let (driver, _) = (&mut rig.task).await.unwrap();
        sessions.driver = Some(driver);
        drop(rig.queue);
        for (value, report) in waiting {
            // Every one was answered by the time its session ended.
            let report = report.await.unwrap();
            if let Some(value) = value {
                is_true(&report, u16::try_from(value).unwrap(), &seen, &sessions.world.lock().unwrap());
            }
        }
        check(&weather, &seen);
    }
    // Let alone, and with reasonable devices, all is good again.
    let (rig, seen) = sessions.next(&weather, calm);
    sleep(120 * SECOND).await;
    assert!(!rig.task.is_finished(), "a session with reasonable devices lasts");
    all_good(&weather, &rig, &sessions.world);
    check(&weather, &seen);
    rig.stopped().await;
    for told in &sessions.told {
        only_true_values(&weather, told, &sessions.world);
    }
}

/// A tag that can be written, and was not by another command.
fn target(weather: &Weather, chance: &mut fastrand::Rng) -> u32 {
    let unit = chance.usize(0..2);
    let addresses: Vec<_> = weather.addresses[unit].iter().collect();
    1000 * (u32::try_from(unit).unwrap() + 1) + u32::from(*addresses[chance.usize(0..addresses.len())])
}

/// What was told of a write is so.
fn is_true(report: &Report, value: u16, seen: &Seen, world: &World) {
    let taken = world.taken.contains(&value);
    let left = seen.writes.lock().unwrap().keys().any(|(_, _, written)| *written == value);
    match report.outcome {
        Outcome::Confirmed | Outcome::Written => assert!(taken, "{value}: {report:?}"),
        Outcome::Refused => assert!(!taken && left, "{value}: {report:?}"),
        Outcome::NotSent | Outcome::Rejected(_) => assert!(!left, "{value}: {report:?}"),
        Outcome::Differs | Outcome::Unknown => assert!(left, "{value}: {report:?}"),
        Outcome::Sent | Outcome::DryRun => panic!("{report:?}"),
    }
    assert!(taken || report.acknowledged_by.is_none() || report.code == Some(5), "{value}: {report:?}");
}

fn check(weather: &Weather, seen: &Seen) {
    assert_eq!(*seen.problems.lock().unwrap(), Vec::<String>::new());
    let ids = !weather.rtu && weather.check_ids;
    let most = if ids { usize::from(weather.max_in_flight) } else { 1 };
    assert!(seen.most.load(Ordering::Relaxed) <= most, "{seen:?}");
    for (key, frames) in seen.writes.lock().unwrap().iter().filter(|(key, _)| key.1 != 300) {
        // One command each: no frame twice, and another function at most once.
        let unlike: BTreeSet<_> = frames.iter().collect();
        assert_eq!(unlike.len(), frames.len(), "{key:?}: {frames:02X?}");
        assert!(
            frames.len() <= if weather.fallback == Fallback::Off { 1 } else { 2 },
            "{key:?}: {frames:02X?}"
        );
    }
}

fn all_good(weather: &Weather, rig: &Rig, world: &Mutex<World>) {
    let world = world.lock().unwrap();
    for unit in units(weather) {
        for tag in &unit.tags {
            let last = rig.told.of(tag.id.0).pop();
            let (at, update) = last.unwrap_or_else(|| panic!("{:?} was never told", tag.id));
            assert_eq!(update.quality, Quality::Good, "{:?}: {update:?}", tag.id);
            assert!(at.elapsed() <= 2 * tag.scan, "{:?} is {:?} old", tag.id, at.elapsed());
            if let Some(Value::U64(value)) = update.value {
                assert_eq!(value, u64::from(world.value(unit.unit_id, tag.point.address)));
            }
        }
    }
}

/// Nothing was ever good but what its register held at some time.
fn only_true_values(weather: &Weather, told: &Recorder, _world: &Mutex<World>) {
    for unit in units(weather) {
        for tag in unit.tags.iter().filter(|tag| tag.point.format.part == Part::Whole) {
            for (_, update) in told.of(tag.id.0) {
                if let (Quality::Good, Some(Value::U64(value))) = (update.quality, update.value) {
                    let own = value == u64::from(tag.point.address);
                    assert!(own || (10_001..=10_000 + COMMANDS).contains(&value), "{:?}: {value}", tag.id);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn whatever_devices_do(weather in weather()) {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(storm(weather));
    }
}
