//! Texts: encodings, padding, lengths.

use super::*;

fn text(length: u16, encoding: Encoding, padding: Padding) -> Format {
    Format { text: Text { length, encoding, padding }, ..plain(Kind::Text) }
}

fn ascii(length: u16) -> Format {
    text(length, Encoding::Ascii, Padding::Nul)
}

fn held(format: &Format, words: &[u16]) -> String {
    match format.decode(words).unwrap() {
        Value::Text(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_text_ends_at_its_padding() {
    assert_eq!(ascii(6).registers(), 3);
    assert_eq!(held(&ascii(6), &[0x4162, 0x6344, 0x6566]), "AbcDef");
    assert_eq!(held(&ascii(6), &[0x4162, 0x0044, 0x6566]), "Ab", "what follows a NUL is not the text");
    assert_eq!(held(&ascii(6), &[0, 0, 0]), "");
    assert_eq!(held(&ascii(5), &[0x4162, 0x6344, 0x65FF]), "AbcDe", "half of the last register is not its");
    assert_eq!(held(&ascii(6), &[0x4120, 0x2000, 0]), "A  ");
    let spaces = text(6, Encoding::Ascii, Padding::Space);
    assert_eq!(held(&spaces, &[0x4120, 0x4220, 0x2020]), "A B");
    assert_eq!(held(&spaces, &[0x4120, 0x0000, 0x0000]), "A");
}

#[test]
fn a_text_is_written_to_its_length() {
    let sent =
        |format: &Format, text: &str| format.encode(&Value::Text(text.into())).unwrap().words().to_vec();
    assert_eq!(sent(&ascii(6), "Abc"), [0x4162, 0x6300, 0]);
    assert_eq!(sent(&ascii(5), "AbcDe"), [0x4162, 0x6344, 0x6500]);
    assert_eq!(sent(&text(6, Encoding::Ascii, Padding::Space), "Abc"), [0x4162, 0x6320, 0x2020]);
    let swapped = Format { order: Order::BADC, ..ascii(4) };
    assert_eq!(sent(&swapped, "Abc"), [0x6241, 0x0063]);
    assert_eq!(held(&swapped, &[0x6241, 0x0063]), "Abc");
    let words = Format { order: Order::CDAB, ..ascii(4) };
    assert_eq!(sent(&words, "Abc"), [0x4162, 0x6300], "a text has no order of words");
}

#[test]
fn every_encoding() {
    let of = |encoding, words: &[u16], expected: &str| {
        let format = text(u16::try_from(words.len() * 2).unwrap(), encoding, Padding::Nul);
        assert_eq!(held(&format, words), expected);
        let accepted = format.accept(expected).unwrap();
        assert_eq!(accepted.effective, Value::Text(expected.into()));
        assert_eq!(format.encode(&accepted.effective).unwrap().words(), words);
    };
    of(Encoding::Latin1, &[0xB043, 0xE900], "°Cé");
    of(Encoding::Utf8, &[0xC2B0, 0x4300], "°C");
    of(Encoding::Utf16, &[0x00B0, 0x0043, 0xD83D, 0xDD25, 0x0000], "°C🔥");
    let padded = text(6, Encoding::Utf16, Padding::Space);
    assert_eq!(padded.encode(&Value::Text("°C".into())).unwrap().words(), [0xB0, 0x43, 0x20]);
    assert_eq!(held(&padded, &[0xB0, 0x43, 0x20]), "°C");
}

#[test]
fn bytes_that_are_no_text_are_no_value() {
    let fault = |encoding, words: &[u16]| {
        let length = u16::try_from(words.len() * 2).unwrap();
        text(length, encoding, Padding::Nul).decode(words).unwrap_err()
    };
    assert_eq!(fault(Encoding::Ascii, &[0xFFFF]).to_string(), "the registers hold no ASCII text");
    assert_eq!(fault(Encoding::Utf8, &[0x41C2]), Fault::Text(Encoding::Utf8));
    assert_eq!(fault(Encoding::Utf16, &[0xD83D, 0x0041]), Fault::Text(Encoding::Utf16));
    assert_eq!(ascii(4).decode(&[0x4100]), Err(Fault::Length { expected: 2, got: 1 }));
}

#[test]
fn what_does_not_fit_is_refused() {
    let refusal = |format: Format, text: &str| format.accept(text).unwrap_err();
    assert_eq!(refusal(ascii(4), "Abcde").to_string(), "`Abcde` takes 5 bytes: the device has room for 4");
    assert_eq!(refusal(ascii(4), "Abcde").rule(), Rule::RawRange);
    assert_eq!(refusal(ascii(4), "°C").to_string(), "`°C` has '°', which a text in ASCII cannot hold");
    refusal(text(4, Encoding::Latin1, Padding::Nul), "€");
    refusal(text(4, Encoding::Utf8, Padding::Nul), "°°°");
    refusal(text(4, Encoding::Utf16, Padding::Nul), "abc");
    assert_eq!(refusal(ascii(4), "a\0b").to_string(), "`a\0b` has '\\0', which a text in ASCII cannot hold");
    ascii(4).encode(&Value::U64(1)).unwrap_err();
    let spaces = text(4, Encoding::Ascii, Padding::Space).accept("A ").unwrap();
    assert_eq!((spaces.requested, spaces.effective), (Value::Text("A ".into()), Value::Text("A".into())));
}

proptest! {
    #[test]
    fn texts_come_back_as_they_were(
        written in "[^\\x00]{0,12}",
        encoding in proptest::sample::select(&[Encoding::Ascii, Encoding::Latin1, Encoding::Utf8, Encoding::Utf16][..]),
        padding in proptest::sample::select(&[Padding::Nul, Padding::Space][..]),
        bytes in any::<bool>(),
        length in 0_u16..40,
    ) {
        let length = if encoding == Encoding::Utf16 { length & !1 } else { length };
        let format = Format { order: Order { bytes, ..Order::ABCD }, ..text(length, encoding, padding) };
        if let Ok(accepted) = format.accept(&written) {
            let words = format.encode(&accepted.effective).unwrap();
            prop_assert_eq!(words.words().len(), usize::from(length.div_ceil(2)));
            prop_assert_eq!(&format.decode(words.words()).unwrap(), &accepted.effective);
            let kept = if padding == Padding::Space { written.trim_end_matches(' ') } else { &written };
            prop_assert_eq!(accepted.effective, Value::Text(kept.into()));
        } else {
            let fits = written.len() <= usize::from(length) && written.is_ascii() && encoding != Encoding::Utf16;
            prop_assert!(!fits);
        }
    }
}
