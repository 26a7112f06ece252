//! In which form a value is written: case A17, parts of registers, broadcasts, and devices that need time to settle.

use std::sync::atomic::AtomicU32;

use tokio::time::sleep;

use super::*;
use crate::{
    codec::value::Part,
    model::{Outcome, Rule},
    profile::modbus::{Fallback, PartWrite, Writes},
};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

/// A device that has some of the functions and says `lacking` to the others.
#[derive(Debug, Clone)]
struct Slave {
    registers: Vec<u16>,
    coils: Vec<bool>,
    functions: Vec<u8>,
    lacking: u8,
}

impl Slave {
    fn new(functions: &[u8], lacking: u8) -> Arc<Mutex<Self>> {
        let functions = [&[1, 3], functions].concat();
        Arc::new(Mutex::new(Self { registers: vec![0; 0x200], coils: vec![false; 64], functions, lacking }))
    }

    fn answer(&mut self, asked: &Asked) -> Vec<u8> {
        if !self.functions.contains(&asked.pdu[0]) {
            return asked.exception(self.lacking);
        }
        let at = usize::from(asked.address());
        let word = |at: usize| u16::from_be_bytes([asked.pdu[at], asked.pdu[at + 1]]);
        match asked.pdu[0] {
            1 => {
                let coils = (0..usize::from(asked.count())).map(|bit| u8::from(self.coils[at + bit]) << bit);
                return vec![1, 1, coils.sum()];
            }
            3 => return asked.registers(|at| self.registers[usize::from(at)]),
            5 => self.coils[at] = asked.pdu[3] == 0xFF,
            6 => self.registers[at] = word(3),
            15 => {
                for bit in 0..usize::from(word(3)) {
                    self.coils[at + bit] = asked.pdu[6] >> bit & 1 == 1;
                }
            }
            16 => (0..usize::from(word(3))).for_each(|nth| self.registers[at + nth] = word(6 + 2 * nth)),
            // Application protocol, section 6.16.
            22 => self.registers[at] = (self.registers[at] & word(3)) | (word(5) & !word(3)),
            other => panic!("function {other}"),
        }
        asked.echo()
    }
}

fn serve(peer: Peer, slave: &Arc<Mutex<Slave>>) -> Arc<Mutex<Vec<Asked>>> {
    let slave = slave.clone();
    device(peer, move |asked| Some(slave.lock().unwrap().answer(asked)))
}

fn part(id: u32, address: u16, kind: Kind, part: Part) -> Polled {
    let mut tag = polled(id, Table::Holding, address, kind);
    Arc::make_mut(&mut tag.point).format.part = part;
    tag
}

/// Unit 9 with a register, one that is preferably written by FC 16, a float, two coils, and a register in parts. Polled once.
fn plant(writes: Writes) -> Unit {
    let mut multiple = polled(2, Table::Holding, 0x191, Kind::Uint16);
    Arc::make_mut(&mut multiple.point).function = WriteFunction::Multiple;
    let mut coil = polled(5, Table::Coil, 4, Kind::Bool);
    Arc::make_mut(&mut coil.point).function = WriteFunction::Multiple;
    let mut tags = vec![
        polled(1, Table::Holding, 0x190, Kind::Uint16),
        multiple,
        polled(3, Table::Holding, 0x20, Kind::Float32),
        polled(4, Table::Coil, 3, Kind::Bool),
        coil,
        part(6, 0x30, Kind::Uint16, Part::Bits { low: 4, high: 6 }),
        part(7, 0x30, Kind::Uint8, Part::High),
        polled(8, Table::Holding, 0x30, Kind::Uint16),
    ];
    tags.extend((0..16).map(|bit| part(100 + u32::from(bit), 0x40, Kind::Bool, Part::Bit(bit))));
    for tag in &mut tags {
        tag.scan = LONG;
    }
    let mut unit = unit(9, tags);
    unit.dialect.writes = writes;
    unit
}

async fn settled(writes: Writes, slave: &Arc<Mutex<Slave>>) -> (Rig, Arc<Mutex<Vec<Asked>>>) {
    let (rig, peer) = start(&[plant(writes)]);
    let log = serve(peer, slave);
    sleep(10 * MS).await;
    log.lock().unwrap().clear();
    (rig, log)
}

/// The frames since the last look.
fn frames(log: &Mutex<Vec<Asked>>) -> Vec<String> {
    let hex = |asked: Asked| asked.pdu.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().concat();
    log.lock().unwrap().drain(..).map(hex).collect()
}

