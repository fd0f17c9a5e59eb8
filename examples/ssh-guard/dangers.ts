/**
 * Patterns of dangerous commands, with their effect. Linear, because agents write the matched text: an attempt ends where
 * the next one begins.
 */
const DANGERS: readonly (readonly [RegExp, string])[] = [
  // Any argument that is the root or the home, as in `rm -rf "/"`, `rm -r ~/*` and `rm -rf /etc /`. Not `git rm`, nor in a comment.
  [
    /(?<![-\w.]|\bgit )rm(?=\s)(?:(?!\brm\s|\s#)[^;&|\n])*?\s["']?(?:\/|(?:~|\$\{?HOME\}?)["']?\/?)\*?["']?(?=[\s;&|)]|$)/,
    'removes everything',
  ],
  [/\bmkfs(?:\.\w+)?\b|\bwipefs\b/, 'erases a disk'],
  [/\bdd\b(?:(?!\bdd\b)[^|;&])*\bof=\/dev\/|>\s*\/dev\/(?:sd|nvme|vd|disk)/, 'writes to a disk'],
  [
    /(?:(?:^|[;&|\n])[ \t]*|\bsudo(?:[ \t]+-(?:(?!\bsudo\b)[^\s;&|])+)*[ \t]+)(?:[\w./]*\/)?(?:systemctl[ \t]+)?(?:shutdown|reboot|halt|poweroff)(?![\w.:=-])/,
    'turns the machine off',
  ],
  [
    /\b(?:curl|wget)\b(?:(?!\b(?:curl|wget)\b)[^|;&])*\|\s*(?:sudo\s+(?:-[^\s|;&]+\s+)*)?(?:\/[\w/]*\/)?(?:ba|z|da)?sh\b/,
    'runs what the network sends',
  ],
  [/:\(\)\s*\{\s*:\s*\|\s*:/, 'starts processes without end'],
  [/\bchmod\s+(?:-(?:(?!\bchmod\b)\S)+\s+)*0?777\s+\/(?:\s|$)/, 'opens every file to everybody'],
];

/** Returns the danger of a command or script, if any. */
export const dangerIn = (text: string): string | undefined => DANGERS.find(([pattern]) => pattern.test(text))?.[1];
