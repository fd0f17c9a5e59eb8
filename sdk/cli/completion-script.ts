/** Renders shell completion scripts from the list of commands. */
import { type Command, listCommonOptions } from './command.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof shells)[number];

interface CommandRow {
  readonly name: string;
  readonly summary: string;
  /** `--long` forms. */
  readonly options: readonly { readonly flag: string; readonly doc: string }[];
}
/** Commander adds this option itself. */
const HELP = { flags: '--help', doc: 'show help' };

export function renderCompletionScript(shell: Shell, commands: readonly Command[]): string {
  const rows = commands.map((command): CommandRow => {
    const { name, summary, options = [] } = command;
    const flags = [...options, ...listCommonOptions(command), HELP].flatMap(({ flags, doc }) => {
      const flag = /--[\w-]+/.exec(flags)?.[0];
      return flag === undefined ? [] : [{ flag, doc }];
    });
    return { name, summary, options: flags };
  });
  return { bash: renderBash, zsh: renderZsh, fish: renderFish }[shell](rows);
}

/** Quotes a text for all three shells. A typographic apostrophe needs no escaping. */
const quote = (text: string): string => `'${text.replaceAll("'", '’')}'`;
const listFlags = (row: CommandRow): string => row.options.map(({ flag }) => flag).join(' ');

const renderBash = (rows: readonly CommandRow[]): string => `# bash completion for bulkhead
_bulkhead() {
  local word="\${COMP_WORDS[COMP_CWORD]}" words=''
  if [ "$COMP_CWORD" -eq 1 ]; then words='${rows.map(({ name }) => name).join(' ')} --help --version'
  else case "\${COMP_WORDS[1]}" in
${rows.map((row) => `    ${row.name}) words='${listFlags(row)}' ;;`).join('\n')}
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _bulkhead bulkhead
`;

const renderZsh = (rows: readonly CommandRow[]): string => `#compdef bulkhead
_bulkhead() {
  local -a commands=(
${rows.map(({ name, summary }) => `    ${quote(`${name}:${summary}`)}`).join('\n')}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  case "$words[2]" in
${rows.map((row) => `    ${row.name}) _arguments ${row.options.map(({ flag, doc }) => quote(`${flag}[${doc.replace(/[[\]:]/g, ' ')}]`)).join(' ')} '*:file:_files' ;;`).join('\n')}
  esac
}
(( $+functions[compdef] )) && compdef _bulkhead bulkhead
`;

const renderFish = (rows: readonly CommandRow[]): string => {
  const lines = rows.flatMap((row) => [
    `complete -c bulkhead -n __fish_use_subcommand -f -a ${row.name} -d ${quote(row.summary)}`,
    ...row.options.map(
      ({ flag, doc }) =>
        `complete -c bulkhead -n '__fish_seen_subcommand_from ${row.name}' -l ${flag.slice(2)} -d ${quote(doc)}`,
    ),
  ]);
  return `# fish completion for bulkhead\n${lines.join('\n')}\n`;
};
