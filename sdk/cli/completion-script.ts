/** Completion scripts: static, because the table of commands is. */
import { COMMON_OPTIONS, type Command } from './command.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

interface Row {
  readonly name: string;
  readonly summary: string;
  /** `--long` forms. */
  readonly options: readonly { readonly flag: string; readonly doc: string }[];
}
/** Commander's own. */
const HELP = { flags: '--help', doc: 'how to use it' };

export function completionScript(shell: Shell, commands: readonly Command[]): string {
  const rows = commands.map(({ name, summary, options = [] }): Row => {
    const all = [...options, ...COMMON_OPTIONS, HELP].flatMap(({ flags, doc }) => {
      const flag = /--[\w-]+/.exec(flags)?.[0];
      return flag === undefined ? [] : [{ flag, doc }];
    });
    return { name, summary, options: all };
  });
  return { bash, zsh, fish }[shell](rows);
}

/** Texts go into single quotes; a quote of their own ends there. */
const quoted = (text: string): string => `'${text.replaceAll("'", '’')}'`;
const flagsOf = (row: Row): string => row.options.map(({ flag }) => flag).join(' ');

const bash = (rows: readonly Row[]): string => `# bash completion for bulkhead
_bulkhead() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words=''
  if [ "$COMP_CWORD" -eq 1 ]; then words='${rows.map(({ name }) => name).join(' ')} --help --version'
  else case "\${COMP_WORDS[1]}" in
${rows.map((row) => `    ${row.name}) words='${flagsOf(row)}' ;;`).join('\n')}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _bulkhead bulkhead
`;

const zsh = (rows: readonly Row[]): string => `#compdef bulkhead
_bulkhead() {
  local -a commands=(
${rows.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`).join('\n')}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  case "$words[2]" in
${rows.map((row) => `    ${row.name}) _arguments ${row.options.map(({ flag, doc }) => quoted(`${flag}[${doc.replace(/[[\]:]/g, ' ')}]`)).join(' ')} '*:file:_files' ;;`).join('\n')}
  esac
}
(( $+functions[compdef] )) && compdef _bulkhead bulkhead
`;

const fish = (rows: readonly Row[]): string => {
  const lines = rows.flatMap((row) => [
    `complete -c bulkhead -n __fish_use_subcommand -f -a ${row.name} -d ${quoted(row.summary)}`,
    ...row.options.map(
      ({ flag, doc }) =>
        `complete -c bulkhead -n '__fish_seen_subcommand_from ${row.name}' -l ${flag.slice(2)} -d ${quoted(doc)}`,
    ),
  ]);
  return `# fish completion for bulkhead\n${lines.join('\n')}\n`;
};
