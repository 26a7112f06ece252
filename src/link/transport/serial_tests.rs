//! Serial ports on pseudo terminals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn settings(path: &str) -> Settings {
    Settings { path: path.to_owned(), baud: 19_200, parity: Parity::None, stop_bits: StopBits::One }
}

/// The far end of a line, and the path of a port that is plugged into it.
fn line() -> (SerialStream, String) {
    let (far, near) = SerialStream::pair().unwrap();
    let path = near.name().unwrap();
    drop(near);
    (far, path)
}

#[tokio::test]
async fn bytes_go_both_ways_unchanged() {
    let (mut far, path) = line();
    let mut port = open(&settings(&path)).unwrap();
    // What a terminal would make something else of: XON, XOFF, line ends, end of file, interrupt.
    let all: Vec<u8> = (0..=255).collect();
    let mut got = vec![0; all.len()];
    port.write_all(&all).await.unwrap();
    port.flush().await.unwrap();
    far.read_exact(&mut got).await.unwrap();
    assert_eq!(got, all);
    far.write_all(&all).await.unwrap();
    port.read_exact(&mut got).await.unwrap();
    assert_eq!(got, all);
}

#[tokio::test]
async fn what_was_received_before_is_thrown_away() {
    let (mut far, path) = line();
    let mut port = open(&settings(&path)).unwrap();
    far.write_all(b"old").await.unwrap();
    let mut first = [0; 1];
    port.read_exact(&mut first).await.unwrap();
    port.discard().unwrap();
    far.write_all(b"new").await.unwrap();
    let mut got = [0; 3];
    port.read_exact(&mut got).await.unwrap();
    assert_eq!(got, *b"new");
}

#[tokio::test]
async fn a_port_is_for_nobody_but_us() {
    let (_far, path) = line();
    let port = open(&settings(&path)).unwrap();
    let error = open(&settings(&path)).unwrap_err();
    assert_eq!(error.address, path);
    assert!(error.problem.starts_with("another program has it open ("), "{error}");
    drop(port);
    open(&settings(&path)).unwrap();
}

#[tokio::test]
async fn a_port_that_is_unplugged_ends_the_session() {
    let (far, path) = line();
    let mut port = open(&settings(&path)).unwrap();
    let waiting = tokio::spawn(async move {
        let read = port.read(&mut [0; 8]).await;
        (read, port.write(b"on").await)
    });
    drop(far);
    let (read, written) = waiting.await.unwrap();
    // End of file or an error, by the kind of adapter.
    assert_eq!(read.unwrap_or(0), 0);
    assert!(written.is_err());
}

#[test]
fn a_port_that_cannot_be_opened_says_what_helps() {
    let error = open(&settings("/dev/serial/by-id/nowhere")).unwrap_err();
    let none = "/dev/serial/by-id/nowhere: no such serial port: ";
    assert!(error.to_string().starts_with(none), "{error}");
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(open(&settings(file.path().to_str().unwrap())).unwrap_err().problem, "not a serial port");
    assert!(open(&settings("/dev/null")).is_err());
    assert!(open(&settings("/dev/tty\0")).is_err());
}

#[test]
fn failures_in_words() {
    let of = |kind| explain(&tokio_serial::Error::new(kind, "as the system says"));
    insta::assert_snapshot!(of(ErrorKind::NoDevice), @"another program has it open (as the system says)");
    insta::assert_snapshot!(
        of(ErrorKind::Io(io::ErrorKind::PermissionDenied)),
        @"permission denied: the user that runs this program must be in the group of the port, on most systems `dialout`"
    );
    insta::assert_snapshot!(of(ErrorKind::Unknown), @"as the system says");
}

#[test]
fn ports_are_listed_by_the_names_that_stay() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["usb-Maker_B-if00", "usb-Maker_A-if00"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let root = folder.path().display();
    assert_eq!(present(folder.path()), format!("there are {root}/usb-Maker_A-if00, {root}/usb-Maker_B-if00"));
}
