// Names that others chose, for people: what a screen would not show is written out, and no name fills the page.

const MOST = 240;
/** In a tooltip. */
const MOST_IN_TITLE = 2_000;

/** Control characters, and those that turn the direction of the text around them. */
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

export function printable(text: string, most = MOST): string {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return cut.replace(HIDDEN, (found) => `\\u{${found.charCodeAt(0).toString(16)}}`);
}

export function titled(text: string): string {
  return printable(text, MOST_IN_TITLE);
}

/** A command line as a shell would read it. */
export function commandLine(words: string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}

/** A moment, in the reader's time zone. */
export function moment(time: string): string {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return printable(time);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
