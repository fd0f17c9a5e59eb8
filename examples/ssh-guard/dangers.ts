/** What a command with this in it does. Linear patterns: agents write what is matched against them. */
const DANGERS: readonly (readonly [RegExp, string])[] = [
  [/\brm\s+(?:-\S+\s+)*(?:--\s+)?(?:\/|~|\$HOME|\/\*)(?:\s|$|;|&|\|)/, 'removes everything'],
  [/\bmkfs(?:\.\w+)?\b|\bwipefs\b/, 'erases a disk'],
  [/\bdd\b[^|;&]*\bof=\/dev\/|>\s*\/dev\/(?:sd|nvme|vd|disk)/, 'writes to a disk'],
  [/(?:^|[;&|]|\bsudo)\s*(?:shutdown|reboot|halt|poweroff)\b/, 'turns the machine off'],
  [/\b(?:curl|wget)\b[^|;&]*\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b/, 'runs what the network sends'],
  [/:\(\)\s*\{\s*:\s*\|\s*:/, 'starts processes without end'],
  [/\bchmod\s+(?:-\S+\s+)*0?777\s+\/(?:\s|$)/, 'opens every file to everybody'],
];

/** What is dangerous in a command, if anything is. */
export const dangerIn = (command: string): string | undefined =>
  DANGERS.find(([pattern]) => pattern.test(command))?.[1];
