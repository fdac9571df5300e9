//! Markdown: headings, paragraphs, aligned tables. Pure.

use std::fmt::{self, Write as _};

/// A table.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Whether columns are of figures, and set to the right.
    figures: bool,
}

impl Table {
    /// Columns, with the first one of words and the others of figures.
    pub fn new<const N: usize>(header: [&str; N]) -> Table {
        Table::of(header.map(String::from).to_vec())
    }

    /// The same, with as many columns as there are words.
    pub fn of(header: Vec<String>) -> Table {
        Table { header, rows: Vec::new(), figures: true }
    }

    /// Columns of words, which may be long.
    pub fn of_words<const N: usize>(header: [&str; N]) -> Table {
        Table { figures: false, ..Table::new(header) }
    }

    /// Adds a row, which has as many cells as the header.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        assert_eq!(cells.len(), self.header.len(), "a row of this table");
        self.rows.push(cells);
    }

    fn all(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.header).chain(&self.rows)
    }

    /// Of figures: columns are of one width.
    fn aligned(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.all().map(|row| row[column].chars().count()).max().unwrap_or_default().max(3)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        for (index, row) in self.all().enumerate() {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    write!(f, "| {cell:width$} ")?;
                } else {
                    write!(f, "| {cell:>width$} ")?;
                }
            }
            writeln!(f, "|")?;
            if index > 0 {
                continue;
            }
            for (column, width) in widths.iter().enumerate() {
                // All but the first column are set to the right.
                let end = if column == 0 { "-" } else { ":" };
                write!(f, "| {}{end} ", "-".repeat(width - 1))?;
            }
            writeln!(f, "|")?;
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.figures {
            return self.aligned(f);
        }
        for (index, row) in self.all().enumerate() {
            writeln!(f, "| {} |", row.join(" | "))?;
            if index == 0 {
                writeln!(f, "|{}", " --- |".repeat(row.len()))?;
            }
        }
        Ok(())
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

    #[test]
    fn words_take_the_room_they_need() {
        let mut table = Table::of_words(["what", "why"]);
        table.row(["a thing".into(), "so".into()]);
        assert_eq!(table.to_string(), "| what | why |\n| --- | --- |\n| a thing | so |\n");
    }

    #[test]
    fn a_list_ends_before_a_paragraph() {
        let mut page = Page::default();
        page.item("one");
        page.item("two");
        page.paragraph("");
        page.paragraph("words");
        assert_eq!(page.text(), "- one\n- two\n\nwords\n");
    }
}
