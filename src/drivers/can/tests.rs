//! The driver on a bus that is played by hand, with paused time.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod cases;
mod dbc;
mod pages;
mod receive;
mod replay;
mod write;

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{
        Notify,
        mpsc::{Receiver, Sender, channel, error::TrySendError},
        oneshot,
    },
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    codec::can::{BusError, Data, Frame, candump},
    config::{Endpoint, Site, Wire, load_text},
    link::{Backoff, Command, Host, Permit, Publish, Queue, queue, supervise},
    model::{DeviceId, DeviceState, LinkState, Quality, Reason, Report, TagId, Update, Value},
};

/// What sessions told, in order.
#[derive(Default)]
pub(super) struct Told {
    updates: Mutex<Vec<Update>>,
    devices: Mutex<Vec<(DeviceState, Option<String>)>>,
    trouble: Mutex<Option<String>>,
    links: Mutex<Vec<(LinkState, Option<String>)>>,
    news: Notify,
}

impl Publish for Arc<Told> {
    fn trouble(&self, detail: Option<&str>) {
        *self.trouble.lock().unwrap() = detail.map(str::to_owned);
        self.news.notify_waiters();
    }

    fn publish(&self, batch: &mut Vec<Update>) {
        self.updates.lock().unwrap().append(batch);
        self.news.notify_waiters();
    }

    fn device(&self, _: DeviceId, state: DeviceState, detail: Option<&str>) {
        self.devices.lock().unwrap().push((state, detail.map(str::to_owned)));
        self.news.notify_waiters();
    }
}

struct Stub(Arc<Told>);

impl Host for Stub {
    fn open(&self) -> Sink {
        Sink::new(Arc::new(Arc::clone(&self.0)))
    }

    fn state(&self, state: LinkState, detail: Option<&str>) {
        self.0.links.lock().unwrap().push((state, detail.map(str::to_owned)));
        self.0.news.notify_waiters();
    }
}

/// Grants unless it is told otherwise.
struct Gate {
    grant: Result<(), Report>,
    /// Whether what was granted holds no longer.
    is_revoked: Arc<AtomicBool>,
}

impl Permit for Gate {
    fn grant(&mut self, _: Option<&Value>) -> Result<(), Report> {
        self.grant.clone()
    }

    fn recheck(&self) -> Result<(), Report> {
        if self.is_revoked.load(Ordering::Relaxed) {
            return Err(Report::new(crate::model::Outcome::NotSent, "revoked"));
        }
        Ok(())
    }
}

/// The end of a bus that the driver has.
struct Pipe {
    sender: Sender<Data>,
    receiver: Receiver<(Frame, bool)>,
    lost: Arc<AtomicU64>,
}

impl Port for Pipe {
    fn send(&mut self, frame: &Data) -> Result<(), Refused> {
        self.sender.try_send(*frame).map_err(|error| match error {
            TrySendError::Full(_) => Refused::Full,
            TrySendError::Closed(_) => Refused::Gone,
        })
    }

    fn receive(&mut self) -> BoxFuture<'_, Option<(Frame, bool)>> {
        Box::pin(self.receiver.recv())
    }

    fn ready(&mut self) -> Option<(Frame, bool)> {
        self.receiver.try_recv().ok()
    }

    fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The far end of a bus.
pub(super) struct Wires {
    /// What the driver sends.
    sent: Receiver<Data>,
    /// What it hears.
    heard: Sender<(Frame, bool)>,
}

pub(super) struct Rig {
    told: Arc<Told>,
    names: Vec<String>,
    queue: Queue,
    stop: CancellationToken,
    task: JoinHandle<()>,
    ends: Arc<Mutex<Vec<Wires>>>,
    wires: Wires,
    lost: Arc<AtomicU64>,
    counters: Arc<Counters>,
    is_revoked: Arc<AtomicBool>,
}

pub(super) fn site(connection: &str, device: &str) -> Site {
    let text = format!(
        "[site]\nname = 'x'\nwrites = 'allow'\n[[connections]]\nname = 'bus'\ndriver = 'can-virtual'\ninterface = 'a'\n\
         {connection}\n[[devices]]\nname = 'd'\nconnection = 'bus'\n{device}\n"
    );
    load_text(Path::new("config/x.toml"), text, [("", ""); 0]).unwrap_or_else(|problems| panic!("{problems}"))
}

impl Rig {
    /// A site's one device on a bus of which this is the other end; room for so many frames.
    pub(super) async fn start(site: Site, room: usize) -> Self {
        Self::resume(site, room, Memory::default()).await
    }

    /// The same after a link that had this memory.
    pub(super) async fn resume(site: Site, room: usize, memory: Memory) -> Self {
        let connection = site.connections.into_iter().next().unwrap();
        let Endpoint::Can(endpoint) = connection.endpoint else { panic!("a bus") };
        let spec = connection.devices.into_iter().next().unwrap();
        let names = spec.tags().iter().map(|tag| tag.path.to_string()).collect::<Vec<_>>();
        let Wire::Can(device) = &spec.wire else { panic!("a device on a bus") };
        let ids = (0..).map(TagId).take(names.len()).collect::<Vec<_>>();
        let ends = Arc::new(Mutex::new(Vec::new()));
        let lost = Arc::<AtomicU64>::default();
        let attach = {
            let (ends, lost) = (Arc::clone(&ends), Arc::clone(&lost));
            move || -> Box<dyn Port> {
                let ((sender, sent), (heard, receiver)) = (channel(room), channel(1000));
                ends.lock().unwrap().push(Wires { sent, heard });
                Box::new(Pipe { sender, receiver, lost: Arc::clone(&lost) })
            }
        };
        let buses = Buses::new([("a".to_owned(), Box::new(attach) as _)]);
        let counters = Arc::<Counters>::default();
        let nodes = [Node::new(DeviceId(0), device, &ids)];
        let driver = Can::new(endpoint, &nodes, buses, memory, Arc::clone(&counters));
        let stop = CancellationToken::new();
        let (queue, inbox) = queue(stop.clone());
        let told = Arc::new(Told::default());
        let host: Arc<dyn Host> = Arc::new(Stub(Arc::clone(&told)));
        let task = tokio::spawn(async move {
            supervise("bus", driver, inbox, host, Backoff::default()).await;
        });
        let wires = end(&told, &ends).await;
        Self { told, names, queue, stop, task, ends, wires, lost, counters, is_revoked: Arc::default() }
    }

