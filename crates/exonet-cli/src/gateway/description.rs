//! The description of the gateway, for programs that make clients: `GET /openapi.json`.

/// OpenAPI 3.1.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::{BTreeMap, BTreeSet};

    use exonet::stats::{PeerStats, Reading};
    use serde::de::value::Error;
    use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
    use serde::forward_to_deserialize_any;
    use serde_json::{Map, Value};

    use super::OPENAPI;
    use crate::gateway::routes::{ROUTES, Want};
    use crate::gateway::{about, answers, calls, inbox, send, served};

    /// The fields of a body in JSON, which have no place in a query.
    const CONTENT: [&str; 3] = ["text", "base64", "json"];

    /// Notes the names of the fields that a type asks for, and has none of them.
    struct Asked<'a>(&'a Cell<&'static [&'static str]>);

    impl<'de> Deserializer<'de> for Asked<'_> {
        type Error = Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Error> {
            self.0.set(fields);
            Err(Error::custom("no field is there"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
            Err(Error::custom("not a struct"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
            unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn fields<T: for<'de> Deserialize<'de>>() -> BTreeSet<&'static str> {
        let asked = Cell::new(&[][..]);
        assert!(T::deserialize(Asked(&asked)).is_err());
        asked.get().iter().copied().collect()
    }

    /// What the code accepts as options of a request.
    fn accepted(want: Want) -> BTreeSet<&'static str> {
        match want {
            Want::OpenApi | Want::Page | Want::Watch | Want::Node => BTreeSet::new(),
            Want::Peers => fields::<about::Page>(),
            Want::Send => fields::<send::Draft>(),
            Want::Sent => fields::<send::Look>(),
            Want::Inbox => fields::<inbox::Poll>(),
            Want::InboxEvents => fields::<inbox::Listen>(),
            Want::Ack => fields::<inbox::Done>(),
            Want::Answer => fields::<answers::Draft>(),
            Want::Reject => fields::<inbox::Verdict>(),
            Want::Retry => fields::<inbox::Later>(),
            Want::Call => fields::<calls::Draft>(),
            Want::Served => fields::<served::Poll>(),
            Want::Reply => fields::<served::Said>(),
        }
    }

    /// Whether the request makes a message or a call, which may be part of a trace.
    const fn is_traced(want: Want) -> bool {
        matches!(want, Want::Send | Want::Answer | Want::Call)
    }

    fn told() -> Value {
        serde_json::from_str(OPENAPI).unwrap()
    }

    /// A part of the description, behind its reference if it is one. What stands beside a reference takes precedence.
    fn whole(told: &Value, part: &Value) -> Map<String, Value> {
        let own = part.as_object().unwrap_or_else(|| panic!("{part} is not an object"));
        let Some(reference) = own.get("$ref") else { return own.clone() };
        let mut whole = whole(told, at(told, reference.as_str().unwrap()));
        whole.extend(own.iter().filter(|(name, _)| *name != "$ref").map(|(k, v)| (k.clone(), v.clone())));
        whole
    }

    fn at<'a>(told: &'a Value, reference: &str) -> &'a Value {
        let target = told.pointer(reference.strip_prefix('#').unwrap());
        target.unwrap_or_else(|| panic!("{reference} leads nowhere"))
    }

    fn names(of: &Value) -> BTreeSet<&str> {
        of.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
    }

    fn operations(told: &Value) -> BTreeMap<String, Map<String, Value>> {
        let paths = told["paths"].as_object().unwrap().iter();
        let all = paths.flat_map(|(path, ways)| {
            let ways = ways.as_object().unwrap().iter();
            ways.map(move |(way, it)| {
                (format!("{} {path}", way.to_uppercase()), it.as_object().unwrap().clone())
            })
        });
        all.collect()
    }

    /// The parameters of a request that are in its path, its query or its head, and their schemas.
    fn parameters(told: &Value, operation: &Map<String, Value>, place: &str) -> BTreeMap<String, Value> {
        let all = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
        let all = all.map(|parameter| whole(told, parameter)).filter(|parameter| parameter["in"] == place);
        all.map(|parameter| (parameter["name"].as_str().unwrap().to_owned(), parameter["schema"].clone()))
            .collect()
    }

    #[test]
    fn every_route_is_described_and_no_other() {
        let known: BTreeSet<_> = ROUTES.iter().map(|(way, path, _)| format!("{way} {path}")).collect();
        assert_eq!(operations(&told()).into_keys().collect::<BTreeSet<_>>(), known);
    }

    #[test]
    fn the_options_of_a_request_are_those_that_the_code_accepts() {
        let told = told();
        let operations = operations(&told);
        for (way, path, want) in ROUTES {
            let name = format!("{way} {path}");
            let (operation, accepted) = (&operations[&name], accepted(*want));
            let query = parameters(&told, operation, "query");
            let in_query = accepted.iter().copied().filter(|field| !CONTENT.contains(field));
            assert_eq!(
                query.keys().map(String::as_str).collect::<Vec<_>>(),
                in_query.collect::<Vec<_>>(),
                "{name}"
            );
            let headers = parameters(&told, operation, "header");
            let traced: &[&str] = if is_traced(*want) { &["traceparent"] } else { &[] };
            assert_eq!(headers.keys().collect::<Vec<_>>(), traced, "{name}");
            let Some(body) = operation.get("requestBody") else {
                assert!(!accepted.contains("text"), "{name}");
                continue;
            };
            let content = &body["content"];
            let schema = whole(&told, &content["application/json"]["schema"]);
            assert_eq!(names(&schema["properties"]), accepted, "{name}");
            assert_eq!(schema["additionalProperties"], false, "{name}");
            assert_eq!(content["application/octet-stream"].is_object(), accepted.contains("text"), "{name}");
            for (field, of_query) in query {
                let of_json = &schema["properties"][&field];
                for part in ["type", "default", "enum", "pattern", "minimum", "maximum"] {
                    assert_eq!(of_query.get(part), of_json.get(part), "{name}: {part} of {field}");
                }
            }
        }
    }

    #[test]
    fn every_figure_of_a_peer_is_described_with_its_kind() {
        let peer = &told()["components"]["schemas"]["Peer"];
        let mut expected = BTreeSet::from(["id", "address"]);
        for figure in PeerStats::FIGURES {
            let name = figure.metric.strip_prefix("peer_").unwrap();
            let kind = match figure.of {
                Reading::Truth(_) => "boolean",
                Reading::Count(_) => "integer",
                _ => "number",
            };
            let described = &peer["properties"][name];
            assert_eq!(
                (&described["type"], &described["description"]),
                (&kind.into(), &figure.about.into()),
                "{name}"
            );
            let always = peer["required"].as_array().unwrap().contains(&name.into());
            assert!(always || kind == "number", "{name}");
            expected.insert(name);
        }
        assert_eq!(names(&peer["properties"]), expected);
    }

    #[test]
    fn the_description_is_well_formed() {
        let told = told();
        assert!(told["openapi"].as_str().unwrap().starts_with("3.1."));
        assert_eq!(told["info"]["version"], env!("CARGO_PKG_VERSION"));
        for (name, operation) in operations(&told) {
            assert!(operation["summary"].is_string(), "{name}");
            let in_path: Vec<_> = parameters(&told, &operation, "path").into_keys().collect();
            let words = name.split(['{', '}']).skip(1).step_by(2);
            assert_eq!(in_path, words.collect::<Vec<_>>(), "{name}");
            let given = operation.get("parameters").and_then(Value::as_array).map_or(0, Vec::len);
            let kinds = ["path", "query", "header"].map(|place| parameters(&told, &operation, place).len());
            assert_eq!(kinds.iter().sum::<usize>(), given, "{name} has a parameter twice, or elsewhere");
            for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
                let parameter = whole(&told, parameter);
                assert!(parameter["description"].is_string(), "{name}");
                assert!(parameter["in"] != "path" || parameter["required"] == true, "{name}");
            }
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.contains_key("200") && responses.contains_key("default"), "{name}");
            for (status, response) in responses {
                assert!(
                    status == "default" || (200..600).contains(&status.parse().unwrap()),
                    "{name}: {status}"
                );
                let response = whole(&told, response);
                assert!(response["description"].is_string(), "{name}: {status}");
                let content = response.get("content").and_then(Value::as_object);
                assert_eq!(
                    content.is_some_and(|content| !content.is_empty()),
                    status != "204",
                    "{name}: {status}"
                );
                assert!(
                    content.into_iter().flatten().all(|(_, kind)| kind["schema"].is_object()),
                    "{name}: {status}"
                );
            }
        }
        let mut used = BTreeSet::new();
        parts(&told, &told, &mut used);
        let components = told["components"].as_object().unwrap().iter();
        let components = components.filter(|(kind, _)| *kind != "securitySchemes");
        let made = components.flat_map(|(kind, all)| {
            names(all).into_iter().map(move |name| format!("#/components/{kind}/{name}"))
        });
        assert_eq!(used, made.collect(), "what is referred to, and what is there");
    }

    /// Checks each reference and each schema within a part, and collects the references.
    fn parts(told: &Value, part: &Value, used: &mut BTreeSet<String>) {
        if let Some(reference) = part.get("$ref").and_then(Value::as_str) {
            at(told, reference);
            used.insert(reference.to_owned());
        }
        if let Some(kinds) = part.get("type").filter(|kinds| kinds.is_string() || kinds.is_array()) {
            let known = ["object", "array", "string", "integer", "number", "boolean", "null", "http"];
            let kinds = kinds.as_array().map_or_else(|| vec![kinds], |kinds| kinds.iter().collect());
            assert!(kinds.iter().all(|kind| known.contains(&kind.as_str().unwrap())), "{part}");
        }
        if let Some(required) = part.get("required").and_then(Value::as_array) {
            let properties = names(&part["properties"]);
            assert!(required.iter().all(|name| properties.contains(name.as_str().unwrap())), "{part}");
        }
        if let (Some(of), Some(value)) = (part.get("enum").and_then(Value::as_array), part.get("default")) {
            assert!(of.contains(value), "{part}");
        }
        match part {
            Value::Object(all) => all.values().for_each(|part| parts(told, part, used)),
            Value::Array(all) => all.iter().for_each(|part| parts(told, part, used)),
            _ => {}
        }
    }
}
