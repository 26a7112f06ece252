//! Calls per second of both, in turn.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use tokio::time::timeout;

use crate::{
    Arguments,
    calls::{Calls, Era},
    common::{
        figures::{median, middle},
        http::Client,
        process::Process,
    },
    http,
    load::{Numbers, Samples, Window},
    plant::{Plant, TAGS, tag},
    report,
    server::{self, Subject, Wire},
    stdio,
};

/// One line of the table.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    wire: Wire,
    era: Era,
    /// Calls on their way at any time: over HTTP each has its own client.
    outstanding: usize,
    beside: Subject,
}

impl Case {
    const fn new(name: &'static str, wire: Wire, era: Era, outstanding: usize, beside: Subject) -> Self {
        Self { name, wire, era, outstanding, beside }
    }
}

const CASES: [Case; 12] = [
    Case::new("stdio", Wire::Stdio, Era::Legacy, 1, Subject::Echo),
    Case::new("stdio", Wire::Stdio, Era::Legacy, 50, Subject::Echo),
    Case::new("http", Wire::Http, Era::Legacy, 1, Subject::Echo),
    Case::new("http", Wire::Http, Era::Legacy, 50, Subject::Echo),
    Case::new("http modern", Wire::Http, Era::Modern, 1, Subject::Echo),
    Case::new("http modern", Wire::Http, Era::Modern, 50, Subject::Echo),
    Case::new("stdio, lean", Wire::Stdio, Era::Legacy, 1, Subject::Lean),
    Case::new("stdio, lean", Wire::Stdio, Era::Legacy, 50, Subject::Lean),
    Case::new("http, lean", Wire::Http, Era::Legacy, 1, Subject::Lean),
    Case::new("http, lean", Wire::Http, Era::Legacy, 50, Subject::Lean),
    Case::new("http modern, lean", Wire::Http, Era::Modern, 1, Subject::Lean),
    Case::new("http modern, lean", Wire::Http, Era::Modern, 50, Subject::Lean),
];

/// Measures and prints the table.
pub(crate) async fn run(subject: Subject, arguments: &Arguments, plant: &Plant) -> Result<()> {
    report::speed_head(arguments);
    let length = Duration::from_millis(arguments.window_ms.into());
    for case in CASES.into_iter().filter(|case| case.name.contains(&arguments.only)) {
        // The twin of a lean echo is another one.
        let subject = if subject == Subject::Echo { case.beside } else { subject };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..arguments.pairs {
            let mut us = Running::start(subject, case, plant).await?;
            let mut them = Running::start(case.beside, case, plant).await?;
            for round in 0..arguments.rounds {
                if round % 2 == 0 {
                    ours.push(us.measure(length).await?);
                    theirs.push(them.measure(length).await?);
                } else {
                    theirs.push(them.measure(length).await?);
                    ours.push(us.measure(length).await?);
                }
            }
            us.process.kill().await?;
            them.process.kill().await?;
        }
        let ratios = ours.iter().zip(&theirs).map(|(us, them)| us.per_second / them.per_second);
        let ratio = middle(&ratios.collect::<Vec<_>>());
        report::speed_row(case.name, case.outstanding, &typical(&ours), &typical(&theirs), ratio);
    }
    report::speed_foot();
    Ok(())
}

/// A server whose plant is good, and its clients.
#[derive(Debug)]
struct Running {
    process: Process,
    calls: Calls,
    outstanding: usize,
    clients: Clients,
}

#[derive(Debug)]
enum Clients {
    Stdio(stdio::Client),
    Http(Vec<Client>),
}

impl Running {
    async fn start(subject: Subject, case: Case, plant: &Plant) -> Result<Self> {
        let mut process = server::spawn(subject, case.wire, plant)?;
        let calls = Calls { subject, era: case.era };
        let opened = timeout(Duration::from_secs(30), Clients::open(&mut process, calls, case)).await;
        match opened.context("the start hangs").and_then(|done| done) {
            Ok(clients) => Ok(Self { process, calls, outstanding: case.outstanding, clients }),
            Err(error) => Err(process.explain(error)),
        }
    }

    async fn measure(&mut self, length: Duration) -> Result<Numbers> {
        let before = self.process.cpu();
        let window = Window::of(length);
        let (calls, outstanding) = (self.calls, self.outstanding);
        let loaded = timeout(length * 2 + Duration::from_secs(30), async {
            match &mut self.clients {
                Clients::Stdio(client) => client.load(calls, outstanding, window).await,
                Clients::Http(clients) => {
                    let loads = clients
                        .iter_mut()
                        .enumerate()
                        .map(|(index, client)| http::load(client, calls, index * TAGS / outstanding, window));
                    let all = try_join_all(loads).await?;
                    Ok(all.into_iter().fold(Samples::default(), Samples::merge))
                }
            }
        });
        match loaded.await.context("the measurement hangs").and_then(|done| done) {
            Ok(samples) => {
                let cpu = self.process.cpu().zip(before).and_then(|(now, before)| now.checked_sub(before));
                Ok(samples.numbers(window, cpu))
            }
            Err(error) => Err(self.process.explain(error)),
        }
    }
}

impl Clients {
    async fn open(process: &mut Process, calls: Calls, case: Case) -> Result<Self> {
        let mut clients = match case.wire {
            Wire::Stdio => {
                let mut client = stdio::Client::new(process)?;
                client.open().await?;
                Self::Stdio(client)
            }
            Wire::Http => {
                let address = process.address().await?;
                let mut clients = Vec::new();
                for _ in 0..case.outstanding {
                    clients.push(http::open(address, calls).await?);
                }
                Self::Http(clients)
            }
        };
        let mut patience = Patience::default();
        while calls.subject == Subject::Fieldbridge
            && !Calls::all_good(&clients.exchange(&calls.sample(0)).await?)
        {
            patience.wait().await?;
        }
        Calls::tells(&clients.exchange(&calls.request(1, &tag(7))).await?, &tag(7))?;
        Ok(clients)
    }

    async fn exchange(&mut self, request: &str) -> Result<String> {
        match self {
            Self::Stdio(client) => client.exchange(request).await,
            Self::Http(clients) => {
                Ok(clients.first_mut().context("no client")?.exchange(request).await?.to_owned())
            }
        }
    }
}

/// Bounds the wait for a plant that becomes good.
#[derive(Debug, Default)]
struct Patience(u32);

impl Patience {
    async fn wait(&mut self) -> Result<()> {
        ensure!(self.0 < 500, "the plant did not become good within ten seconds");
        self.0 += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }
}

/// The median over the rounds of each number, but for CPU time: its clock is too coarse for one round.
fn typical(rounds: &[Numbers]) -> Numbers {
    let of = |number: fn(&Numbers) -> f64| rounds.iter().map(number).collect::<Vec<_>>();
    let calls: f64 = of(|round| round.calls).iter().sum();
    let cpu: f64 = rounds.iter().map(|round| round.cpu_us * round.calls).sum();
    Numbers {
        calls,
        median_us: median(&of(|round| round.median_us)),
        p99_us: median(&of(|round| round.p99_us)),
        per_second: median(&of(|round| round.per_second)),
        cpu_us: cpu / calls,
        answer_bytes: median(&of(|round| round.answer_bytes)),
    }
}