    /// Waits for the next session.
    pub(super) async fn again(&mut self) {
        self.wires = end(&self.told, &self.ends).await;
    }

    pub(super) fn tag(&self, name: &str) -> TagId {
        let place = self.names.iter().position(|own| own == &format!("d/{name}")).expect(name);
        TagId(u32::try_from(place).unwrap())
    }

    /// Lets the driver hear a frame as candump writes it, such as `181#00`.
    pub(super) async fn hear(&self, text: &str) {
        self.wires.heard.send((frame(text), false)).await.unwrap();
    }

    /// What the driver sends next; it is not given back.
    pub(super) async fn sent(&mut self) -> String {
        shown(&self.wires.sent.recv().await.unwrap())
    }

    /// What the driver sends next, and gives it back as the bus does.
    pub(super) async fn carry(&mut self) -> String {
        let data = self.wires.sent.recv().await.unwrap();
        self.wires.heard.send((Frame::Data(data), true)).await.unwrap();
        shown(&data)
    }

    /// Nothing was sent that was not taken.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.wires.sent.try_recv().is_err()
    }

    /// The last word on a tag that is so.
    pub(super) async fn wait(&self, name: &str, is: impl Fn(&Update) -> bool) -> Update {
        let tag = self.tag(name);
        loop {
            let news = self.told.news.notified();
            let last = self.told.updates.lock().unwrap().iter().rfind(|update| update.tag == tag).cloned();
            match last.filter(|update| is(update)) {
                Some(update) => return update,
                None => news.await,
            }
        }
    }

    pub(super) async fn good(&self, name: &str, value: Value) {
        self.wait(name, |update| update.value == Some(value.clone()) && update.quality == Quality::Good)
            .await;
    }

    pub(super) async fn quality(&self, name: &str, quality: Quality) -> Update {
        self.wait(name, |update| update.quality == quality).await
    }

    pub(super) async fn trouble(&self, is: impl Fn(Option<&str>) -> bool) {
        loop {
            let news = self.told.news.notified();
            if is(self.told.trouble.lock().unwrap().as_deref()) {
                return;
            }
            news.await;
        }
    }

    pub(super) async fn device(&self, state: DeviceState) {
        loop {
            let news = self.told.news.notified();
            if self.told.devices.lock().unwrap().last().is_some_and(|(last, _)| *last == state) {
                return;
            }
            news.await;
        }
    }

    fn command(
        &self,
        name: &str,
        value: Value,
        gate: Result<(), Report>,
        within: Duration,
    ) -> (Command, oneshot::Receiver<Report>) {
        let deadline = Instant::now() + within;
        Command::new(
            self.tag(name),
            value,
            false,
            deadline,
            Box::new(Gate { grant: gate, is_revoked: Arc::clone(&self.is_revoked) }),
        )
    }

    pub(super) fn write(&self, name: &str, value: Value) -> oneshot::Receiver<Report> {
        self.write_within(name, value, Duration::from_secs(1))
    }

    pub(super) fn write_within(
        &self,
        name: &str,
        value: Value,
        within: Duration,
    ) -> oneshot::Receiver<Report> {
        let (command, report) = self.command(name, value, Ok(()), within);
        self.queue.push(command);
        report
    }

    pub(super) fn write_all(
        &self,
        writes: &[(&str, Value, Result<(), Report>)],
    ) -> Vec<oneshot::Receiver<Report>> {
        let within = Duration::from_secs(1);
        let made =
            writes.iter().map(|(name, value, gate)| self.command(name, value.clone(), gate.clone(), within));
        let (commands, reports): (Vec<_>, Vec<_>) = made.unzip();
        let mut commands = commands.into_iter();
        self.queue.push(commands.next().unwrap().with(commands.collect()));
        reports
    }

    pub(super) fn ask_to_stop(&self) {
        self.stop.cancel();
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// The other end of the bus that the driver opened last.
async fn end(told: &Told, ends: &Mutex<Vec<Wires>>) -> Wires {
    loop {
        let news = told.news.notified();
        if let Some(end) = ends.lock().unwrap().pop() {
            return end;
        }
        news.await;
    }
}

pub(super) fn frame(text: &str) -> Frame {
    candump::parse(&format!("(0.0) a {text}")).unwrap().unwrap().frame
}

fn shown(data: &Data) -> String {
    let mut line = String::new();
    candump::write(&mut line, Duration::ZERO, "a", &Frame::Data(*data));
    line.trim_end().rsplit(' ').next().unwrap().to_owned()
}

pub(super) const BUS_OFF: Frame = Frame::Error(BusError { class: BusError::BUS_OFF, data: [0; 8] });
pub(super) const RESTARTED: Frame = Frame::Error(BusError { class: BusError::RESTARTED, data: [0; 8] });

pub(super) fn stale() -> Quality {
    Quality::Uncertain(Reason::Stale)
}
