//! Rules of CAN: connections, tags and messages, each broken once.

use super::*;

const PROFILE: &str = "protocol = 'can'\nvendor = 'x'\nmodel = 'x'\ndbc = 'x.dbc'\n";
const DBC: &str = "BO_ 513 Command: 8 A\n SG_ Enable : 0|1@1+ (1,0) [0|1] \"\" B\n SG_ Zero : 8|8@1+ (0,0) [0|1] \"\" B\n\
                   \x20SG_ Wide : 16|16@1+ (1,0) [0|1] \"\" B\nBO_ 385 Status: 2 A\n SG_ Speed : 0|16@1+ (1,0) [0|1] \"\" B\n\
                   BO_ 514 Paged: 8 A\n SG_ Page M : 0|8@1+ (1,0) [0|9] \"\" B\n SG_ One m1 : 8|8@1+ (1,0) [0|1] \"\" B\n\
                   \x20SG_ Two m2 : 8|8@1+ (1,0) [0|1] \"\" B\n";

/// What is wrong with a site whose one device has these lines, its profile those, and its connection others.
fn problems(connection: &str, device: &str, profile: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config", "devices/x"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("devices/x/x.dbc"), DBC).unwrap();
    std::fs::write(folder.path().join("devices/x/x.toml"), format!("{PROFILE}{profile}\n")).unwrap();
    let text = format!(
        "[site]\nname = 'x'\n[[connections]]\nname = 'bus'\n{connection}\n[[devices]]\nname = 'd'\nconnection = 'bus'\n{device}\n"
    );
    let file = folder.path().join("config/x.toml");
    let told = match load_text(&file, text, [("", ""); 0]) {
        Ok(site) => format!("loads, with {:?}", site.warnings),
        Err(problems) => problems.to_string(),
    };
    told.replace(&folder.path().display().to_string(), "(folder)")
}

#[test]
fn rules_of_connections() {
    let tags = "tags = [{ name = 'a', frame = '123', bits = { start = 0 }, type = 'uint8' }]";
    let told = [
        "driver = 'socketcan'",
        "driver = 'socketcan'\ninterface = 'a name that is too long'",
        "driver = 'socketcan'\ninterface = 'can0'\naddress = '10.0.0.1:1'\nbitrate = 500000",
        "driver = 'slcan'\nport = '/dev/ttyACM0'\nbitrate = 123456\nfd = false\ndata_bitrate = 2000000",
        "driver = 'slcan-tcp'",
        "driver = 'socketcand'\naddress = '10.0.0.1:29536'\ninterface = 'can0'\nfd = true",
        "driver = 'can-virtual'\ninterface = 'a'\nsend_ids = ['201-1FF', '12', '00000201-202', '800']",
        "driver = 'can-virtual'\ninterface = 'a'\nsend_ids = ['201']\nlisten_only = true",
        "driver = 'can-replay'\nlog = 'nowhere.log'\nspeed = -1",
        "driver = 'modbus-tcp'\naddress = '10.0.0.1:502'\ninterface = 'can0'\nlisten_only = true",
    ]
    .map(|connection| format!("{connection}\n  {}\n", problems(connection, tags, "").replace('\n', "\n  ")));
    insta::assert_snapshot!("bus_rules", told.join("\n"));
}

const BUS: &str = "driver = 'can-virtual'\ninterface = 'a'\nsend_ids = ['201']";
const SENT: &str = "[[messages]]\nmessage = 'Command'\nsend = {}\n";

fn write(signal: &str, more: &str) -> String {
    format!("[[tags]]\nname = 'a'\nsignal = 'Command.{signal}'\naccess = 'read-write'\n{more}")
}

/// Each case has a name, a connection, a device and what its profile says.
fn told(cases: &[(&str, &str, &str, String)]) -> String {
    let told = cases.iter().map(|(name, connection, device, profile)| {
        format!("{name}\n  {}\n", problems(connection, device, profile).replace('\n', "\n  "))
    });
    told.collect::<Vec<_>>().join("\n")
}

#[test]
fn rules_of_tags() {
    let profile = "profile = 'x/x'";
    insta::assert_snapshot!(
        "frame_rules",
        told(&[
            ("no bits", BUS, "tags = [{ name = 'a', frame = '123' }]", String::new()),
            (
                "frame and signal",
                BUS,
                profile,
                "[[tags]]\nname = 'a'\nsignal = 'Status.Speed'\nframe = '123'".to_owned(),
            ),
            (
                "too long",
                BUS,
                "tags = [{ name = 'a', frame = '123', bits = { start = 0, length = 12 }, type = 'int8' }]",
                String::new(),
            ),
            (
                "an identifier",
                BUS,
                "tags = [{ name = 'a', frame = '8FF', bits = { start = 0 }, type = 'int8' }]",
                String::new(),
            ),
            ("no such signal", BUS, profile, "[[tags]]\nname = 'a'\nsignal = 'Status.Sped'".to_owned()),
            ("nothing wrong", BUS, profile, "[[tags]]\nname = 'a'\nsignal = 'Status.Speed'\n".to_owned()),
            ("not sent", BUS, profile, write("Enable", "")),
            (
                "not allowed",
                "driver = 'can-virtual'\ninterface = 'a'",
                profile,
                format!("{SENT}{}", write("Enable", "")),
            ),
            (
                "listens only",
                "driver = 'can-virtual'\ninterface = 'a'\nlisten_only = true",
                profile,
                format!("{SENT}{}", write("Enable", "")),
            ),
            ("a factor of 0", BUS, profile, format!("{SENT}{}", write("Zero", ""))),
            (
                "no such feedback",
                BUS,
                profile,
                format!("{SENT}{}", write("Enable", "write = { feedback = 'b' }")),
            ),
            (
                "its own feedback",
                BUS,
                profile,
                format!("{SENT}{}", write("Enable", "write = { feedback = 'a' }")),
            ),
        ])
    );
}

