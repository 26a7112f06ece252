//! Faults as text.

use super::*;

#[test]
fn every_fault_reads_as_it_is_written() {
    let id = Id { value: 0x181, extended: false };
    let engine = Id { value: 0x18FE_EE00, extended: true };
    let cases = [
        ("load=60", Fault::Load(60)),
        ("error-frames=50", Fault::Errors(50)),
        ("bus-off=1000ms", Fault::BusOff(Duration::from_secs(1))),
        ("missing=0x181", Fault::Missing { id, every: 1 }),
        ("missing=0x18FEEE00/3", Fault::Missing { id: engine, every: 3 }),
        ("stuck-counter=0x181", Fault::Stuck(id)),
        ("short=0x181=4", Fault::Short { id, length: 4 }),
        ("silence=pump-drive", Fault::Silence("pump-drive".to_owned())),
    ];
    assert!(FAULTS.iter().all(|(name, ..)| cases.iter().any(|(text, _)| text.starts_with(name))));
    for (text, fault) in cases {
        assert_eq!(text.parse(), Ok(fault.clone()));
        assert_eq!(fault.to_string(), text);
    }
    assert_eq!("bus-off".parse(), Ok(Fault::BusOff(Duration::from_secs(1))));
    assert_eq!(" missing=181/2 ".parse(), Ok(Fault::Missing { id, every: 2 }));
}

#[test]
fn what_is_no_fault_says_what_is_allowed() {
    let error = "lod=3".parse::<Fault>().unwrap_err();
    assert!(matches!(&error, FaultError::Name { name } if name == "lod"));
    assert!(error.to_string().contains("load=PERCENT"));
    let wrong = [
        "load",
        "load=0",
        "load=101",
        "error-frames=0",
        "bus-off=1",
        "missing=",
        "missing=181/0",
        "missing=800",
        "short=181",
        "short=181=65",
        "silence=",
        "stuck-counter",
    ];
    for text in wrong {
        assert!(matches!(text.parse::<Fault>(), Err(FaultError::Argument { .. })), "{text}");
    }
}
