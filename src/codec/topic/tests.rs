#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

/// Whether a filter matches, by the index as well as by the pattern itself.
fn matches(filter: &str, topic: &str) -> bool {
    let mut index = Index::new();
    index.insert(pattern(filter), ());
    let by_index = !index.find(topic).is_empty();
    assert_eq!(by_index, pattern(filter).matches(topic).is_some(), "{filter} {topic}");
    by_index
}

/// MQTT 5.0, section 4.7, its examples.
#[test]
fn the_specifications_examples() {
    for (filter, topic, expected) in [
        ("sport/tennis/player1/#", "sport/tennis/player1", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", true),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
        ("sport/#", "sport", true),
        ("#", "sport/tennis", true),
        ("#", "/", true),
        ("sport/tennis/+", "sport/tennis/player1", true),
        ("sport/tennis/+", "sport/tennis/player2", true),
        ("sport/tennis/+", "sport/tennis/player1/ranking", false),
        ("sport/+", "sport", false),
        ("sport/+", "sport/", true),
        ("+", "sport", true),
        ("+/tennis/#", "sport/tennis/player1", true),
        ("sport/+/player1", "sport/tennis/player1", true),
        ("+/+", "/finance", true),
        ("/+", "/finance", true),
        ("+", "/finance", false),
        ("#", "$SYS/broker/uptime", false),
        ("+/monitor/Clients", "$SYS/monitor/Clients", false),
        ("{any}/monitor/Clients", "$SYS/monitor/Clients", false),
        ("$SYS/#", "$SYS/broker/uptime", true),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", true),
        ("ACCOUNTS", "Accounts", false),
        ("Accounts payable", "Accounts payable", true),
        ("/finance", "finance", false),
    ] {
        assert_eq!(matches(filter, topic), expected, "{filter} {topic}");
    }
    for text in ["sport/tennis#", "sport/tennis/#/ranking", "sport+", "", "a\0b"] {
        Pattern::parse(text).unwrap_err();
    }
}

#[test]
fn what_is_no_filter_is_named() {
    let deep = "a/".repeat(200);
    let bad = [
        "",
        "a\0",
        "a+",
        "a/#/b",
        "#a",
        "{",
        "a/}",
        "{a}{b}",
        "{a b}",
        "{}",
        "a/{b}+",
        "$x{a}/b",
        "$share/group/a/#",
        "$share",
        &deep,
    ];
    let errors = bad.map(|text| Pattern::parse(text).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
    Pattern::parse(&"a".repeat(65_535)).unwrap();
    Pattern::parse(&"a".repeat(65_536)).unwrap_err();
    Pattern::parse(&vec!["a"; 200].join("/")).unwrap();
}

#[test]
fn topics_are_published_on_without_wildcards() {
    check_topic("cmnd/shed/POWER").unwrap();
    check_topic("/").unwrap();
    for (text, error) in [
        ("", "`` is not a topic: it is empty"),
        ("a/+", "`a/+` is not a topic: `+` and `#` are for filters"),
        ("a/#", "`a/#` is not a topic: `+` and `#` are for filters"),
    ] {
        assert_eq!(check_topic(text).unwrap_err().to_string(), error);
    }
    check_topic(&"a".repeat(65_536)).unwrap_err();
}

#[test]
fn names_stand_for_levels() {
    let cell = pattern("plant/{line}/{cell}/temp");
    assert_eq!(cell.filter(), "plant/+/+/temp");
    assert_eq!(cell.topic(), None);
    assert_eq!(cell.to_string(), "plant/{line}/{cell}/temp");
    let found: Vec<(String, &str)> = cell
        .matches("plant/7/b/temp")
        .unwrap()
        .into_iter()
        .map(|(name, text)| (name.to_string(), text))
        .collect();
    assert_eq!(found, [("line".to_owned(), "7"), ("cell".to_owned(), "b")]);
    assert_eq!(cell.matches("plant/7/temp"), None);
    assert_eq!(cell.names().map(|name| &**name).collect::<Vec<_>>(), ["line", "cell"]);

    let shelly = pattern("shelly-{id}-pm/status");
    assert_eq!(shelly.filter(), "+/status");
    assert_eq!(shelly.matches("shelly-77-pm/status").unwrap().first().unwrap().1, "77");
    for topic in ["shelly--pm/status", "shelly-pm/status", "other-77-pm/status"] {
        assert!(!matches("shelly-{id}-pm/status", topic), "{topic}");
    }
    assert!(matches("{a}/x/{a}", "1/x/1") && !matches("{a}/x/{a}", "1/x/2"));
}

#[test]
fn names_are_filled_in() {
    let value = |name: &str| match name {
        "device" => Some("plug_3"),
        "bad" => Some("a/b"),
        "none" => Some(""),
        "wild" => Some("+"),
        _ => None,
    };
    let bound = pattern("zigbee2mqtt/{device}/set").bind(value).unwrap();
    assert_eq!(bound.topic().as_deref(), Some("zigbee2mqtt/plug_3/set"));
    assert_eq!(pattern("a/{device}/#").bind(value).unwrap().filter(), "a/plug_3/#");
    assert_eq!(pattern("x-{device}").bind(value).unwrap().filter(), "x-plug_3");
    let errors = ["a/{other}", "{bad}", "a/{none}", "a/{wild}"]
        .map(|text| pattern(text).bind(value).unwrap_err().to_string());
    insta::assert_snapshot!(errors.join("\n"));
    assert!(matches!(pattern("{a}/b/c").bind(|_| Some("$share")), Err(Unbound::Whole(_))));
    let long = "x".repeat(65_536);
    assert!(matches!(pattern("{a}").bind(|_| Some(&long)), Err(Unbound::Whole(_))));
}

#[test]
fn each_subscriber_gets_a_message_once() {
    let mut index = Index::new();
    for (filter, subscriber) in
        [("s/#", 1), ("s/1", 1), ("s/+", 2), ("s/{x}", 1), ("#", 3), ("t", 4), ("s/1", 5)]
    {
        index.insert(pattern(filter), subscriber);
    }
    let found: Vec<(String, i32)> = index
        .find("s/1")
        .into_iter()
        .map(|(pattern, subscriber)| (pattern.to_string(), *subscriber))
        .collect();
    let expected =
        [("s/#", 1), ("s/+", 2), ("#", 3), ("s/1", 5)].map(|(filter, number)| (filter.to_owned(), number));
    assert_eq!(found, expected);
    assert_eq!(index.len(), 7);
    assert!(!index.is_empty() && Index::<u8>::new().find("a").is_empty());
}

#[test]
fn a_message_costs_the_same_among_any_number_of_topics() {
    let costs = [10, 1_000, 10_000].map(|many| {
        let mut index = Index::new();
        for number in 0..many {
            index.insert(pattern(&format!("plant/{number}/temp")), number);
            index.insert(pattern(&format!("plant/{number}/+/state")), number);
        }
        index.insert(pattern("plant/{cell}/temp"), many);
        let (found, visited) = index.numbers("plant/7/temp");
        assert_eq!(found.len(), 2);
        let (none, missed) = index.numbers("plant/none/temp/x");
        assert!(none.is_empty());
        (visited, missed)
    });
    assert_eq!(costs, [(5, 5); 3]);
}

fn filters(texts: &[(&str, u8)]) -> Vec<(String, u8)> {
    let patterns: Vec<(Pattern, u8)> = texts.iter().map(|(text, qos)| (pattern(text), *qos)).collect();
    Filters::new(patterns.iter().map(|(pattern, qos)| (pattern, *qos))).list().to_vec()
}

#[test]
fn filters_that_others_cover_are_not_subscribed_to() {
    let list = |texts: &[(&str, u8)]| {
        filters(texts).into_iter().map(|(filter, qos)| format!("{filter} {qos}")).collect::<Vec<_>>()
    };
    assert_eq!(list(&[("s/1", 2), ("s/#", 0)]), ["s/# 2"]);
    assert_eq!(list(&[("s", 1), ("s/+", 0), ("s/+/x", 0), ("s/#", 0)]), ["s/# 1"]);
    assert_eq!(list(&[("a/{x}/b", 0), ("a/{y}/b", 1), ("a/+/b", 0)]), ["a/+/b 1"]);
    assert_eq!(list(&[("#", 0), ("+/#", 1), ("$SYS/#", 0), ("$SYS/a", 0)]), ["# 1", "$SYS/# 0"]);
    assert_eq!(list(&[("a/+", 0), ("+/b", 0)]), ["a/+ 0", "+/b 0"]);
    assert_eq!(list(&[("a/+/c", 0), ("a/b/#", 0)]), ["a/+/c 0", "a/b/# 0"]);
}

#[test]
fn one_of_two_copies_counts() {
    let patterns = [pattern("a/+"), pattern("+/b")];
    let filters = Filters::new(patterns.iter().map(|pattern| (pattern, 0)));
    assert_eq!(["a/b", "c/b", "c/d"].map(|topic| filters.matching(topic)), [vec![0, 1], vec![1], vec![]]);
}

/// Section 4.7 once more, letter by letter.
fn naive(filter: &[&str], topic: &[&str]) -> bool {
    match (filter, topic) {
        (["#"], _) | ([], []) => true,
        ([level, filter @ ..], [text, topic @ ..]) => {
            (*level == "+" || level == text) && naive(filter, topic)
        }
        _ => false,
    }
}

fn naive_match(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    naive(&filter.split('/').collect::<Vec<_>>(), &topic.split('/').collect::<Vec<_>>())
}

fn any_topic() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just(""), Just("a"), Just("b"), Just("$c")], 1..5)
        .prop_map(|levels| levels.join("/"))
        .prop_filter("a topic", |topic| !topic.is_empty())
}

