/** The text of docs/settings.md, made from the settings. */
import { apiSettings } from '../../api/config.ts';
import { describeSettings, type SettingDoc, sharedSettings } from '../../service/settings/settings.ts';
import { supervisorSettings } from '../../supervisor/config.ts';

const HEAD = `# Settings

Generated from \`service/settings/settings.ts\`, \`api/config.ts\` and \`supervisor/config.ts\` by \`npm run -s generate\`.

Settings are environment variables, or lines of a file \`.env\` in the folder the service is started in; a variable that is set wins over the file.
An empty one counts as not set. A bad one stops start-up with one sentence that names it. \`.env.example\` is the same list, to copy.

**Each is read once, when its process starts: a change needs a restart of the processes that read it.** Under \`npm start\` that is a stop
and a start: \`SIGUSR2\` replaces API and supervisor with the settings that \`npm start\` had. What a setting names (\`MODELS_FILE\`,
\`SSH_HOSTS_FILE\`) is read with it, so a changed file needs \`SIGUSR2\` only. Quotas count for each process. The standard variables of
OpenTelemetry are in [operating.md](operating.md#monitoring).
`;

function section(title: string, settings: readonly SettingDoc[]): string {
  const rows = settings.map(({ name, fallback, unit, values, doc }) => {
    const cells = [`\`${name}\``, fallback ? `\`${fallback}\`` : '', unit ?? '', values ?? '', doc];
    return `| ${cells.map((cell) => cell.replaceAll(/[|<]/g, '\\$&')).join(' | ')} |`;
  });
  return [
    `\n## ${title}\n`,
    '| Setting | Default | Unit | Values | Meaning |',
    '|---|---|---|---|---|',
    ...rows,
    '',
  ].join('\n');
}

/** The page, as it must be. */
export function settingsPage(): string {
  const shared = new Set(Object.keys(sharedSettings));
  const own = (of: Parameters<typeof describeSettings>[0]) =>
    describeSettings(of).filter(({ name }) => !shared.has(name));
  return [
    HEAD,
    section('API and supervisor', describeSettings(sharedSettings)),
    section('API', own(apiSettings)),
    section('Supervisor', own(supervisorSettings)),
  ].join('');
}
