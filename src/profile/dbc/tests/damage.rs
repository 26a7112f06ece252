//! Files with faults: what is lost, and that nothing else is.

use proptest::prelude::*;

use super::{cases::FILES, *};

#[test]
fn a_comment_never_becomes_a_message() {
    let body = "text\n BO_ 1 Fake: 8 X\n SG_ F : 0|8@1+ (1,0) [0|0] \\\"\\\" X\nend";
    for (comment, count) in [
        (format!("CM_ BO_ 640 \"{body}\";"), 0),
        (format!("CM_ \"{body}\";"), 0),
        (format!("CM_ BO_ \"{body}\";"), 1),
        (format!("CM_ SG_ 640 !! ?? \"{body}\";"), 1),
        (format!("CMX_ BO_ 640 \"{body}\";"), 1),
        (format!("BA_ \"Note\" BO_ 640 \"{body}\";"), 0),
        (format!("BA_DEF_DEF_ \"Note\" \"{body}\";"), 0),
    ] {
        let dbc = load(&format!("BO_ 640 Drive: 8 PLC\n{comment}\nBO_ 641 After: 8 PLC\n"));
        let names = dbc.messages.iter().map(|message| message.name.as_str()).collect::<Vec<_>>();
        assert_eq!((names, dbc.warnings.len()), (vec!["Drive", "After"], count), "{comment}");
    }
}

#[test]
fn a_lost_quote_costs_its_statement_only() {
    let dbc = load(
        "VERSION \"1\nBO_ 640 Drive: 8 PLC\n SG_ A : 0|8@1+ (1,0) [0|0] \"km HMI\n \
         SG_ B : 8|8@1+ (1,0) [0|0] km\" HMI\n SG_ C : 16|8@1+ (1,0) [0|0] \"\" HMI\n\
         CM_ BO_ 640 \"one;\nCM_ SG_ 640 C \"two\";\nVAL_ 640 C 1 \"a 2 \"b\";\nBA_ \"SPN SG_ 640 C 5;\n\
         BA_ \"SPN\" SG_ 640 C 6;\nBO_ 641 Last: 8 PLC\n SG_ D : 0|8@1+ (1,0) [0|0] \"\" HMI\nCM_ BO_ 641 \"three;\n\
         VAL_ 641 D 1 \"on\";\n",
    );
    assert_eq!(names(&dbc), ["C", "D"]);
    let signal = |name| super::signal(&dbc, name);
    assert_eq!((signal("C").comment.as_str(), signal("C").spn), ("two", Some(6)));
    assert_eq!(signal("D").labels.len(), 1);
    let lines = warnings(&dbc).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
    assert_eq!(lines, [1, 3, 4, 6, 8, 9, 13]);
    assert_eq!(warnings(&dbc)[1].1, "signal Drive.A lacks a quote; it is left out");

    // Where nothing follows, no text may reach to the end.
    for last in
        [" SG_ A : 0|8@1+ (1,0) [0|0] \"km HMI", "CM_ BO_ 640 \"text;", "BA_ \"Other\" BO_ 640 \"text;"]
    {
        let dbc = load(&format!("BO_ 640 Drive: 8 PLC\n{last}\n"));
        assert_eq!((names(&dbc), dbc.messages[0].comment.as_str()), (vec![], ""));
        let [(2, text)] = warnings(&dbc)[..] else { panic!("{:?}", dbc.warnings) };
        assert!(text.ends_with(" lacks a quote; it is left out"), "{text}");
    }
}

