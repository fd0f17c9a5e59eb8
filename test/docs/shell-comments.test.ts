/** The commands of the docs can be pasted into any shell. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { root } from '../house/source-files.ts';

/** A comment after a command: zsh, the shell of macOS, passes its words to the command as arguments. */
const COMMENT_AFTER_COMMAND = /\S\s+#\s/;
const SHELL_BLOCK = /^ *```(?:sh|console)?\n([\s\S]*?)^ *```$/gm;

const pages = globSync(['README.md', 'docs/*.md', 'sdk/*.md', 'examples/**/*.md'], {
  cwd: root,
  exclude: ['**/node_modules/**'],
});
t.ok(pages.length > 20);
for (const page of pages) {
  const blocks = readFileSync(join(root, page), 'utf8').matchAll(SHELL_BLOCK);
  const lines = [...blocks].flatMap(([, code = '']) => code.split('\n'));
  t.same(
    lines.filter((line) => COMMENT_AFTER_COMMAND.test(line)),
    [],
    `${page}: put the remark into the text`,
  );
}
