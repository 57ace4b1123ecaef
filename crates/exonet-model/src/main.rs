fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    for config in exonet_model::configs(exonet_model::Bound::Quick) {
        if !name.is_empty() && name != config.name { continue; }
        let n = config.name;
        let mut space = exonet_model::Space::new(config, 1);
        let began = std::time::Instant::now();
        let seen = exonet_model::cover(&mut space, exonet_model::Limits{states: 400_000, ..Default::default()}, |_, _| {});
        let Some(seen) = seen else { println!("{n} inexact {:?}", began.elapsed()); continue };
        println!("{}", exonet_model::summary(n, &seen, began.elapsed().as_secs_f64()));
        if let Some(f) = &seen.finding { print!("{}", exonet_model::trace(&mut space, f)); }
    }
}
