// The prompts are in commands/*.md. A command that needs no model is written as code.
commands.table = {
  description: 'Turns lines with commas into a Markdown table',
  handler(input) {
    const rows = input
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map((line) => line.split(',').map((cell) => cell.trim().replaceAll('|', '\\|')));
    const [head] = rows;
    if (!head) return 'Give it lines such as “name,age”, the first one with the headings.';

    const toLine = (cells: readonly string[]) => `| ${head.map((_, at) => cells[at] ?? '').join(' | ')} |`;
    return [toLine(head), toLine(head.map(() => '---')), ...rows.slice(1).map(toLine)].join('\n');
  },
};