fn any_filter() -> impl Strategy<Value = String> {
    let level = prop_oneof![Just(""), Just("a"), Just("b"), Just("$c"), Just("+"), Just("+")];
    (proptest::collection::vec(level, 0..4), any::<bool>())
        .prop_map(|(mut levels, rest)| {
            levels.extend(rest.then_some("#"));
            levels.join("/")
        })
        .prop_filter("a filter", |filter| !filter.is_empty())
}

proptest! {
    #[test]
    fn the_index_finds_what_the_rules_say(
        filters in proptest::collection::vec(any_filter(), 0..12),
        topic in any_topic(),
    ) {
        let mut index = Index::new();
        for (number, filter) in filters.iter().enumerate() {
            index.insert(pattern(filter), number);
        }
        let found: Vec<usize> = index.find(&topic).into_iter().map(|(_, number)| *number).collect();
        let expected: Vec<usize> =
            (0..filters.len()).filter(|number| naive_match(filters.get(*number).unwrap(), &topic)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_text_is_a_pattern_or_not(text in "[a{}+#/$\\x00-]{0,12}", topic in "[a/$-]{0,8}") {
        if let Ok(pattern) = Pattern::parse(&text) {
            prop_assert_eq!(&Pattern::parse(&pattern.to_string()).unwrap(), &pattern);
            let bound = pattern.bind(|_| Some("a-")).unwrap();
            if bound.matches(&topic).is_some() {
                prop_assert!(pattern.matches(&topic).is_some());
            }
            drop(pattern.matches(&topic));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn fewer_filters_match_the_same(
        texts in proptest::collection::vec((any_filter(), 0_u8..3), 0..8),
        topic in any_topic(),
    ) {
        let patterns: Vec<(Pattern, u8)> = texts.iter().map(|(text, qos)| (pattern(text), *qos)).collect();
        let filters = Filters::new(patterns.iter().map(|(pattern, qos)| (pattern, *qos)));
        let asked = texts.iter().filter(|(text, _)| naive_match(text, &topic));
        let served = filters.list().iter().filter(|(text, _)| naive_match(text, &topic));
        let asked = asked.map(|(_, qos)| *qos).max();
        let served = served.map(|(_, qos)| *qos).max();
        prop_assert!(asked <= served && asked.is_some() == served.is_some());
        prop_assert_eq!(!filters.matching(&topic).is_empty(), asked.is_some());
        // None is left that another one covers.
        for (number, (one, _)) in filters.list().iter().enumerate() {
            let others = filters.list().iter().enumerate().filter(|(other, _)| *other != number);
            for (_, (other, _)) in others {
                prop_assert!(!covers(other, one), "{} covers {}", other, one);
            }
        }
    }
}

/// Whether one filter covers another, found by trying all short topics, and the empty one,
/// which there is only for the rules.
fn covers(one: &str, other: &str) -> bool {
    let levels = ["", "a", "b", "$c", "z"];
    let mut topics: Vec<String> = levels.map(str::to_owned).into();
    let mut last = topics.clone();
    for _ in 0..4 {
        last = last.iter().flat_map(|topic| levels.map(|level| format!("{topic}/{level}"))).collect();
        topics.extend(last.iter().cloned());
    }
    topics.iter().all(|topic| naive_match(one, topic) || !naive_match(other, topic))
}
