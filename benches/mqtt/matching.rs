//! What it costs to find who listens to a topic, by how many topics there are.

use std::{hint::black_box, time::Instant};

use fieldbridge::codec::topic::{Index, Pattern};

const ROUNDS: usize = 2_000_000;

pub(crate) fn run() {
    println!("\nmatching: topics under one wildcard, each of a tag");
    println!("  {:>8}  {:>12}", "topics", "a message");
    for count in [10, 1_000, 10_000] {
        let topics = (0..count).map(|number| format!("plant/line-{}/cell-{number}/temperature", number % 7));
        let topics = topics.collect::<Vec<_>>();
        let mut index = Index::new();
        for (number, topic) in topics.iter().chain([&"plant/#".to_owned()]).enumerate() {
            if let Ok(pattern) = Pattern::parse(topic) {
                index.insert(pattern, number);
            }
        }
        let mut found = 0;
        let since = Instant::now();
        // A step that visits all of them in an order that no cache guesses.
        for topic in topics.iter().cycle().step_by(7).take(ROUNDS) {
            found += black_box(index.find(black_box(topic))).len();
        }
        let nanos = since.elapsed().as_nanos();
        assert_eq!(found, 2 * ROUNDS, "a topic has its tag, and the wildcard");
        println!("  {count:>8}  {:>9} ns", nanos / 2_000_000);
    }
}
