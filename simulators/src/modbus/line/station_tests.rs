//! A line under a made-up clock.

use std::time::Duration;

use super::*;
use crate::modbus::{Fault, Tables};

const READ: [u8; 6] = [1, 3, 0, 0, 0, 2];

fn sealed(body: &[u8]) -> Vec<u8> {
    [body, &rtu::crc(body)].concat()
}

fn station(pace: Pace) -> (Station, Handle, Faults) {
    let mut tables = Tables::new();
    tables.set_holdings(0, &[7, 8]);
    let (handle, faults) = (Handle::new([(1, tables.clone()), (2, tables)]), Faults::new());
    (Station::new(handle.clone(), faults.clone(), pace), handle, faults)
}

fn before(instant: Instant) -> Instant {
    instant.checked_sub(Duration::from_nanos(1)).unwrap()
}

/// Every instant at which something reaches the master, and what.
fn run(station: &mut Station) -> Vec<(Instant, Vec<u8>)> {
    let mut sent = Vec::new();
    while let Some((due, _)) = station.next() {
        assert!(station.advance(before(due)).is_empty(), "early");
        sent.extend(station.advance(due).into_iter().map(|bytes| (due, bytes)));
    }
    sent
}

#[test]
fn an_answer_takes_the_time_of_request_turnaround_and_itself() {
    let pace = Pace::baud(9600).turnaround(Duration::from_millis(7));
    let (mut station, handle, _) = station(pace);
    let now = Instant::now();
    station.receive(now, &sealed(&READ));
    assert_eq!(station.next(), Some((now + pace.time(8), false)), "not before its last character has passed");
    station.advance(before(now + pace.time(8)));
    assert_eq!(handle.requests(), 0);
    let sent = run(&mut station);
    let (end, _) = sent.last().unwrap();
    assert_eq!(*end, now + pace.time(8) + Duration::from_millis(7) + pace.time(9));
    let bytes: Vec<u8> = sent.into_iter().flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(bytes, sealed(&[1, 3, 4, 0, 7, 0, 8]));
    let expected = Traffic { received: 8, sent: 9, requests: 1, answers: 1, noise: 0 };
    assert_eq!(station.traffic, expected);
}

#[test]
fn a_request_in_two_writes_takes_the_time_of_all_its_characters() {
    let pace = Pace::baud(9600).turnaround(Duration::ZERO);
    let (mut station, ..) = station(pace);
    let now = Instant::now();
    let frame = sealed(&READ);
    let (first, second) = frame.split_at(3);
    station.receive(now, first);
    station.receive(now + Duration::from_millis(1), second);
    assert_eq!(run(&mut station).last().unwrap().0, now + pace.time(8) + pace.time(9));
}

#[test]
fn only_own_units_answer_and_a_broadcast_reaches_all() {
    let (mut station, handle, _) = station(Pace::none());
    let now = Instant::now();
    station.receive(now, &sealed(&[9, 3, 0, 0, 0, 1]));
    station.receive(now, &sealed(&[9, 6, 0, 0, 0, 1]));
    station.receive(now, &sealed(&[0, 6, 0, 1, 0, 99]));
    station.receive(now, &sealed(&[0, 3, 0, 0, 0, 1]));
    assert!(run(&mut station).is_empty());
    assert_eq!([1, 2].map(|unit| handle.unit(unit).unwrap().holding(1)), [Some(99); 2]);
    assert_eq!((station.traffic.requests, station.traffic.answers), (4, 0));
    let replies: Vec<_> = handle.writes().iter().map(|write| (write.unit, write.reply)).collect();
    let expected = [(9, crate::modbus::Reply::Swallowed), (0, crate::modbus::Reply::Broadcast)];
    assert_eq!(replies, expected);
}

#[test]
fn noise_is_counted_and_harms_nothing() {
    let (mut station, ..) = station(Pace::none());
    let bytes = [&[0, 0xFF, 0x55][..], &sealed(&READ)].concat();
    station.receive(Instant::now(), &bytes);
    assert_eq!(run(&mut station).len(), 1);
    assert_eq!((station.traffic.noise, station.traffic.requests), (3, 1));
}

#[test]
fn faults_wait_from_the_moment_of_the_answer() {
    let (mut station, _, faults) = station(Pace::none());
    let now = Instant::now();
    faults.next(Fault::Delay(Duration::from_millis(500)));
    faults.next(Fault::Split(3, Duration::from_millis(20)));
    station.receive(now, &sealed(&READ));
    station.receive(now, &sealed(&READ));
    let whole = sealed(&[1, 3, 4, 0, 7, 0, 8]);
    let (first, rest) = whole.split_at(3);
    let later = |ms| now + Duration::from_millis(ms);
    let expected = [(later(500), whole.clone()), (later(500), first.to_vec()), (later(520), rest.to_vec())];
    assert_eq!(run(&mut station), expected);
}

#[test]
fn a_cut_line_forgets_what_was_under_way() {
    let pace = Pace::baud(9600);
    let (mut station, handle, _) = station(pace);
    let now = Instant::now();
    station.receive(now, &sealed(&READ));
    station.advance(now + pace.time(8));
    station.receive(now + pace.time(8), &sealed(&READ)[..5]);
    station.cut();
    assert_eq!(station.next(), None);
    assert_eq!(handle.requests(), 1);
}
