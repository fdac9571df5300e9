//! `dashboard/src/generated.ts` is what the page's data is in Rust.
//! `WEIGH_BLESS=1 cargo test -p weigh-show` writes it anew.

use crate::common::golden::check;
use crate::common::pages::{declare_enums, learn_pages};
use crate::common::typescript::Types;
use crate::common::{events, explained, top};
use weigh_schema::{METRICS, Metric, NODE_METRICS};

const HEAD: &str = "\
// Derived from crates/schema and crates/show/src/*/page.rs; do not edit by hand.
// `WEIGH_BLESS=1 cargo test -p weigh-show` writes it anew.

";

#[test]
fn the_pages_types_are_current() {
    let mut types = Types::default();
    declare_enums(&mut types);
    learn_pages(&mut types);
    for report in
        [explained::slow(), explained::requests(), explained::asked(), explained::nothing()]
    {
        types.learn(&weigh_show::explain::page::page(&report));
    }
    types.learn(&events::page());
    types.learn(&top::full());
    types.learn(&top::first());
    let names: Vec<_> = METRICS.iter().map(|m| format!("  | \"{}\"", m.name)).collect();
    let metric_name = format!("export type MetricName =\n{};\n\n", names.join("\n"));
    check("../../dashboard/src/generated.ts", &(HEAD.to_string() + &metric_name + &types.text()));
}

const NODE_HEAD: &str = "\
// Derived from crates/schema/src/node_metric.rs; do not edit by hand.
// `WEIGH_BLESS=1 cargo test -p weigh-show` writes it anew.

/** What each metric of the node is, in a few words. */
export const NODE_METRICS = {
";

#[test]
fn the_metrics_of_the_node_are_current() {
    let line = |m: &&Metric| {
        let help = serde_json::to_string(m.help).expect("a string");
        format!("  {}: {help},\n", m.name)
    };
    let lines: String = NODE_METRICS.iter().map(line).collect();
    check("../../dashboard/src/node-metrics.ts", &format!("{NODE_HEAD}{lines}}} as const;\n"));
}
