//! Buses under a made-up clock.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::sleep;

use super::*;
use crate::can::frame::{Fd, FrameError, class};

fn frame(id: u16) -> Frame {
    Frame::standard(id, [0; 8])
}

fn ids(port: &mut Port) -> Vec<(u32, bool)> {
    std::iter::from_fn(|| port.try_recv()).map(|received| (received.frame.id, received.own)).collect()
}

fn classes(port: &mut Port) -> Vec<u32> {
    std::iter::from_fn(|| port.try_recv()).filter_map(|received| received.frame.class()).collect()
}

/// Whenever something is received, with the time since the start in microseconds.
async fn times(port: &mut Port, count: usize) -> Vec<(u32, u128)> {
    let start = Instant::now();
    let mut times = Vec::new();
    for _ in 0..count {
        let received = port.recv().await;
        times.push((received.frame.id, start.elapsed().as_micros()));
    }
    times
}

#[tokio::test(start_paused = true)]
async fn a_frame_reaches_all_and_comes_back_to_its_sender_as_its_own() {
    let bus = Bus::new("can0");
    let [mut one, mut two, mut three] = [(); 3].map(|()| bus.attach());
    one.try_send(frame(1)).unwrap();
    two.send(frame(2)).await.unwrap();
    assert_eq!(ids(&mut one), [(1, true), (2, false)]);
    assert_eq!(ids(&mut two), [(1, false), (2, true)]);
    assert_eq!(ids(&mut three), [(1, false), (2, false)]);
    assert_eq!((bus.carried(), bus.waiting(), bus.ports()), (2, 0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_node_alone_gets_errors_until_somebody_acknowledges() {
    for bus in [Bus::new("can0"), Bus::paced("can0", 500_000)] {
        let mut alone = bus.attach();
        alone.try_send(frame(7)).unwrap();
        assert_eq!(classes(&mut alone), [class::NO_ACK]);
        sleep(Duration::from_millis(250)).await;
        assert_eq!(classes(&mut alone), [class::NO_ACK; 2]);
        let mut silent = bus.attach_with(Options { listen_only: true, ..Options::default() });
        sleep(Duration::from_millis(100)).await;
        assert_eq!(classes(&mut alone), [class::NO_ACK]);
        assert_eq!((bus.carried(), bus.waiting()), (0, 1));
        let mut other = bus.attach();
        sleep(Duration::from_millis(500)).await;
        assert_eq!(ids(&mut alone), [(7, true)]);
        assert_eq!(ids(&mut other), [(7, false)]);
        assert!(classes(&mut silent).is_empty());
        assert_eq!(bus.carried(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_node_had_not_sent_is_gone_with_it() {
    let bus = Bus::new("can0");
    let (sender, receiver) = bus.attach().split();
    sender.try_send(frame(7)).unwrap();
    drop(sender);
    assert_eq!(bus.waiting(), 1);
    drop(receiver);
    assert_eq!((bus.waiting(), bus.ports()), (0, 0));
    let [mut one, other] = [(); 2].map(|()| bus.attach());
    other.try_send(frame(8)).unwrap();
    assert_eq!(ids(&mut one), [(8, false)]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_sends_nothing_and_others_no_nonsense() {
    let bus = Bus::new("can0");
    let silent = bus.attach_with(Options { listen_only: true, ..Options::default() });
    assert_eq!(silent.try_send(frame(1)), Err(SendError::ListenOnly));
    let port = bus.attach();
    let error = Frame::error(class::BUS_ERROR, [0; 8]);
    assert_eq!(port.send(error).await, Err(SendError::Frame(FrameError::Kind)));
    let wrong = Frame { id: 0x800, ..frame(1) };
    assert!(matches!(port.try_send(wrong), Err(SendError::Frame(FrameError::Id { .. }))));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_loses_frames_and_holds_nobody_up() {
    let bus = Bus::new("can0");
    let sender = bus.attach();
    let mut slow = bus.attach_with(Options { capacity: 10, ..Options::default() });
    let mut fast = bus.attach();
    for id in 0..1000 {
        sender.send(frame(id)).await.unwrap();
        assert_eq!(fast.recv().await.frame.id, u32::from(id));
    }
    assert_eq!((slow.lost(), fast.lost()), (990, 0));
    assert_eq!(ids(&mut slow), (0..10).map(|id| (id, false)).collect::<Vec<_>>());
    sender.send(frame(1)).await.unwrap();
    assert_eq!((ids(&mut slow), slow.lost()), (vec![(1, false)], 990));
}

#[tokio::test(start_paused = true)]
async fn only_what_passes_a_filter_is_received() {
    let bus = Bus::new("can0");
    let sender = bus.attach();
    let filters = vec![Filter::standard(0x201), Filter::extended(0x00EA_0300, 0x01FF_FF00)];
    let mut port = bus.attach_with(Options { filters: Some(filters), ..Options::default() });
    for id in [0x200, 0x201, 0x202] {
        sender.try_send(frame(id)).unwrap();
    }
    for id in [0x201, 0x18EA_03F9, 0x0CEA_0322, 0x18EA_04F9, 0x19EA_03F9] {
        sender.try_send(Frame::extended(id, [])).unwrap();
    }
    assert_eq!(
        ids(&mut port).iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [0x201, 0x18EA_03F9, 0x0CEA_0322]
    );
    assert_eq!(port.lost(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_lowest_identifier_wins_among_those_that_wait() {
    let bus = Bus::paced("can0", 500_000);
    let nodes = [(); 4].map(|()| bus.attach());
    let mut listener = bus.attach();
    // The first one is on the wire already when the others come.
    nodes[0].try_send(frame(0x500)).unwrap();
    nodes[1].try_send(frame(0x300)).unwrap();
    nodes[1].try_send(frame(0x050)).unwrap();
    nodes[2].try_send(Frame::extended(0x100 << 18, [0; 8])).unwrap();
    nodes[3].try_send(frame(0x100)).unwrap();
    sleep(Duration::from_millis(10)).await;
    let received: Vec<_> = ids(&mut listener).into_iter().map(|(id, _)| id).collect();
    // A standard frame beats the extended one with the same first bits, and 0x050 stays behind its sender's 0x300.
    assert_eq!(received, [0x500, 0x100, 0x100 << 18, 0x300, 0x050]);
}

#[tokio::test(start_paused = true)]
async fn frames_take_their_time() {
    let bus = Bus::paced("can0", 500_000);
    let sender = bus.attach();
    let mut listener = bus.attach();
    sender.try_send(frame(1)).unwrap();
    // 117 bits of 2 µs, and timers have a grain of 1 ms.
    assert_eq!(times(&mut listener, 1).await, [(1, 1000)]);
    for id in 0..100 {
        sender.try_send(frame(id)).unwrap();
    }
    let times = times(&mut listener, 100).await;
    let last = times.last().unwrap().1;
    assert!((23_400..=26_000).contains(&last), "100 frames of 234 µs took {last} µs");
    assert!(times.iter().zip(1..).all(|((_, time), count)| *time >= count * 234), "none is early");
}

#[tokio::test(start_paused = true)]
async fn flexible_data_are_faster_with_a_switch_of_the_bit_rate() {
    let bus = Bus::paced_fd("can0", 500_000, 5_000_000);
    let sender = bus.attach();
    let mut listener = bus.attach();
    for brs in [true, false] {
        for _ in 0..100 {
            sender.try_send(Frame::full(1, [0; 64], Fd { brs, esi: false })).unwrap();
        }
        let took = times(&mut listener, 100).await.last().unwrap().1;
        let exact = if brs { 17_620 } else { 122_200 };
        assert!((exact..exact + 2600).contains(&took), "{took} µs with {brs}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_queue_of_a_node_is_bounded_and_can_be_waited_for() {
    let bus = Bus::new("can0");
    let mut sender = bus.attach();
    let accepted = (0..1000).take_while(|id| sender.try_send(frame(*id)).is_ok()).count();
    assert_eq!(accepted, 128);
    assert_eq!(sender.try_send(frame(1)), Err(SendError::Full));
    let (send, _receive) = bus.attach().split();
    // Now both acknowledge each other.
    assert_eq!(bus.waiting(), 0);
    assert_eq!(ids(&mut sender).len(), 129);
    sender.send(frame(1)).await.unwrap();
    send.send(frame(2)).await.unwrap();
    assert_eq!(ids(&mut sender), [(1, true), (2, false)]);
}

#[tokio::test(start_paused = true)]
async fn sending_waits_for_a_place() {
    let bus = Bus::paced("can0", 125_000);
    let sender = bus.attach();
    let mut listener = bus.attach();
    let send = async {
        for id in 0..500 {
            sender.send(frame(id)).await.unwrap();
        }
    };
    let receive = async {
        for id in 0..500 {
            assert_eq!(listener.recv().await.frame.id, id);
        }
    };
    tokio::join!(send, receive);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_was_not_sent_is_renewed() {
    let bus = Bus::new("can0");
    let sender = bus.attach();
    for count in 0..10 {
        sender.renew(Frame::standard(1, [count])).unwrap();
        sender.renew(Frame::standard(2, [count])).unwrap();
    }
    assert_eq!(bus.waiting(), 2);
    let mut other = bus.attach();
    let got: Vec<_> = std::iter::from_fn(|| other.try_recv()).map(|received| received.frame).collect();
    assert_eq!(got, [Frame::standard(1, [9]), Frame::standard(2, [9])]);
}

fn fault(text: &str) -> Fault {
    text.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn load_fills_the_bus_and_lets_others_pass() {
    for bus in [Bus::new("can0"), Bus::paced("can0", 500_000)] {
        let sender = bus.attach();
        let mut listener = bus.attach();
        bus.faults(&[fault("load=60")]);
        sleep(Duration::from_secs(1)).await;
        // 60 % of 500 kbit/s in frames of 117 bits.
        let carried = bus.carried();
        assert!((2530..=2564).contains(&carried), "{carried}");
        let _filling = ids(&mut listener);
        for _ in 0..20 {
            sender.try_send(frame(0x100)).unwrap();
            sleep(Duration::from_millis(10)).await;
        }
        let got = ids(&mut listener);
        assert_eq!(got.iter().filter(|(id, _)| *id == 0x100).count(), 20);
        assert!(got.iter().all(|(id, own)| !own && (*id == 0x100 || (0x7C0..0x7D0).contains(id))));
        bus.faults(&[]);
        let before = bus.carried();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(bus.carried(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn load_leaves_out_what_others_use_already() {
    let bus = Bus::paced("can0", 500_000);
    let sender = bus.attach();
    let _listener = bus.attach();
    bus.faults(&[fault("load=60")]);
    for _ in 0..1000 {
        sender.try_send(frame(0x100)).unwrap();
        sleep(Duration::from_millis(1)).await;
    }
    let carried = bus.carried();
    assert!((2530..=2566).contains(&carried), "{carried}");
}

#[tokio::test(start_paused = true)]
async fn load_is_back_soon_after_more_than_that() {
    let bus = Bus::paced("can0", 500_000);
    let sender = bus.attach();
    let mut listener = bus.attach();
    bus.faults(&[fault("load=10")]);
    for _ in 0..10_000 {
        sender.send(frame(0x100)).await.unwrap();
        let _received = listener.recv().await;
    }
    let before = bus.carried();
    sleep(Duration::from_secs(1)).await;
    // All but the first tenth of a second of 427 frames.
    let filled = bus.carried() - before;
    assert!((380..=430).contains(&filled), "{filled}");
}

#[tokio::test(start_paused = true)]
async fn error_frames_come_at_an_even_rate() {
    let bus = Bus::new("can0");
    let mut port = bus.attach();
    bus.faults(&[fault("error-frames=50")]);
    sleep(Duration::from_millis(1010)).await;
    let got = classes(&mut port);
    assert_eq!(got, [class::PROTOCOL | class::BUS_ERROR; 50]);
    bus.faults(&[]);
    sleep(Duration::from_secs(1)).await;
    assert!(classes(&mut port).is_empty());
}

#[tokio::test(start_paused = true)]
async fn controllers_leave_the_bus_and_come_back() {
    for bus in [Bus::new("can0"), Bus::paced("can0", 500_000)] {
        let [one, mut two] = [(); 2].map(|()| bus.attach());
        bus.faults(&[fault("bus-off=300ms")]);
        assert!(bus.is_off());
        one.try_send(frame(5)).unwrap();
        sleep(Duration::from_millis(290)).await;
        assert_eq!(classes(&mut two), [class::BUS_OFF]);
        assert_eq!(bus.carried(), 0);
        sleep(Duration::from_millis(20)).await;
        assert!(!bus.is_off());
        let got: Vec<_> = std::iter::from_fn(|| two.try_recv()).map(|received| received.frame).collect();
        assert_eq!(got, [Frame::error(class::RESTARTED, [0; 8]), frame(5)]);
    }
}

#[tokio::test(start_paused = true)]
async fn leaving_the_bus_forgets_what_waited_and_other_faults_end_it() {
    let bus = Bus::new("can0");
    let one = bus.attach();
    one.try_send(frame(5)).unwrap();
    bus.faults(&[fault("bus-off=999999999999s")]);
    assert_eq!(bus.waiting(), 0);
    let mut two = bus.attach();
    for id in 0..128 {
        one.try_send(frame(id)).unwrap();
    }
    assert!(ids(&mut two).is_empty());
    bus.faults(&[]);
    assert_eq!(ids(&mut two).len(), 1 + 128);
}

#[tokio::test(start_paused = true)]
async fn frames_are_left_out_and_cut() {
    let bus = Bus::new("can0");
    let [mut one, mut two] = [(); 2].map(|()| bus.attach());
    bus.faults(&[fault("missing=100/3"), fault("missing=200"), fault("short=300=2"), fault("short=400=13")]);
    for id in [0x100, 0x100, 0x100, 0x100, 0x200, 0x300] {
        one.try_send(frame(id)).unwrap();
    }
    one.try_send(Frame::full(0x400, [1; 64], Fd::default())).unwrap();
    let got: Vec<_> = std::iter::from_fn(|| two.try_recv()).map(|received| received.frame).collect();
    let ids: Vec<_> = got.iter().map(|frame| frame.id).collect();
    assert_eq!(ids, [0x100, 0x100, 0x100, 0x300, 0x400]);
    assert_eq!(got[3].bytes.len(), 2);
    assert_eq!(got[4].bytes.len(), 12);
    assert_eq!(std::iter::from_fn(|| one.try_recv()).count(), 5, "what was left out does not come back");
}

#[tokio::test(start_paused = true)]
async fn devices_are_told_their_faults() {
    let bus = Bus::new("can0");
    bus.faults(&[fault("stuck-counter=181"), fault("silence=battery")]);
    assert_eq!(bus.stuck(), ["181".parse::<Id>().unwrap()]);
    assert!(bus.silenced("battery") && !bus.silenced("pump-drive"));
}

#[tokio::test(start_paused = true)]
async fn four_busy_buses_lose_nothing() {
    let buses = [(); 4].map(|()| Bus::paced("can", 1_000_000));
    let mut tasks = tokio::task::JoinSet::new();
    for bus in &buses {
        let (sender, _unread) = bus.attach().split();
        let mut listener = bus.attach();
        tasks.spawn(async move {
            for id in (0..2048).cycle().take(9000) {
                sender.send(frame(id)).await.unwrap();
            }
            sender
        });
        tasks.spawn(async move {
            for id in (0..2048).cycle().take(9000) {
                assert_eq!(listener.recv().await.frame.id, id);
            }
            assert_eq!(listener.lost(), 0);
            listener.split().0
        });
    }
    let start = Instant::now();
    let _senders = tasks.join_all().await;
    // 9000 frames of 117 µs.
    assert!((1053..1060).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}

#[derive(Debug, Clone)]
enum Step {
    Attach(bool),
    Detach(usize),
    Send(usize, u16),
    Renew(usize, u16),
    Wait(u64),
    Fault(Vec<Fault>),
}

fn step() -> impl Strategy<Value = Step> {
    let faults = prop::sample::select(vec![
        "load=100",
        "load=3",
        "error-frames=1000",
        "bus-off=5ms",
        "missing=001/2",
        "short=002=3",
        "silence=x",
    ]);
    let faults = prop::collection::vec(faults.prop_map(fault), 0..3);
    prop_oneof![
        any::<bool>().prop_map(Step::Attach),
        (0..4_usize).prop_map(Step::Detach),
        (0..4_usize, 0..4_u16).prop_map(|(node, id)| Step::Send(node, id)),
        (0..4_usize, 0..4_u16).prop_map(|(node, id)| Step::Renew(node, id)),
        (0..20_000_u64).prop_map(Step::Wait),
        faults.prop_map(Step::Fault),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_happens_the_bus_works_afterwards(
        steps in prop::collection::vec(step(), 0..60),
        paced in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let bus = if paced { Bus::paced_fd("can0", 250_000, 1_000_000) } else { Bus::new("can0") };
            let mut ports = Vec::new();
            for step in steps {
                match step {
                    Step::Attach(listen_only) => {
                        ports.push(bus.attach_with(Options { listen_only, ..Options::default() }));
                    }
                    Step::Detach(node) => drop((node < ports.len()).then(|| ports.swap_remove(node))),
                    Step::Send(node, id) => drop(ports.get(node).map(|port| port.try_send(frame(id)))),
                    Step::Renew(node, id) => drop(ports.get(node).map(|port| port.renew(frame(id)))),
                    Step::Wait(micros) => sleep(Duration::from_micros(micros)).await,
                    Step::Fault(faults) => bus.faults(&faults),
                }
            }
            bus.faults(&[]);
            let [sender, mut receiver] = [(); 2].map(|()| bus.attach());
            sleep(Duration::from_secs(1)).await;
            let _before = ids(&mut receiver);
            assert_eq!(bus.waiting(), 0);
            for id in 0..100 {
                sender.send(frame(id)).await.unwrap();
            }
            sleep(Duration::from_secs(1)).await;
            assert_eq!(ids(&mut receiver), (0..100).map(|id| (id, false)).collect::<Vec<_>>());
        });
    }
}
