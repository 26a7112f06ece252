//! Statements about messages and signals: comments, labels, number types, ranges of multiplexers, attributes.
//!
//! Owns the forms that each has in files. Must not know whether what it is about exists.

use can_dbc::AttributeValue;

use super::{
    Attribute, Doubt, Entry, Labels, MOST_WORD, Owner, Pairs, Read, Token, close_points, id, is_name, join,
    parse, sound, unescape,
};

pub(super) fn comment<'a>(tokens: &[Token<'a>]) -> Read<'a> {
    let (id_word, signal, text) = match tokens {
        [Token::Text(_)] | [Token::Word("BU_" | "EV_"), Token::Word(_), Token::Text(_)] => {
            return Ok(Entry::Nothing);
        }
        [Token::Word("SG_"), Token::Word(_), Token::Text(_)] => {
            return Err("is a comment on a signal that it does not name".into());
        }
        [Token::Word("SG_"), Token::Word(id), Token::Word(signal), Token::Text(text)] => {
            (id, Some(*signal), text)
        }
        [Token::Word("BO_"), Token::Word(id), Token::Text(text)] | [Token::Word(id), Token::Text(text)] => {
            (id, None, text)
        }
        _ => return Err("is no comment of the format".into()),
    };
    let id = id(id_word).ok_or("has an identifier that is no number")?;
    Ok(Entry::Comment { id, signal, text })
}

pub(super) fn labels<'a>(tokens: &[Token<'a>]) -> Read<'a, (Entry<'a>, Doubt)> {
    let [Token::Word(first), rest @ ..] = tokens else {
        return Err("names no signal".into());
    };
    let Some(id) = id(first) else {
        // Labels of a variable of simulations.
        return Ok(sound(Entry::Nothing));
    };
    let [Token::Word(signal), rest @ ..] = rest else {
        return Err("names no signal".into());
    };
    if let [Token::Word(table)] = rest
        && is_name(table)
    {
        return Ok(sound(Entry::Labels { id, signal, labels: Labels::Of(table) }));
    }
    let (labels, doubt) = pairs(rest)?;
    Ok((Entry::Labels { id, signal, labels: Labels::Own(labels) }, doubt))
}

pub(super) fn table<'a>(tokens: &[Token<'a>]) -> Read<'a, (Entry<'a>, Doubt)> {
    let [Token::Word(name), rest @ ..] = tokens else {
        return Err("has no name".into());
    };
    let (labels, doubt) = pairs(rest)?;
    Ok((Entry::Table { name, labels }, doubt))
}

/// Labels; those whose number cannot be one of a signal are left out.
fn pairs<'a>(tokens: &[Token<'a>]) -> Read<'a, (Pairs, Doubt)> {
    if let Some(labels) = parse_pairs(tokens) {
        return Ok((labels, None));
    }
    let mut kept = Vec::new();
    let mut doubt = None;
    for pair in tokens.chunks(2) {
        let [Token::Word(number), Token::Text(_)] = pair else {
            return Err("has labels that are not numbers, each with a text in quotes".into());
        };
        if number.parse::<i64>().is_ok() {
            kept.extend(pair);
        } else {
            doubt.get_or_insert_with(|| {
                format!("has a label for `{number}`, which is no integer; it is left out")
            });
        }
    }
    let labels = parse_pairs(&kept).ok_or("has labels that are not numbers, each with a text in quotes")?;
    Ok((labels, doubt))
}

fn parse_pairs(tokens: &[Token<'_>]) -> Option<Pairs> {
    let dbc = parse(&format!("VAL_TABLE_ t {};", join(tokens)))?;
    let table = dbc.value_tables.into_iter().next()?;
    Some(table.descriptions.into_iter().map(|label| (label.id, unescape(&label.description))).collect())
}

pub(super) fn number<'a>(tokens: &[Token<'a>]) -> Read<'a> {
    let [Token::Word(id_word), Token::Word(signal), rest @ ..] = tokens else {
        return Err("names no signal".into());
    };
    let id = id(id_word).ok_or("has an identifier that is no number")?;
    let read = parse(&format!("SIG_VALTYPE_ 0 s {};", join(rest)));
    let read = read.and_then(|dbc| dbc.signal_extended_value_type_list.into_iter().next());
    let float_bits = read.map(|read| match read.signal_extended_value_type {
        can_dbc::SignalExtendedValueType::SignedOrUnsignedInteger => 0,
        can_dbc::SignalExtendedValueType::IEEEfloat32Bit => 32,
        can_dbc::SignalExtendedValueType::IEEEdouble64bit => 64,
    });
    Ok(Entry::Number { id, signal, float_bits })
}