#[test]
fn rules_of_payloads() {
    let profile = "profile = 'x/x'";
    insta::assert_snapshot!(
        "payload_rules",
        told(&[
            (
                "a counter on a page",
                BUS,
                profile,
                "[[messages]]\nmessage = 'Paged'\ncounter = { signal = 'One' }\nchecksum = { signal = 'Two', method = 'xor' }\n\
                 [[tags]]\nname = 'a'\nsignal = 'Paged.Page'"
                    .to_owned(),
            ),
            (
                "counter and checksum beyond the message",
                BUS,
                profile,
                format!(
                    "[[messages]]\nmessage = 'Command'\ncounter = {{ bits = {{ start = 62, length = 4 }} }}\n\
                     checksum = {{ byte = 8, method = 'xor' }}\nsend = {{}}\n{}",
                    write("Enable", "")
                ),
            ),
            (
                "counter and checksum in one byte",
                BUS,
                profile,
                format!(
                    "[[messages]]\nmessage = 'Command'\ncounter = {{ bits = {{ start = 60, length = 4 }} }}\n\
                     checksum = {{ byte = 7, method = 'xor' }}\nsend = {{}}\n{}",
                    write("Enable", "")
                ),
            ),
            (
                "a message that the DBC file describes",
                BUS,
                profile,
                "[[messages]]\nframe = '201'\nlength = 8\n[[tags]]\nname = 'a'\nsignal = 'Status.Speed'".to_owned(),
            ),
            (
                "a write beyond the message",
                "driver = 'can-virtual'\ninterface = 'a'\nsend_ids = ['203']",
                profile,
                "[[messages]]\nframe = '203'\nlength = 2\nsend = {}\n[[tags]]\nname = 'a'\nframe = '203'\n\
                 bits = { start = 12 }\ntype = 'uint8'\naccess = 'read-write'"
                    .to_owned(),
            ),
            (
                "a last frame of two pages",
                "driver = 'can-virtual'\ninterface = 'a'\nsend_ids = ['202']",
                profile,
                "[[messages]]\nmessage = 'Paged'\nsend = { period_ms = 100, stop = { One = 1, Two = 1 } }\n[[tags]]\nname = 'a'\n\
                 signal = 'Paged.One'\naccess = 'read-write'"
                    .to_owned(),
            ),
            (
                "a last frame of another page",
                "driver = 'can-virtual'\ninterface = 'a'\nsend_ids = ['202']",
                profile,
                "[[messages]]\nmessage = 'Paged'\nsend = { period_ms = 100, stop = { One = 1, Page = 2 } }\n[[tags]]\nname = 'a'\n\
                 signal = 'Paged.One'\naccess = 'read-write'"
                    .to_owned(),
            ),
        ])
    );
}

#[test]
fn rules_of_messages() {
    let profile = "profile = 'x/x'";
    insta::assert_snapshot!(
        "message_rules",
        told(&[
            (
                "a checksum of two bytes",
                BUS,
                profile,
                format!(
                    "[[messages]]\nmessage = 'Command'\nchecksum = {{ signal = 'Wide', method = 'sum' }}\nsend = {{}}\n{}",
                    write("Enable", "")
                ),
            ),
            (
                "a limit without a period",
                BUS,
                profile,
                format!(
                    "[[messages]]\nmessage = 'Command'\nsend = {{ limit_ms = 100, stop = {{ Enable = 'on' }} }}\n{}",
                    write("Enable", "")
                ),
            ),
            (
                "a word that is none",
                BUS,
                profile,
                format!(
                    "[[messages]]\nmessage = 'Command'\nsend = {{ period_ms = 100, stop = {{ Enable = 'on', Nothing = 1 }} }}\n{}",
                    write("Enable", "")
                ),
            ),
            (
                "CAN FD",
                BUS,
                profile,
                format!("[[messages]]\nmessage = 'Command'\nsend = {{ fd = true }}\n{}", write("Enable", "")),
            ),
            (
                "no such message",
                BUS,
                profile,
                "[[messages]]\nmessage = 'Comand'\n[[tags]]\nname = 'a'\nsignal = 'Status.Speed'".to_owned(),
            ),
            (
                "keys of others",
                BUS,
                "profile = 'x/x'\nunit_id = 1\nscan_ms = 100\nbyte_order = 'CDAB'",
                "[[tags]]\nname = 'a'\nsignal = 'Status.Speed'".to_owned(),
            ),
            (
                "tags of others",
                BUS,
                "tags = [{ name = 'a', register = { table = 'input', address = 0 }, type = 'int16' }]",
                String::new(),
            ),
        ])
    );
}

#[test]
fn one_device_of_a_bus_sends_a_message() {
    let bus = "driver = 'can-virtual'\ninterface = 'a'\nsend_ids = ['201']";
    let sent = "[[messages]]\nmessage = 'Command'\nsend = {}\n[[tags]]\nname = 'a'\nsignal = 'Command.Enable'\naccess = 'read-write'\n";
    let two = "profile = 'x/x'\n[[devices]]\nname = 'e'\nconnection = 'bus'\nprofile = 'x/x'";
    insta::assert_snapshot!("senders", problems(bus, two, sent));
}
