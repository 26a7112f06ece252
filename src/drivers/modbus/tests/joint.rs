//! Writes of one call.

use tokio::time::sleep;

use super::*;
use crate::model::{Outcome, Rule};

/// Registers 10, 11 to 12 (a float) and 13 lie side by side, 20 lies apart; 30 has bits.
fn plant() -> [Unit; 1] {
    let mut tags = vec![
        polled(1, Table::Holding, 10, Kind::Uint16),
        polled(2, Table::Holding, 11, Kind::Float32),
        polled(3, Table::Holding, 13, Kind::Uint16),
        polled(4, Table::Holding, 20, Kind::Uint16),
        polled(5, Table::Coil, 3, Kind::Bool),
        polled(6, Table::Coil, 4, Kind::Bool),
    ];
    // Polled once, so that what follows is the writes' own.
    for tag in &mut tags {
        tag.scan = Duration::from_secs(3600);
    }
    [unit(9, tags)]
}

/// A device with registers and coils; it may lack the functions for several.
fn device_of(has_multiple: bool) -> impl FnMut(&Asked) -> Option<Vec<u8>> + Send + 'static {
    let mut registers = vec![0_u16; 0x100];
    let mut coils = [false; 0x10];
    move |asked| {
        let at = usize::from(asked.address());
        match asked.pdu[0] {
            1 => {
                let count = usize::from(asked.count());
                let bits = coils[at..at + count].iter().enumerate();
                let byte = bits.fold(0, |byte, (bit, on)| byte | u8::from(*on) << bit);
                return Some(vec![1, 1, byte]);
            }
            3 => return Some(asked.registers(|at| registers[usize::from(at)])),
            5 => coils[at] = asked.pdu[3] == 0xFF,
            6 => registers[at] = asked.count(),
            15 | 16 if !has_multiple => return Some(vec![asked.pdu[0] | 0x80, 1]),
            15 => {
                for (bit, coil) in coils[at..at + usize::from(asked.count())].iter_mut().enumerate() {
                    *coil = asked.pdu[6] >> bit & 1 == 1;
                }
            }
            16 => {
                for (place, word) in registers[at..].iter_mut().zip(asked.pdu[6..].chunks(2)) {
                    *place = u16::from_be_bytes([word[0], word[1]]);
                }
            }
            other => panic!("function {other}"),
        }
        Some(asked.echo())
    }
}

async fn settled(has_multiple: bool) -> (Rig, Arc<Mutex<Vec<Asked>>>) {
    let (rig, peer) = start(&plant());
    let log = device(peer, device_of(has_multiple));
    sleep(Duration::from_millis(10)).await;
    log.lock().unwrap().clear();
    (rig, log)
}

fn write_all(rig: &Rig, writes: &[(u32, Value, Grant)]) -> Vec<oneshot::Receiver<Report>> {
    let deadline = Instant::now() + Duration::from_secs(5);
    let made = writes.iter().map(|(id, value, grant)| {
        Command::new(TagId(*id), value.clone(), false, deadline, Box::new(grant.clone()))
    });
    let (commands, reports): (Vec<_>, Vec<_>) = made.unzip();
    let mut commands = commands.into_iter();
    rig.queue.push(commands.next().unwrap().with(commands.collect()));
    reports
}

async fn outcomes(reports: Vec<oneshot::Receiver<Report>>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for report in reports {
        outcomes.push(report.await.unwrap().outcome);
    }
    outcomes
}

/// The writes among what was asked, each as function and address.
fn written(log: &Mutex<Vec<Asked>>) -> Vec<(u8, u16)> {
    let log = log.lock().unwrap();
    log.iter().filter(|asked| asked.pdu[0] > 4).map(|asked| (asked.pdu[0], asked.address())).collect()
}

#[tokio::test(start_paused = true)]
async fn neighbours_are_written_by_one_request_and_each_is_read_back() {
    let (rig, log) = settled(true).await;
    let grant = Grant::default;
    let reports = write_all(
        &rig,
        &[
            (3, Value::U64(7), grant()),
            (4, Value::U64(8), grant()),
            (1, Value::U64(5), grant()),
            (6, Value::Bool(true), grant()),
            (2, Value::F32(1.5), grant()),
            (5, Value::Bool(true), grant()),
        ],
    );
    assert_eq!(outcomes(reports).await, [Outcome::Confirmed; 6]);
    let mut written = written(&log);
    written.sort_unstable();
    assert_eq!(written, [(6, 20), (15, 3), (16, 10)]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_device_without_the_function_for_several_gets_one_after_the_other() {
    let (rig, log) = settled(false).await;
    let reports = write_all(
        &rig,
        &[(5, Value::Bool(true), Grant::default()), (6, Value::Bool(true), Grant::default())],
    );
    assert_eq!(outcomes(reports).await, [Outcome::Confirmed; 2]);
    assert_eq!(written(&log), [(15, 3), (5, 3), (5, 4)]);
    rig.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_where_one_write_may_not() {
    let (rig, log) = settled(true).await;
    let late =
        Grant { no: Some(Report::new(Outcome::Rejected(Rule::Superseded), "late")), ..Grant::default() };
    let reports = write_all(
        &rig,
        &[
            (1, Value::U64(5), Grant::default()),
            (4, Value::U64(8), late),
            (3, Value::U64(7), Grant::default()),
        ],
    );
    let expected = [Outcome::NotSent, Outcome::Rejected(Rule::Superseded), Outcome::NotSent];
    assert_eq!(outcomes(reports).await, expected);
    let reports =
        write_all(&rig, &[(1, Value::U64(5), Grant::default()), (4, Value::U64(70_000), Grant::default())]);
    assert_eq!(outcomes(reports).await, [Outcome::NotSent, Outcome::Rejected(Rule::RawRange)]);
    assert_eq!(written(&log), []);
    rig.stopped().await;
}
