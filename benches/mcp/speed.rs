//! Calls per second of both, in turn.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    Arguments,
    calls::{Calls, Era},
    http,
    load::{Numbers, Samples, Window},
    plant::{Plant, TAGS, tag},
    report::{self, median, spread},
    server::{Process, Subject, Wire},
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

const CASES: [Case; 8] = [
    Case::new("stdio", Wire::Stdio, Era::Legacy, 1, Subject::Echo),
    Case::new("stdio", Wire::Stdio, Era::Legacy, 50, Subject::Echo),
    Case::new("stdio, echo: pipes", Wire::Stdio, Era::Legacy, 1, Subject::EchoPipes),
    Case::new("stdio, echo: pipes", Wire::Stdio, Era::Legacy, 50, Subject::EchoPipes),
    Case::new("http", Wire::Http, Era::Legacy, 1, Subject::Echo),
    Case::new("http", Wire::Http, Era::Legacy, 50, Subject::Echo),
    Case::new("http modern", Wire::Http, Era::Modern, 1, Subject::Echo),
    Case::new("http modern", Wire::Http, Era::Modern, 50, Subject::Echo),
];

/// Measures and prints the table.
pub(crate) async fn run(subject: Subject, arguments: &Arguments, plant: &Plant) -> Result<()> {
    report::speed_head(arguments.rounds, arguments.window_ms);
    let length = Duration::from_millis(arguments.window_ms.into());
    for case in CASES.into_iter().filter(|case| case.name.contains(&arguments.only)) {
        // The twin of an echo on pipes is another one.
        let subject = if subject == Subject::Echo { case.beside } else { subject };
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..arguments.rounds {
            let (a, b) = if round % 2 == 0 {
                let a = one(subject, case, length, plant).await?;
                (a, one(case.beside, case, length, plant).await?)
            } else {
                let b = one(case.beside, case, length, plant).await?;
                (one(subject, case, length, plant).await?, b)
            };
            ratios.push(a.per_second / b.per_second);
            ours.push(a);
            theirs.push(b);
        }
        report::speed_row(case.name, case.outstanding, &typical(&ours), &typical(&theirs), spread(&ratios));
    }
    report::speed_foot();
    Ok(())
}

/// Starts a server, waits until its plant is good, and measures it.
async fn one(subject: Subject, case: Case, length: Duration, plant: &Plant) -> Result<Numbers> {
    let mut process = Process::spawn(subject, case.wire, plant)?;
    let calls = Calls { subject, era: case.era };
    let measured = timeout(length * 3 + Duration::from_secs(60), async {
        match case.wire {
            Wire::Stdio => over_stdio(&mut process, calls, case.outstanding, length).await,
            Wire::Http => over_http(&mut process, calls, case.outstanding, length).await,
        }
    });
    let numbers = match measured.await.context("the measurement hangs").and_then(|done| done) {
        Ok(numbers) => numbers,
        Err(error) => return Err(process.explain(error)),
    };
    process.kill().await?;
    Ok(numbers)
}

async fn over_stdio(
    process: &mut Process,
    calls: Calls,
    outstanding: usize,
    length: Duration,
) -> Result<Numbers> {
    let mut client = stdio::Client::new(process)?;
    client.open().await?;
    let mut patience = Patience::default();
    while calls.subject == Subject::Fieldbridge
        && !Calls::all_good(&client.exchange(&calls.whole_plant(0)).await?, TAGS)
    {
        patience.wait().await?;
    }
    Calls::tells(&client.exchange(&calls.request(1, &tag(7))).await?, &tag(7))?;
    let before = process.cpu();
    let window = Window::of(length);
    let samples = client.load(calls, outstanding, window).await?;
    Ok(samples.numbers(window, since(before, process)))
}

async fn over_http(
    process: &mut Process,
    calls: Calls,
    outstanding: usize,
    length: Duration,
) -> Result<Numbers> {
    let address = process.address().await?;
    let mut clients = Vec::new();
    for _ in 0..outstanding {
        clients.push(http::Client::open(address, calls).await?);
    }
    let client = clients.first_mut().context("no client")?;
    let mut patience = Patience::default();
    while calls.subject == Subject::Fieldbridge
        && !Calls::all_good(client.exchange(&calls.whole_plant(0)).await?, TAGS)
    {
        patience.wait().await?;
    }
    Calls::tells(client.exchange(&calls.request(1, &tag(7))).await?, &tag(7))?;
    let before = process.cpu();
    let window = Window::of(length);
    let mut tasks = JoinSet::new();
    for (index, client) in clients.into_iter().enumerate() {
        tasks.spawn(client.load(calls, index * TAGS / outstanding, window));
    }
    let mut samples = Samples::default();
    while let Some(done) = tasks.join_next().await {
        samples.merge(done??);
    }
    Ok(samples.numbers(window, since(before, process)))
}

fn since(before: Option<Duration>, process: &Process) -> Option<Duration> {
    process.cpu()?.checked_sub(before?)
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

/// The median over the rounds of each number.
fn typical(rounds: &[Numbers]) -> Numbers {
    let of = |number: fn(&Numbers) -> f64| median(&rounds.iter().map(number).collect::<Vec<_>>());
    Numbers {
        median_us: of(|round| round.median_us),
        p99_us: of(|round| round.p99_us),
        per_second: of(|round| round.per_second),
        cpu_us: of(|round| round.cpu_us),
        answer_bytes: of(|round| round.answer_bytes),
    }
}