fn a17(step: usize, key: &str) -> String {
    let text = include_str!("../../../../tests/cases/cases.json");
    let cases: serde_json::Value = serde_json::from_str(text).unwrap();
    let case = cases["cases"].as_array().unwrap().iter().find(|case| case["id"] == "A17").unwrap();
    // Behind the header: the PDU.
    case["steps"][step - 1][key].as_str().unwrap()[14..].to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_device_without_fc_6_of_a17() {
    assert_eq!(a17(1, "server_sends"), "8601");
    let slave = Slave::new(&[16], 1);
    let (rig, log) = settled(Writes::default(), &slave).await;
    let report = rig.write(1, Value::U64(215)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Confirmed, "{}", report.message);
    let (single, multiple) = (a17(1, "client_sends"), a17(1, "then_client_sends"));
    assert_eq!(frames(&log), [&single, &multiple, "0301900001"]);
    // Later writes go straight to FC 16, in the next session as well.
    rig.write(1, Value::U64(216)).await.unwrap();
    assert_eq!(frames(&log), ["10019000010200D8", "0301900001"]);
    let (rig, peer) = run(rig.stopped().await);
    let log = serve(peer, &slave);
    sleep(10 * MS).await;
    frames(&log);
    rig.write(1, Value::U64(217)).await.unwrap();
    assert_eq!(frames(&log), ["10019000010200D9", "0301900001"]);
    // It is another device now, which has FC 6 only.
    slave.lock().unwrap().functions = vec![3, 6];
    assert_eq!(rig.write(1, Value::U64(218)).await.unwrap().outcome, Outcome::Confirmed);
    assert_eq!(frames(&log), ["10019000010200DA", "06019000DA", "0301900001"]);
    rig.write(1, Value::U64(219)).await.unwrap();
    assert_eq!(frames(&log), ["06019000DB", "0301900001"]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_device_without_fc_16_of_a17_says_it_with_0x02() {
    assert_eq!(a17(2, "server_sends"), "9002");
    let slave = Slave::new(&[6], 2);
    let any = Writes { fallback: Fallback::IllegalAddress, ..Writes::default() };
    let mut unit = plant(any);
    Arc::make_mut(&mut unit.tags[0].point).function = WriteFunction::Multiple;
    let (rig, peer) = start(&[unit]);
    let log = serve(peer, &slave);
    sleep(10 * MS).await;
    frames(&log);
    assert_eq!(rig.write(1, Value::U64(215)).await.unwrap().outcome, Outcome::Confirmed);
    let (multiple, single) = (a17(2, "client_sends"), a17(2, "then_client_sends"));
    assert_eq!(frames(&log), [&multiple, &single, "0301900001"]);
    rig.write(1, Value::U64(216)).await.unwrap();
    assert_eq!(frames(&log), ["06019000D8", "0301900001"]);
    rig.stopped().await;
    // Elsewhere 0x02 says that there is no such register, and nothing more is sent.
    for fallback in [Fallback::IllegalFunction, Fallback::Off] {
        let (rig, log) = settled(Writes { fallback, ..Writes::default() }, &slave).await;
        let report = rig.write(2, Value::U64(215)).await.unwrap();
        assert_eq!((report.outcome, report.code), (Outcome::Refused, Some(2)));
        assert_eq!(frames(&log), ["10019100010200D7"]);
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_registers_of_a17_are_not_written_one_at_a_time() {
    let slave = Slave::new(&[6], 1);
    for fallback in [Fallback::Off, Fallback::IllegalFunction, Fallback::IllegalAddress] {
        let (rig, log) = settled(Writes { fallback, ..Writes::default() }, &slave).await;
        let report = rig.write(3, Value::F32(49.98)).await.unwrap();
        assert_eq!((report.outcome, report.code), (Outcome::Refused, Some(1)));
        assert!(report.message.contains("2 writes and not one"), "{}", report.message);
        assert_eq!(frames(&log), ["1000200002044247EB85"]);
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_fallback_one_function_is_all() {
    let slave = Slave::new(&[16, 15], 1);
    let (rig, log) = settled(Writes { fallback: Fallback::Off, ..Writes::default() }, &slave).await;
    let report = rig.write(1, Value::U64(215)).await.unwrap();
    assert_eq!((report.outcome, report.code), (Outcome::Refused, Some(1)));
    assert_eq!(frames(&log), ["06019000D7"]);
    rig.write(4, Value::Bool(true)).await.unwrap();
    assert_eq!(frames(&log), ["050003FF00"]);
    // The function of a tag is its own, and needs no trying.
    assert_eq!(rig.write(2, Value::U64(215)).await.unwrap().outcome, Outcome::Confirmed);
    assert_eq!(rig.write(5, Value::Bool(true)).await.unwrap().outcome, Outcome::Confirmed);
    assert_eq!(frames(&log), ["10019100010200D7", "0301910001", "0F000400010101", "0100040001"]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn coils_learn_apart_from_registers() {
    let slave = Slave::new(&[6, 15], 1);
    let (rig, log) = settled(Writes::default(), &slave).await;
    rig.write(4, Value::Bool(true)).await.unwrap();
    assert_eq!(frames(&log), ["050003FF00", "0F000300010101", "0100030001"]);
    assert_eq!(rig.write(4, Value::Bool(false)).await.unwrap().outcome, Outcome::Confirmed);
    assert_eq!(frames(&log), ["0F000300010100", "0100030001"]);
    rig.write(1, Value::U64(1)).await.unwrap();
    assert_eq!(frames(&log), ["0601900001", "0301900001"]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn after_anything_else_than_a_refusal_no_other_function_is_tried() {
    // Silence, a spoilt world, a busy device, an answer that is none.
    for (answer, outcome) in [
        (None, Outcome::Unknown),
        (Some("8604"), Outcome::Unknown),
        (Some("860B"), Outcome::Unknown),
        (Some("8605"), Outcome::Unknown),
        (Some("8606"), Outcome::Refused),
        (Some("8603"), Outcome::Refused),
        (Some("06019000"), Outcome::Differs),
        (Some("0601900001"), Outcome::Differs),
    ] {
        let any = Writes { fallback: Fallback::IllegalAddress, ..Writes::default() };
        let (rig, peer) = start(&[plant(any)]);
        let slave = Slave::new(&[16], 1);
        let log = device(peer, move |asked| {
            if asked.pdu[0] == 6 { answer.map(hex) } else { Some(slave.lock().unwrap().answer(asked)) }
        });
        sleep(10 * MS).await;
        frames(&log);
        let report = rig.write(1, Value::U64(215)).await.unwrap();
        assert_eq!(report.outcome, outcome, "{answer:?}: {}", report.message);
        sleep(60 * SECOND).await;
        let writes: Vec<_> = frames(&log).into_iter().filter(|frame| frame.as_str() > "05").collect();
        assert_eq!(writes, ["06019000D7"], "{answer:?}");
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_function_is_not_tried_after_the_deadline_or_the_connection() {
    let (rig, mut peer) = start(&[plant(Writes::default())]);
    let slave = Slave::new(&[], 1);
    let script = tokio::spawn(async move {
        loop {
            let asked = peer.asked().await.unwrap();
            if asked.pdu[0] == 6 {
                sleep(300 * MS).await;
                peer.answer(&asked, &asked.exception(1)).await;
                return peer;
            }
            let pdu = slave.lock().unwrap().answer(&asked);
            peer.answer(&asked, &pdu).await;
        }
    });
    sleep(10 * MS).await;
    let report = rig.write_by(1, Value::U64(1), false, 300 * MS, Grant::default());
    let mut peer = script.await.unwrap();
    let report = report.await.unwrap();
    // At the same moment as its deadline: refused, or not known to be.
    assert!(matches!(report.outcome, Outcome::Refused | Outcome::Unknown), "{}", report.message);
    let none = tokio::time::timeout(100 * MS, peer.asked()).await.ok().flatten();
    assert!(none.is_none_or(|asked| !asked.is_write()));
    let second = rig.write(1, Value::U64(2));
    let write = loop {
        let asked = peer.asked().await.unwrap();
        if asked.is_write() {
            break asked;
        }
        peer.answer(&asked, &asked.registers(|_| 0)).await;
    };
    peer.answer(&write, &write.exception(1)).await;
    drop(peer);
    let report = second.await.unwrap();
    assert_eq!((report.outcome, report.code), (Outcome::Refused, Some(1)), "{}", report.message);
    rig.lost().await;
}

#[tokio::test(start_paused = true)]
async fn sixteen_writes_to_the_bits_of_one_register_all_count() {
    for functions in [&[6, 16, 22][..], &[6], &[16]] {
        for part in [PartWrite::Auto, PartWrite::Mask, PartWrite::ReadModifyWrite] {
            if part == PartWrite::Mask && !functions.contains(&22) {
                continue;
            }
            let slave = Slave::new(functions, 1);
            slave.lock().unwrap().registers[0x40] = 0b0101_0101_1111_0000;
            let (rig, log) = settled(Writes { part, ..Writes::default() }, &slave).await;
            let wanted: u16 = 0b1100_1010_0110_0011;
            let reports: Vec<_> =
                (0..16).map(|bit| rig.write(100 + bit, Value::Bool(wanted >> bit & 1 == 1))).collect();
            for report in reports {
                let report = report.await.unwrap();
                assert_eq!(report.outcome, Outcome::Confirmed, "{functions:?} {part:?}: {}", report.message);
            }
            assert_eq!(slave.lock().unwrap().registers[0x40], wanted, "{functions:?} {part:?}");
            // Nothing comes between the read and the write of a register that is changed.
            let frames = frames(&log);
            for (at, frame) in frames.iter().enumerate() {
                if frame.starts_with("06") || frame.starts_with("10") {
                    assert!(frames[at - 1].starts_with("0300400001") || functions == [16], "{frames:?}");
                }
            }
            rig.stopped().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn parts_leave_the_rest_of_their_register_alone() {
    for part in [PartWrite::Mask, PartWrite::ReadModifyWrite] {
        let slave = Slave::new(&[6, 22], 1);
        slave.lock().unwrap().registers[0x30] = 0xFFFF;
        let (rig, log) = settled(Writes { part, ..Writes::default() }, &slave).await;
        let report = rig.write(6, Value::U64(2)).await.unwrap();
        assert_eq!(
            (report.outcome, report.value),
            (Outcome::Confirmed, Some(Value::U64(2))),
            "{}",
            report.message
        );
        assert_eq!(slave.lock().unwrap().registers[0x30], 0xFFAF);
        let expected = match part {
            PartWrite::Mask => vec!["160030FF8F0020", "0300300001"],
            _ => vec!["0300300001", "060030FFAF", "0300300001"],
        };
        assert_eq!(frames(&log), expected);
        let report = rig.write(7, Value::U64(0x12)).await.unwrap();
        assert_eq!(report.outcome, Outcome::Confirmed);
        assert_eq!(slave.lock().unwrap().registers[0x30], 0x12AF);
        // What shares the register was read along.
        assert_eq!(rig.told.last(8).unwrap().value, Some(Value::U64(0x12AF)));
        assert_eq!(rig.told.last(6).unwrap().value, Some(Value::U64(2)));
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn fc_22_keeps_what_the_device_changes_itself() {
    let slave = Slave::new(&[22], 1);
    let (rig, peer) = start(&[plant(Writes::default())]);
    let held = slave.clone();
    let log = device(peer, move |asked| {
        let mut held = held.lock().unwrap();
        if asked.pdu[0] == 22 {
            // Between whatever was read and the write.
            held.registers[0x40] |= 0x8000;
        }
        Some(held.answer(asked))
    });
    sleep(10 * MS).await;
    frames(&log);
    assert_eq!(rig.write(103, Value::Bool(true)).await.unwrap().outcome, Outcome::Confirmed);
    assert_eq!(slave.lock().unwrap().registers[0x40], 0x8008);
    assert_eq!(frames(&log), ["160040FFF70008", "0300400001"]);
    assert_eq!(rig.told.last(115).unwrap().value, Some(Value::Bool(true)));
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_device_without_fc_22_is_known_for_it_and_so_is_what_it_has_instead() {
    // With FC 6, with FC 16 alone, and with neither.
    for (functions, tried, then) in [
        (&[6][..], vec!["160040FFFE0001", "0300400001", "0600400001"], vec!["0300400001", "0600400003"]),
        (
            &[16],
            vec!["160040FFFE0001", "0300400001", "0600400001", "0300400001", "10004000010200 01"],
            vec!["0300400001", "10004000010200 03"],
        ),
    ] {
        let slave = Slave::new(functions, 1);
        let (rig, log) = settled(Writes::default(), &slave).await;
        assert_eq!(rig.write(100, Value::Bool(true)).await.unwrap().outcome, Outcome::Confirmed);
        let plain =
            |frames: Vec<&str>| frames.into_iter().map(|frame| frame.replace(' ', "")).collect::<Vec<_>>();
        assert_eq!(frames(&log), [plain(tried), vec!["0300400001".to_owned()]].concat());
        assert_eq!(rig.write(101, Value::Bool(true)).await.unwrap().outcome, Outcome::Confirmed);
        assert_eq!(frames(&log), [plain(then), vec!["0300400001".to_owned()]].concat());
        rig.stopped().await;
    }
    let slave = Slave::new(&[], 1);
    let (rig, log) = settled(Writes::default(), &slave).await;
    let report = rig.write(100, Value::Bool(true)).await.unwrap();
    assert_eq!((report.outcome, report.code), (Outcome::Refused, Some(1)));
    assert_eq!(frames(&log).len(), 5, "each form once, and a read before each that needs one");
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn fc_22_alone_is_never_replaced() {
    let slave = Slave::new(&[6, 16], 1);
    for writes in [
        Writes { part: PartWrite::Mask, ..Writes::default() },
        Writes { fallback: Fallback::Off, ..Writes::default() },
    ] {
        let (rig, log) = settled(writes, &slave).await;
        let report = rig.write(100, Value::Bool(true)).await.unwrap();
        assert_eq!((report.outcome, report.code), (Outcome::Refused, Some(1)));
        assert_eq!(frames(&log), ["160040FFFE0001"]);
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_register_that_cannot_be_read_is_not_changed_in_part() {
    let slave = Slave::new(&[6], 1);
    let writes = Writes { part: PartWrite::ReadModifyWrite, ..Writes::default() };
    let (rig, log) = settled(writes, &slave).await;
    slave.lock().unwrap().functions.retain(|function| *function != 3);
    let report = rig.write(100, Value::Bool(true)).await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent, "{}", report.message);
    assert!(report.message.contains("could not be read to change a part of it"), "{}", report.message);
    assert_eq!(frames(&log), ["0300400001"]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn an_expectation_on_a_part_is_compared_with_the_part() {
    for part in [PartWrite::Mask, PartWrite::ReadModifyWrite] {
        let slave = Slave::new(&[6, 22], 1);
        slave.lock().unwrap().registers[0x30] = 0x0055;
        let (rig, log) = settled(Writes { part, ..Writes::default() }, &slave).await;
        let permit = Grant::default();
        let report = rig.write_by(6, Value::U64(1), true, SECOND, permit.clone()).await.unwrap();
        assert_eq!((report.outcome, report.previous), (Outcome::Confirmed, Some(Value::U64(5))));
        assert_eq!(*permit.shown.lock().unwrap(), [Some(Value::U64(5))]);
        assert_eq!(frames(&log).len(), 3, "read once before, and once after");
        rig.stopped().await;
    }
}

fn broadcast(units: &mut Vec<Unit>) {
    let mut all = unit(
        0,
        vec![
            polled(900, Table::Holding, 0x190, Kind::Uint16),
            part(901, 0x190, Kind::Bool, Part::Bit(3)),
            polled(902, Table::Coil, 3, Kind::Bool),
        ],
    );
    all.broadcast = true;
    units.push(all);
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_is_sent_and_not_waited_for() {
    let mut units = vec![plant(Writes::default())];
    broadcast(&mut units);
    for endpoint in [serial(), endpoint("plc:502", TIMEOUT)] {
        let (rig, peer) = start_on(endpoint, &units);
        let slave = Slave::new(&[5, 6, 22], 1);
        let held = slave.clone();
        let log = device(peer, move |asked| {
            let answer = held.lock().unwrap().answer(asked);
            (asked.unit_id != 0).then_some(answer)
        });
        sleep(2 * SECOND).await;
        assert!(log.lock().unwrap().drain(..).all(|asked| asked.unit_id == 9), "nothing of it is read");
        let asked = Instant::now();
        let report = rig.write(900, Value::U64(7)).await.unwrap();
        assert_eq!(
            (report.outcome, report.acknowledged_by.is_some()),
            (Outcome::Sent, false),
            "{}",
            report.message
        );
        assert!(asked.elapsed() < 10 * MS);
        sleep(SECOND).await;
        // What it reached is read again, after a pause in which the devices carry it out.
        let sent: Vec<_> = log.lock().unwrap().drain(..).collect();
        let pdus: Vec<_> = sent.iter().map(|asked| (asked.unit_id, asked.pdu.clone())).collect();
        assert_eq!(pdus, [(0, hex("0601900007")), (9, hex("0301900001"))]);
        assert!(sent[1].at - sent[0].at >= 100 * MS, "{:?}", sent[1].at - sent[0].at);
        let told = rig.told.of(1);
        assert_eq!(told[told.len() - 2].1.quality, Quality::Uncertain(Reason::Stale));
        assert_eq!(told[told.len() - 1].1.value, Some(Value::U64(7)));
        // A part goes by the one function that needs no reading.
        assert_eq!(rig.write(901, Value::Bool(true)).await.unwrap().outcome, Outcome::Sent);
        assert_eq!(log.lock().unwrap()[0].pdu, hex("160190FFF70008"));
        let report = rig.write_by(900, Value::U64(1), true, SECOND, Grant::default()).await.unwrap();
        assert_eq!(report.outcome, Outcome::Rejected(Rule::Expectation));
        assert_eq!(rig.count(|counters| &counters.timeouts), 0);
        assert!(rig.told.states_of(0).is_empty());
        rig.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_is_not_broadcast_where_it_would_have_to_be_read() {
    let mut units = Vec::new();
    broadcast(&mut units);
    units[0].dialect.writes.part = PartWrite::ReadModifyWrite;
    let (rig, peer) = start(&units);
    let log = device(peer, |_| None);
    let report = rig.write(901, Value::Bool(true)).await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent, "{}", report.message);
    assert!(log.lock().unwrap().is_empty());
    rig.stopped().await;
}

/// A device that takes a value and holds it `after` that time.
fn slowly(after: Duration) -> impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static {
    let mut taken: Option<(Instant, u16)> = None;
    move |asked| {
        if asked.is_write() {
            let same = taken.filter(|(_, value)| *value == asked.count());
            taken = same.or_else(|| Some((Instant::now(), asked.count())));
            return Some(asked.echo());
        }
        let held = taken.filter(|(at, _)| at.elapsed() >= after).map_or(0, |(_, value)| value);
        Some(asked.registers(|_| held))
    }
}

fn settling(settle: Duration) -> Unit {
    let mut tag = Polled { scan: LONG, ..polled(1, Table::Holding, 0, Kind::Uint16) };
    Arc::make_mut(&mut tag.point).settle = settle;
    unit(1, vec![tag, polled(2, Table::Input, 0, Kind::Uint16)])
}

#[tokio::test(start_paused = true)]
async fn a_device_is_read_back_when_it_settled_and_others_do_not_wait() {
    let quick = Polled { scan: LONG, ..polled(4, Table::Holding, 0, Kind::Uint16) };
    let (rig, peer) = start(&[settling(2 * SECOND), unit(2, vec![quick])]);
    let (mut slow, mut quick) = (slowly(1900 * MS), slowly(Duration::ZERO));
    let log = device(peer, move |asked| if asked.unit_id == 1 { slow(asked) } else { quick(asked) });
    sleep(500 * MS).await;
    let asked = Instant::now();
    let write = rig.write(1, Value::U64(7));
    sleep(MS).await;
    let other = rig.write(4, Value::U64(9)).await.unwrap();
    assert_eq!((other.outcome, asked.elapsed()), (Outcome::Confirmed, MS));
    let report = write.await.unwrap();
    assert_eq!((report.outcome, asked.elapsed()), (Outcome::Confirmed, 2 * SECOND), "{}", report.message);
    let inputs = log.lock().unwrap().iter().filter(|asked| asked.pdu[0] == 4).count();
    assert_eq!(inputs, 3, "polls go on");
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_before_a_device_settled_is_kept() {
    let (rig, peer) = start(&[settling(10 * SECOND)]);
    device(peer, slowly(9 * SECOND));
    sleep(500 * MS).await;
    let asked = Instant::now();
    let report = rig.write_by(1, Value::U64(7), false, 3 * SECOND, Grant::default()).await.unwrap();
    assert_eq!(asked.elapsed(), 3 * SECOND);
    assert_eq!(
        (report.outcome, report.acknowledged_by.is_some()),
        (Outcome::Written, true),
        "{}",
        report.message
    );
    assert!(report.message.contains("less time than the device needs to settle"), "{}", report.message);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_device_settles_judges_only_what_it_holds_already() {
    for (after, outcome) in [(SECOND, Outcome::Confirmed), (9 * SECOND, Outcome::Written)] {
        let (rig, peer) = start(&[settling(10 * SECOND)]);
        let log = device(peer, slowly(after));
        sleep(500 * MS).await;
        let reports: Vec<_> =
            [1, 1, 1].map(|id| rig.write_by(id, Value::U64(7), false, LONG, Grant::default())).into();
        sleep(2 * SECOND).await;
        let asked = Instant::now();
        rig.stopped().await;
        assert_eq!(asked.elapsed(), Duration::ZERO);
        for report in reports {
            let report = report.await.unwrap();
            assert_eq!(
                (report.outcome, report.acknowledged_by.is_some()),
                (outcome, true),
                "{}",
                report.message
            );
        }
        assert_eq!(log.lock().unwrap().iter().filter(|asked| asked.is_write()).count(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_while_a_device_settles_leaves_it_written() {
    let (rig, mut peer) = start(&[settling(10 * SECOND)]);
    let report = rig.write_by(1, Value::U64(7), false, LONG, Grant::default());
    let write = peer.asked().await.unwrap();
    peer.answer(&write, &write.echo()).await;
    sleep(SECOND).await;
    drop(peer);
    let report = report.await.unwrap();
    assert_eq!(report.outcome, Outcome::Written, "{}", report.message);
    rig.lost().await;
}

#[tokio::test(start_paused = true)]
async fn more_writes_than_can_wait_are_answered_too() {
    let (rig, peer) = start(&[settling(10 * SECOND)]);
    let log = device(peer, slowly(9 * SECOND));
    sleep(500 * MS).await;
    let mut reports = Vec::new();
    for _ in 0..2 {
        reports.extend((0..50).map(|_| rig.write_by(1, Value::U64(7), false, LONG, Grant::default())));
        sleep(2 * SECOND).await;
    }
    let mut count = [0, 0];
    for report in reports {
        match report.await.unwrap() {
            Report { outcome: Outcome::Confirmed, .. } => count[0] += 1,
            Report { outcome: Outcome::Written, .. } => count[1] += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(count, [64, 36]);
    assert_eq!(log.lock().unwrap().iter().filter(|asked| asked.is_write()).count(), 100);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_hung_device_costs_its_write_its_deadline_and_the_others_nothing() {
    // Without ids a device that left a question open is sent nothing before it answers to something else.
    for (endpoint, again) in [
        (endpoint("plc:502", TIMEOUT), Outcome::Unknown),
        (serial(), Outcome::NotSent),
        (ModbusEndpoint { max_in_flight: 8, ..endpoint("plc:502", TIMEOUT) }, Outcome::Unknown),
    ] {
        let mut units = vec![plant(Writes::default())];
        units.extend((1..=5).map(|id| unit(id, vec![polled(id.into(), Table::Input, 0, Kind::Uint16)])));
        for tag in &mut units[0].tags {
            tag.id = TagId(tag.id.0 + 1000);
        }
        let (rig, peer) = start_on(endpoint, &units);
        let hangs = Arc::new(AtomicU32::new(0));
        let hung = hangs.clone();
        let slave = Slave::new(&[6], 1);
        let log = device(peer, move |asked| match asked.unit_id {
            9 if hung.load(Ordering::Relaxed) == 1 => None,
            9 => Some(slave.lock().unwrap().answer(asked)),
            _ => Some(asked.registers(|_| 7)),
        });
        sleep(1500 * MS).await;
        hangs.store(1, Ordering::Relaxed);
        log.lock().unwrap().clear();
        let before: Vec<_> = (1..=5).map(|id| rig.told.of(id).len()).collect();
        for (within, outcome) in [(300_u32, Outcome::Unknown), (5000, again)] {
            let asked = Instant::now();
            let report =
                rig.write_by(1001, Value::U64(7), false, within * MS, Grant::default()).await.unwrap();
            assert_eq!(report.outcome, outcome, "{}", report.message);
            // A serial line lets the time pass in which the answer before could be late.
            assert!(asked.elapsed() <= (within * MS).min(3 * TIMEOUT), "{:?}", asked.elapsed());
        }
        sleep(60 * SECOND).await;
        for (id, before) in (1..=5).zip(before) {
            let read = rig.told.of(id).len() - before;
            assert!((56..=62).contains(&read), "unit {id}: {read}");
        }
        let writes = log.lock().unwrap().iter().filter(|asked| asked.is_write()).count();
        let sent = if again == Outcome::Unknown { 2 } else { 1 };
        assert_eq!(writes, sent, "one frame each");
        rig.stopped().await;
    }
}
