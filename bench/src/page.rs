//! Markdown: headings, paragraphs, aligned tables. Pure.

use std::fmt::{self, Write as _};

/// A table.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Columns, with the first one of words and the others of figures.
    pub fn new<const N: usize>(header: [&str; N]) -> Table {
        Table { header: header.map(String::from).to_vec(), rows: Vec::new() }
    }

    /// The same, with as many columns as there are words.
    pub fn of(header: Vec<String>) -> Table {
        Table { header, rows: Vec::new() }
    }

    /// Adds a row, which has as many cells as the header.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        assert_eq!(cells.len(), self.header.len(), "a row of this table");
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || std::iter::once(&self.header).chain(&self.rows);
        let width = |column: usize| {
            all().map(|row| row[column].chars().count()).max().unwrap_or_default().max(3)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let line = |f: &mut fmt::Formatter<'_>, row: &[String]| {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(f, "| {cell:width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")
        };
        line(f, &self.header)?;
        for (column, width) in widths.iter().enumerate() {
            // All but the first column are set to the right.
            let end = if column == 0 { "-" } else { ":" };
            write!(f, "| {}{end} ", "-".repeat(width - 1))?;
        }
        writeln!(f, "|")?;
        self.rows.iter().try_for_each(|row| line(f, row))
    }
}

/// The page, as far as it has been written.
#[derive(Default)]
pub struct Page(String);

impl Page {
    /// A heading, with a line of its level's `#`.
    pub fn heading(&mut self, level: usize, text: &str) {
        self.paragraph(&format!("{} {text}", "#".repeat(level)));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.0.push_str(text.trim_end());
        self.0.push_str(if text.is_empty() { "\n" } else { "\n\n" });
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{table}");
    }

    /// An item of a list; an empty paragraph ends the list.
    pub fn item(&mut self, text: &str) {
        self.0.push_str(&format!("- {text}\n"));
    }

    /// A table that is shown when a line is clicked on.
    pub fn folded_table(&mut self, line: &str, table: &Table) {
        self.paragraph(&format!("<details><summary>{line}</summary>"));
        self.table(table);
        self.paragraph("</details>");
    }

    /// A picture, by its path from the page.
    pub fn picture(&mut self, what: &str, path: &str) {
        self.paragraph(&format!("![{what}]({path})"));
    }

    /// The whole page.
    pub fn text(&self) -> String {
        format!("{}\n", self.0.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let mut table = Table::new(["what", "CPU"]);
        table.row(["a thing".into(), "1.5".into()]);
        let expected = "\
| what    | CPU |
| ------- | --: |
| a thing | 1.5 |
";
        assert_eq!(table.to_string(), expected);
    }
}
