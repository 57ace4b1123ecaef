//! `docs/speed.md` and `docs/first-contact.md`: tables and figures of all results, where Exonet loses, and how to make
//! them again. The pages are made only from the results beside them.

mod bars;
mod chart;
mod contact;
mod figures;
mod speed;
mod style;
mod svg;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use self::figures::Figure;
use self::table::Medians;
use crate::results::Results;
use crate::scenario::{self, Scenario};

/// The pages. Each has a directory of its name, with results and figures.
pub(crate) const PAGES: [&str; 2] = ["speed", "first-contact"];

/// The page of a scenario.
pub(crate) fn page_of(scenario: &Scenario) -> &'static str {
    let [speed, contact] = PAGES;
    if scenario.is_contact() { contact } else { speed }
}

/// Where the results of a page are.
pub(crate) fn results(docs: &Path, page: &str) -> PathBuf {
    docs.join(page).join("results.tsv")
}

/// Writes the pages and their figures as SVG into `docs`, and the figures as PNG into `png`. A page that has no results
/// stays as it is.
pub(crate) fn write(docs: &Path, png: Option<&Path>) -> Result<()> {
    for page in PAGES {
        let Some((files, figures)) = make(docs, page)? else { continue };
        for (path, text) in &files {
            std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        if let Some(png) = png {
            std::fs::create_dir_all(png).with_context(|| format!("cannot make {}", png.display()))?;
            figures.iter().try_for_each(|(name, drawing)| drawing.png(name, png))?;
        }
        println!("{page}: {} files", files.len());
    }
    Ok(())
}

/// Whether all pages are what their results give. Prints those that are not.
pub(crate) fn check(docs: &Path) -> Result<bool> {
    let mut fine = true;
    for page in PAGES {
        let Some((files, _)) = make(docs, page)? else {
            println!("{page}: no results are kept");
            continue;
        };
        for (path, text) in files {
            if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
                println!("{} is not what its results give: `lab report` writes it", path.display());
                fine = false;
            }
        }
    }
    Ok(fine)
}

type File = (PathBuf, String);

/// All files of a page. None: it has no results.
fn make(docs: &Path, page: &str) -> Result<Option<(Vec<File>, Vec<Figure>)>> {
    let path = results(docs, page);
    let Some(results) = Results::read(&path)? else { return Ok(None) };
    let scenarios = scenario::all();
    let of_page: Vec<&Scenario> = scenarios.iter().filter(|scenario| page_of(scenario) == page).collect();
    let (there, not): (Vec<Medians<'_>>, Vec<_>) =
        of_page.into_iter().map(|scenario| Medians::new(scenario, &results)).partition(Medians::has_any);
    if there.is_empty() {
        return Ok(None);
    }
    ensure!(
        there.iter().all(Medians::knows_all),
        "{}: there are cells or peers that no scenario has",
        path.display()
    );
    let figures = if page == "speed" { figures::all(&there) } else { contact::figures(&there) };
    let names: Vec<&str> = figures.iter().map(|(name, _)| *name).collect();
    let text = if page == "speed" {
        speed::page(&there, &not, &names, &results.notes)
    } else {
        contact::page(&there, &names, &results.notes)
    };
    let mut files = vec![(docs.join(format!("{page}.md")), text)];
    let svg = |(name, drawing): &Figure| (docs.join(page).join(format!("{name}.svg")), drawing.svg());
    files.extend(figures.iter().map(svg));
    if page == "speed" {
        files.extend(readme(docs, &there)?);
    }
    Ok(Some((files, figures)))
}

/// The README beside the directory of the pages, if it has a place for figures.
fn readme(docs: &Path, all: &[Medians<'_>]) -> Result<Option<File>> {
    const BEGINS: &str = "<!-- written by `lab report` -->\n";
    const ENDS: &str = "<!-- end -->";
    let path = docs.join("..").join("README.md");
    let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
    let Some((before, rest)) = text.split_once(BEGINS) else { return Ok(None) };
    let (_, after) = rest.split_once(ENDS).context("README.md: the place for figures has no end")?;
    Ok(Some((path, format!("{before}{BEGINS}\n{}\n{ENDS}{after}", speed::headlines(all)))))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The machine that this runs on.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo");
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model).trim().to_owned();
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = read("/proc/sys/kernel/osrelease");
    let congestion = read("/proc/sys/net/ipv4/tcp_congestion_control");
    format!(
        "{processors} processors ({model}), Linux {}, whose TCP uses {} unless told otherwise.",
        kernel.trim(),
        congestion.trim().to_uppercase()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_what_their_results_give() {
        assert!(check(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"))).unwrap());
    }
}
