//! Each answer is as the description of the gateway says.

use serde_json::{Map, Value};

use super::Told;

const OPENAPI: &str = include_str!("../../../src/gateway/openapi.json");

/// Fails unless the description has this answer to this request: its status, the fields of its JSON, and the code of its error.
pub(super) fn check(way: &str, path: &str, told: &Told) {
    // Heads that are too large are answered by the HTTP library.
    if told.status == 431 {
        return;
    }
    let api: Value = serde_json::from_str(OPENAPI).unwrap();
    let path = path.split('?').next().unwrap();
    let paths = api["paths"].as_object().unwrap();
    // A fixed path comes before one with words in braces.
    let routes = paths.get(path).into_iter();
    let routes = routes.chain(paths.iter().filter(|(route, _)| fits(route, path)).map(|(_, route)| route));
    let Some(operation) = routes.filter_map(|route| route.get(way.to_lowercase())).next() else {
        return assert!([404, 405, 401].contains(&told.status), "{way} {path}: {}", told.status);
    };
    let at = format!("{way} {path}: {}", told.status);
    let response = operation["responses"].get(told.status.to_string());
    let response = whole(&api, response.unwrap_or_else(|| panic!("{at} is not described")));
    let kind = told.head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    if told.status != 204 {
        assert!(response["content"][kind].is_object(), "{at}: {kind:?} is not described");
    }
    if kind == "application/json" {
        fit(&api, &response["content"][kind]["schema"], &told.json(), &at);
    }
    for line in
        told.head.lines().filter(|line| line.starts_with("exonet-") || line.starts_with("traceparent"))
    {
        let name = line.split(':').next().unwrap();
        let headers = response["headers"].as_object().unwrap_or_else(|| panic!("{at}: no headers"));
        assert!(headers.keys().any(|header| header.eq_ignore_ascii_case(name)), "{at}: {name}");
    }
    if told.status >= 400 {
        let code = format!("`{}`", told.code());
        assert!(response["description"].as_str().unwrap().contains(&code), "{at}: {code} is not described");
    }
}

fn fits(route: &str, path: &str) -> bool {
    let (route, path): (Vec<_>, Vec<_>) = (route.split('/').collect(), path.split('/').collect());
    let one = |(part, word): (&&str, &&str)| part.starts_with('{') || part == word;
    route.len() == path.len() && route.iter().zip(&path).all(one)
}

/// A part of the description, behind its reference if it is one. What stands beside a reference takes precedence.
fn whole(api: &Value, part: &Value) -> Map<String, Value> {
    let own = part.as_object().unwrap_or_else(|| panic!("{part}"));
    let Some(reference) = own.get("$ref").and_then(Value::as_str) else { return own.clone() };
    let mut all = whole(api, api.pointer(reference.trim_start_matches('#')).unwrap());
    all.extend(own.clone());
    all
}

/// Fails unless the value is as the schema says, and has no field that the schema does not name.
fn fit(api: &Value, schema: &Value, value: &Value, at: &str) {
    let schema = whole(api, schema);
    if let Some(kinds) = schema.get("type") {
        let is = |kind: &Value| match kind.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            kind => kind == "null" && value.is_null(),
        };
        let one = kinds.as_array().map_or_else(|| is(kinds), |kinds| kinds.iter().any(is));
        assert!(one, "{at}: {value} is not {kinds}");
    }
    if let Some(known) = schema.get("enum").and_then(Value::as_array) {
        assert!(known.contains(value), "{at}: {value}");
    }
    for item in value.as_array().into_iter().flatten() {
        fit(api, &schema["items"], item, at);
    }
    let Some(fields) = value.as_object() else { return };
    let mut parts = vec![schema.clone()];
    let all = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
    parts.extend(all.map(|part| whole(api, part)));
    let required = parts.iter().filter_map(|part| part.get("required")?.as_array()).flatten();
    for name in required {
        assert!(fields.contains_key(name.as_str().unwrap()), "{at}: no {name} in {value}");
    }
    let named: Vec<_> = parts.iter().filter_map(|part| part.get("properties")).collect();
    let others = schema.get("additionalProperties").filter(|others| others.is_object());
    for (name, value) in fields {
        match named.iter().find_map(|properties| properties.get(name)).or(others) {
            Some(schema) => fit(api, schema, value, &format!("{at}, {name}")),
            None => assert!(named.is_empty(), "{at}: {name} is not described"),
        }
    }
}