#[test]
fn a_damaged_head_does_not_give_its_signals_away() {
    let file = |head: &str| {
        load(&format!(
            "BO_ 640 Drive: 8 PLC\n SG_ A : 0|8@1+ (1,0) [0|0] \"\" HMI\n{head}\n \
             SG_ B : 8|8@1+ (1,0) [0|0] \"\" HMI\nVAL_ 641 B 1 \"x\";\nBO_ 642 Last: 8 PLC\n \
             SG_ C : 0|8@1+ (1,0) [0|0] \"\" HMI\n"
        ))
    };
    for head in ["BO_ 641 Next 8 PLC", "BO_ 641 Next: PLC 8 8", "BO_ 641 Next: x PLC", "BO_ 641 Next: -1 PLC"]
    {
        let dbc = file(head);
        assert_eq!(names(&dbc), ["A", "C"], "{head}");
        let [(3, text)] = warnings(&dbc)[..] else { panic!("{:?}", dbc.warnings) };
        assert!(
            text.starts_with("message Next ") && text.ends_with("and so are the signals after it"),
            "{text}"
        );
    }
    for head in [
        "BO_641 Next: 8 PLC",
        "B_ 641 Next: 8 PLC",
        " SG_ X : 8|8@1+ (1,0) [0|0] \"\" HMIBO_ 641 Next: 8 PLC",
    ] {
        let dbc = file(head);
        assert_eq!(names(&dbc), ["A", "C"], "{head}");
        let lines = warnings(&dbc).into_iter().map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(lines, [3, 5], "{head}");
    }
    // What cannot be the head of a message leaves the signals after it to the one before.
    for line in [
        "SOMETHING_ 1 : 2;",
        " S_ X : 8|8@1+ (1,0) [0|0] \"\" HMI",
        "what",
        " SG_ X : 8|8@3+ (1,0) [0|0] \"\" HMI",
    ] {
        let dbc = file(line);
        assert_eq!(names(&dbc), ["A", "B", "C"], "{line}");
        assert_eq!(warnings(&dbc)[0].0, 3);
    }
}

#[test]
fn a_message_that_is_left_out_is_told_once() {
    let signals = " SG_ A : 0|8@3+ (1,0) [0|0] \"\" X\n SG_ B : 0|0@1+ (1,0) [x|0] \"\" X\n";
    let about =
        |id: &str| format!("CM_ SG_ {id} A \"x\";\nVAL_ {id} B 1 \"x\";\nBA_ \"SPN\" SG_ {id} B 1;\n");
    for (head, count) in
        [("3221225472 VECTOR__INDEPENDENT_SIG_MSG: 0", 0), ("9999 Odd: 8", 1), ("1 Odd: x", 1)]
    {
        let about = about(head.split(' ').next().unwrap());
        let dbc = load(&format!("BO_ 640 Drive: 8 PLC\nBO_ {head} X\n{signals}{about}"));
        assert_eq!((dbc.messages.len(), dbc.warnings.len()), (1, count), "{:?}", dbc.warnings);
    }
    // So are signals.
    let dbc = load(&format!("BO_ 640 Drive: 8 PLC\n{signals}{}", about("640")));
    assert_eq!(warnings(&dbc).into_iter().map(|(line, _)| line).collect::<Vec<_>>(), [2, 3, 3]);
}

#[test]
fn signals_without_receivers_are_taken() {
    let dbc = load(
        "SG_ Stray : 0|8@1+ (1,0) [0|0] \"\" X\nBO_ 640 Drive: 8\n SG_ A : 0|8@1+ (1,0) [0|0] \"\"\n \
         SG_ B : 8|8@1+ (1,0) [0|0] \"\" a-b,(c)\n SG_ C : 16|8@1+ (1,0) [0|0] X\n SG_ D E : 24|8@1+ (1,0) [0|0] \"\" X\n",
    );
    assert_eq!(names(&dbc), ["A", "B"]);
    assert_eq!(
        warnings(&dbc),
        [
            (1, "signal Stray is not in a message; it is left out"),
            (5, "signal Drive.C has no unit in quotes; it is left out"),
            (6, "signal Drive.D has a mark that is neither M nor m with a number; it is left out"),
        ]
    );
}

