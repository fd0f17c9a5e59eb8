/** The barest peer that talks: one JSON message a line is read and answered, with no library, no jail and no checks. */
let rest = '';
process.stdin.setEncoding('utf8').on('data', (text: string) => {
  const lines = (rest + text).split('\n');
  rest = lines.pop() ?? '';
  for (const line of lines) {
    const { id, params } = JSON.parse(line);
    process.stdout.write(
      `${JSON.stringify({ id, result: { outcome: 'answered', answer: params.context.systemPrompt } })}\n`,
    );
  }
});
