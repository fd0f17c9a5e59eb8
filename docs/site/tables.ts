/** Makes tables accessible: empty header cells become plain cells, and an empty header row is removed. */
import type { StateCore, Token } from 'markdown-it';

export function plainTables(state: StateCore): void {
  const { tokens } = state;
  const dropped = new Set<Token>();
  // Alignment would need inline styles, which the content security policy forbids.
  for (const token of tokens) if (token.type === 'th_open' || token.type === 'td_open') token.attrs = null;
  tokens.forEach((token, at) => {
    if (token.type !== 'thead_open') return;
    const end = tokens.findIndex(({ type }, index) => index > at && type === 'thead_close');
    const head = tokens.slice(at, end + 1);
    if (head.every(({ type, content }) => type !== 'inline' || content === ''))
      for (const one of head) dropped.add(one);
    else nameCells(head);
  });
  state.tokens = tokens.filter((token) => !dropped.has(token));
}

function nameCells(head: readonly Token[]): void {
  head.forEach((token, at) => {
    if (token.type !== 'th_open') return;
    const isEmpty = head[at + 1]?.content === '';
    if (!isEmpty) token.attrSet('scope', 'col');
    else for (const one of [token, head[at + 2]]) if (one) one.tag = 'td';
  });
}
