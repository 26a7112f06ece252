//! What is subscribed to, so that all patterns are served.

use std::collections::HashMap;

use super::{Index, Pattern};

/// The fewest filters of those that patterns ask for: none of them is covered by another.
///
/// Two of them may still match one topic, as `a/+` and `+/b` do, and then a broker may send its messages twice: the copy of
/// the first of [`Filters::matching`] that the broker granted counts, where the copies say to which filter they belong.
#[derive(Debug, Clone)]
pub struct Filters {
    list: Vec<(String, u8)>,
    index: Index<usize>,
}

impl Filters {
    /// The filters for patterns, each with the quality of service that it asks for; a filter gets the highest one of all
    /// that it serves.
    #[must_use]
    pub fn new<'p>(patterns: impl IntoIterator<Item = (&'p Pattern, u8)>) -> Self {
        let mut asked: Vec<(Pattern, u8)> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for (pattern, qos) in patterns {
            let number = *known.entry(pattern.filter()).or_insert(asked.len());
            match asked.get_mut(number) {
                Some((_, highest)) => *highest = qos.max(*highest),
                None => asked.push((pattern.plain(), qos)),
            }
        }
        let mut all = Index::new();
        for (number, (pattern, _)) in asked.iter().enumerate() {
            all.insert(pattern.clone(), number);
        }
        let covers = |number: usize, pattern: &Pattern| {
            let mut covers = all.covers(&pattern.filter());
            covers.retain(|cover| *cover != number);
            covers
        };
        let covers: Vec<Vec<usize>> =
            asked.iter().enumerate().map(|(number, (pattern, _))| covers(number, pattern)).collect();
        let mut highest: Vec<u8> = asked.iter().map(|(_, qos)| *qos).collect();
        for (covers, (_, qos)) in covers.iter().zip(&asked) {
            for cover in covers {
                if let Some(highest) = highest.get_mut(*cover) {
                    *highest = (*qos).max(*highest);
                }
            }
        }
        let kept = asked.into_iter().zip(highest).zip(covers).filter(|(_, covers)| covers.is_empty());
        let (mut list, mut index) = (Vec::new(), Index::new());
        for (((pattern, _), qos), _) in kept {
            list.push((pattern.filter(), qos));
            index.insert(pattern, list.len() - 1);
        }
        Self { list, index }
    }

    /// The filters and their qualities of service.
    #[must_use]
    pub fn list(&self) -> &[(String, u8)] {
        &self.list
    }

    /// The number in [`Filters::list`] of the filter that brings all messages of a pattern, of those that this was made
    /// for.
    #[must_use]
    pub fn serving(&self, pattern: &Pattern) -> Option<usize> {
        match pattern.topic() {
            Some(topic) => self.matching(&topic).into_iter().next(),
            None => self.index.covers(&pattern.filter()).into_iter().min(),
        }
    }

    /// The numbers in [`Filters::list`] of the filters that match `topic`, in their order.
    #[must_use]
    pub fn matching(&self, topic: &str) -> Vec<usize> {
        let mut numbers = self.index.numbers(topic).0;
        numbers.sort_unstable();
        numbers
    }
}
