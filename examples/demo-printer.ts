/** Prints the demo's steps: with colours and symbols on a terminal, plain ASCII elsewhere. */

export class Printer {
  readonly #fancy: boolean;
  readonly #write: (text: string) => void;

  constructor(fancy: boolean, write: (text: string) => void) {
    this.#fancy = fancy;
    this.#write = write;
  }

  title(name: string, note: string): void {
    this.#line(`\n${this.#paint(1, name)}  ${this.#paint(2, note)}`);
  }

  section(name: string): void {
    this.#line(`\n${this.#paint(1, name)}`);
  }

  done({ what, found }: { what: string; found: string }): void {
    this.#line(
      `  ${this.#paint(32, this.#fancy ? '✓' : 'ok')} ${what.padEnd(30)} ${this.#paint(2, this.#plain(found))}`,
    );
  }

  failed(what: string, why: string): void {
    this.#line(`  ${this.#paint(31, this.#fancy ? '✗' : 'FAILED')} ${what}\n    ${this.#plain(why)}`);
  }

  note(text: string): void {
    this.#line(this.#paint(2, `  ${this.#plain(text)}`));
  }

  #line(text: string): void {
    this.#write(`${text}\n`);
  }

  #paint(code: number, text: string): string {
    return this.#fancy ? `\u001b[${code}m${text}\u001b[0m` : text;
  }

  /** Texts of plugins and the service may contain any character; log files and old terminals get ASCII. */
  #plain(text: string): string {
    if (this.#fancy) return text;
    const ascii: Readonly<Record<string, string>> = { '“': '"', '”': '"', '’': "'", '→': '->', '…': '...', '·': '-' };
    return text.replaceAll(/[^\n -~]/g, (character) => ascii[character] ?? '?');
  }
}