pub(super) fn selection<'a>(tokens: &[Token<'a>]) -> Read<'a> {
    let [Token::Word(id_word), Token::Word(signal), Token::Word(by), rest @ ..] = tokens else {
        return Err("names no signal or no multiplexer".into());
    };
    let id = id(id_word).ok_or("has an identifier that is no number")?;
    let read = parse(&format!("SG_MUL_VAL_ 0 s m {};", join(rest)));
    let read = read.and_then(|dbc| dbc.extended_multiplex.into_iter().next());
    let ranges = read.ok_or("has ranges that are not `from-to`, separated by commas")?.mappings;
    let ranges = ranges.iter().map(|range| (range.min_value, range.max_value)).collect();
    Ok(Entry::Selection { id, signal, by, ranges })
}

pub(super) fn definition<'a>(tokens: &[Token<'a>]) -> Read<'a> {
    let named = match tokens {
        [Token::Word("BU_" | "BO_" | "SG_" | "EV_"), rest @ ..] => rest,
        _ => tokens,
    };
    let [Token::Text(name), Token::Word(kind), rest @ ..] = named else {
        return Err("is no definition of an attribute".into());
    };
    let (Some(name), "ENUM") = (Attribute::of(name), *kind) else { return Ok(Entry::Nothing) };
    let read = parse(&format!("BA_DEF_ \"a\" ENUM {};", join(rest)));
    match read.and_then(|dbc| dbc.attribute_definitions.into_iter().next()) {
        Some(can_dbc::AttributeDefinition::Plain(_, can_dbc::AttributeValueType::Enum(words))) => {
            Ok(Entry::Definition { name, words })
        }
        _ => Err("has words that are not in quotes, separated by commas".into()),
    }
}

pub(super) fn default<'a>(tokens: &[Token<'a>]) -> Read<'a> {
    let [Token::Text(name), value] = tokens else {
        return Err("is no default of an attribute".into());
    };
    let Some(name) = Attribute::of(name) else { return Ok(Entry::Nothing) };
    Ok(Entry::Default { name, value: attribute_value(*value)? })
}

pub(super) fn attribute<'a>(tokens: &[Token<'a>]) -> Read<'a> {
    let [Token::Text(name), rest @ ..] = tokens else {
        return Err("names no attribute in quotes".into());
    };
    let Some(name) = Attribute::of(name) else { return Ok(Entry::Nothing) };
    let (of, value) = match rest {
        [value] => (Owner::File, value),
        [Token::Word("BU_"), Token::Word(node), value] => (Owner::Node(node), value),
        [Token::Word("BO_"), Token::Word(message), value] => {
            (Owner::Message(id(message).ok_or("has an identifier that is no number")?), value)
        }
        [Token::Word("SG_"), Token::Word(message), Token::Word(signal), value] => {
            (Owner::Signal(id(message).ok_or("has an identifier that is no number")?, signal), value)
        }
        [Token::Word("EV_"), ..] => return Ok(Entry::Nothing),
        _ => return Err("does not say to what it belongs".into()),
    };
    Ok(Entry::Attribute { name, of, value: attribute_value(*value)? })
}

fn attribute_value(value: Token<'_>) -> Read<'_, AttributeValue> {
    let text = match value {
        Token::Word(word) => close_points(word),
        other => join(&[other]),
    };
    if text.len() > MOST_WORD {
        return Err("has a value of more than 1024 bytes".into());
    }
    let read = parse(&format!("BA_ \"a\" {text};"));
    let read = read.and_then(|dbc| dbc.attribute_values_database.into_iter().next());
    Ok(read.ok_or("has a value that is no number and no text in quotes")?.value)
}