#[test]
fn words_without_bounds_are_refused() {
    let name = "A".repeat(1025);
    let dbc = load(&format!(
        "BO_ 1 {name}: 8 X\nBO_ 2 B: 8 X\nBA_ \"SystemMessageLongSymbol\" BO_ 2 \"{name}\";\n"
    ));
    assert_eq!(dbc.messages.len(), 1);
    assert_eq!((dbc.messages[0].name.as_str(), dbc.warnings.len()), ("B", 2));
}

#[test]
fn hostile_files_end() {
    // Quotes that nothing closes, so that each statement reaches to the end.
    let error = Dbc::parse("CM_ \\\"\n".repeat(20_000).as_bytes()).unwrap_err();
    assert!(matches!(error, DbcError::Broken { .. }), "{error}");
    let signals = |mark: fn(usize) -> String| {
        let signals = (0..3_000).map(|place| format!(" SG_ S{} : 0|8@1+ (1,0) [0|0] \"\" X\n", mark(place)));
        format!(
            "BO_ 1 A: 8 X\n SG_ M M : 8|32@1+ (1,0) [0|0] \"\" X\n{}",
            signals.collect::<Vec<_>>().concat()
        )
    };
    // Each is compared with all others.
    let dbc = load(&signals(|place| format!(" m{place}")));
    assert_eq!((dbc.messages[0].signals.len(), dbc.warnings.len()), (3_001, 0));
    let labels = (0..3_000).map(|number| format!("{number} \"label\" ")).collect::<Vec<_>>().concat();
    let text = signals(|place| format!("{place}"));
    let about = (0..3_000).map(|place| format!("VAL_ 1 S{place} T;\n")).collect::<Vec<_>>().concat();
    let dbc = load(&format!("{text}VAL_TABLE_ T {labels};\n{about}"));
    let labelled = dbc.messages[0].signals.iter().map(|signal| signal.labels.len()).sum::<usize>();
    assert!((1..3_000_000).contains(&labelled), "{labelled}");
    assert!(warnings(&dbc).last().unwrap().1.ends_with("not shown"));
}

/// Lines from and to which a message reaches.
fn extents(dbc: &Dbc) -> Vec<(usize, usize)> {
    let ends = dbc.messages.iter().map(|message| {
        (message.line, message.signals.iter().map(|signal| signal.line).max().unwrap_or(message.line))
    });
    ends.collect()
}

/// A message but for its lines, which a deleted line moves.
fn without_lines(message: &Message) -> Message {
    let signals = message.signals.iter().map(|signal| Signal { line: 0, ..signal.clone() }).collect();
    Message { line: 0, signals, ..message.clone() }
}

/// Compares with the file before it was damaged in one line: all but the message hit is still there as it was, and of that
/// one the signals of other lines that nothing selects.
fn check_damage(original: &Dbc, text: &str, hit: usize, damaged: &str) {
    let dbc = load(damaged);
    // A line that goes on with a text is one of the statement before it.
    let mut lines = text.lines().take(hit).collect::<Vec<_>>().into_iter().rev();
    let line = lines.find(|line| !line.starts_with(char::is_lowercase)).unwrap_or_default();
    let named = line.split([' ', ';']).find_map(|word| word.parse::<u32>().ok());
    let is_about =
        ["VAL_ ", "CM_ ", "SIG_VALTYPE_ ", "SG_MUL_VAL_ "].iter().any(|word| line.starts_with(word));
    for (message, (from, to)) in original.messages.iter().zip(extents(original)) {
        let is_hit = (from..=to).contains(&hit) || is_about && named == Some(message.id.flagged());
        let found = dbc.messages.iter().find(|other| other.id == message.id).map(without_lines);
        if !is_hit {
            assert_eq!(found.as_ref(), Some(&without_lines(message)), "line {hit} of\n{damaged}");
        } else if hit > from && !is_about {
            let found = found.unwrap_or_else(|| panic!("line {hit} of\n{damaged}"));
            let kept =
                message.signals.iter().filter(|signal| signal.line != hit && signal.selection.is_none());
            for signal in kept {
                assert!(
                    found.signals.iter().any(|other| other.name == signal.name),
                    "line {hit} of\n{damaged}"
                );
            }
        }
    }
    if dbc.messages.len() < original.messages.len() {
        assert!(!dbc.warnings.is_empty(), "{damaged}");
    }
}

