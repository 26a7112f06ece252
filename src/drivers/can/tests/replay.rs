//! Logs.

use super::*;
use crate::drivers::can::{bus::Inflow, replay::Replay};

fn log(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.log");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

async fn all(replay: &mut Replay) -> (Inflow, Vec<Duration>) {
    let (mut inflow, begin, mut times) = (Inflow::default(), Instant::now(), Vec::new());
    while inflow.news.is_none() {
        let before = inflow.frames.len();
        replay.receive(&mut inflow).await.unwrap();
        times.extend(std::iter::repeat_n(begin.elapsed(), inflow.frames.len() - before));
    }
    (inflow, times)
}

const LOG: &str = "(10.000) a 001#01\n(10.500) a 002#02\n# a remark\n(10.500) b 003#03\nrubbish\n(10.250) a 004#04\n(11.000) a 005#05\n";

#[tokio::test(start_paused = true)]
async fn a_log_has_its_own_pace_and_time_that_goes_backwards_stands_still() {
    let (_folder, path) = log(LOG);
    let (inflow, times) = all(&mut Replay::open(&path, None, 1.0, false).unwrap()).await;
    assert_eq!(times.iter().map(Duration::as_millis).collect::<Vec<_>>(), [0, 500, 500, 500, 1000]);
    assert_eq!(inflow.garbled, 1);
    assert_eq!(inflow.news, Some("the log is over".to_owned()));
    let (_, times) = all(&mut Replay::open(&path, None, 10.0, false).unwrap()).await;
    assert_eq!(times.iter().map(Duration::as_millis).collect::<Vec<_>>(), [0, 50, 50, 50, 100]);
    let (inflow, times) = all(&mut Replay::open(&path, None, 0.0, false).unwrap()).await;
    assert!(times.iter().all(Duration::is_zero));
    let first = inflow.frames.first().unwrap().at;
    let ages = inflow.frames.iter().map(|received| (received.at - first).as_millis()).collect::<Vec<_>>();
    assert_eq!(ages, [0, 500, 500, 500, 1000], "but frames keep their distances");
    let (inflow, _) = all(&mut Replay::open(&path, Some("b".to_owned()), 1.0, false).unwrap()).await;
    assert_eq!(inflow.frames.len(), 1, "of one bus");
}

#[tokio::test(start_paused = true)]
async fn a_log_can_begin_again() {
    let (_folder, path) = log("(1.0) a 001#01\n(2.0) a 002#02\n");
    let mut replay = Replay::open(&path, None, 1.0, true).unwrap();
    let (mut inflow, begin) = (Inflow::default(), Instant::now());
    while inflow.frames.len() < 6 {
        replay.receive(&mut inflow).await.unwrap();
    }
    assert_eq!(inflow.news, None);
    assert_eq!(begin.elapsed(), Duration::from_millis(3020));
}

#[tokio::test(start_paused = true)]
async fn a_log_of_one_moment_leaves_others_their_turn_when_it_begins_again() {
    for text in ["(1.0) a 001#01\n", "a 001#01\n"] {
        let (_folder, path) = log(text);
        let mut replay = Replay::open(&path, None, 1.0, true).unwrap();
        let (mut inflow, begin) = (Inflow::default(), Instant::now());
        while inflow.frames.len() < 101 {
            replay.receive(&mut inflow).await.unwrap();
        }
        assert_eq!(begin.elapsed(), Duration::from_secs(1), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_of_the_field_cases_is_read_as_far_as_it_can_be() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/files/C14_candump_mixed.log");
    let (inflow, _) = all(&mut Replay::open(&path, None, 0.0, false).unwrap()).await;
    assert_eq!((inflow.frames.len(), inflow.garbled), (18, 5));
}
