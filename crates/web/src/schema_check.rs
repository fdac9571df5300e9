//! Whether an answer is what the document of OpenAPI says. Fields that it does not name are errors, too, so that none is
//! forgotten there.
//!
//! Tests of other crates include this file.
#![allow(dead_code)]

use serde_json::{Map, Value as Json};

/// Checks a value against the schema of that name; an error says where and what.
pub fn check(document: &Json, schema: &str, value: &Json) -> Result<(), String> {
    let reference = serde_json::json!({"$ref": format!("#/components/schemas/{schema}")});
    check_in(document, &reference, value, schema)
}

fn check_in(document: &Json, schema: &Json, value: &Json, place: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let found = document.pointer(reference.trim_start_matches('#'));
        let found = found.ok_or_else(|| format!("{place}: nothing at {reference}"))?;
        return check_in(document, found, value, place);
    }
    if let Some(options) = schema["anyOf"].as_array() {
        let checked = options.iter().map(|option| check_in(document, option, value, place));
        let errors: Vec<String> = checked.filter_map(Result::err).collect();
        let fits = errors.len() < options.len();
        return if fits { Ok(()) } else { Err(errors.join("; ")) };
    }
    if let Some(values) = schema["enum"].as_array() {
        let is_one = values.contains(value);
        return if is_one {
            Ok(())
        } else {
            Err(format!("{place}: {value} is none of {values:?}"))
        };
    }
    if !has_type(&schema["type"], value) {
        return Err(format!("{place}: {value} is no {}", schema["type"]));
    }
    match value {
        Json::Array(items) => items.iter().enumerate().try_for_each(|(at, item)| {
            check_in(document, &schema["items"], item, &format!("{place}[{at}]"))
        }),
        Json::Object(fields) => check_object(document, schema, fields, place),
        _ => Ok(()),
    }
}

fn has_type(types: &Json, value: &Json) -> bool {
    let own = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    match types {
        Json::String(one) => one == own,
        Json::Array(several) => several.iter().any(|one| one == own),
        _ => false,
    }
}

fn check_object(
    document: &Json,
    schema: &Json,
    fields: &Map<String, Json>,
    place: &str,
) -> Result<(), String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
    for name in required {
        if !fields.contains_key(name) {
            return Err(format!("{place}: {name} is missing"));
        }
    }
    for (name, value) in fields {
        let known = schema["properties"].get(name).or(schema.get("additionalProperties"));
        let place = format!("{place}.{name}");
        match known {
            Some(Json::Bool(true)) => {}
            Some(known) => check_in(document, known, value, &place)?,
            None => return Err(format!("{place} is not told of")),
        }
    }
    Ok(())
}

/// Checks an answer in JSON to a request: also that the document knows the path, and the status for it.
pub fn check_answer(document: &Json, uri: &str, status: u16, value: &Json) -> Result<(), String> {
    let path = uri.split('?').next().unwrap_or_default();
    let path = if path.starts_with("/api/v1/jobs/") { "/api/v1/jobs/{id}" } else { path };
    let content = &document["paths"][path]["get"]["responses"][status.to_string()]["content"];
    let schema = &content["application/json"]["schema"];
    match schema.is_null() {
        true => Err(format!("{path}: the document knows no answer with status {status}")),
        false => check_in(document, schema, value, path),
    }
}

/// Checks the data of an event of the stream.
pub fn check_event(document: &Json, name: &str, data: &Json) -> Result<(), String> {
    let answer = &document["paths"]["/api/v1/stream"]["get"]["responses"]["200"]["content"];
    let schema = &answer["text/event-stream"]["x-events"][name];
    match schema.is_null() {
        true => Err(format!("the document knows no event {name}")),
        false => check_in(document, schema, data, name),
    }
}