#[test]
fn no_lost_character_costs_more_than_its_statement() {
    for (_, bytes) in FILES {
        let text = str::from_utf8(bytes).unwrap();
        let original = load(text);
        let mut line = 1;
        for (place, char) in text.char_indices() {
            let mut damaged = text.to_owned();
            damaged.remove(place);
            // A line end belongs to the line before it, and joins it with the next.
            check_damage(&original, text, line, &damaged);
            line += usize::from(char == '\n');
        }
    }
}

#[test]
fn no_lost_line_costs_more_than_its_statement() {
    for (_, bytes) in FILES {
        let text = str::from_utf8(bytes).unwrap();
        let original = load(text);
        let lines = text.lines().collect::<Vec<_>>();
        for hit in 1..=lines.len() {
            // Signals without their head are those of the message before.
            if !lines[hit - 1].starts_with("BO_") {
                let damaged = [&lines[..hit - 1], &lines[hit..]].concat().join("\n");
                check_damage(&original, text, hit, &damaged);
            }
        }
    }
}

/// Pieces of which files are made.
fn pieces() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "BO_ 640 Drive: 8 PLC\n",
        "BO_ 641 A: 2 X\n",
        " SG_ A : 0|8@1+ (1,0) [0|0] \"\" X\n",
        " SG_ M M : 8|8@1+ (1,0) [0|0] \"\" X\n",
        " SG_ B m1M : 0|8@1+ (1,0) [0|0] \"\" X\n",
        "VAL_ 640 A 1 \"x\";\n",
        "SG_MUL_VAL_ 640 B M 1-1;\n",
        "SG_MUL_VAL_ 640 M B 1-1;\n",
        "CM_ SG_ 640 A \"",
        "\"",
        ";",
        "\n",
        "\\",
        "//",
        "SIG_VALTYPE_ 640 A : 1;\n",
        "BA_ \"GenMsgCycleTime\" BO_ 640 ",
        "BA_ \"SPN\" SG_ 640 A ",
        "-1e999",
        "1",
        " ",
        ":",
        "NS_ :\n\tCM_\n",
        "VERSION \"",
        "BU_:",
        "\r",
        "VAL_TABLE_ T ",
        "|",
        "@",
        ",",
        "ä",
        "\u{FEFF}",
    ];
    prop::collection::vec(prop::sample::select(WORDS), 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        drop(Dbc::parse(&bytes));
    }

    #[test]
    fn any_pieces_end_with_sound_messages(text in pieces()) {
        if let Ok(dbc) = Dbc::parse(text.as_bytes()) {
            for message in &dbc.messages {
                for signal in &message.signals {
                    let by = signal.selection.as_ref().map(|selection| &message.signals[selection.by]);
                    prop_assert!(by.is_none_or(|by| by.is_multiplexer));
                    // Ends, as no selection is circular.
                    is_there(message, signal, &[1; 8]);
                }
            }
            let ids = dbc.messages.iter().map(|message| message.id).collect::<std::collections::HashSet<_>>();
            prop_assert_eq!(ids.len(), dbc.messages.len());
            prop_assert!(dbc.warnings.is_sorted_by_key(|warning| warning.line));
        }
    }

    #[test]
    fn files_with_many_faults_end(
        file in prop::sample::select(&FILES[..]),
        faults in prop::collection::vec((any::<prop::sample::Index>(), any::<Option<u8>>()), 1..20),
    ) {
        let mut bytes = file.1.to_vec();
        for (place, byte) in faults {
            let place = place.index(bytes.len());
            match byte {
                Some(byte) => bytes[place] = byte,
                None => drop(bytes.remove(place)),
            }
        }
        drop(Dbc::parse(&bytes));
    }
}
